package slurm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// DefaultTimeout bounds one call of a Slurm command. A call to a slurmctld that is down takes about 10 seconds before
// it fails by itself, and one whose slurm.conf is missing retries for 60.
const DefaultTimeout = 15 * time.Second

// Client runs Slurm's commands. The zero value works where sinfo would.
// Its methods may be called from several goroutines.
type Client struct {
	// Conf is the path of slurm.conf. Empty: the environment's SLURM_CONF, and without that Slurm's own default.
	Conf    string
	Dir     string        // the folder of scontrol and squeue. Empty: as [ProgramHints] decides.
	PCS     bool          // the cluster is one of AWS PCS, whose programs are those of the cluster's release
	Timeout time.Duration // bounds each call. Zero: [DefaultTimeout].

	version atomic.Pointer[Version] // of the commands, once it was asked for
	folder  atomic.Pointer[string]  // of the PCS cluster's release, once slurmctld has said it
}

// New returns a client for the cluster of the settings: pcsCluster is one of PCS, "" is self-managed Slurm.
func New(pcsCluster string) *Client { return &Client{PCS: pcsCluster != ""} }

// What a call can fail with, as far as a caller can act on it. The error itself is always a [*CallError].
var (
	ErrUnreachable       = errors.New("slurmctld does not answer")
	ErrNoJob             = errors.New("no such job")
	ErrNoNode            = errors.New("no such node, or not as many values as nodes")
	ErrNotBatch          = errors.New("only batch jobs can do this")
	ErrRefused           = errors.New("the job does not allow this: --no-requeue, or not running")
	ErrNoReservation     = errors.New("no such Slurm reservation")
	ErrReservationExists = errors.New("a Slurm reservation of this name exists")
	ErrDenied            = errors.New("not allowed: Slurm operator or administrator rights are needed")
	errTransient         = errors.New("slurmctld may do this at the next attempt")
	// ErrNoEffect is no CallError: slurmctld took the change.
	ErrNoEffect = errors.New("slurmctld accepted the change, but the job does not have it")
)

// causes maps slurm_strerror texts (src/common/slurm_errno.c) to the errors
// above. scontrol gives no other code: its exit status is always 1.
var causes = []struct {
	text string
	err  error
}{
	{"Unable to contact slurm controller", ErrUnreachable},
	{"Connection refused", ErrUnreachable},
	{"Socket timed out", ErrUnreachable},
	{"Zero Bytes were transmitted or received", ErrUnreachable},
	{"Could not establish a configuration source", ErrUnreachable},
	{"cannot stat file", ErrUnreachable},
	{"Invalid job id specified", ErrNoJob},
	{"Resource temporarily unavailable", errTransient}, // 24.11, 26.05; see again
	{"Only batch jobs are accepted or processed", ErrNotBatch},
	{"Requested operation is presently disabled", ErrRefused},
	{"Invalid node name specified", ErrNoNode},
	{" not found", ErrNoNode}, // "Node x not found"
	{"Duplicate reservation name", ErrReservationExists},
	{"Requested reservation is invalid", ErrNoReservation},
	{"Access/permission denied", ErrDenied},
	{"Invalid user id", ErrDenied}, // 22.05, for reservations
}

// CallError is a Slurm command that failed. errors.Is finds its cause: one of
// this package's Err values, context.DeadlineExceeded, or what os/exec says.
type CallError struct {
	Command []string // program and arguments
	Exit    int      // exit status; -1: it did not start or was killed
	Stderr  string   // what it said, at most 2000 bytes
	Err     error
}

func (e *CallError) Error() string {
	said := e.Stderr
	if said == "" {
		said = e.Err.Error()
	}

	command := strings.Join(e.Command, " ")
	if len(command) > 300 {
		command = command[:300] + "…"
	}

	return fmt.Sprintf("%s: exit status %d: %s", command, e.Exit, said)
}

func (e *CallError) Unwrap() error { return e.Err }

func (c *Client) run(ctx context.Context, program string, args ...string) ([]byte, error) {
	var out bytes.Buffer
	if err := c.runInto(ctx, &out, nil, program, args...); err != nil {
		return nil, err
	}

	return out.Bytes(), nil
}

// runInto runs a program of Slurm with additional environment variables, and writes its output to stdout.
func (c *Client) runInto(
	ctx context.Context, stdout io.Writer, variables []string, program string, args ...string,
) error {
	path, err := c.findProgram(ctx, program)
	if err != nil {
		return &CallError{Command: append([]string{program}, args...), Exit: -1, Err: err}
	}

	return c.start(ctx, stdout, variables, path, args...)
}

// start runs the program at a path, bounded by the timeout.
func (c *Client) start(ctx context.Context, stdout io.Writer, variables []string, path string, args ...string) error {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}

	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	var stderr bytes.Buffer

	cmd := exec.CommandContext(ctx, path, args...) // Stdin nil is /dev/null

	cmd.Env = append(c.environment(), variables...)
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	cmd.WaitDelay = time.Second

	err := cmd.Run()
	if err == nil {
		return nil
	}
	// Killed by us: the deadline tells more than "signal: killed".
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("%w: %w", ErrUnreachable, ctx.Err())
	case ctx.Err() != nil:
		err = ctx.Err()
	}

	// scontrol writes some of its errors to stdout.
	said := stderr.String()
	if out, kept := stdout.(*bytes.Buffer); kept && strings.TrimSpace(said) == "" {
		said = out.String() // "Node x not found" goes there
	}

	exit := -1
	if cmd.ProcessState != nil {
		exit = cmd.ProcessState.ExitCode()
	}

	return &CallError{
		Command: append([]string{path}, args...),
		Exit:    exit,
		// as scontrol of Slurm 26.05 says it
		Stderr: Clean(strings.ReplaceAll(said, " error:Unable ", " error: Unable "), 2000),
		Err:    causeOf(said, err),
	}
}

func causeOf(said string, err error) error {
	for _, known := range causes {
		if strings.Contains(said, known.text) {
			return fmt.Errorf("%w (%w)", known.err, err)
		}
	}

	return err
}

// keptVariables name what a command may need to find its libraries, its key or its controller. Nothing else is
// passed on: SQUEUE_STATES, SLURM_CLUSTERS and their like would change what we read.
var keptVariables = []string{"HOME", "USER", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_JWT"}

func (c *Client) environment() []string {
	env := []string{
		"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC",
		"SLURM_TIME_FORMAT=%s", // seconds since 1970: no time zone to get wrong
		"SLURM_BITSTR_LEN=0",   // every pending task of an array by its number, not the first 64 bytes
	}
	for _, name := range keptVariables {
		value, ok := os.LookupEnv(name)
		if name == "SLURM_CONF" && c.Conf != "" {
			value, ok = c.Conf, true
		}

		if ok {
			env = append(env, name+"="+value)
		}
	}

	return env
}

// findProgram returns the absolute path of one of Slurm's programs.
func (c *Client) findProgram(ctx context.Context, program string) (string, error) {
	folders := []string{c.Dir}
	if c.Dir == "" {
		folders = c.programHints(ctx).Folders()
	}

	return findIn(folders, program)
}

func findIn(folders []string, program string) (string, error) {
	for _, folder := range folders {
		path := filepath.Join(folder, program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}

	return "", fmt.Errorf("%w: no %s in %s", exec.ErrNotFound, program, strings.Join(folders, ", "))
}

// IsMissing reports whether a program of Slurm is not installed.
func IsMissing(err error) bool { return errors.Is(err, exec.ErrNotFound) }

// Version is a release of Slurm, such as 22.05.8.
type Version struct {
	Major, Minor, Micro int
}

// String prints the version as Slurm does: the minor part has two digits.
func (v Version) String() string { return fmt.Sprintf("%d.%02d.%d", v.Major, v.Minor, v.Micro) }

// Release returns the version as AWS PCS names it, such as 25.05.
func (v Version) Release() string { return fmt.Sprintf("%d.%02d", v.Major, v.Minor) }

// AtLeast reports whether v is this version or newer.
func (v Version) AtLeast(major, minor, micro int) bool {
	return cmp.Or(cmp.Compare(v.Major, major), cmp.Compare(v.Minor, minor), cmp.Compare(v.Micro, micro)) >= 0
}

// TimeMinCollapses reports whether a job with --time-min can start with that minimum as its limit although the whole
// limit fits: whenever any future Slurm reservation exists in the cluster, even one on other nodes, and on 22.05.8 also
// without one when the backfill scheduler starts the job. Callers go by the version alone. Fixed in 25.05.3 (Slurm's
// CHANGELOG).
func (v Version) TimeMinCollapses() bool { return !v.AtLeast(25, 5, 3) }

// ReservationComments reports whether a Slurm reservation can carry a comment. Slurm 22.05 answers "Unknown parameter
// Comment"; 24.11 takes it. Below the oldest version that was tried, a reservation is known by its name alone.
func (v Version) ReservationComments() bool { return v.AtLeast(24, 11, 0) }

// HasGraceTime reports whether a job that is preempted with a GraceTime is requeued once. On 22.05 it ends with FAILED
// or TIMEOUT instead; on 24.11 it is requeued again when it has completed; 26.05 does neither (seen on all three).
func (v Version) HasGraceTime() bool { return v.AtLeast(26, 5, 0) }

// NamesCLIFilter reports whether CliFilterParameters can name another script than cli_filter.lua beside slurm.conf.
func (v Version) NamesCLIFilter() bool { return v.AtLeast(25, 11, 0) }

// LosesTopology reports whether slurmctld takes a cloud node out of its switch or block when it powers the node down, until
// it is restarted (seen on 25.11.2). Fixed in 25.11.3 (Slurm's CHANGELOG).
func (v Version) LosesTopology() bool { return v.AtLeast(25, 11, 0) && !v.AtLeast(25, 11, 3) }

var versionText = lazyRegexp(`(\d+)\.(\d+)\.(\d+)`)

// ParseVersion finds the version in what a Slurm program prints about itself:
// "slurm-wlm 24.11.5", "slurm 25.11.0-0rc1", "22.05.8".
func ParseVersion(text string) (Version, error) {
	parts := versionText().FindStringSubmatch(text)
	if parts == nil {
		return Version{}, fmt.Errorf("no Slurm version in %s", quote(text))
	}

	var numbers [3]int
	for i, part := range parts[1:] {
		n, err := strconv.Atoi(part)
		if err != nil {
			return Version{}, fmt.Errorf("the Slurm version in %s: %w", quote(text), err)
		}

		numbers[i] = n
	}

	return Version{numbers[0], numbers[1], numbers[2]}, nil
}

// Version returns the version of the installed commands, without asking
// slurmctld. slurmctld's own is in [Config]; it may be newer.
func (c *Client) Version(ctx context.Context) (Version, error) {
	out, err := c.run(ctx, "scontrol", "--version")
	if err != nil {
		return Version{}, fmt.Errorf("asking for Slurm's version: %w", err)
	}

	return ParseVersion(string(out))
}

// knownVersion returns the version of the commands, which are asked once.
func (c *Client) knownVersion(ctx context.Context) (Version, error) {
	if v := c.version.Load(); v != nil {
		return *v, nil
	}

	v, err := c.Version(ctx)
	if err == nil {
		c.version.Store(&v)
	}

	return v, err
}

// MaxComment is the most bytes that slurmctld takes in a comment
// (MAX_COMMENT_LEN in slurmctld's job manager); it refuses longer ones.
const MaxComment = 1024

// Clean makes text fit for a Slurm field that others read line by line: one
// line, printable, valid UTF-8, at most limit bytes.
func Clean(text string, limit int) string {
	var out strings.Builder
	for _, word := range strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}) {
		if out.Len() > 0 {
			out.WriteByte(' ')
		}

		out.WriteString(word)
	}

	clean := out.String()
	if len(clean) <= limit {
		return clean
	}

	// Not within a character.
	for limit > 0 && !utf8.RuneStart(clean[limit]) {
		limit--
	}

	return strings.TrimRight(clean[:limit], " ")
}

