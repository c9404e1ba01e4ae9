package report

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// account divides the paid time of one reservation among the classes and the jobs.
type account struct {
	history  *history
	runs     map[string][]*run // by node
	parts    *shares
	from, to time.Time

	fence time.Time // from when on no job may run
	sums  Sums
	gaps  []Gap
}

// divide puts every paid second of every instance in one class.
func (a *account) divide() (Reservation, error) {
	h := a.history
	a.sums = Sums{}

	a.fence = h.last().Fence
	if a.fence.IsZero() || h.end().Before(a.fence) {
		a.fence = forever
	}

	one := Reservation{
		ID:    h.id,
		Paid:  *h.last(),
		Start: h.start,
		End:   h.end(),
		From:  a.from,
		Sums:  a.sums,
	}

	all, err := a.nodes()
	if err != nil {
		return one, err
	}

	for _, s := range h.within(a.from, a.to) {
		a.divideStay(s, all)
	}

	whole := one.End
	if whole.IsZero() {
		whole = a.to
	}

	for _, s := range h.within(h.start, whole) {
		one.Whole += int64(s.paid.Size) * secondsBetween(s.from, s.to)
	}

	return one, nil
}

// nodes lists all that the reservation ever had, in the order of their names.
func (a *account) nodes() ([]string, error) {
	all := map[string]bool{}
	for _, s := range a.history.stays {
		for _, list := range s.paid.Nodes {
			names, err := hostlist.Expand(list)
			if err != nil {
				return nil, fmt.Errorf("nodes of reservation %s: %w", a.history.id, err)
			}

			for _, name := range names {
				all[name] = true
			}
		}
	}

	return slices.Sorted(maps.Keys(all)), nil
}

// divideStay divides a time in which nothing was seen to change.
func (a *account) divideStay(s stay, all []string) {
	states := map[string]string{}
	listed := 0
	down := 0
	for what, list := range s.paid.Nodes {
		names, _ := hostlist.Expand(list) // as they are in all
		for _, name := range names {
			states[name] = what
		}

		listed += len(names)
		if what == state.NodeDown {
			down = len(names)
		}
	}

	// What has no node, or one that is off: a run that began there after the sample takes of it.
	free := s.paid.Size - listed

	var taken []piece

	// Hosts that EC2 reports as failed and that no node of ours is down for.
	failed := min(max(0, s.paid.Unhealthy-down), max(free, 0))
	a.addIdle(s, s.from, s.to, max(free, 0)-failed, a.idleClass(s))
	a.addIdle(s, s.from, s.to, failed, Hardware)

	for _, name := range all {
		what, on := states[name]
		if on && listed > s.paid.Size { // more than is paid for: settings that changed meanwhile
			listed--

			continue
		}

		for _, p := range a.pieces(s, name, what) {
			switch {
			case len(p.runs) > 0 && !on:
				if mostAtOnce(taken, p) >= free-failed {
					continue // more nodes than are paid for: what was seen is not all true
				}

				taken = append(taken, p)
				a.addIdle(s, p.from, p.to, -1, a.idleClass(s))
				a.splitAmongRuns(p)
			case len(p.runs) > 0:
				a.splitAmongRuns(p)
			case on:
				a.addIdle(s, p.from, p.to, 1, p.class)
			}
		}
	}
}

// mostAtOnce counts the pieces of all that share a moment within p; of all moments, the most.
func mostAtOnce(all []piece, p piece) (n int) {
	for _, at := range append(slices.Clone(all), p) {
		if at.from.Before(p.from) || !at.from.Before(p.to) {
			continue
		}

		here := 0
		for _, o := range all {
			if !o.from.After(at.from) && o.to.After(at.from) {
				here++
			}
		}

		n = max(n, here)
	}

	return n
}

// piece holds a time of a node in which it is in one class, or in that of its runs.
type piece struct {
	from, to time.Time
	class    Class
	runs     []*run
}

