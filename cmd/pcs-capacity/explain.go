package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/explain"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// ExplainCmd says why something does not start.
type ExplainCmd struct {
	What string `arg:"" name:"job|node|partition|code" predictor:"explained" placeholder:"JOB|NODE|PARTITION|CODE" help:"A job as squeue shows it, a node, a partition, or a code of a message."`
}

func (ExplainCmd) Help() string {
	return `The first line is the answer, the last one says what to do. It reads what sync last saw of AWS, asks
Slurm, and needs no AWS credentials. Users who may read the hooks' records also see the last launch.

For a code, such as too-long, nodes-out or AWS's InsufficientInstanceCapacity, it prints what the code
means and what to do, without asking Slurm.`
}

// List returns all codes for the manual page, as docs/codes.md lists them.
func (ExplainCmd) List() (heading string, terms [][2]string) {
	for _, m := range capacity.Codes {
		terms = append(terms, [2]string{string(m.Code), m.Text + " What to do: " + m.Do})
	}

	return "CODES", terms
}

// jobNames matches a job as squeue shows it.
var jobNames = regexp.MustCompile(`^[0-9]+([_+].*)?$`)

// Run finds out what is asked for, and explains it.
func (c *ExplainCmd) Run(ctx context.Context, t *terminal.Terminal, maybe *maybeConfig) error {
	cfg := maybe.Config
	if page, known := capacity.Code(c.What).Meaning(); known {
		if _, ours := cfg.Partition(c.What); !ours {
			return showExplanation(t, explain.OfCode(page))
		}
	}

	if page, known := explainAWSCode(c.What); known {
		return showExplanation(t, page)
	}

	if !maybe.Found { // which the page of a code does without
		_, err := config.Load(cfg.Path)
		return usageError{err}
	}

	snap, now, err := readSnapshot(cfg)
	if err != nil {
		return err
	}

	records, err := state.Dir(cfg.StateDir).Records()
	if err != nil && !errors.Is(err, fs.ErrPermission) { // which are not for everyone
		return err
	}

	progress := t.Slow("asking Slurm")
	e, err := c.explain(ctx, cfg, snap, records, now)

	progress.Done()

	if err != nil {
		return err
	}

	return showExplanation(t, e)
}

func (c *ExplainCmd) explain(ctx context.Context, cfg *config.Config, snap *capacity.Snapshot, records []state.Record,
	now time.Time,
) (none explain.Explanation, err error) {
	client := slurm.New(cfg.Cluster)
	if p, ours := snap.Partition(c.What); ours {
		jobs, _, err := client.JobsOf(ctx, []string{p.Name}, nil)
		if err != nil {
			return none, err
		}

		alone := *snap
		alone.Partitions = []capacity.Partition{p}
		troubles := lifecycle.PartitionProblems(&alone, jobs, records, now)
		waits := func(j capacity.Job) bool { return j.CanStart() && j.InPartition(p.Name) }
		jobs = slices.DeleteFunc(jobs, func(j capacity.Job) bool { return !waits(j) })

		return explain.OfPartition(p, len(jobs), troubles, snap, now), nil
	}

	if jobNames.MatchString(c.What) {
		jobs, err := client.Jobs(ctx)
		if err != nil {
			return none, err
		}

		jobs = slices.DeleteFunc(jobs, func(j capacity.Job) bool { return !j.HasID(c.What) })
		if len(jobs) == 0 {
			return none, fmt.Errorf(
				"job %[1]s is not in the queue, or is not shown to you; `sacct -j %[1]s` shows jobs that are over",
				c.What,
			)
		}
		// Of an array, a task that waits says more than one that runs.
		rank := func(j capacity.Job) int { return slices.Index([]bool{j.Shown == c.What, j.CanStart(), true}, true) }
		first := slices.MinFunc(jobs, func(a, b capacity.Job) int { return rank(a) - rank(b) })

		return explain.OfJob(first, snap, records, now), nil
	}

	nodes, err := client.Nodes(ctx)
	if err != nil {
		return none, err
	}

	i := slices.IndexFunc(nodes, func(n capacity.Node) bool { return n.Name == c.What })
	if i < 0 {
		return none, usage(
			"%q is not a job, a node that Slurm shows, a code, or a partition in the settings; they have %s",
			c.What,
			partitionNames(cfg),
		)
	}

	reservations, err := client.Reservations(ctx)
	if err != nil {
		return none, err
	}

	surplus := slices.ContainsFunc(reservations, func(r capacity.SlurmReservation) bool {
		return r.IsOurs() && r.Active && r.Guard().Kind == capacity.GuardSurplus && slices.Contains(r.Nodes, c.What)
	})

	return explain.OfNode(nodes[i], cfg.Domain(), surplus, snap, records, now), nil
}

// explainAWSCode explains an error code of AWS, for each call that can return it.
func explainAWSCode(code string) (explain.Explanation, bool) {
	e := explain.Explanation{
		Subject: "code " + code,
		Code:    capacity.Code(code),
		Answer:  "AWS's error code " + code + ", by the call that failed.",
		Advice:  "A node's Reason has the answer of RunInstances.",
	}
	for _, r := range slices.Concat(ec2.Remedies, pcs.Remedies, awsconfig.General) {
		if r.Code != code {
			continue
		}

		means := r.Means + "; " + r.Do
		if r.Says != "" {
			means = fmt.Sprintf("with “%s”: %s", r.Says, means)
		}

		for _, call := range r.Calls {
			e.Facts = append(e.Facts, explain.Fact{Name: call, Value: means})
		}

		if len(r.Calls) == 0 {
			e.Facts = append(e.Facts, explain.Fact{Name: "any call", Value: means})
		}
	}

	return e, len(e.Facts) > 0
}

func showExplanation(t *terminal.Terminal, e explain.Explanation) error {
	if t.Format != terminal.Table {
		return t.Show(e, e.Facts, "")
	}

	var facts [][2]string
	for _, f := range e.Facts {
		facts = append(facts, [2]string{f.Name, f.Value})
	}

	t.Page(e.Answer, facts, e.Advice)

	return nil
}
