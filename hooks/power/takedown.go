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
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// refusal gives our own reason not to launch; same is what it counts as, if anything.
type refusal struct {
	capacity.Verdict
	same error
}

func (r *refusal) Error() string { return string(r.Code) + ": " + r.Sentence }
func (r *refusal) Unwrap() error { return r.same }

func refuse(code capacity.Code, format string, args ...any) *refusal {
	return &refusal{
		Verdict: capacity.Verdict{Problem: capacity.Problemf(code, capacity.Subject{}, "", format, args...)},
	}
}

// errNoTime says that something was not begun.
var errNoTime = &refusal{
	Verdict: refuse("interrupted", "there was no time left to launch").Verdict,
	same:    context.DeadlineExceeded,
}

// isUndecided reports whether nobody has refused a launch: AWS does not answer, or not in time.
func isUndecided(why error) bool {
	return errors.Is(why, ec2.ErrNotNow) || errors.Is(why, context.DeadlineExceeded) || errors.Is(why, context.Canceled)
}

// problem returns what an error says to people: with AWS's code and message as they are and what to do about it, or
// with a code of ours. ec2Code is AWS's alone.
func problem(err error) (p capacity.Problem, ec2Code string) {
	var (
		ours   *refusal
		answer interface {
			ErrorCode() string
			ErrorMessage() string
		}
	)
	switch {
	case errors.As(err, &ours):
		p = ours.Problem
	case errors.As(err, &answer):
		ec2Code = answer.ErrorCode()
		p.Code = capacity.Code(ec2Code)
		p.Sentence = answer.ErrorMessage()
		p.Fix = ec2.Advice(err)
	default:
		p.Code = capacity.FailedOtherwise
		p.Sentence = err.Error()
	}

	p.Sentence = strings.TrimSuffix(p.Sentence, ".") // more may follow

	return p, ec2Code
}

// maxReason keeps a node's Reason readable in sinfo -R.
const maxReason = 250

// reason returns the node's Reason, which every user of the cluster sees. If it must be cut, the fix stays.
func reason(p capacity.Problem) string {
	fix := ""
	if p.Fix != "" {
		fix = "; " + p.Fix
	}

	return hook.OneLine(hook.Clip(string(p.Code)+": "+p.Sentence, maxReason-len(fix)) + fix)
}

// failureMemory bounds how long a failure counts for the pause of its job: see capacity.RetryAt. A launch that AWS has
// not decided never counts: the next one may succeed as soon as AWS answers.
const failureMemory = 2 * time.Hour

// failuresOf counts the runs of jobs, by their shown names, that failed since a while before now, in AWS's time.
// Several power-ups may record one run, each for some of its nodes.
func failuresOf(records []state.Record, now time.Time) map[string]int {
	type run struct {
		job      string
		restarts int
	}

	runs := map[run]bool{}
	failures := map[string]int{}
	for _, r := range records {
		if r.Hook != "resume" || r.Code == string(capacity.OK) || r.At.Before(now.Add(-failureMemory)) {
			continue
		}

		for i, restarts := range r.Restarts {
			one := run{r.Jobs[i], restarts}
			if !runs[one] {
				runs[one] = true
				failures[one.job]++
			}
		}
	}

	return failures
}

// failed names a group that is not launched, and why. got is what was launched for it.
type failed struct {
	group
	why error
	got map[string]launched
}

// takeDown powers down the nodes of groups that failed, those of one reason together, which requeues the jobs and
// terminates the launched instances. It records why, and tells the jobs' owners. The error is for nodes that Slurm has
// still.
func (c *call) takeDown(all ...failed) error {
	var errs []error
	for len(all) > 0 {
		why := all[0].why
		other := func(f failed) bool { return f.why.Error() != why.Error() }
		same := slices.DeleteFunc(slices.Clone(all), other)
		all = slices.DeleteFunc(all, func(f failed) bool { return !other(f) })

		errs = append(errs, c.takeDownFor(why, same))
	}

	return errors.Join(errs...)
}

