package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// withinBudgets shortens raises to what accounting leaves the jobs over time, and drops those
// for which it leaves nothing, or of which that cannot be known. now is in Slurm's clock.
func (p *pass) withinBudgets(ctx context.Context, changes []limitChange, now time.Time) []limitChange {
	var partitions []string
	metered := func(c limitChange) bool {
		return c.raises() && p.snap.Walls.Metered(c.job.User, c.job.Account, c.job.QOS, p.partition(c.job.Partition))
	}
	for _, c := range changes {
		if metered(c) && !slices.Contains(partitions, c.job.Partition) {
			partitions = append(partitions, c.job.Partition)
		}
	}
	if len(partitions) == 0 {
		return changes
	}
	budgets, err := p.Slurm.Budgets(ctx)
	var held map[string]capacity.TRES
	if err == nil {
		held, err = p.Slurm.Held(ctx, partitions)
	}
	if err != nil {
		p.problem(capacity.AccountingUnanswered, fmt.Errorf("%w; no time limit is raised where accounting limits what jobs use", err))
	}
	var kept []limitChange
	var reasons []string
	jobs := map[string][]string{}
	because := func(reason, job string) {
		if jobs[reason] == nil {
			reasons = append(reasons, reason)
		}
		jobs[reason] = append(jobs[reason], job)
	}
	for _, c := range changes {
		if !metered(c) {
			kept = append(kept, c)
			continue
		}
		if err != nil {
			continue
		}
		minutes, by, unknown := p.budgeted(&budgets, c, held[c.job.Shown], now)
		switch {
		case unknown != nil:
			because(fmt.Sprintf("not raised to the fence, because nobody knows what accounting leaves: %v", unknown), c.job.Shown)
		case by != "":
			because(by+" leaves less than the time to the fence", c.job.Shown)
		}
		if minutes > c.job.TimeLimit.Minutes {
			c.minutes, c.by = minutes, by
			kept = append(kept, c)
		}
	}
	for _, reason := range reasons {
		p.say(capacity.LimitKept, capacity.Subject{}, "", "time limits of running jobs: %s (%s)", reason, some(jobs[reason]))
	}
	return kept
}

// budgeted is the limit that a raise may give a job, and what of accounting keeps it from more.
// What the raise takes of the budgets is gone for the next one.
func (p *pass) budgeted(budgets *capacity.Budgets, c limitChange, held capacity.TRES, now time.Time) (minutes int, by string, err error) {
	if len(held) == 0 {
		return 0, "", errors.New("Slurm does not say what the job holds")
	}
	s := capacity.Spender{User: c.job.User, Account: c.job.Account, QOS: c.job.QOS, Partition: p.partition(c.job.Partition), TRES: held, Limit: c.job.TimeLimit.Minutes,
		Elapsed: int(elapsed(c.job, now) / time.Minute)}
	if minutes, by, err = budgets.Most(s, p.snap.Walls, c.minutes); err == nil && minutes > s.Limit {
		budgets.Raise(s, p.snap.Walls, minutes)
	}
	return minutes, by, err
}

// some names jobs, or the first of many.
func some(jobs []string) string {
	const few = 10
	named := "job "
	if len(jobs) > 1 {
		named = "jobs "
	}
	if n := len(jobs); n > few {
		return fmt.Sprintf("%s%s and %d more", named, strings.Join(jobs[:few], ", "), n-few)
	}
	return named + strings.Join(jobs, ", ")
}
