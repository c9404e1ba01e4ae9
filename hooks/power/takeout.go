package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// refusedJob is a job that has nodes which it may not have: never as it is, or not now.
type refusedJob struct {
	capacity.Job
	// partition of the settings that refuses it.
	partition string
	why       *refusal
	// times that the partition has refused it lately, with this one.
	times int
	// later: it is refused for what time may change, so it waits in the queue until begin,
	// a time of the controller's clock, instead of being held.
	later bool
	begin time.Time
	// behind: it must not wait for the same time as those that it shared nodes with.
	behind bool
}

// name names the job to Slurm, and a het job as a whole.
func (j refusedJob) name() string {
	if j.HetJobID != 0 {
		return strconv.Itoa(j.HetJobID)
	}
	return j.Shown
}

// refusedJobs are those of the jobs that must not keep others from their nodes: who is
// refused for good, and of those who share nodes whoever cannot be launched with the others.
// Of a het job all components are refused if one is: Slurm starts them together or not at all.
func (u *powerUp) refusedJobs(nodes []string, jobs []capacity.Job) []refusedJob {
	refused := wholeHetJobs(u.refusedForGood(nodes, jobs), jobs)
	groups, _ := apart(launchGroups(nodes, waiting(jobs), jobs), refused)
	return append(refused, wholeHetJobs(u.refusedNow(groups), jobs)...)
}

