package lifecycle

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// budgets is the use over time that accounting leaves jobs, and the TRES that each job holds, by its name; err says
// why they are unknown.
type budgets struct {
	capacity.Budgets
	held map[string]capacity.TRES
	err  error
}

// meteredPartitions returns the partitions of jobs whose limits would be raised and whose use over time is limited.
func meteredPartitions(seen Seen) (partitions []string) {
	for _, c := range seen.limitChanges() {
		if seen.metered(c) && !slices.Contains(partitions, c.job.Partition) {
			partitions = append(partitions, c.job.Partition)
		}
	}
	return partitions
}

func (s Seen) metered(c limitChange) bool {
	return c.raises() && s.Snap.Walls.Metered(c.job.User, c.job.Account, c.job.QOS, s.partition(c.job.Partition))
}

// withinBudgets shortens raises to the use over time that accounting leaves the jobs. It drops a raise if nothing is
// left or the rest is unknown. Each raise is charged before the next is judged.
func withinBudgets(seen Seen, changes []limitChange) (within []limitChange, problems []capacity.Problem) {
	var reasons []string
	jobs := map[string][]string{}
	because := func(reason, job string) {
		if jobs[reason] == nil {
			reasons = append(reasons, reason)
		}
		jobs[reason] = append(jobs[reason], job)
	}
	left := seen.Budgets
	spent := left.Clone()
	for _, c := range changes {
		if !seen.metered(c) {
			within = append(within, c)
			continue
		}
		if left.err != nil {
			continue
		}
		minutes, by, unknown := budgeted(seen, &spent, c, left.held[c.job.Shown])
		switch {
		case unknown != nil:
			because(fmt.Sprintf("not raised to the fence, because nobody knows what accounting leaves: %v", unknown),
				c.job.Shown)
		case by != "":
			because(by+" leaves less than the time to the fence", c.job.Shown)
		}
		if minutes > c.job.TimeLimit.Minutes {
			c.minutes, c.by = minutes, by
			within = append(within, c)
		}
	}
	for _, reason := range reasons {
		problems = append(problems,
			capacity.Problemf(capacity.LimitKept, capacity.Subject{}, "", "time limits of running jobs: %s (%s)",
				reason, some(jobs[reason])))
	}
	return within, problems
}

// budgeted is the limit to which a job may be raised, and the limit of accounting that caps it. It charges the
// budgets for the raise.
func budgeted(seen Seen, spent *capacity.Budgets, c limitChange,
	held capacity.TRES) (minutes int, by string, err error) {
	if len(held) == 0 {
		return 0, "", errors.New("slurmctld does not say what the job holds")
	}
	s := capacity.Spender{
		User:      c.job.User,
		Account:   c.job.Account,
		QOS:       c.job.QOS,
		Partition: seen.partition(c.job.Partition),
		TRES:      held,
		Limit:     c.job.TimeLimit.Minutes,
		Elapsed:   int(elapsed(c.job, seen.SlurmNow()) / time.Minute),
	}
	if minutes, by, err = spent.Most(s, seen.Snap.Walls, c.minutes); err == nil {
		spent.Raise(s, seen.Snap.Walls, minutes)
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
