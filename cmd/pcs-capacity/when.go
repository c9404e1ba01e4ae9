package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/explain"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// WhenCmd says when a job could start.
type WhenCmd struct {
	Time jobLimit `short:"t" help:"Time limit in one of Slurm's forms, or 12h, 2d12h. Default: the job gets what fits." placeholder:"LIMIT"`

	jobSize `embed:""`
}

// jobSize has the flags that decide, beside the time limit, where a job fits.
type jobSize struct {
	Partition   string    `short:"p" predictor:"partition" help:"Partitions, as for sbatch. Default: Slurm's default partition." placeholder:"NAMES"`
	Nodes       nodeCount `short:"N" help:"Minimum number of nodes." placeholder:"1" default:"1"`
	Reservation string    `help:"Slurm reservations of the job, as for sbatch." placeholder:"NAMES"`
	Account     string    `short:"A" help:"Account of the job. Without one, accounts are not checked." placeholder:"NAME"`
	Comment     string    `help:"Comment of the job, as for sbatch, such as on_end=requeue." placeholder:"KEY=VALUE"`
}

func (WhenCmd) Help() string {
	return `Answers as the submit filter does, from what sync last saw. It needs no AWS credentials.
It considers reservations and limits, not your place in the queue: "now" means that enough
nodes are idle and no other job waits for nodes.

Exit status: 0 now; 3 later, or when nodes are free; 1 not as things are, never, or unknown.

  pcs-capacity when -p gpu -N4 -t 12h && sbatch -p gpu -N4 -t 12:00:00 train.sh`
}

// jobLimit is a time limit as sbatch reads it, or a length of time.
type jobLimit struct{ capacity.Limit }

// UnmarshalText reads a limit: 90 is minutes, as for sbatch.
func (l *jobLimit) UnmarshalText(text []byte) (err error) {
	l.Limit, err = capacity.ParseLimit(string(text))
	if err == nil {
		return nil
	}

	d, notLength := capacity.ParseDuration(string(text))
	if notLength != nil || d <= 0 {
		return fmt.Errorf("%q is not a time limit; write it like 90, 12:00:00, 2-00:00:00 or 12h", text)
	}

	l.Limit = capacity.LimitOf(d)

	return nil
}

// nodeCount is a number of nodes as sbatch reads it: 4, 4-8 or 1k.
type nodeCount string

var nodeCounts = regexp.MustCompile(`^[1-9][0-9]{0,8}[kKmM]?(-[0-9]+[kKmM]?)?$`)

func (n *nodeCount) UnmarshalText(text []byte) error {
	if !nodeCounts.Match(text) {
		return fmt.Errorf("%q is not a number of nodes; write it like 4 or 4-8", text)
	}

	*n = nodeCount(text)

	return nil
}

// Run judges a job that is not submitted.
func (c *WhenCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *config.Config) error {
	snap, now, err := readSnapshot(cfg)
	if err != nil {
		return err
	}

	req, verdict, err := c.judge(c.Time.Limit, snap, now)
	if err != nil {
		return err
	}

	start := explain.When(req, verdict, snap, nil, now)
	if start.Code == capacity.WaitsInQueue { // unless its nodes are idle
		start = explain.When(req, verdict, snap, readQueue(ctx, cfg, snap, req.Partitions), now)
	}

	line := formatStart(t, start, now)
	if c.Partition == "" {
		line = "partition " + snap.DefaultPartition + ": " + line
	}

	if err := showStart(t, start, line); err != nil {
		return err
	}

	switch {
	case start.Code == capacity.StartsNow:
		return nil
	case !start.Start.IsZero():
		return errLater
	}

	return errReported
}

// judge has the filter judge a job. Without a partition the job is Slurm's default partition's.
func (s jobSize) judge(limit capacity.Limit, snap *capacity.Snapshot,
	now time.Time,
) (capacity.Request, capacity.Verdict, error) {
	partition := cmp.Or(s.Partition, snap.DefaultPartition)
	if partition == "" {
		return capacity.Request{}, capacity.Verdict{}, usage(
			"name a partition: Slurm has no default one, or sync has not seen it",
		)
	}

	req, err := submit.ParseRequest(map[string]string{
		"from":        "cli_filter",
		"user":        os.Getenv("USER"),
		"partition":   partition,
		"account":     s.Account,
		"comment":     s.Comment,
		"nodes":       string(s.Nodes),
		"reservation": s.Reservation,
	})
	req.TimeLimit = limit
	if err != nil {
		return req, capacity.Verdict{}, err
	}

	return req, submit.Decide(req, "cli_filter", snap, now.Add(-snap.ClockOffset.Duration)), nil
}

// readSnapshot reads what sync last saw, and the time by AWS's clock.
func readSnapshot(cfg *config.Config) (*capacity.Snapshot, time.Time, error) {
	dir := state.Dir(cfg.StateDir)
	snap, err := dir.ReadSnapshot()
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf(
			"%s is not there: `pcs-capacity sync` writes it; ask an administrator to keep `pcs-capacity sync --watch` "+
				"running",
			dir.SnapshotPath(),
		)
	}

	if err != nil {
		return nil, time.Time{}, err
	}

	return snap, time.Now().Add(snap.ClockOffset.Duration), nil
}

// slurmPatience bounds the wait for slurmctld, without whose answer a job waits for nodes.
const slurmPatience = 5 * time.Second