// refusedForGood are the jobs that are refused for good, each looked at alone.
func (u *powerUp) refusedForGood(nodes []string, jobs []capacity.Job) (refused []refusedJob) {
	among := setOf(nodes)
	for _, j := range jobs {
		if !j.Allocated() {
			continue
		}
		asked := map[string]bool{}
		for _, n := range j.Nodes {
			at, ours := u.placeOf(n)
			if !ours || asked[at.slot] || !among[n] {
				continue
			}
			asked[at.slot] = true
			if why := refusedForGood(j, at, u.facts); why != nil {
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

// refusedNow are the jobs that cannot be launched together with the others that share nodes
// with them, of which those without a wish come first, then the older ones. Where nobody can,
// the group is left to fail as one.
func (u *powerUp) refusedNow(groups []group) (refused []refusedJob) {
	for _, g := range groups {
		var later []refusedJob
		among := setOf(g.nodes)
		kept := map[string][]capacity.Job{} // by slot
		for _, j := range withoutWishFirst(g.jobs) {
			slots, nodes := map[string]place{}, map[string]int{}
			for _, n := range j.Nodes {
				if at, ours := u.placeOf(n); ours && among[n] {
					slots[at.slot] = at
					nodes[at.slot]++
				}
			}
			var why *refusal
			for slot, at := range slots {
				_, _, err := u.targets(append(slices.Clone(kept[slot]), j), at, nodes[slot], among)
				if errors.As(err, &why) {
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
		wish, _ := capacity.ParseWish(j.Comment)
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

// apart divides groups into those without any of the refused jobs, and the nodes of those
// that have one.
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

// mostRounds bounds how often jobs are taken out of the same nodes: Slurm may put others
// there at once, which may be refused as well.
const mostRounds = 5

// takeOut takes the refused jobs away from nodes that they share with others, before these
// are launched. It returns the groups of the others, and apart what nothing is launched for.
func (u *powerUp) takeOut(nodes []string, refused []refusedJob) (groups []group, failed []outcome) {
	ctx, cancel := context.WithTimeout(u.last, u.budget/failuresOfBudget)
	defer cancel()
	if sorted, err := u.Slurm.Expand(u.Slurm.Hostlist(nodes)); err == nil { // they may be of several groups
		nodes = sorted
	}
	var jobs []capacity.Job
	all := func(err error) []outcome {
		for _, g := range launchGroups(nodes, waiting(jobs), jobs) {
			failed = append(failed, outcome{group: g, err: err})
		}
		return failed
	}
	why := refused[0]
	for range mostRounds {
		var err error
		if jobs, err = u.requeueHeld(ctx, refused); err != nil {
			u.Log.Error("taking refused jobs out", "err", err)
			return nil, all(&refusal{code: "not-taken-out", message: "another job on these nodes is refused, and Slurm did not take them away from it"})
		}
		if refused = u.refusedJobs(nodes, jobs); len(refused) == 0 {
			break
		}
	}
	if len(refused) > 0 {
		return nil, all(&refusal{code: "not-taken-out", message: "there are always new jobs on these nodes that are refused"})
	}
	idle := &refusal{code: why.why.code, ec2Code: why.why.ec2Code, message: fmt.Sprintf("job %s, for which they were powered up, is refused", why.Shown)}
	if why.behind {
		idle.message = fmt.Sprintf("job %s, for which they were powered up, waits: %s", why.Shown, why.why.message)
	}
	unneeded := outcome{err: idle}
	for _, g := range launchGroups(nodes, waiting(jobs), jobs) {
		if len(g.jobs) > 0 {
			groups = append(groups, g)
		} else {
			unneeded.nodes = append(unneeded.nodes, g.nodes...)
		}
	}
	if len(unneeded.nodes) > 0 {
		failed = append(failed, unneeded)
	}
	return groups, failed
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

// requeueHeld puts refused jobs back into the queue, held if they are refused for good, and
// ends those that Slurm cannot requeue. It returns all jobs as they are then. The owners are
// told first: whatever happens to this hook, a job that is held has the reason. One that is
// not held has Slurm's own delay of ten seconds and more to get its begin time.
func (u *powerUp) requeueHeld(ctx context.Context, refused []refusedJob) ([]capacity.Job, error) {
	texts := u.tell(ctx, refused)
	var held, later, once, others []string
	for _, r := range refused {
		list := &others
		switch {
		case r.Batch && r.later:
			list = &later
		case r.Batch:
			list = &held
		}
		if !slices.Contains(*list, r.name()) {
			*list = append(*list, r.name())
		}
		if r.Batch && !r.Requeue && !slices.Contains(once, r.Shown) {
			once = append(once, r.Shown)
		}
	}
	// A call for many jobs fails if it does for one of them. What counts is what Jobs says.
	try := func(err error) {
		if err != nil {
			u.Log.Info("taking refused jobs out", "err", err)
		}
	}
	if len(once) > 0 {
		try(u.Slurm.AllowRequeue(ctx, true, once...)) // their programs have not begun
	}
	if len(held) > 0 {
		try(u.Slurm.RequeueHold(ctx, held...))
	}
	if len(later) > 0 {
		try(u.Slurm.Requeue(ctx, later...))
	}
	if len(once) > 0 {
		try(u.Slurm.AllowRequeue(ctx, false, once...))
	}
	if len(others) > 0 {
		try(u.Slurm.Cancel(ctx, others...))
	}
	jobs, err := u.Slurm.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	now := map[int]capacity.Job{}
	for _, j := range jobs {
		now[j.ID] = j
	}
	for i, r := range refused {
		j, there := now[r.ID]
		switch {
		case !there:
		case r.keeps(j):
			err = errors.Join(err, fmt.Errorf("job %s still has its nodes", r.Shown))
		case r.Batch && j.Requeue != r.Requeue:
			u.Log.Warn("a job of --no-requeue can be requeued now", "job", r.Shown)
		case r.Batch && j.AdminComment != texts[i]:
			u.Log.Warn("the AdminComment of a refused job is not ours", "job", r.Shown, "has", j.AdminComment)
		}
	}
	if err == nil {
		u.running.Go(func() { u.keepHeld(refused, now) })
		for _, r := range refused {
			u.letGo(ctx, r.why.letGo, []capacity.Job{r.Job})
		}
	}
	return jobs, err
}

// keeps reports whether the job, as it is now, was not taken out: it has the nodes of the run
// that was refused. One that has been started again since has others.
func (j refusedJob) keeps(now capacity.Job) bool {
	return now.Allocated() && now.Restarts == j.Restarts
}

// tell records refusals, counts them and writes the reasons into the jobs' AdminComments,
// in one call for all that have the same one. It returns the texts.
func (u *powerUp) tell(ctx context.Context, refused []refusedJob) []string {
	texts := make([]string, len(refused))
	pacer := pacer{u.Slurm, u.Records, u.Log}
	counts := map[string]map[string]int{} // by partition
	same := map[string][]refusedJob{}
	var order []string
	failures := pacer.failures(nil, u.now())
	for i, r := range refused {
		if counts[r.partition] == nil {
			counts[r.partition] = pacer.refusals(r.partition, u.now())
		}
		now := u.MachineTime()
		if r.times = counts[r.partition][r.Shown] + 1; r.later {
			r.times = failures[r.Shown] + 1
			r.begin = until(max(r.times, 2), now, r.why.notBefore.Add(-u.EC2.Offset()))
		}
		refused[i] = r
		texts[i] = hook.Clip(hook.OneLine(r.note(now)), capacity.MaxComment)
		if same[texts[i]] == nil {
			order = append(order, texts[i])
		}
		same[texts[i]] = append(same[texts[i]], r)
	}
	for _, text := range order {
		jobs := same[text]
		record := state.Record{At: u.now(), Hook: "resume", Partition: jobs[0].partition, Code: jobs[0].why.code, EC2Code: jobs[0].why.ec2Code, Message: hook.OneLine(jobs[0].why.message)}
		var nodes, names []string
		for _, r := range jobs {
			record.Jobs, nodes = append(record.Jobs, r.Shown), append(nodes, r.Nodes...)
			if !slices.Contains(names, r.name()) {
				names = append(names, r.name())
			}
		}
		slices.Sort(nodes)
		record.Nodes = u.Slurm.Hostlist(slices.Compact(nodes))
		u.record(record)
		if err := u.Slurm.SetAdminComments(ctx, text, names...); err != nil {
			u.Log.Warn("telling the owners of refused jobs", "err", err)
		}
		notify, cancel := context.WithTimeout(ctx, notifyTime)
		for _, r := range jobs {
			if r.Batch {
				continue // it has no terminal
			}
			if err := u.Slurm.Notify(notify, r.Shown, "pcs-capacity: "+r.reason()); err != nil {
				u.Log.Debug("telling the job", "job", r.Shown, "err", err)
			}
		}
		cancel()
	}
	return texts
}

func (j refusedJob) reason() string {
	if j.later {
		return fmt.Sprintf("the nodes of this job were not launched for it: %s: %s", j.why.code, j.why.message)
	}
	return fmt.Sprintf("partition %s refuses this job: %s: %s", j.partition, j.why.code, j.why.message)
}

// note is the AdminComment of the job, held from now on: longer each time that it is
// released and refused again.
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

// keepHeld says for how long refused jobs are held: at first until their owners release
// them, and from the second time on until sync lets their owners do that. A job that other
// partitions have not refused goes on in these. One that is refused now alone gets its begin
// time. was are the jobs as they wait now.
func (u *powerUp) keepHeld(refused []refusedJob, was map[int]capacity.Job) {
	ctx, cancel := context.WithTimeout(u.last, u.budget/failuresOfBudget)
	defer cancel()
	var longer, owners []string
	begin, behind := map[string]time.Time{}, map[string]bool{}
	for _, r := range refused {
		rest := otherPartitions(was[r.ID].Partition, r.Partition)
		switch r.fate(rest) {
		case waits:
			begin[r.Shown], behind[r.Shown] = r.begin, r.behind
		case goesOn:
			if err := u.goOn(ctx, r, rest); err != nil {
				u.Log.Warn("a job that another partition may take stays held", "job", r.Shown, "err", err)
			}
		case heldByAdmin:
			longer = append(longer, r.name())
		case heldByOwner:
			owners = append(owners, r.name())
		}
	}
	// Each het job once.
	slices.Sort(longer)
	slices.Sort(owners)
	longer = slices.Compact(longer)
	owners = slices.DeleteFunc(slices.Compact(owners), func(name string) bool { return slices.Contains(longer, name) })
	pacer{u.Slurm, u.Records, u.Log}.delay(ctx, begin, behind)
	if len(longer) > 0 {
		if err := u.Slurm.Hold(ctx, longer...); err != nil {
			u.Log.Warn("holding jobs that are refused again", "jobs", longer, "err", err)
		}
	}
	if len(owners) > 0 {
		if err := u.Slurm.UserHold(ctx, owners...); err != nil {
			u.Log.Warn("holding jobs that are refused", "jobs", owners, "err", err)
		}
	}
}

// fate is what becomes of a refused job that waits.
type fate int

const (
	isOver      fate = iota // it was cancelled
	waits                   // for its begin time
	goesOn                  // in its other partitions
	heldByOwner             // until its owner releases it
	heldByAdmin             // its owner can release it some time later
)

// fate decides it; rest are the other partitions of the job.
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

// goOn lets a job start in the rest of its partitions.
func (u *powerUp) goOn(ctx context.Context, r refusedJob, rest string) error {
	if err := u.Slurm.SetPartition(ctx, r.Shown, rest); err != nil {
		return err
	}
	if err := u.Slurm.Release(ctx, r.Shown); err != nil {
		return err
	}
	return u.Slurm.SetAdminComment(ctx, r.Shown, hook.Clip(hook.OneLine(fmt.Sprintf("pcs-capacity: %s; it goes on in %s", r.reason(), rest)), capacity.MaxComment))
}

// otherPartitions is a list with commas without one of them.
func otherPartitions(list, without string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(list, ","), func(p string) bool { return p == without }), ",")
}
