package power

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// refusedJob is a job with nodes that it may not have, ever or for now.
type refusedJob struct {
	capacity.Job
	// partition is the managed partition that refuses the job.
	partition string
	why       *Failure
	// times counts the partition's recent refusals of the job, this one included.
	times int
	// later: time may lift the refusal, so the job waits in the queue until begin, in the controller's clock, instead
	// of being held.
	later bool
	begin time.Time
	// behind: it must start later than the jobs with which it shared nodes.
	behind bool
}

// name names the job to Slurm, and a het job as a whole.
func (j refusedJob) name() string {
	if j.HetJobID != 0 {
		return strconv.Itoa(j.HetJobID)
	}
	return j.Shown
}

// refusedJobs returns the jobs that must not keep others from their nodes: those refused for good, and of those that
// share nodes, those that cannot be launched with the others. If one component of a het job is refused, all are:
// Slurm starts them together or not at all.
func (f *facts) refusedJobs(nodes []string, jobs []capacity.Job) []refusedJob {
	f = f.deciding()
	refused := wholeHetJobs(f.allRefusedForGood(nodes, jobs), jobs)
	groups, _ := apart(launchGroups(nodes, waiting(jobs), jobs), refused)
	return append(refused, wholeHetJobs(f.refusedNow(groups), jobs)...)
}

// allRefusedForGood returns the jobs that are refused for good, each judged alone.
func (f *facts) allRefusedForGood(nodes []string, jobs []capacity.Job) (refused []refusedJob) {
	among := setOf(nodes)
	for _, j := range jobs {
		if !j.Allocated() {
			continue
		}
		asked := map[string]bool{}
		for _, n := range j.Nodes {
			at, ours := f.placeOf(n)
			if !ours || asked[at.slot] || !among[n] {
				continue
			}
			asked[at.slot] = true
			if why := f.refusedForGood(j, at); why != nil {
				refused = append(refused, refusedJob{Job: j, partition: at.partition.Name, why: why})
				break
			}
		}
	}
	return refused
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// refusedNow returns the jobs that cannot be launched with the others on the same nodes. Jobs without a wish are kept
// first, then older ones. If none can be launched, the group fails as one.
func (f *facts) refusedNow(groups []group) (refused []refusedJob) {
	for _, g := range groups {
		var later []refusedJob
		among := setOf(g.nodes)
		kept := map[string][]capacity.Job{} // by slot
		for _, j := range withoutWishFirst(g.jobs) {
			slots, nodes := map[string]place{}, map[string]int{}
			for _, n := range j.Nodes {
				if at, ours := f.placeOf(n); ours && among[n] {
					slots[at.slot] = at
					nodes[at.slot]++
				}
			}
			var why *Failure
			for _, slot := range slices.Sorted(maps.Keys(slots)) {
				at := slots[slot]
				if _, _, why = f.targets(append(slices.Clone(kept[slot]), j), at, nodes[slot], among); why != nil {
					later = append(later, refusedJob{Job: j, partition: at.partition.Name, why: why, later: true})
					break
				}
			}
			for slot := range slots {
				if why == nil {
					kept[slot] = append(kept[slot], j)
				}
			}
		}
		if len(kept) > 0 {
			refused = append(refused, later...)
		}
	}
	return refused
}

func withoutWishFirst(jobs []capacity.Job) []capacity.Job {
	wishes := func(j capacity.Job) int {
		wish, _ := j.Wish()
		if wish.Names() || wish.Capacity != "" {
			return 1
		}
		return 0
	}
	sorted := slices.Clone(jobs)
	slices.SortStableFunc(sorted, func(a, b capacity.Job) int { return wishes(a) - wishes(b) })
	return sorted
}

// wholeHetJobs adds the other components of het jobs.
func wholeHetJobs(refused []refusedJob, jobs []capacity.Job) []refusedJob {
	for _, r := range refused {
		if r.HetJobID == 0 {
			continue
		}
		leader := slices.IndexFunc(jobs, func(j capacity.Job) bool { return j.ID == r.HetJobID })
		for _, j := range jobs {
			known := slices.IndexFunc(refused, func(o refusedJob) bool { return o.ID == j.ID })
			if j.HetJobID != r.HetJobID || !j.Allocated() {
				continue
			}
			if known < 0 {
				known = len(refused)
				refused = append(refused, refusedJob{Job: j, partition: r.partition, why: r.why, later: r.later, behind: r.behind})
			}
			if leader >= 0 { // Slurm keeps there what sort of job it is
				refused[known].Batch, refused[known].Requeue = jobs[leader].Batch, jobs[leader].Requeue
			}
		}
	}
	return refused
}

// apart divides groups into those without a refused job, and the nodes of the others.
func apart(groups []group, refused []refusedJob) (without []group, nodes []string) {
	for _, g := range groups {
		if slices.ContainsFunc(g.jobs, func(j capacity.Job) bool {
			return slices.ContainsFunc(refused, func(r refusedJob) bool { return r.ID == j.ID })
		}) {
			nodes = append(nodes, g.nodes...)
		} else {
			without = append(without, g)
		}
	}
	return without, nodes
}

// waiting are the nodes that jobs have.
func waiting(jobs []capacity.Job) []Waiting {
	var waits []Waiting
	for _, j := range jobs {
		if j.Allocated() {
			waits = append(waits, Waiting{j.ID, j.Nodes})
		}
	}
	return waits
}

// keeps reports whether the job, as it is now, was not taken out: it still has the nodes of the refused run. A job
// that was started again has other nodes.
func (j refusedJob) keeps(now capacity.Job) bool {
	return now.Allocated() && now.Restarts == j.Restarts
}

func (j refusedJob) reason() string {
	if j.later {
		return fmt.Sprintf("the nodes of this job were not launched for it: %s: %s", j.why.Code, j.why.message())
	}
	return fmt.Sprintf("partition %s refuses this job: %s: %s", j.partition, j.why.Code, j.why.message())
}

// note is the AdminComment of the job, which is held from now on: longer each time that it is released and refused
// again.
func (j refusedJob) note(now time.Time) string {
	switch {
	case !j.Batch:
		return "pcs-capacity: " + j.reason()
	case j.later:
		return "pcs-capacity: " + j.reason() + tried(j.times, j.begin, now)
	}
	text := j.reason() + "; change it before you release it"
	if j.times > 1 {
		text = fmt.Sprintf("refused %d times; %s", j.times, text)
	}
	return capacity.HoldNote(now.Add(pause(j.times)), text)
}

// fate is what happens to a refused job that waits.
type fate int

const (
	isOver      fate = iota // it was cancelled
	waits                   // for its begin time
	goesOn                  // in its other partitions
	heldByOwner             // until its owner releases it
	heldByAdmin             // sync lets its owner release it later
)

// fate decides; rest are the job's other partitions.
func (j refusedJob) fate(rest string) fate {
	switch {
	case !j.Batch:
		return isOver
	case j.later:
		return waits
	case j.times > 1:
		return heldByAdmin
	case rest != "" && j.HetJobID == 0:
		return goesOn
	}
	return heldByOwner
}

// otherPartitions is a comma-separated list without one partition.
func otherPartitions(list, without string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(list, ","), func(p string) bool { return p == without }), ",")
}