// pieces divides a stay of a node that is up, boots, is drained or down, or "" for off.
func (a *account) pieces(s stay, node, what string) []piece {
	var here []*run

	// Cut at each begin and end of a run, so that in each piece the same runs share the node.
	cuts := []time.Time{s.from, s.to}
	boots := s.to
	for _, r := range a.runs[node] {
		if !r.from.Before(s.to) {
			break
		}

		from := latest(r.from, s.from)
		to := earliest(r.to, s.to)
		if !s.known && r.vague && !r.to.After(s.to) {
			to = s.from // when it ended in this time, nobody knows
		}

		if !from.Before(to) {
			continue
		}

		if what == state.NodeBoot {
			if !r.from.After(s.from) {
				continue // it has the node, which still boots
			}

			boots = earliest(boots, from)
		}

		here = append(here, &run{Run: r.Run, class: a.classOf(r, s.paid), from: from, to: to})
		cuts = append(cuts, from, to)
	}

	// Slurm still lists runs on a node that is down, but nothing runs there.
	if what == state.NodeDown && s.known {
		here = nil
	}

	slices.SortFunc(cuts, time.Time.Compare)

	var all []piece
	for i := 1; i < len(cuts); i++ {
		p := piece{from: cuts[i-1], to: cuts[i], class: a.idleClass(s)}
		if !p.from.Before(p.to) {
			continue
		}

		for _, r := range here {
			if !r.from.After(p.from) && !r.to.Before(p.to) {
				p.runs = append(p.runs, r)
			}
		}

		switch {
		case what == state.NodeDown, what == state.NodeDrain:
			p.class = Hardware
		case what == state.NodeBoot && p.from.Before(boots):
			p.class = Boot
		}

		all = append(all, p)
	}

	return all
}

func (a *account) idleClass(s stay) Class {
	switch {
	case s.paid.Tail:
		return TailIdle
	case s.paid.Waits:
		return IdleWaiting
	}

	return Idle
}

// splitAmongRuns divides a time of a node among the runs that share it, in equal parts: Slurm does not say which of
// them needs the instance.
func (a *account) splitAmongRuns(p piece) {
	length := secondsBetween(p.from, p.to)
	each := length / int64(len(p.runs))

	rest := length % int64(len(p.runs))
	for _, r := range p.runs {
		n := each
		if rest > 0 {
			n++
			rest--
		}

		a.sums[r.class] += n
		a.parts.add(r.Run, r.class, n)
	}
}

// atFence bounds how long before the fence a job is requeued there: a minute and Slurm's KillWait, which is 30 seconds
// by default.
const atFence = 5 * time.Minute

// classOf returns the class of a run on nodes that are paid for. One that was requeued at the fence is useful: its owner
// asked for that. One of the spare partition that was preempted goes on elsewhere, which its owner expects.
func (a *account) classOf(r *run, paid *state.Paid) Class {
	early := a.fence.Sub(r.End)
	lent := paid.Spare != "" && r.Partition == paid.Spare

	switch {
	case lent && (r.class == Useful || r.class == LostRequeue):
		return Lent
	case r.class == LostRequeue && early >= 0 && early < atFence:
		return Useful
	}

	return r.class
}

// addIdle puts a time of some nodes without a job into a class: that of the fence where it is behind that, and unknown
// where sync did not run.
func (a *account) addIdle(s stay, from, to time.Time, nodes int, c Class) {
	if nodes == 0 {
		return
	}

	// After the fence no job may run, so the time is nobody's fault.
	if to.After(a.fence) {
		begin := latest(from, a.fence)
		a.sums[FenceTail] += int64(nodes) * secondsBetween(begin, to)
		to = begin
	}

	if !from.Before(to) {
		return
	}

	n := int64(nodes) * secondsBetween(from, to)
	if !s.known {
		c = Unknown

		a.addGap(s, n)
	}

	a.sums[c] += n
}

// addGap notes a time of which nobody knows all.
func (a *account) addGap(s stay, nodeSeconds int64) {
	begin := s.from
	end := earliest(s.to, a.fence)

	// Neighbouring gaps become one.
	if n := len(a.gaps); n > 0 && !a.gaps[n-1].To.Before(begin) {
		a.gaps[n-1].To = latest(a.gaps[n-1].To, end)
	} else {
		reason := "sync did not run, or did not reach Slurm"
		if a.history.stays[0].from.After(begin) {
			reason = fmt.Sprintf("sync saw it for the first time at %s", capacity.FormatUTC(a.history.stays[0].from))
		}

		a.gaps = append(a.gaps, Gap{Reservation: a.history.id, From: begin, To: end, Reason: reason})
	}

	a.gaps[len(a.gaps)-1].NodeSeconds += nodeSeconds
}

func secondsBetween(from, to time.Time) int64 { return to.Unix() - from.Unix() }
