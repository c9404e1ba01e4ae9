package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// leastNodes is the least number of nodes on which the job can run in a node group, as far as its request shows. fits
// is false if no number of nodes is enough, because one node would need more GPUs or CPUs than it has. Where options
// contradict each other, Slurm itself refuses the job or drops one of them, by version.
func (r Request) leastNodes(g *NodeGroup) (n int, fits bool) {
	n, tasks, perNode := r.Nodes, r.Tasks, r.TasksPerNode
	switch {
	case tasks == 0:
		tasks = n * perNode
	case n > tasks:
		n = tasks // as Slurm does
	case n > 0 && tasks > n*perNode:
		perNode = 0
	}
	atMost := func(most int) {
		if perNode == 0 || most < perNode {
			perNode = most
		}
	}
	if g.GPUs > 0 { // else nobody knows how many GPUs a node has
		if max(r.GPUsPerNode, r.GPUsPerTask) > g.GPUs {
			return 0, false
		}
		n = max(n, divideUp(r.GPUs, g.GPUs))
		if r.GPUsPerTask > 0 {
			atMost(g.GPUs / r.GPUsPerTask)
		}
	}
	if g.CPUs > 0 && !r.Overcommit {
		if r.CPUsPerTask > g.CPUs {
			return 0, false
		}
		atMost(g.CPUs / max(1, r.CPUsPerTask))
	}
	if perNode > 0 {
		n = max(n, divideUp(tasks, perNode))
	}
	return n, true
}

func divideUp(a, b int) int { return (a + b - 1) / b }

func (c Turn) holds(r Request) bool {
	n, fits := r.leastNodes(c.Group)
	return fits && n <= c.size()
}

// refuseSize refuses a job for which even the largest Turn is too small.
func refuseSize(r Request, largest Turn, p Partition) Verdict {
	g := largest.Group
	n, fits := r.leastNodes(g)
	if !fits && r.CPUsPerTask > g.CPUs && g.CPUs > 0 {
		return refuse(TooManyNodes, "the job asks for %d CPUs for a task, but the nodes of partition %s (%s) have %d; ask for %d or less",
			r.CPUsPerTask, p.Name, g.InstanceType, g.CPUs, g.CPUs)
	}
	if !fits {
		return refuse(TooManyNodes, "the job asks for %d GPUs on one node, but those of partition %s (%s) have %d; ask for %d or less",
			max(r.GPUsPerNode, r.GPUsPerTask), p.Name, g.InstanceType, g.GPUs, g.GPUs)
	}
	has := fmt.Sprintf("but the largest reservation of partition %s that it may use has %d", p.Name, largest.size())
	asked := r.Nodes == n && !r.Counted
	r.Nodes = 0 // sbatch may have derived it from the other options
	if other, _ := r.leastNodes(g); asked && other < n {
		return refuse(TooManyNodes, "the job asks for %d nodes, %s; use --nodes=%d", n, has, largest.size())
	}
	why := r.whyNodes(g)
	if why != "" {
		why = " (" + why + ")"
	}
	return refuse(TooManyNodes, "the job needs %d nodes%s, %s; ask for less", n, why, has)
}

// whyNodes lists the options that make a job without --nodes need several nodes.
func (r Request) whyNodes(g *NodeGroup) string {
	var parts []string
	tasks := r.Tasks
	if r.TasksPerNode+r.GPUsPerTask+g.CPUs == 0 {
		tasks = 0 // any number of tasks can share a node
	}
	for _, option := range []struct {
		name  string
		value int
	}{{"--gpus", r.GPUs}, {"--gpus-per-task", r.GPUsPerTask}, {"--ntasks", tasks}, {"--ntasks-per-node", r.TasksPerNode},
		{"--cpus-per-task", r.CPUsPerTask}} {
		if option.value > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", option.name, option.value))
		}
	}
	if g.GPUs > 0 && r.GPUs+r.GPUsPerTask > 0 {
		parts = append(parts, fmt.Sprintf("%d GPUs a node", g.GPUs))
	}
	if g.CPUs > 0 && tasks+r.CPUsPerTask > 0 {
		parts = append(parts, fmt.Sprintf("%d CPUs a node", g.CPUs))
	}
	return strings.Join(parts, ", ")
}

