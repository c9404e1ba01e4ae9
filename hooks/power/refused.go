package power

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// refusedJob is a job with nodes that it may never have.
type refusedJob struct {
	capacity.Job
	// partition is the managed partition that refuses the job.
	partition string
	why       *Failure
	// times counts the partition's recent refusals of the job, this one included.
	times int
}

// name names the job to Slurm, and a het job as a whole.
func (j refusedJob) name() string {
	if j.HetJobID != 0 {
		return strconv.Itoa(j.HetJobID)
	}
	return j.Shown
}

// refusedJobs returns the jobs that are refused for good, each judged alone. If one component of a het job is refused,
// all are: Slurm starts them together or not at all.
func (f *facts) refusedJobs(nodes []string, jobs []capacity.Job) (refused []refusedJob) {
	f = f.deciding()
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
	return wholeHetJobs(refused, jobs)
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
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
				refused = append(refused, refusedJob{Job: j, partition: r.partition, why: r.why})
			}
			if leader >= 0 { // Slurm keeps there what sort of job it is
				refused[known].Batch, refused[known].Requeue = jobs[leader].Batch, jobs[leader].Requeue
			}
		}
	}
	return refused
}

// withoutRefused divides groups into those without a refused job, and the others: for these nothing is launched. The
// refused jobs leave their groups, whose other jobs Slurm requeues with the nodes.
func withoutRefused(groups []group, refused []refusedJob) (without []group, failed []outcome) {
	isRefused := func(j capacity.Job) bool {
		return slices.ContainsFunc(refused, func(r refusedJob) bool { return r.ID == j.ID })
	}
	for _, g := range groups {
		i := slices.IndexFunc(g.jobs, isRefused)
		if i < 0 {
			without = append(without, g)
			continue
		}
		r := refused[slices.IndexFunc(refused, func(r refusedJob) bool { return r.ID == g.jobs[i].ID })]
		why := refusal(capacity.Code(r.why.Code), "job %s, for which they were powered up, is refused", r.Shown)
		if g.jobs = slices.DeleteFunc(slices.Clone(g.jobs), isRefused); len(g.jobs) > 0 {
			why = refusal(capacity.SharedWithRefused, "job %s, which shares these nodes, is refused", r.Shown)
		}
		failed = append(failed, outcome{group: g, failure: why})
	}
	return without, failed
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

func (j refusedJob) reason() string {
	return fmt.Sprintf("partition %s refuses this job: %s: %s", j.partition, j.why.Code, j.why.message())
}

// note is the AdminComment of the job, which is held from now on: longer each time that it is released and refused
// again.
func (j refusedJob) note(a Answer) string {
	text := "pcs-capacity: " + j.reason()
	if j.Batch {
		text = j.reason() + "; change it before you release it"
		if j.times > 1 {
			text = fmt.Sprintf("refused %d times; %s", j.times, text)
		}
		text = capacity.HoldNote(a.At.Add(pause(j.times)), text)
	}
	return hook.Clip(hook.OneLine(text), capacity.MaxComment)
}

// refusing is the machine that puts refused jobs back into the queue, held; a job that Slurm cannot requeue is
// cancelled. The owners are told first, so a held job has its reason even if the hook is killed.
type refusing struct {
	refused []refusedJob
	at      step
}

func (s refusing) next(a Answer) (refusing, []capacity.Effect) {
	switch s.at {
	case "":
		s.at = stepRecords
		return s, []capacity.Effect{AskRecords{}}
	case stepRecords:
		return s.requeue(a)
	case stepJobs:
		return s.hold(a)
	}
	return s, nil
}

// requeue ends with listing all jobs: a call for many jobs fails if one of them fails, so Slurm's view of each job
// counts.
func (s refusing) requeue(a Answer) (refusing, []capacity.Effect) {
	var effects []capacity.Effect
	s.refused = slices.Clone(s.refused)
	var held, once, others []string
	for i, r := range s.refused {
		r.times = refusedRuns(a.Records, r.partition, a.now()).others(r.Job) + 1
		s.refused[i] = r
		record := state.Record{At: a.now(), Hook: "resume", Partition: r.partition, Nodes: hostlist.Compress(r.Nodes), Jobs: []string{r.Shown},
			Restarts: []int{r.Restarts}, Code: r.why.Code, EC2Code: r.why.EC2Code, Message: hook.OneLine(r.why.message())}
		effects = append(effects,
			Tell{Records: []state.Record{record}, Notify: withTerminal([]capacity.Job{r.Job}), Text: "pcs-capacity: " + r.reason()},
			Comment{Jobs: []string{r.Shown}, Text: r.note(a), Unread: true})
		list := &others
		if r.Batch {
			list = &held
		}
		if !slices.Contains(*list, r.name()) {
			*list = append(*list, r.name())
		}
		if r.Batch && !r.Requeue && !slices.Contains(once, r.Shown) {
			once = append(once, r.Shown)
		}
	}
	if len(once) > 0 {
		effects = append(effects, AllowRequeue{once, true}) // their programs have not begun
	}
	if len(held) > 0 {
		effects = append(effects, Requeue{held})
	}
	if len(once) > 0 {
		effects = append(effects, AllowRequeue{once, false})
	}
	if len(others) > 0 {
		effects = append(effects, Cancel{others})
	}
	s.at = stepJobs
	return s, append(effects, AskJobs{})
}

// hold sets how long refused jobs are held: the first time until their owners release them, later until sync allows
// the owners to. A job with partitions that have not refused it continues there.
func (s refusing) hold(a Answer) (refusing, []capacity.Effect) {
	s.at = stepOver
	now := map[int]capacity.Job{}
	for _, j := range a.Jobs {
		now[j.ID] = j
	}
	var effects []capacity.Effect
	var longer, owners []string
	for _, r := range s.refused {
		j, there := now[r.ID]
		switch rest := otherPartitions(j.Partition, r.Partition); {
		case !there || !r.Batch:
		case j.Allocated() && j.Restarts == r.Restarts:
			effects = append(effects, Note{r.Shown, "a refused job still has its nodes", true})
		case r.times > 1:
			longer = append(longer, r.name())
		case rest != "" && r.HetJobID == 0:
			effects = append(effects, GoOn{r.Shown, rest, comment(r.Shown, capacity.GoOnNote(rest, a.At, r.reason())).Text})
		default:
			owners = append(owners, r.name())
		}
	}
	// Each het job once.
	slices.Sort(longer)
	slices.Sort(owners)
	longer = slices.Compact(longer)
	owners = slices.DeleteFunc(slices.Compact(owners), func(name string) bool { return slices.Contains(longer, name) })
	if len(longer) > 0 {
		effects = append(effects, HoldJobs{longer, true})
	}
	if len(owners) > 0 {
		effects = append(effects, HoldJobs{owners, false})
	}
	return s, effects
}

// otherPartitions is a comma-separated list without one partition.
func otherPartitions(list, without string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(list, ","), func(p string) bool { return p == without }), ",")
}
