package power

import (
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file decides how long jobs that could not be launched wait: longer after each failure. Slurm would try again
// within seconds or minutes, for ever, which keeps other jobs from the nodes and uses up EC2's request limits.

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

// runs are the runs of jobs that the records name, by the jobs' shown names and the restarts before each run. Several
// power-ups may record one run, each for some of its nodes.
type runs map[string]map[int]bool

// others is how many runs of a job there are beside its present one.
func (r runs) others(j capacity.Job) int {
	n := len(r[j.Shown])
	if r[j.Shown][j.Restarts] {
		n--
	}
	return n
}

// failuresOf counts each job's runs, by its shown name, that failed since a while before now, in AWS's time. A job that
// is failing now has at least one.
func failuresOf(records []state.Record, jobs []capacity.Job, now time.Time) map[string]int {
	failures := map[string]int{}
	for shown, failed := range runsOf(records, now, func(r state.Record) bool { return !ofOwner(capacity.Code(r.Code)) }) {
		failures[shown] = len(failed)
	}
	for _, j := range jobs {
		failures[j.Shown] = max(failures[j.Shown], 1)
	}
	return failures
}

// refusedRuns are in the same way the runs that a partition has refused for good.
func refusedRuns(records []state.Record, partition string, now time.Time) runs {
	return runsOf(records, now, func(r state.Record) bool {
		return ofOwner(capacity.Code(r.Code)) && r.Partition == partition
	})
}

// runsOf takes the runs from the records of power-ups that failed. A record that does not say which run it is about is
// of a run of its own.
func runsOf(records []state.Record, now time.Time, counts func(state.Record) bool) runs {
	all := runs{}
	for n, r := range records {
		if r.Hook != "resume" || r.Code == string(capacity.OK) || r.At.Before(now.Add(-failureMemory)) || !counts(r) {
			continue
		}
		for i, shown := range r.Jobs {
			run := -1 - n
			if i < len(r.Restarts) {
				run = r.Restarts[i]
			}
			if all[shown] == nil {
				all[shown] = map[int]bool{}
			}
			all[shown][run] = true
		}
	}
	return all
}

// restarts are those of the jobs before this run.
func restarts(jobs []capacity.Job) (counts []int) {
	for _, j := range jobs {
		counts = append(counts, j.Restarts)
	}
	return counts
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

// youngerOthers are the jobs that the oldest one has kept from a launch, or it them: they ask for other nodes or other
// capacity. They start later the next time, and so apart from it.
func youngerOthers(jobs []capacity.Job) map[string]bool {
	later := map[string]bool{}
	for _, j := range jobs {
		if first := jobs[0]; !slices.Equal(j.Nodes, first.Nodes) || j.Comment != first.Comment {
			later[j.Shown] = j.HetJobID == 0 || j.HetJobID != first.HetJobID
		}
	}
	return later
}
