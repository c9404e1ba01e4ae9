package power

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// mostRounds bounds how often jobs are taken off the same nodes: Slurm may at once place others there, which may be
// refused as well.
const mostRounds = 5

// takingOut is the machine that takes refused jobs off nodes that they share with others, before the others are
// launched. A refused job goes back into the queue, held if it is refused for good; a job that Slurm cannot requeue
// is cancelled. The owners are told first, so a held job has its reason even if the hook is killed.
type takingOut struct {
	*facts
	nodes   []string
	refused []refusedJob

	at    step
	why   refusedJob // the first of all
	round int
	texts []string // the AdminComments of the refused
	jobs  []capacity.Job

	// groups are those of the other jobs; failed are groups for which nothing is launched.
	groups []group
	failed []outcome
	// out are the jobs taken out in all rounds: see keeping.
	out []keeping
}

func (s takingOut) next(a Answer) (takingOut, []capacity.Effect) {
	switch s.at {
	case "":
		if sorted, err := hostlist.Expand(hostlist.Compress(s.nodes)); err == nil { // they may be of several groups
			s.nodes = sorted
		}
		s.why = s.refused[0]
		s.at = stepRecords
		return s, []capacity.Effect{AskRecords{}}
	case stepRecords:
		return s.requeue(a)
	case stepJobs:
		return s.judge(a)
	}
	return s, nil
}

// requeue ends with listing all jobs: a call for many jobs fails if one of them fails, so Slurm's view of each job
// counts.
func (s takingOut) requeue(a Answer) (takingOut, []capacity.Effect) {
	s, effects := s.tell(a)
	var held, later, once, others []string
	for _, r := range s.refused {
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
	if len(once) > 0 {
		effects = append(effects, AllowRequeue{once, true}) // their programs have not begun
	}
	if len(held) > 0 {
		effects = append(effects, Requeue{held, true})
	}
	if len(later) > 0 {
		effects = append(effects, Requeue{later, false})
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

// tell records and counts refusals, and writes the reasons into the jobs' AdminComments, one call for each text.
func (s takingOut) tell(a Answer) (takingOut, []capacity.Effect) {
	s.refused, s.texts = slices.Clone(s.refused), make([]string, len(s.refused))
	failed := failedRuns(a.Records, a.now())
	same := map[string][]refusedJob{}
	var order []string
	for i, r := range s.refused {
		if r.times = refusedRuns(a.Records, r.partition, a.now()).others(r.Job) + 1; r.later {
			r.times = failed.others(r.Job) + 1
			r.begin = until(max(r.times, 2), a.At, r.why.NotBefore.Add(-a.Offset))
		}
		s.refused[i] = r
		s.texts[i] = hook.Clip(hook.OneLine(r.note(a.At)), capacity.MaxComment)
		if same[s.texts[i]] == nil {
			order = append(order, s.texts[i])
		}
		same[s.texts[i]] = append(same[s.texts[i]], r)
	}
	var effects []capacity.Effect
	for _, text := range order {
		jobs := same[text]
		first := jobs[0]
		record := state.Record{At: a.now(), Hook: "resume", Partition: first.partition,
			Code: first.why.Code, EC2Code: first.why.EC2Code, Message: hook.OneLine(first.why.message())}
		var nodes, names, terminals []string
		for _, r := range jobs {
			record.Jobs, record.Restarts = append(record.Jobs, r.Shown), append(record.Restarts, r.Restarts)
			nodes = append(nodes, r.Nodes...)
			if !slices.Contains(names, r.name()) {
				names = append(names, r.name())
			}
			terminals = append(terminals, withTerminal([]capacity.Job{r.Job})...)
		}
		slices.Sort(nodes)
		record.Nodes = hostlist.Compress(slices.Compact(nodes))
		effects = append(effects,
			Tell{Records: []state.Record{record}, Notify: terminals, Text: "pcs-capacity: " + first.reason()},
			Comment{Jobs: names, Text: text, Unread: true})
	}
	return s, effects
}

// judge looks at the result of the requeue, and at who has the nodes now.
func (s takingOut) judge(a Answer) (takingOut, []capacity.Effect) {
	s.at, s.jobs = stepOver, a.Jobs
	if a.Failure != nil {
		return s.giveUp("another job on these nodes is refused, and Slurm did not take them away from it"), nil
	}
	now := map[int]capacity.Job{}
	for _, j := range a.Jobs {
		now[j.ID] = j
	}
	var effects []capacity.Effect
	kept := false
	for i, r := range s.refused {
		j, there := now[r.ID]
		switch {
		case !there:
		case r.keeps(j):
			kept = true
			effects = append(effects, Note{r.Shown, "a refused job still has its nodes", true})
		case r.Batch && j.Requeue != r.Requeue:
			effects = append(effects, Note{r.Shown, "a job of --no-requeue can be requeued now", true})
		case r.Batch && j.AdminComment != s.texts[i]:
			effects = append(effects, Note{r.Shown, "the AdminComment of a refused job is not ours: " + j.AdminComment, true})
		}
	}
	if kept {
		return s.giveUp("another job on these nodes is refused, and Slurm did not take them away from it"), effects
	}
	s.out = append(slices.Clip(s.out), keeping{refused: s.refused, was: now})
	for _, r := range s.refused {
		effects = append(effects, letGo(r.why.LetGo, a.Jobs, []capacity.Job{r.Job})...)
	}
	s.round++
	switch s.refused = s.refusedJobs(s.nodes, a.Jobs); {
	case len(s.refused) == 0:
		return s.finish(), effects
	case s.round == mostRounds:
		return s.giveUp("there are always new jobs on these nodes that are refused"), effects
	}
	s.at = stepRecords
	return s, append(effects, AskRecords{})
}

// giveUp fails everything on the nodes.
func (s takingOut) giveUp(why string) takingOut {
	failure := refusal(capacity.NotTakenOut, "%s", why)
	for _, g := range launchGroups(s.nodes, waiting(s.jobs), s.jobs) {
		s.failed = append(slices.Clip(s.failed), outcome{group: g, failure: failure})
	}
	return s
}

// finish separates nodes that some job needs from those for which nothing is launched.
func (s takingOut) finish() takingOut {
	idle := refusal(capacity.Code(s.why.why.Code), "job %s, for which they were powered up, is refused", s.why.Shown)
	if s.why.behind {
		idle = refusal(capacity.Code(s.why.why.Code), "job %s, for which they were powered up, waits: %s", s.why.Shown,
			s.why.why.message())
	}
	idle.EC2Code = s.why.why.EC2Code
	unneeded := outcome{failure: idle}
	for _, g := range launchGroups(s.nodes, waiting(s.jobs), s.jobs) {
		if len(g.jobs) > 0 {
			s.groups = append(slices.Clip(s.groups), g)
		} else {
			unneeded.nodes = append(unneeded.nodes, g.nodes...)
		}
	}
	if len(unneeded.nodes) > 0 {
		s.failed = append(slices.Clip(s.failed), unneeded)
	}
	return s
}

// keeping is the machine that sets how long refused jobs are held: the first time until their owners release them,
// later until sync allows the owners to. A job with partitions that have not refused it continues there. A job
// refused only for now gets its begin time; Slurm's own delay leaves at least ten seconds for that.
type keeping struct {
	refused []refusedJob
	was     map[int]capacity.Job // as they wait now
	at      step
}

func (s keeping) next(a Answer) (keeping, []capacity.Effect) {
	var longer, owners []string
	var goOn []capacity.Effect
	begin, behind := map[string]time.Time{}, map[string]bool{}
	for _, r := range s.refused {
		rest := otherPartitions(s.was[r.ID].Partition, r.Partition)
		switch r.fate(rest) {
		case waits:
			begin[r.Shown], behind[r.Shown] = r.begin, r.behind
		case goesOn:
			goOn = append(goOn, GoOn{r.Shown, rest, comment(r.Shown, capacity.GoOnNote(rest, a.At, r.reason())).Text})
		case heldByAdmin:
			longer = append(longer, r.name())
		case heldByOwner:
			owners = append(owners, r.name())
		}
	}
	var effects []capacity.Effect
	switch {
	case s.at == stepOver:
		return s, nil
	case s.at == "" && len(begin) > 0:
		s.at = stepJobs
		return s, append(goOn, AskJobs{})
	case s.at == "":
		effects = goOn
	default:
		effects = delay(a.Jobs, begin, behind)
	}
	s.at = stepOver
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
