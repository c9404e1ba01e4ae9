package power

import (
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file delays jobs that could not be launched, longer after each failure. Slurm would try again within seconds
// or minutes, for ever, which keeps other jobs from the nodes and uses up EC2's request limits.

// A job waits firstPause after its second failure in a row, twice as long after each further one, up to longestWait.
// After the first failure Slurm's own delay is enough, because most failures do not recur.
const (
	firstPause  = 30 * time.Second
	longestWait = 15 * time.Minute
)

// failureMemory is how long a failure counts.
const failureMemory = 2 * time.Hour

// pause is how long a job waits after so many failures.
func pause(failures int) time.Duration {
	if failures < 2 {
		return 0
	}
	p := firstPause
	for i := 2; i < failures && p < longestWait; i++ {
		p *= 2
	}
	return min(p, longestWait)
}

// failuresOf counts each job's failures, by its shown name, that the records have since a while before now, in AWS's
// time. A job that is failing now has at least one.
func failuresOf(records []state.Record, jobs []capacity.Job, now time.Time) map[string]int {
	failures := count(records, now, func(r state.Record) bool { return !ofOwner(capacity.Code(r.Code)) })
	for _, j := range jobs {
		failures[j.Shown] = max(failures[j.Shown], 1)
	}
	return failures
}

// refusalsOf counts in the same way how often a partition has refused each job for good.
func refusalsOf(records []state.Record, partition string, now time.Time) map[string]int {
	return count(records, now, func(r state.Record) bool {
		return ofOwner(capacity.Code(r.Code)) && r.Partition == partition
	})
}

// count counts the records of power-ups that failed, for each of their jobs.
func count(records []state.Record, now time.Time, counts func(state.Record) bool) map[string]int {
	times := map[string]int{}
	for _, r := range records {
		if r.Hook != "resume" || r.Code == string(capacity.OK) || r.At.Before(now.Add(-failureMemory)) || !counts(r) {
			continue
		}
		for _, shown := range r.Jobs {
			times[shown]++
		}
	}
	return times
}

// until is when a job with this many failures may start again, in the controller's clock; notBefore is the time
// before which a retry is useless. tried puts it into words for the job's owner.
func until(failures int, now, notBefore time.Time) time.Time {
	at := now.Add(pause(failures))
	if notBefore.After(at) {
		at = notBefore
	}
	return at
}

func tried(failures int, at, now time.Time) string {
	switch {
	case !at.After(now):
		return ""
	case failures < 2:
		return fmt.Sprintf("; Slurm tries again at %s", capacity.FormatUTC(at))
	}
	return fmt.Sprintf("; tried %d times, Slurm tries again at %s", failures, capacity.FormatUTC(at))
}

// delay sets the begin times of requeued jobs, by their shown names; jobs are the current jobs. It leaves alone a job
// that Slurm starts later anyway: Slurm's own delay lets the credentials of the last run expire. Jobs of behind start
// one pause later, or Slurm would give them the same nodes as the others again.
func delay(jobs []capacity.Job, begin map[string]time.Time, behind map[string]bool) (effects []capacity.Effect) {
	for _, j := range jobs {
		at, ours := begin[j.Shown]
		if after := j.Eligible.Add(firstPause); behind[j.Shown] && after.After(at) {
			at = after
		}
		if ours && j.Pending() && j.Eligible.Before(at) {
			effects = append(effects, Begin{j.Shown, at})
		}
	}
	return effects
}

// launchedFor returns the jobs that the records name for the last launch of nodes.
func launchedFor(nodes []string, records []state.Record) (jobs []string) {
	last := map[string][]string{}
	for _, r := range records {
		if r.Hook != "resume" || r.Code != string(capacity.OK) {
			continue
		}
		of, err := hostlist.Expand(r.Nodes)
		if err != nil {
			continue
		}
		for _, n := range of {
			if slices.Contains(nodes, n) {
				last[n] = r.Jobs
			}
		}
	}
	for _, n := range nodes {
		for _, j := range last[n] {
			if !slices.Contains(jobs, j) {
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}
