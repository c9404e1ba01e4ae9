package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// notifyTime bounds the messages to the jobs of a group. They are sent before the nodes are taken away, which must not
// wait for long.
const notifyTime = 3 * time.Second

// takeDown handles groups that failed, those of one reason together. The error is for nodes that Slurm has still.
func takeDown(w World, c *call, outcomes []outcome) error {
	var errs []error
	for len(outcomes) > 0 {
		why := outcomes[0].failure
		var same, others []outcome
		for _, o := range outcomes {
			if o.failure == why {
				same = append(same, o)
			} else {
				others = append(others, o)
			}
		}
		errs = append(errs, takeDownFor(w, c, why, same))
		outcomes = others
	}
	return errors.Join(errs...)
}

// takeDownFor records why the groups failed, tells the jobs' owners, and powers the nodes down, which requeues the jobs
// and terminates the launched instances. The jobs wait longer after each failure. Launches leave time for it.
func takeDownFor(w World, c *call, why *Failure, outcomes []outcome) error {
	ctx, cancel := context.WithTimeout(c.last, c.budget/failuresOfBudget)
	defer cancel()
	var nodes []string
	var jobs []capacity.Job
	behind := map[string]bool{}
	record := state.Record{At: w.Now(), Hook: "resume", Code: why.Code, EC2Code: why.EC2Code,
		Message: hook.OneLine(why.message())}
	for _, o := range outcomes {
		nodes, jobs = append(nodes, o.nodes...), append(jobs, o.jobs...)
		maps.Copy(behind, youngerOthers(o.jobs))
		for _, n := range o.nodes {
			if l, ok := o.launched[n]; ok {
				record.Reservation, record.Instances = l.reservation, append(record.Instances, l.instance.ID)
			}
		}
	}
	list := hostlist.Compress(nodes)
	at, _ := placeOf(c.settings, nodes[0])
	record.Partition, record.Nodes, record.Jobs, record.Restarts = at.partition.Name, list, shown(jobs), restarts(jobs)

	records, err := w.Records()
	if err != nil {
		c.Warn("how often the jobs failed before is not known", "err", err)
	}
	failures := failuresOf(append(records, record), jobs, record.At)
	c.record(w, record)
	word := hook.OneLine(fmt.Sprintf("pcs-capacity: nodes %s were not launched: %s: %s", list, why.Code, why.message()))
	c.notify(ctx, w, word, jobs) // jobs lose their terminals with their nodes
	down := c.did(w.PowerDownForce(ctx, nodes, why.reason()), "power nodes down", "nodes", list, "reason", why.reason())
	now := machineNow(w)
	begin, words := map[string]time.Time{}, map[string]string{}
	for _, j := range jobs {
		words[j.Shown] = word
		if j.Batch && down == nil {
			begin[j.Shown] = until(failures[j.Shown], now, why.NotBefore.Add(-w.Offset()))
			words[j.Shown] += tried(failures[j.Shown], begin[j.Shown], now)
		}
	}
	if len(begin) > 0 {
		queue, err := w.BriefJobs(ctx)
		if err != nil {
			c.Warn("jobs start as early as Slurm lets them", "err", err)
		}
		c.delay(ctx, w, queue, begin, behind)
	}
	c.comment(ctx, w, words)
	if down != nil {
		return fmt.Errorf("nodes %s are left to ResumeTimeout: %w", list, down)
	}
	return nil
}

// notify tells the jobs that sbatch did not submit: they have a terminal. A message whose reader has gone is lost.
func (j *journal) notify(ctx context.Context, w World, text string, jobs []capacity.Job) {
	ctx, cancel := context.WithTimeout(ctx, notifyTime)
	defer cancel()
	for _, job := range jobs {
		if job.Batch {
			continue
		}
		if err := w.Notify(ctx, job.Shown, text); err != nil {
			j.Debug("telling the job", "job", job.Shown, "err", err)
		}
	}
}

// delay sets the begin times, by shown names, of jobs that Slurm has requeued; jobs are the current ones. It leaves
// alone a job that Slurm starts later anyway: Slurm's own delay lets the credentials of the last run expire. Jobs of
// behind start one pause later, or Slurm would give them the same nodes as the others again.
func (j *journal) delay(ctx context.Context, w World, jobs []capacity.Job, begin map[string]time.Time,
	behind map[string]bool) {
	for _, job := range jobs {
		at, ours := begin[job.Shown]
		if after := job.Eligible.Add(firstPause); behind[job.Shown] && after.After(at) {
			at = after
		}
		if ours && job.Pending() && job.Eligible.Before(at) {
			_ = j.did(w.Begin(ctx, job.Shown, at), "let the job begin later", "job", job.Shown, "at", at)
		}
	}
}

// comment writes the AdminComments of jobs, one call for each text.
func (j *journal) comment(ctx context.Context, w World, words map[string]string) {
	of := map[string][]string{}
	for _, job := range slices.Sorted(maps.Keys(words)) {
		text := hook.Clip(hook.OneLine(words[job]), capacity.MaxComment)
		of[text] = append(of[text], job)
	}
	for _, jobs := range slices.SortedFunc(maps.Values(of), slices.Compare) {
		text := hook.Clip(hook.OneLine(words[jobs[0]]), capacity.MaxComment)
		_ = j.did(w.SetAdminComments(ctx, text, jobs...), "write the AdminComment", "jobs", jobs, "text", text)
	}
}

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
	for _, j := range c.jobs {
		if !j.Allocated() {
			continue
		}
		asked := map[string]bool{}
		for _, n := range j.Nodes {
			at, ours := placeOf(c.settings, n)
			if !ours || asked[at.slot] || !slices.Contains(nodes, n) {
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
