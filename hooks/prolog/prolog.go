// Package prolog holds what slurmd and slurmstepd run on a node before a job starts: the Prolog, which compares the
// instance with the reservation of its slot, and the TaskProlog, which sets the job's PCS_CAPACITY_ variables. Both are
// the program pcs-capacity-prolog, which calls [Main].
//
// They know the instance's metadata and the public snapshot, and link no AWS SDK. They keep no job from starting: what
// the Prolog finds is written down for sync and check.
package prolog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// PrologDeadline bounds a Prolog, TaskPrologDeadline a TaskProlog; then they end, and the job starts without their
// work. MetadataDeadline bounds reading the instance metadata. All normally take milliseconds.
const (
	PrologDeadline     = 1200 * time.Millisecond
	TaskPrologDeadline = 800 * time.Millisecond
	MetadataDeadline   = time.Second
)

// jobVariables lists the variables that a job may find in its environment.
var jobVariables = []string{
	"PCS_CAPACITY_RESERVATION_ID",
	"PCS_CAPACITY_REQUEUE",
	"PCS_CAPACITY_FENCE",
	"PCS_CAPACITY_RECLAIM",
	"PCS_CAPACITY_END",
	"PCS_CAPACITY_FACTS",
}

// JobEnvironment writes the output of a TaskProlog for slurmstepd: the reservation behind a node of a slot, and its end
// in Unix seconds. A variable without a known value is unset, because a job submitted from another job has inherited
// its variables. The times are those at the job's start; the file of facts, which sync keeps in dir, follows an
// extension. snap may be nil. If several reservations share the slot, only EC2 knows which one it is, and the variables
// are unset.
func JobEnvironment(dir state.Dir, snap *capacity.Snapshot, slot string, now time.Time) string {
	values := variables(dir, snap, slot, now)

	var b strings.Builder
	for _, name := range jobVariables {
		if value := values[name]; value != "" {
			fmt.Fprintf(&b, "export %s=%s\n", name, value)
		} else {
			fmt.Fprintf(&b, "unset %s\n", name)
		}
	}

	return b.String()
}

// variables returns the values of jobVariables that are known.
func variables(dir state.Dir, snap *capacity.Snapshot, slot string, now time.Time) map[string]string {
	if snap == nil {
		return nil
	}

	at, ok := snap.FindSlot(slot)
	if !ok {
		return nil
	}

	current := snap.SlotState(at, now).Current
	if len(current) != 1 {
		return nil
	}

	values := map[string]string{
		"PCS_CAPACITY_RESERVATION_ID": current[0].Reservation.ID,
		"PCS_CAPACITY_FACTS":          dir.JobFactsPath(slot),
	}

	w := current[0].Window
	if w.Unbounded() {
		return values
	}

	unix := func(t time.Time) string { return fmt.Sprint(t.Unix()) }
	values["PCS_CAPACITY_REQUEUE"] = unix(capacity.RequeueAt(w.Fence, snap.KillWait.Duration))
	values["PCS_CAPACITY_FENCE"] = unix(w.Fence)
	values["PCS_CAPACITY_RECLAIM"] = unix(w.Reclaim)
	values["PCS_CAPACITY_END"] = unix(w.End)

	return values
}

// Prolog checks the instance behind a node before a job starts there. It returns no error: a failing Prolog would
// drain the node and hold the job.
type Prolog struct {
	State       state.Dir
	Metadata    func(ctx context.Context) (capacity.Metadata, error) // Metadata reads the instance metadata
	MachineTime func() time.Time
	Log         *slog.Logger
}

// Run compares the instance with the reservation of the node's slot, using nothing that a user can write. It logs a
// difference and saves it for sync. Unreadable facts are not compared.
func (p Prolog) Run(ctx context.Context, node, slot, job string) {
	began := time.Now()
	log := p.Log.With("node", node, "slot", slot, "job", job)

	snap, err := p.State.ReadSnapshot()
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // a state_dir that is not shared is no fault
			log.Info("the instance is not compared with its reservation", "err", err)
		}

		return
	}

	now := p.MachineTime().Add(snap.ClockOffset.Duration)
	at, ok := snap.FindSlot(slot)
	if !ok || snap.IsStale(now) {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, MetadataDeadline)
	defer cancel()

	m, err := p.Metadata(ctx)
	if err != nil {
		log.Info("the instance is not compared with its reservation", "err", err)
		return
	}

	differs := snap.DescribeMisplacement(at, m, now)
	log = log.With("instance", m.InstanceID, "ms", time.Since(began).Milliseconds())
	if differs == "" {
		log.Info("the instance matches its reservation")

		err = p.State.RemoveMisplaced(node)
	} else {
		log.Warn("the instance does not match its reservation", "differs", differs)

		err = p.State.SaveMisplaced(state.Misplaced{Node: node, At: now.UTC().Truncate(time.Second), Metadata: m})
	}

	if err != nil {
		log.Info("sync will not learn of it", "err", err)
	}
}