// ByNumber compares two nodes of a slot by their numbers.
func ByNumber(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

func admitTime(req Request, usable []Turn, p Partition, snap *Snapshot, now time.Time) Verdict {
	if slices.ContainsFunc(usable, func(c Turn) bool { return c.until(req).IsZero() }) {
		return Verdict{Code: OK}
	}
	boot := snap.Timing.BootAllowance.Duration
	start := later(now, req.Begin)
	best := slices.MaxFunc(usable, func(a, b Turn) int {
		return cmp.Compare(a.room(req, start, boot), b.room(req, start, boot))
	})
	if !req.TimeLimit.Set {
		return fitTime(req, usable, p, snap.Walls, boot, start)
	}
	need := req.least()
	if !need.Bounded() || need.Duration() > best.room(req, start, boot) {
		return refuseLong("the job needs "+need.String(), req, best, p, boot, start)
	}
	return waitsFor(req, need, usable, best, boot, start, now)
}

// until is when the job must have ended in the candidate: at the fence or at the job's own deadline, whichever is
// earlier; zero if it has neither.
func (c Turn) until(req Request) time.Time {
	if fence := c.Window.Fence; req.Deadline.IsZero() || !fence.IsZero() && fence.Before(req.Deadline) {
		return fence
	}
	return req.Deadline
}

// span is the time from the job's earliest start to until; negative if until is earlier.
func (c Turn) span(req Request, start time.Time) time.Duration {
	return c.until(req).Sub(later(start, c.Window.Start))
}

// room is the longest time limit that fits into the candidate, boot included.
func (c Turn) room(req Request, start time.Time, boot time.Duration) time.Duration {
	room := c.span(req, start)
	if c.boots() {
		room -= boot
	}
	return room
}

// longest is the longest limit that the candidate, the partition and accounting leave; NoLimit if nothing bounds it.
// It is zero or less if no time is left.
func (c Turn) longest(req Request, p Partition, walls Walls, boot time.Duration, start time.Time) Limit {
	longest := NoLimit
	if !c.until(req).IsZero() {
		longest = Minutes(int(c.room(req, start, boot) / time.Minute))
	}
	wall, _ := walls.MaxWall(req.User, req.Account, req.QOS, p)
	for _, most := range []Limit{p.MaxTime, wall} {
		if most.Bounded() && (longest.Unlimited || most.Minutes < longest.Minutes) {
			longest = most
		}
	}
	return longest
}

// FitMark is the --time-min of a job whose limit is ours to fit to the fence: a value that nobody writes. A job that
// runs cannot change it. A user who writes it gets the same as without --time.
func (p Partition) FitMark() Limit { return Minutes(LimitOf(p.MinTime.Duration).Minutes + 1) }

// Fitted reports whether the job's limit is ours to fit to the fence.
func (s *Snapshot) Fitted(j Job) bool {
	return slices.ContainsFunc(j.Partitions(), func(name string) bool {
		p, ours := s.Partition(name)
		return ours && j.TimeMin == p.FitMark()
	})
}

// fitTime sets the limit of a job that stated none. The limit is the job's longest window, with [Partition.FitMark] as
// --time-min, so Slurm itself fits the limit to the fence when it starts the job. Where nodes have to boot,
// fitTime subtracts the boot time, because Slurm counts a limit from the end of the boot.
//
// The limit never exceeds accounting's: Slurm would hold the job for ever for a limit that the user never asked for.
// Where accounting limits use over time, the room left depends on the job's nodes and start time. There the job gets
// that least, and sync raises it once the job runs.
func fitTime(req Request, usable []Turn, p Partition, walls Walls, boot time.Duration, start time.Time) Verdict {
	longest := slices.MaxFunc(usable,
		func(a, b Turn) int { return cmp.Compare(a.room(req, start, boot), b.room(req, start, boot)) })
	minutes := longest.longest(req, p, walls, boot, start).Minutes
	floor := LimitOf(p.MinTime.Duration)
	wall, metered := walls.MaxWall(req.User, req.Account, req.QOS, p)
	if wall.Bounded() {
		floor.Minutes = min(floor.Minutes, wall.Minutes)
	}
	timeMin := p.FitMark()
	needs := fmt.Sprintf("a job without --time needs at least %s (min_time of partition %s)", floor, p.Name)
	if req.TimeMin.Bounded() {
		floor, timeMin, needs = req.TimeMin, req.TimeMin, "the job needs "+req.TimeMin.String()
	}
	if floor.Minutes > minutes {
		return refuseLong(needs, req, longest, p, boot, start)
	}
	timeMin.Minutes = min(timeMin.Minutes, minutes)
	v := Verdict{Code: OK, Edits: Edits{TimeLimit: Minutes(minutes), TimeMin: timeMin}}
	if timeMin.Minutes < minutes && metered {
		v.Edits.TimeLimit = timeMin
		v.Warnings = append(v.Warnings, fmt.Sprintf(
			"Slurm's accounting limits what you may use over time, so the job gets %s; state what it needs with --time",
			timeMin))
	}
	return v
}

// waitsFor accepts the job, and tells the user when only a block that opens later has enough time for it.
func waitsFor(req Request, need Limit, usable []Turn, best Turn, boot time.Duration, start, now time.Time) Verdict {
	v := Verdict{Code: OK}
	open := func(c Turn) bool { return !c.Window.Start.After(start) }
	fitsAtOnce := slices.ContainsFunc(usable, func(c Turn) bool {
		return open(c) && need.Duration() <= c.room(req, start, boot)
	})
	if !fitsAtOnce && !open(best) && slices.ContainsFunc(usable, open) {
		when := "now"
		if start.After(now) {
			when = "when it begins"
		}
		v.Warnings = append(v.Warnings, fmt.Sprintf("the job no longer fits into what is open %s; it waits for %s, which opens at %s",
			when, best.Reservation.ID, FormatUTC(best.Window.Start)))
	}
	return v
}

// refuseLong refuses a job with a sentence of the time that it needs, and the time available.
func refuseLong(needs string, req Request, best Turn, p Partition, boot time.Duration, start time.Time) Verdict {
	var where, wait string
	switch until := best.until(req); {
	case until.Equal(best.Window.Fence):
		where = fmt.Sprintf("jobs on %s in partition %s must end by %s", best.Reservation.ID, p.Name, FormatUTC(until))
		wait = "wait for the next block"
	case best.Window.Start.After(start):
		where = fmt.Sprintf("reservation %s of partition %s opens at %s, and its --deadline is %s", best.Reservation.ID,
			p.Name, FormatUTC(best.Window.Start), FormatUTC(until))
		wait = "use a later --deadline"
	default:
		where = fmt.Sprintf("its --deadline is %s", FormatUTC(until))
		wait = "use a later --deadline"
	}
	if start.Equal(req.Begin) && req.Begin.After(best.Window.Start) {
		where = fmt.Sprintf("it begins at %s (--begin), and %s", FormatUTC(start), where)
		wait = "use an earlier --begin, or " + wait
	}
	minutes := int(best.room(req, start, boot) / time.Minute)
	if minutes < 1 {
		return refuse(TooLong, "%s, but %s and no time is left before that; %s", needs, where, wait)
	}
	option := "--time"
	if least := req.least(); least.Set && least == req.TimeMin {
		option = "--time-min"
	}
	return refuse(TooLong, "%s, but %s. Use %s=%s or less", needs, where, option, FormatMinutes(minutes))
}

// ofAWS reports whether a refusal depends on AWS's answers, which may be out of date. A reservation's known end is
// never out of date: see soften.
func (c Code) ofAWS() bool {
	return c == NoMatchingCapacity || c == NoReservation || c == TooManyNodes
}

// Verdict is the answer to a job. Message tells the user what to do; a refusal always has one.
type Verdict struct {
	Refused bool   `json:"refused,omitempty"`
	Code    Code   `json:"code"`
	Message string `json:"message,omitempty"`
	// NotBefore is the earliest time at which to try a refused job again; zero if unknown.
	NotBefore time.Time `json:"not_before,omitzero"`
	Warnings  []string  `json:"warnings,omitempty"`
	Edits     Edits     `json:"edits,omitzero"`
}

// Edits are changes to a job before it is submitted; a zero field changes nothing.
type Edits struct {
	TimeLimit  Limit  `json:"time_limit,omitzero"`
	TimeMin    Limit  `json:"time_min,omitzero"`
	Constraint string `json:"constraint,omitempty"`
}

func refuse(code Code, format string, args ...any) Verdict {
	return Verdict{Refused: true, Code: code, Message: fmt.Sprintf(format, args...)}
}