// takeDownFor takes down groups for one reason. The jobs wait longer after each failure. Launches leave time for it.
func (c *call) takeDownFor(why error, groups []failed) error {
	ctx, cancel := context.WithTimeout(c.last, c.budget/failuresOfBudget)
	defer cancel()

	p, code := problem(why)
	record := state.Record{
		At:      c.Now(),
		Hook:    "resume",
		Code:    string(p.Code),
		EC2Code: code,
		Message: hook.OneLine(p.Text()),
	}

	var (
		nodes []string
		jobs  []capacity.Job
	)
	for _, g := range groups {
		nodes = append(nodes, g.nodes...)
		jobs = append(jobs, g.jobs...)
		for _, n := range g.nodes {
			if l, ok := g.got[n]; ok {
				record.Reservation = l.reservation
				record.Instances = append(record.Instances, l.instance.ID)
			}
		}
	}

	at, _ := placeOf(c.Settings, nodes[0])

	record.Partition = at.partition.Name
	record.Nodes = hostlist.Compress(nodes)
	record.Jobs = shown(jobs)
	if !isUndecided(why) {
		for _, j := range jobs {
			record.Restarts = append(record.Restarts, j.Restarts)
		}
	}

	retry := c.retryAfter(why, record)
	c.record(record)

	text := fmt.Sprintf("pcs-capacity: nodes %s were not launched: %s: %s", record.Nodes, p.Code, p.Text())
	word := hook.OneLine(text)
	c.notify(ctx, word, jobs...) // jobs lose their terminals with their nodes

	down := c.PowerDownForce(ctx, nodes, reason(p))
	_ = c.did(down, "power nodes down", "nodes", record.Nodes, "reason", reason(p))

	var queue []capacity.Job
	if down == nil && slices.ContainsFunc(jobs, func(j capacity.Job) bool { return j.Batch }) {
		var err error

		queue, err = c.BriefJobs(ctx)
		if err != nil {
			c.Warn("jobs start as early as Slurm lets them", "err", err)
		}
	}

	c.putOff(ctx, jobs, queue, retry, word)

	if down != nil {
		return fmt.Errorf("nodes %s are left to ResumeTimeout: %w", record.Nodes, down)
	}

	return nil
}

// retryAfter returns when the jobs of a launch that failed may start again. record is that of the failure, which our
// records do not have yet.
func (c *call) retryAfter(why error, record state.Record) retry {
	records, err := c.State.Records()
	if err != nil {
		c.Warn("how often the jobs failed before is not known", "err", err)
	}

	r := retry{now: c.Now().Add(-c.Offset()), undecided: isUndecided(why)}

	var ours *refusal
	if errors.As(why, &ours) {
		r.notBefore = ours.NotBefore.Add(-c.Offset())
	}

	if !r.undecided {
		r.failures = failuresOf(append(records, record), record.At)
	}

	return r
}

// notifyTime bounds the messages to jobs. They are sent before the nodes are taken away, which must not wait for long.
const notifyTime = 3 * time.Second

// notify tells the jobs that sbatch did not submit: they have a terminal. A message whose reader has gone is lost.
func (s *Site) notify(ctx context.Context, text string, jobs ...capacity.Job) {
	ctx, cancel := context.WithTimeout(ctx, notifyTime)
	defer cancel()

	for _, job := range jobs {
		if job.Batch {
			continue
		}

		if err := s.Notify(ctx, job.Shown, text); err != nil {
			s.Debug("telling the job", "job", job.Shown, "err", err)
		}
	}
}

// retry decides when jobs that were not launched may start again. Its times are in the controller's clock.
type retry struct {
	now       time.Time
	notBefore time.Time      // an earlier start would be refused; zero if unknown
	failures  map[string]int // by shown name
	undecided bool           // AWS has not refused them
}

// putOff has jobs that Slurm has requeued, as queue shows them, begin later after each failure, and tells the owners of
// all jobs why.
func (s *Site) putOff(ctx context.Context, jobs, queue []capacity.Job, r retry, word string) {
	of := map[string][]string{}
	for _, j := range jobs {
		text := word

		i := slices.IndexFunc(queue, func(q capacity.Job) bool { return q.Shown == j.Shown })
		if i >= 0 && j.Batch {
			from := queue[i]
			from.NumNodes = max(len(j.Nodes), 1) // the queue does not say it
			if from.Eligible.Before(r.notBefore) {
				from.Eligible = r.notBefore
			}

			at := capacity.RetryAt(from, r.failures[j.Shown], r.now)
			text += capacity.RetryNote(r.failures[j.Shown], at, r.undecided)

			if from.Pending() {
				_ = s.did(s.Begin(ctx, j.Shown, at), "let the job begin later", "job", j.Shown, "at", at)
			}
		}

		of[text] = append(of[text], j.Shown)
	}

	for _, text := range slices.Sorted(maps.Keys(of)) {
		s.comment(ctx, text, of[text]...)
	}
}

// comment writes the AdminComment of jobs.
func (s *Site) comment(ctx context.Context, text string, jobs ...string) {
	text = hook.Clip(hook.OneLine(text), capacity.MaxComment)
	_ = s.did(s.SetAdminComment(ctx, text, jobs...), "write the AdminComment", "jobs", jobs, "text", text)
}