// readQueue asks Slurm for idle nodes and waiting jobs; nil if it does not answer.
func readQueue(ctx context.Context, cfg *config.Config, snap *capacity.Snapshot, partitions []string) *explain.Queue {
	ctx, cancel := context.WithTimeout(ctx, slurmPatience)
	defer cancel()

	client := slurm.New(cfg.Cluster)
	queue := &explain.Queue{Idle: map[string]int{}, Waiting: map[string]int{}}
	waits := func(j capacity.Job) bool {
		return j.State == "PENDING" && (j.Reason == "Resources" || j.Reason == "Priority")
	}

	// Nodes that are lent come back.
	var asked []string
	for _, name := range partitions {
		p, _ := snap.Partition(name)
		p.Name = name
		asked = append(asked, p.SlurmNames()...)
	}

	jobs, _, err := client.JobsOf(ctx, asked, func(j capacity.Job) bool { return waits(j) || j.Allocated() })
	if err != nil {
		return nil
	}

	for _, name := range partitions {
		p, _ := snap.Partition(name)
		lent := lentNodes(jobs, p)

		for _, j := range jobs {
			if j.Pending() && j.InPartition(name) {
				queue.Waiting[name]++
			}
		}

		for _, at := range capacity.AllSlots([]capacity.Partition{p}) {
			names, err := hostlist.Expand(at.Slot.Nodes)
			if err != nil || len(names) == 0 {
				continue
			}

			nodes, err := client.Nodes(ctx, names...)
			if err != nil {
				return nil
			}

			isFree := func(n capacity.Node) bool { return n.IsIdle() || n.IsUp() && lent[n.Name] }
			queue.Idle[at.Slot.Name] = len(slices.DeleteFunc(nodes, func(n capacity.Node) bool { return !isFree(n) }))
		}
	}

	return queue
}

// lentNodes returns the nodes on which jobs of the partition's spare one run, and no others.
func lentNodes(jobs []capacity.Job, p capacity.Partition) map[string]bool {
	lent := map[string]bool{}
	for _, j := range jobs {
		for _, node := range j.Nodes {
			before, known := lent[node]
			lent[node] = j.Partition == p.Spare.Name && (before || !known)
		}
	}

	return lent
}

// formatStart returns the answer in one line.
func formatStart(t *terminal.Terminal, s explain.Start, now time.Time) string {
	switch {
	case s.Code == capacity.NotManaged || s.Code == capacity.ReservationNotKnown:
		return fmt.Sprintf("unknown (%s): %s", s.Code, s.Message)
	case s.Start.IsZero():
		outlook := "not as things are"
		if s.Code.Never() {
			outlook = "never as it is"
		}

		return fmt.Sprintf("%s (%s): %s", outlook, s.Code, t.Localize(s.Message))
	}

	var text string
	switch s.Code {
	case capacity.StartsNow:
		text = "now"
	case capacity.NextBlock:
		text = t.Soon(s.Start, now) + ", in the next block"
	default:
		text = s.Message
	}

	switch {
	case len(s.Runs) > 0:
		text += formatRuns(t, s.Runs, now)
	case s.SpareSeconds != nil:
		text += fmt.Sprintf(", with %s to spare", capacity.FormatUntil(time.Duration(*s.SpareSeconds)*time.Second))
	case s.Fence.IsZero():
		text += ", without an end"
	default:
		text += ", for up to " + s.TimeLimit
	}

	return text
}

// formatRuns continues a sentence about a job that goes on in other blocks.
func formatRuns(t *terminal.Terminal, runs []capacity.ExpectedRun, now time.Time) string {
	text := " until " + t.Soon(runs[0].To, now)
	for _, next := range runs[1:] {
		text += ", then from " + t.Soon(next.From, now)
		if next.AtEnd != "" {
			text += " until " + t.Soon(next.To, now)
		}
	}

	switch runs[len(runs)-1].AtEnd {
	case capacity.HoldAtEnd:
		text += ", then held until you release it"
	case capacity.RequeueAtEnd:
		text += ", then in the next block"
	}

	return text
}

// showStart writes the answer as a line, or for programs.
func showStart(t *terminal.Terminal, s explain.Start, line string) error {
	if t.Format != terminal.Table {
		return t.Show(s, []explain.Start{s}, "")
	}

	if line != "" {
		t.Print("%s", line)
	}

	for _, warning := range s.Warnings {
		t.Say("%s", t.Localize(warning))
	}

	return nil
}

// LeftCmd says how long a job may run that starts now.
type LeftCmd struct {
	jobSize `embed:""`
}

func (LeftCmd) Help() string {
	return `Prints the longest time limit that fits now, less a minute for the submission, in a form
that sbatch takes. It needs no AWS credentials. If none fits, stdout stays empty and the exit
status is 1.

  sbatch -p gpu --time=$(pcs-capacity left -p gpu) train.sh`
}

func (c *LeftCmd) Run(t *terminal.Terminal, cfg *config.Config) error {
	snap, now, err := readSnapshot(cfg)
	if err != nil {
		return err
	}

	req, verdict, err := c.judge(capacity.Limit{}, snap, now)
	if err != nil {
		return err
	}

	left := explain.Longest(req, verdict, snap, now)
	if err := showStart(t, left, left.TimeLimit); err != nil {
		return err
	}

	if c.Partition == "" { // to stderr: sbatch gets what stands in stdout
		t.Say("Partition %s.", snap.DefaultPartition)
	}

	if left.TimeLimit != "" {
		return nil
	}

	if left.Code == capacity.NextBlock {
		left.Message = "the next block opens " + t.Soon(left.Start, now)
	}

	t.Say("No time limit fits now: %s.", t.Localize(left.Message))

	return errReported
}