// Main runs pcs-capacity-prolog: slurmd runs it as the Prolog of a job, slurmstepd as the TaskProlog of each task. It
// returns the exit status, which is 0 whenever Slurm calls it. After [PrologDeadline] or [TaskPrologDeadline] it ends
// the process. A node without settings runs jobs as before.
func Main([]string) int {
	switch os.Getenv("SLURM_SCRIPT_CONTEXT") {
	case "prolog_slurmd":
		time.AfterFunc(PrologDeadline, func() { os.Exit(0) })

		if cfg, node, slot := findSlot(); slot != "" {
			p := Prolog{
				State:       state.Dir(cfg.StateDir),
				Metadata:    metadata,
				MachineTime: time.Now,
				Log:         hook.Log(cfg.Log.Dir, "prolog"),
			}
			p.Run(context.Background(), node, slot, os.Getenv("SLURM_JOB_ID"))
		}
	case "prolog_task":
		// Once, whole or not at all.
		var once sync.Once

		answer := func(text string) { once.Do(func() { _, _ = os.Stdout.WriteString(text) }) }
		time.AfterFunc(TaskPrologDeadline, func() {
			answer(JobEnvironment("", nil, "", time.Time{}))
			os.Exit(0)
		})
		answer(taskProlog())
	default:
		fmt.Fprint(os.Stderr, `usage: none; Slurm calls it

Slurm's Prolog and TaskProlog: slurm.conf names it, and slurmd calls it before a job starts
on a node, slurmstepd before each task. As Prolog it logs to prolog.log in the folder that
[log] dir of the settings names, and to syslog.
`)

		if os.Getenv("SLURM_JOB_ID") == "" {
			return 2
		}
	}

	return 0
}

// findSlot returns this node and its slot; "" if the node is not ours or there are no settings.
func findSlot() (cfg *config.Config, node, slot string) {
	node = os.Getenv("SLURMD_NODENAME")

	cfg, err := config.Load(config.Find(""))
	if err == nil {
		_, _, slot, _ = cfg.Domain().FindNode(node)
	}

	return cfg, node, slot
}

// taskProlog returns the output for slurmstepd. It runs as the user, once for each task on the machine, and has no log
// of its own: the Prolog's log reports broken files.
func taskProlog() string {
	cfg, _, slot := findSlot()
	if slot == "" {
		return JobEnvironment("", nil, "", time.Time{})
	}

	dir := state.Dir(cfg.StateDir)
	now := time.Now()

	snap, _ := dir.ReadSnapshot()
	if snap != nil {
		now = now.Add(snap.ClockOffset.Duration)
	}

	return JobEnvironment(dir, snap, slot, now)
}

// metadataEndpoint answers every instance with its metadata. The variable is that of the AWS SDKs.
const (
	metadataEndpoint = "http://169.254.169.254"
	metadataVariable = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
)

// What is read, and the form of the answers. An answer of another form, such as a proxy's, is ignored.
var metadataItems = []struct {
	path  string
	looks *regexp.Regexp
	into  func(*capacity.Metadata) *string
}{
	{
		"instance-id",
		regexp.MustCompile(`^i-[0-9a-f]+$`),
		func(m *capacity.Metadata) *string { return &m.InstanceID },
	},
	{
		"instance-type",
		regexp.MustCompile(`^[a-z0-9-]+\.[a-z0-9-]+$`),
		func(m *capacity.Metadata) *string { return &m.InstanceType },
	},
	{
		"placement/availability-zone-id",
		regexp.MustCompile(`^[a-z0-9-]+-az[0-9]+$`),
		func(m *capacity.Metadata) *string { return &m.AZID },
	},
	// Only with InstanceMetadataTags, and where ResumeProgram launched the instance.
	{
		"tags/instance/" + capacity.TagReservation,
		regexp.MustCompile(`^cr-[0-9a-f]+$`),
		func(m *capacity.Metadata) *string { return &m.ReservationID },
	},
}

// metadata reads the instance's metadata service (IMDSv2). Missing items are left out; any other failure is an error.
func metadata(ctx context.Context) (capacity.Metadata, error) {
	var m capacity.Metadata

	base := strings.TrimSuffix(os.Getenv(metadataVariable), "/")
	if base == "" {
		base = metadataEndpoint
	}

	client := &http.Client{
		Transport:     &http.Transport{Proxy: nil}, // the address is this machine's alone
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}

	token, err := fetch(ctx, client, http.MethodPut, base+"/latest/api/token",
		"X-aws-ec2-metadata-token-ttl-seconds", "60")
	if err != nil {
		return m, err
	}

	for _, q := range metadataItems {
		answer, err := fetch(ctx, client, http.MethodGet, base+"/latest/meta-data/"+q.path,
			"X-aws-ec2-metadata-token", token)
		if errors.Is(err, errNotFound) {
			continue
		}

		if err == nil && !q.looks.MatchString(answer) {
			err = fmt.Errorf("instance metadata: %s is %q, which is not valid", q.path, answer)
		}

		if err != nil {
			return m, err
		}

		*q.into(&m) = answer
	}

	return m, nil
}

// errNotFound: the metadata service does not have the item.
var errNotFound = errors.New("not there")

// maxAnswer, in bytes, is far more than any expected answer.
const maxAnswer = 1024

func fetch(ctx context.Context, client *http.Client, method, url, header, value string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", fmt.Errorf("instance metadata: %w", err)
	}

	request.Header.Set(header, value)

	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("instance metadata: %w", err)
	}
	defer response.Body.Close()

	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return "", fmt.Errorf("instance metadata: %s: %w", url, err)
	case response.StatusCode == http.StatusNotFound && method == http.MethodGet:
		return "", errNotFound
	case response.StatusCode != http.StatusOK:
		return "", fmt.Errorf("instance metadata: %s: %s", url, response.Status)
	}

	return string(text), nil
}