// refusedJob names a job with nodes that it may never have: only its owner can lift the refusal.
type refusedJob struct {
	name      string         // Slurm's for the job, or for a het job as a whole
	jobs      []capacity.Job // its components
	partition string         // which refuses it
	why       error
}

// refusedJobs returns the jobs on the nodes that are refused for good, each judged alone. If one component of a het job
// is refused, all are: Slurm starts them together or not at all.
func (c *call) refusedJobs(nodes []string) (refused []refusedJob) {
	for _, j := range c.jobs {
		r := refusedJob{name: j.Shown, jobs: []capacity.Job{j}}
		if j.HetJobID != 0 {
			r.name = strconv.Itoa(j.HetJobID)
			r.jobs = slices.DeleteFunc(slices.Clone(c.jobs), func(o capacity.Job) bool {
				return o.HetJobID != j.HetJobID
			})
		}

		if !j.Allocated() || slices.ContainsFunc(refused, func(o refusedJob) bool { return o.name == r.name }) {
			continue
		}

		asked := ""
		for _, n := range j.Nodes {
			at, ours := placeOf(c.Settings, n)
			if !ours || at.slot == asked || !slices.Contains(nodes, n) {
				continue
			}

			asked = at.slot
			if _, v := c.admit(j, at); v.Refused && v.Code.Never() {
				r.partition = at.partition.Name
				r.why = &refusal{Verdict: v}
				refused = append(refused, r)

				break
			}
		}
	}

	return refused
}

// withoutRefused divides groups into those without a refused job, and the others: for these nothing is launched. The
// refused jobs leave their groups, whose other jobs Slurm requeues with the nodes.
func withoutRefused(groups []group, refused []refusedJob) (without []group, shared []failed) {
	of := map[int]refusedJob{}
	for _, r := range refused {
		for _, j := range r.jobs {
			of[j.ID] = r
		}
	}

	isRefused := func(j capacity.Job) bool { return of[j.ID].why != nil }

	for _, g := range groups {
		i := slices.IndexFunc(g.jobs, isRefused)
		if i < 0 {
			without = append(without, g)
			continue
		}

		p, _ := problem(of[g.jobs[i].ID].why)
		name := g.jobs[i].Shown
		why := refuse(p.Code, "job %s, for which they were powered up, is refused", name)

		g.jobs = slices.DeleteFunc(slices.Clone(g.jobs), isRefused)
		if len(g.jobs) > 0 {
			why = refuse("shared-with-refused", "job %s, which shares these nodes, is refused", name)
		}

		shared = append(shared, failed{group: g, why: why})
	}

	return without, shared
}

// holdJobs holds refused jobs, one after the other.
func (c *call) holdJobs(refused []refusedJob) {
	ctx, cancel := context.WithTimeout(c.last, c.budget/failuresOfBudget)
	defer cancel()

	for _, r := range refused {
		c.holdJob(ctx, r)
	}
}

// holdJob puts a refused job back into the queue, held until its owner releases it; a job that Slurm cannot requeue is
// cancelled. Its owner is told first, so a held job has its reason even if the hook is killed.
func (c *call) holdJob(ctx context.Context, r refusedJob) {
	p, _ := problem(r.why)
	text := fmt.Sprintf("partition %s refuses this job: %s: %s", r.partition, p.Code, p.Text())
	note := "pcs-capacity: " + text

	// Slurm keeps with the first component of a het job what sort of job it is.
	requeues := slices.ContainsFunc(r.jobs, func(j capacity.Job) bool { return j.Batch && j.Requeue })
	if requeues {
		note = capacity.HoldNote(c.Now().Add(-c.Offset()), text+"; change it before you release it")
	}

	var nodes []string
	for _, j := range r.jobs {
		nodes = append(nodes, j.Nodes...)
	}

	c.record(state.Record{
		At:        c.Now(),
		Hook:      "resume",
		Partition: r.partition,
		Nodes:     hostlist.Compress(nodes),
		Jobs:      shown(r.jobs),
		Code:      string(p.Code),
		Message:   hook.OneLine(p.Text()),
	})

	c.notify(ctx, "pcs-capacity: "+text, r.jobs...)
	c.comment(ctx, note, shown(r.jobs)...)

	if !requeues {
		_ = c.did(c.Cancel(ctx, r.name), "cancel", "job", r.name)
		return
	}

	_, err := c.RequeueJob(ctx, r.jobs[0], true)
	if err == nil {
		err = c.UserHold(ctx, r.name)
	}

	_ = c.did(err, "requeue and hold until its owner releases it", "job", r.name)
}