// fields reads one record of "scontrol --oneliner show": Key=value pairs between spaces, "(null)" as empty. It stops
// before the first key in freeText, whose values may hold anything, and keeps the first of two equal keys. A value with
// spaces in it (OS=Linux 6.1 …) keeps its first word.
func fields(line string, freeText ...string) map[string]string {
	for _, key := range freeText {
		line, _, _ = strings.Cut(line, " "+key+"=")
	}

	pairs := make(map[string]string)
	for word := range strings.FieldsSeq(line) {
		key, value, ok := strings.Cut(word, "=")
		if _, seen := pairs[key]; !ok || seen {
			continue
		}

		if value == "(null)" {
			value = ""
		}

		pairs[key] = value
	}

	return pairs
}

// records cuts the output of "scontrol --oneliner show" into records. A line
// that does not begin with key is the rest of a text with a newline in it.
func records(output []byte, key string) (found []string) {
	for line := range strings.SplitSeq(string(output), "\n") {
		if strings.HasPrefix(line, key+"=") {
			found = append(found, line)
		}
	}

	return found
}

// unread holds a record's pairs, and the first that cannot be read: text is "" while all can.
type unread struct {
	pairs map[string]string
	text  string
}

// readKey reads the value of a key: one that cannot be read is zero, and its record goes on.
func readKey[T any](u *unread, key string, read func(string) (T, error)) T {
	value, err := read(u.pairs[key])
	if err != nil && u.text == "" {
		u.text = fmt.Sprintf("%s: %v", key, err)
	}

	return value
}

// lazyRegexp compiles a pattern at its first use: the hooks start often, and use few.
func lazyRegexp(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

func splitList(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// checkName refuses what must not become part of a scontrol argument.
func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("the name of the %s is empty", what)
	}

	if err := hostlist.CheckName(name); err != nil {
		return fmt.Errorf("%s %q: %w", what, name, err)
	}

	return nil
}

// nodeArgument checks node names and writes them as one hostlist.
func nodeArgument(nodes []string) (string, error) {
	if len(nodes) == 0 {
		return "", errors.New("no nodes are named")
	}

	for _, node := range nodes {
		if err := checkName("node", node); err != nil {
			return "", err
		}
	}

	return hostlist.Compress(nodes), nil
}

// quote shows what is wrong in an error: at most the first 200 bytes.
func quote(s string) string { return hostlist.Quote(s) }
