package slurm

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Check is a job that runs a program once on a node, in the Slurm reservation that keeps
// other jobs from it.
type Check struct {
	// Program is an absolute path on the node; it is run without a shell and arguments.
	// Account and Constraint may be "".
	Node, Reservation, Partition, Account, Constraint, Program string
	// Timeout is how long the program may take, in whole seconds.
	Timeout time.Duration
	// Output is a file to which the node writes the last OutputBytes bytes of what the
	// program said, if its folder is there.
	Output      string
	OutputBytes int
}

// checkSpare is how much longer the job may take than the program: it then writes the output.
const checkSpare = 2 * time.Minute

// CheckTime is how long the job of a check may take.
func CheckTime(timeout time.Duration) time.Duration { return timeout + checkSpare }

// checkScript runs the program under a deadline, then hands its output over: a file server
// that hangs must not look like a program that does. timeout(1) exits with 124 when the time is
// over, and with 125, 126 or 127 when the program did not start.
const checkScript = `said=$(mktemp) || said=/dev/null
timeout -k 10 "$CHECK_SECONDS" "$CHECK_PROGRAM" </dev/null >"$said" 2>&1
status=$?
if test -d "${CHECK_OUTPUT%/*}"; then tail -c "$CHECK_BYTES" "$said" >"$CHECK_OUTPUT"; fi
test "$said" = /dev/null || rm -f "$said"
exit $status`

var jobID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[1-9][0-9]{0,9}$`) })

// SubmitCheck submits the job of a check, as the user who runs this, and returns its id.
func (c *Client) SubmitCheck(ctx context.Context, check Check) (id string, err error) {
	for what, name := range map[string]string{"node": check.Node, "Slurm reservation": check.Reservation, "partition": check.Partition} {
		if err := checkName(what, name); err != nil {
			return "", fmt.Errorf("checking a node: %w", err)
		}
	}
	args := []string{
		"--parsable",
		"--job-name=pcs-capacity-health",
		"--output=/dev/null",
		"--chdir=/",
		"--no-requeue",
		"--exclusive",
		"--nodes=1",
		"--ntasks=1",
		"--nodelist=" + check.Node,
		"--reservation=" + check.Reservation,
		"--partition=" + check.Partition,
		fmt.Sprintf("--time=%d", int(CheckTime(check.Timeout).Minutes()+0.999)),
	}
	if check.Account != "" {
		args = append(args, "--account="+check.Account)
	}
	if check.Constraint != "" {
		args = append(args, "--constraint="+check.Constraint)
	}
	var out bytes.Buffer
	err = c.runInto(ctx, &out, []string{"CHECK_PROGRAM=" + check.Program, "CHECK_OUTPUT=" + check.Output,
		"CHECK_BYTES=" + strconv.Itoa(check.OutputBytes), "CHECK_SECONDS=" + strconv.Itoa(int(check.Timeout.Seconds()))},
		"sbatch", append(args, "--wrap="+checkScript)...)
	if err != nil {
		return "", fmt.Errorf("checking node %s: %w", check.Node, err)
	}
	id, _, _ = strings.Cut(strings.TrimSpace(out.String()), ";")
	if !jobID().MatchString(id) {
		return "", fmt.Errorf("checking node %s: sbatch answers %s", check.Node, quote(out.String()))
	}
	return id, nil
}

// ExitStatus is how the batch script of a job ended: its exit status, and the signal that
// ended it or, from slurmd, why it could not be started; 0 for none.
func (c *Client) ExitStatus(ctx context.Context, job string) (status, signal int, err error) {
	name, err := parseJobName(job)
	if err != nil {
		return 0, 0, err
	}
	out, err := c.run(ctx, "scontrol", "--oneliner", "--", "show", "job", name.argument)
	if err != nil {
		return 0, 0, fmt.Errorf("asking how job %s ended: %w", job, err)
	}
	for _, line := range records(out, "JobId") {
		text := fields(line, "Comment", "AdminComment")["ExitCode"]
		first, second, _ := strings.Cut(text, ":")
		status, err1 := strconv.Atoi(first)
		signal, err2 := strconv.Atoi(second)
		if err1 == nil && err2 == nil {
			return status, signal, nil
		}
	}
	return 0, 0, fmt.Errorf("asking how job %s ended: scontrol shows no ExitCode", job)
}
