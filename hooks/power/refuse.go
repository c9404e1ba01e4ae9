package power

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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

// refusedJobs returns the jobs on the nodes that are refused for good, each judged alone. If one component of a het job
// is refused, all are: Slurm starts them together or not at all.
func (c *call) refusedJobs(nodes []string) (refused []refusedJob) {
	among := setOf(nodes)
	for _, j := range c.jobs {
		if !j.Allocated() {
			continue
		}
		asked := map[string]bool{}
		for _, n := range j.Nodes {
			at, ours := placeOf(c.settings, n)
			if !ours || asked[at.slot] || !among[n] {
				continue
			}
			asked[at.slot] = true
			if why := c.refusedForGood(j, at); why != nil {
				refused = append(refused, refusedJob{Job: j, partition: at.partition.Name, why: why})
				break
			}
		}
	}
	return wholeHetJobs(refused, c.jobs)
}

// wholeHetJobs adds the other components of het jobs.
func wholeHetJobs(refused []refusedJob, jobs []capacity.Job) []refusedJob {
	for _, r := range refused {
		if r.HetJobID == 0 {
			continue
		}
		leader := slices.IndexFunc(jobs, func(j capacity.Job) bool { return j.ID == r.HetJobID })
		for _, j := range jobs {
			if j.HetJobID != r.HetJobID || !j.Allocated() {
				continue
			}
			known := slices.IndexFunc(refused, func(o refusedJob) bool { return o.ID == j.ID })
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
	find := func(j capacity.Job) int {
		return slices.IndexFunc(refused, func(r refusedJob) bool { return r.ID == j.ID })
	}
	isRefused := func(j capacity.Job) bool { return find(j) >= 0 }
	for _, g := range groups {
		i := slices.IndexFunc(g.jobs, isRefused)
		if i < 0 {
			without = append(without, g)
			continue
		}
		r := refused[find(g.jobs[i])]
		why := refusal(capacity.Code(r.why.Code), "job %s, for which they were powered up, is refused", r.Shown)
		if g.jobs = slices.DeleteFunc(slices.Clone(g.jobs), isRefused); len(g.jobs) > 0 {
			why = refusal(capacity.SharedWithRefused, "job %s, which shares these nodes, is refused", r.Shown)
		}
		failed = append(failed, outcome{group: g, failure: why})
	}
	return without, failed
}

func (j refusedJob) reason() string {
	return fmt.Sprintf("partition %s refuses this job: %s: %s", j.partition, j.why.Code, j.why.message())
}

// note is the AdminComment of the job, which is held from now, the machine's time, on: longer each time that it is
// released and refused again.
func (j refusedJob) note(now time.Time) string {
	text := "pcs-capacity: " + j.reason()
	if j.Batch {
		text = j.reason() + "; change it before you release it"
		if j.times > 1 {
			text = fmt.Sprintf("refused %d times; %s", j.times, text)
		}
		text = capacity.HoldNote(now.Add(pause(j.times)), text)
	}
	return text
}

// holdJobs puts refused jobs back into the queue, held; a job that Slurm cannot requeue is cancelled. The owners are
// told first, so a held job has its reason even if the hook is killed. A job is held the first time until its owner
// releases it, later until sync allows the owner to. One with partitions that have not refused it goes on there.
func holdJobs(w World, c *call, refused []refusedJob) {
	if len(refused) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(c.last, c.budget/failuresOfBudget)
	defer cancel()
	records, err := w.Records()
	if err != nil {
		c.Warn("how often jobs were refused before is not known", "err", err)
	}
	var held, once, others []string
	for i := range refused {
		r := &refused[i]
		r.times = refusedRuns(records, r.partition, w.Now()).others(r.Job) + 1
		c.record(w, state.Record{At: w.Now(), Hook: "resume", Partition: r.partition, Nodes: hostlist.Compress(r.Nodes),
			Jobs: []string{r.Shown}, Restarts: []int{r.Restarts}, Code: r.why.Code, EC2Code: r.why.EC2Code,
			Message: hook.OneLine(r.why.message())})
		c.notify(ctx, w, "pcs-capacity: "+r.reason(), []capacity.Job{r.Job})
		c.comment(ctx, w, map[string]string{r.Shown: r.note(machineNow(w))})
		if !r.Batch {
			others = append(others, r.name())
			continue
		}
		held = append(held, r.name())
		if !r.Requeue {
			once = append(once, r.Shown)
		}
	}
	do := func(what string, jobs []string, verb func(ctx context.Context, jobs ...string) error) {
		if jobs = eachOnce(jobs); len(jobs) > 0 {
			_ = c.did(verb(ctx, jobs...), what, "jobs", jobs)
		}
	}
	requeues := func(allow bool) func(ctx context.Context, jobs ...string) error {
		return func(ctx context.Context, jobs ...string) error { return w.AllowRequeue(ctx, allow, jobs...) }
	}
	do("allow a requeue", once, requeues(true)) // their programs have not begun
	do("requeue and hold", held, w.RequeueHold)
	do("allow no further requeue", once, requeues(false))
	do("cancel", others, w.Cancel)
	// A call for many jobs fails if one of them fails, so Slurm's view of each job counts.
	jobs, err := w.BriefJobs(ctx)
	if err != nil {
		c.Warn("refused jobs stay held until an administrator releases them", "err", err)
	}
	var byAdmin, byOwner []string
	for _, r := range refused {
		i := slices.IndexFunc(jobs, func(j capacity.Job) bool { return j.ID == r.ID })
		if i < 0 || !r.Batch {
			continue
		}
		rest := strings.Join(without(strings.Split(jobs[i].Partition, ","),
			func(p string) bool { return p == r.Partition }), ",")
		switch {
		case jobs[i].Allocated() && jobs[i].Restarts == r.Restarts:
			c.Warn("a refused job still has its nodes", "job", r.Shown)
		case r.times > 1:
			byAdmin = append(byAdmin, r.name())
		case rest != "" && r.HetJobID == 0:
			c.goOn(ctx, w, r, rest)
		default:
			byOwner = append(byOwner, r.name())
		}
	}
	do("hold until an administrator releases them", byAdmin, w.Hold)
	byOwner = without(byOwner, func(name string) bool { return slices.Contains(byAdmin, name) })
	do("hold until their owners release them", byOwner, w.UserHold)
}

// goOn lets a held job start in its other partitions. Its AdminComment comes before the release: a launch that refuses
// the job there writes the next one.
func (c *call) goOn(ctx context.Context, w World, r refusedJob, partitions string) {
	text := capacity.GoOnNote(partitions, machineNow(w), r.reason())
	err := w.SetPartition(ctx, r.Shown, partitions, hook.Clip(hook.OneLine(text), capacity.MaxComment))
	if err == nil {
		err = w.Release(ctx, r.Shown)
	}
	_ = c.did(err, "let the job go on in its other partitions", "job", r.Shown, "partitions", partitions)
}

func eachOnce(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }
