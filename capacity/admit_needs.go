package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// minNodes returns the least number of nodes on which the job can run in a node group, as far as its request shows.
// fits is false if no number of nodes is enough, because one node would need more GPUs or CPUs than it has. Where
// options contradict each other, Slurm itself refuses the job or drops one of them, by version.
func (r Request) minNodes(g *NodeGroup) (n int, fits bool) {
	n = r.Nodes
	tasks := r.Tasks
	perNode := r.TasksPerNode

	switch {
	case tasks == 0:
		tasks = n * perNode
	case n > tasks:
		n = tasks // as Slurm does
	case n > 0 && tasks > n*perNode:
		perNode = 0
	}

	// Each resource limits how many tasks a node can take; the tightest counts.
	atMost := func(most int) {
		if perNode == 0 || most < perNode {
			perNode = most
		}
	}

	if g.GPUs > 0 { // else nobody knows how many GPUs a node has
		if max(r.GPUsPerNode, r.GPUsPerTask) > g.GPUs {
			return 0, false
		}

		n = max(n, ceilDiv(r.GPUs, g.GPUs))
		if r.GPUsPerTask > 0 {
			atMost(g.GPUs / r.GPUsPerTask)
		}
	}

	// With --overcommit tasks share CPUs, so CPUs bound nothing.
	if g.CPUs > 0 && !r.Overcommit {
		if r.CPUsPerTask > g.CPUs {
			return 0, false
		}

		atMost(g.CPUs / max(1, r.CPUsPerTask))
	}

	if perNode > 0 {
		n = max(n, ceilDiv(tasks, perNode))
	}

	return n, true
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// refuseTooSmall refuses a job for which the turn has too few nodes.
func (c Turn) refuseTooSmall(r Request) Verdict {
	g := c.Group
	p := c.Partition.Name
	n, fits := r.minNodes(g)
	if !fits && r.CPUsPerTask > g.CPUs && g.CPUs > 0 {
		return refuse(TooManyNodes,
			"the job asks for %d CPUs for a task, but the nodes of partition %s (%s) have %d; ask for %d or less",
			r.CPUsPerTask, p, g.InstanceType, g.CPUs, g.CPUs)
	}

	if !fits {
		return refuse(TooManyNodes,
			"the job asks for %d GPUs on one node, but those of partition %s (%s) have %d; ask for %d or less",
			max(r.GPUsPerNode, r.GPUsPerTask), p, g.InstanceType, g.GPUs, g.GPUs)
	}

	has := fmt.Sprintf("but the largest reservation of partition %s that it may use has %d", p, c.size())
	asked := r.Nodes == n && !r.Counted

	r.Nodes = 0 // sbatch may have derived it from the other options
	if other, _ := r.minNodes(g); asked && other < n {
		return refuse(TooManyNodes, "the job asks for %d nodes, %s; use --nodes=%d", n, has, c.size())
	}

	// The number of nodes follows from other options, so the sentence says from which.
	with := ""
	switch {
	case g.GPUs > 0 && r.GPUs+r.GPUsPerTask > 0:
		with = fmt.Sprintf(" of %d GPUs", g.GPUs)
	case g.CPUs > 0 && r.Tasks > 0:
		with = fmt.Sprintf(" of %d CPUs", g.CPUs)
	}

	return refuse(TooManyNodes, "the job needs %d nodes%s, %s; ask for less", n, with, has)
}

// CompareNodes compares two nodes of a slot by their numbers.
func CompareNodes(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// FitTimeMin returns the --time-min that marks a job whose limit is ours to fit to the fence: a value that nobody
// writes. A job that runs cannot change it. A user who writes it gets the same as without --time.
func (p Partition) FitTimeMin() Limit { return Minutes(LimitOf(p.MinTime.Duration).Minutes + 1) }

// IsFitted reports whether the job's limit is ours to fit to the fence; stated: up to a limit of the job's own, which it
// shows while it waits.
func (s *Snapshot) IsFitted(j Job) (fitted, stated bool) {
	for _, name := range j.Partitions() {
		p, ours := s.Partition(name)
		fitted = fitted || ours && j.TimeMin == p.FitTimeMin()
		stated = stated || ours && j.TimeMin == p.RequeueTimeMin()
	}

	return fitted || stated, stated
}

// admitTime accepts a job whose time is left, and tells the user when only a block that opens later has enough.
func admitTime(req Request, all []Prospect, snap *Snapshot, now time.Time) Verdict {
	v := Verdict{Problem: Problem{Code: OK}}
	start := later(now, req.Begin)

	// Somewhere nothing ends the job, so no limit is needed.
	if slices.ContainsFunc(all, func(p Prospect) bool { return p.Until.IsZero() }) {
		return v
	}

	best := slices.MaxFunc(all, func(a, b Prospect) int { return cmp.Compare(a.Room, b.Room) })
	if !req.TimeLimit.Set {
		return best.fitTime(req, snap.Walls, start)
	}

	// Not even the longest window is long enough.
	if !best.Fits {
		return best.refuseTooLong("the job needs "+req.minLimit().String(), best.CouldRunToFence(req, snap), req, start)
	}

	// It need not fit: it runs to the fence, and goes on in the next block.
	v.Edits.TimeMin = best.timeMinToFence(req, snap)
	if v.Edits.TimeMin.Set {
		return v
	}

	// The job is accepted. Its owner may expect it to run at once, and learns why it does not.
	open := func(p Prospect) bool { return !p.Window.Start.After(start) }
	fitsNow := func(p Prospect) bool { return open(p) && p.Fits }
	if !open(best) && slices.ContainsFunc(all, open) && !slices.ContainsFunc(all, fitsNow) {
		when := "now"
		if start.After(now) {
			when = "when it begins"
		}

		text := fmt.Sprintf("the job is too long for what is open %s; it waits for %s, which opens at %s",
			when, best.Reservation.ID, FormatUTC(best.Window.Start))
		if slices.ContainsFunc(all, func(p Prospect) bool { return open(p) && p.CouldRunToFence(req, snap) }) {
			text += "; to start earlier, use " + orRunToFence
		}

		v.Warnings = append(v.Warnings, text)
	}

	return v
}

// fitTime sets the limit of a job that stated none. The limit is the job's longest window, with [Partition.FitTimeMin]
// as --time-min, so Slurm itself fits the limit to the fence when it starts the job. Where nodes have to boot, fitTime
// subtracts the boot time, because Slurm counts a limit from the end of the boot.
//
// The limit never exceeds accounting's: Slurm would hold the job forever for a limit that the user never asked for.
// Where accounting limits use over time, the room left depends on the job's nodes and start time. There the job gets
// that least, and sync raises it once the job runs.
func (c Prospect) fitTime(req Request, walls Walls, start time.Time) Verdict {
	p := *c.Partition
	minutes := c.Longest.Minutes

	floor := LimitOf(p.MinTime.Duration)
	wall, metered := walls.MaxWall(req.User, req.Account, req.QOS, p)

	// A floor above what accounting allows would refuse every job of this user.
	if wall.Bounded() {
		floor.Minutes = min(floor.Minutes, wall.Minutes)
	}

	timeMin := p.FitTimeMin()
	needs := fmt.Sprintf("a job without --time needs at least %s (min_time of partition %s)", floor, p.Name)

	// The user's own floor replaces ours, and marks the job no longer as fitted.
	if req.TimeMin.Bounded() {
		floor = req.TimeMin
		timeMin = req.TimeMin
		needs = "the job needs " + req.TimeMin.String()
	}

	if floor.Minutes > minutes {
		return c.refuseTooLong(needs, false, req, start)
	}

	// A --time-min above --time makes no sense to Slurm.
	timeMin.Minutes = min(timeMin.Minutes, minutes)

	v := Verdict{Problem: Problem{Code: OK}, Edits: Edits{TimeLimit: Minutes(minutes), TimeMin: timeMin}}

	// A long limit would reserve more of the budget than the job may have left, and Slurm would hold it.
	if timeMin.Minutes < minutes && metered {
		v.Edits.TimeLimit = timeMin
		v.Warnings = append(v.Warnings, fmt.Sprintf("Slurm's accounting limits what you may use over time, "+
			"so the job gets %s; state what it needs with --time", timeMin))
	}

	return v
}

// refuseTooLong refuses a job with a sentence of the time that it needs, and the time available; orRequeue: it
// could run to the fence and go on in the next block.
func (c Prospect) refuseTooLong(needs string, orRequeue bool, req Request, start time.Time) Verdict {
	where := "its --deadline is " + FormatUTC(c.Until)
	wait := "use a later --deadline"

	switch {
	case c.Until.Equal(c.Window.Fence):
		where = fmt.Sprintf("jobs on %s in partition %s must end by %s",
			c.Reservation.ID, c.Partition.Name, FormatUTC(c.Until))
		wait = "wait for the next block"
	case c.Window.Start.After(start):
		where = fmt.Sprintf("reservation %s of partition %s opens at %s, and %s", c.Reservation.ID, c.Partition.Name,
			FormatUTC(c.Window.Start), where)
	}

	// The user's own --begin costs the time, not the reservation's opening.
	if start.Equal(req.Begin) && req.Begin.After(c.Window.Start) {
		where = fmt.Sprintf("it begins at %s (--begin), and %s", FormatUTC(start), where)
		wait = "use an earlier --begin, or " + wait
	}

	minutes := int(c.Room / time.Minute)
	if minutes < 1 {
		return refuse(TooLong, "%s, but %s and no time is left before that; %s", needs, where, wait)
	}

	option := "--time"
	if least := req.minLimit(); least.Set && least == req.TimeMin {
		option = "--time-min"
	}

	or := ""
	if orRequeue {
		or = ", or " + orRunToFence
	}

	return refuse(TooLong, "%s, but %s. Use %s=%s or less%s", needs, where, option, FormatMinutes(minutes), or)
}

// Verdict answers a job: a problem with edits. Of a refusal the sentence tells the user what to do.
type Verdict struct {
	Problem
	Refused bool `json:"refused,omitempty"`
	// NotBefore is the earliest time at which to try a refused job again; zero if unknown.
	NotBefore time.Time `json:"not_before,omitzero"`
	Warnings  []string  `json:"warnings,omitempty"`
	Edits     Edits     `json:"edits,omitzero"`
	Needs     int       `json:"-"` // how many nodes an accepted job needs at least; 0 if nobody knows
	Whole     string    `json:"-"` // why an accepted job is refused if it is a component of several; "" if it is not
}

// What a refusal says of a job that waits.
const (
	CanNeverStart = "can never start as it is"
	CannotStart   = "cannot start as things are"
)

// Outlook says whether a refused job can still start. CanNeverStart is for requests that no later minute grants, such
// as an account that is not allowed. A new block, an extension or corrected settings can lift every other refusal.
func (v Verdict) Outlook() string {
	if v.Code.Never() {
		return CanNeverStart
	}

	return CannotStart
}

// Edits change a job before it is submitted; a zero field changes nothing.
type Edits struct {
	TimeLimit  Limit  `json:"time_limit,omitzero"`
	TimeMin    Limit  `json:"time_min,omitzero"`
	Constraint string `json:"constraint,omitempty"`
}

// Apply returns the job as the edits leave it.
func (e Edits) Apply(j Job) Job {
	if e.TimeLimit.Bounded() {
		j.TimeLimit = e.TimeLimit
	}

	if e.TimeMin.Bounded() {
		j.TimeMin = e.TimeMin
	}

	j.Constraint = cmp.Or(e.Constraint, j.Constraint)

	return j
}

func refuse(code Code, format string, args ...any) Verdict {
	return Verdict{Problem: Problemf(code, Subject{}, "", format, args...), Refused: true}
}
