package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// act changes Slurm where it has to. Without AWS nothing is deleted: what is not
// known is not gone.
func (p *pass) act(ctx context.Context, mayDelete bool) {
	now, toSlurm := p.now, -p.snap.ClockOffset.Duration
	var want []Reservation
	keep, known := map[string]bool{}, map[string]bool{}
	slots := views(p.snap, now)
	for _, v := range slots {
		nodes := p.cluster.SlotNodes(v.slot.Name)
		known[v.slot.Name], v.owner = true, p.Owner
		if v.current.ID == "" && v.partition.Provider == capacity.ProviderPCS && p.cluster.inNone(nodes) {
			nodes = nil // it is about to be deleted: nothing can start there
		}
		if v.unknown || len(nodes) == 0 && v.current.ID != "" {
			keep[v.slot.Name] = true
			continue
		}
		v.lost = p.lost(v, nodes[:v.launchable(nodes)])
		v.closed = p.closed(ctx, v, nodes[:v.launchable(nodes)])
		if closed := v.surplus(nodes); v.partition.Provider == capacity.ProviderPCS && v.current.ID != "" && len(closed) > 0 {
			p.say(capacity.NodesUnused, capacity.Subject{Partition: v.partition.Name, Slot: v.slot.Name, Node: p.Slurm.Hostlist(closed)},
				fmt.Sprintf("set max_nodes = %d in the settings to use them", len(nodes)),
				"slot %s has %d nodes, of which max_nodes lets jobs use %d: none starts on %s", v.slot.Name, len(nodes), len(nodes)-len(closed), p.Slurm.Hostlist(closed))
		}
		for _, r := range v.wanted(nodes, now) {
			want = append(want, r.shift(toSlurm))
		}
	}
	p.askGuarded(ctx, mayDelete)
	to := steering{owner: p.Owner, takeOver: p.TakeOver, keep: keep, known: known, mayGo: func(g guard) bool { return p.mayGo(g, slots) }, now: now.Add(toSlurm)}
	todo, left := to.steps(want, p.cluster.Reservations)
	p.snap.Add(left...)
	p.tellKept(todo)
	if len(todo) > 0 && p.KeepOwner != nil {
		if err := p.KeepOwner(); err != nil {
			p.problem(capacity.StateFile, err)
		}
	}
	failed := map[string]bool{} // slots that lack something that closes them
	for _, s := range todo {
		if s.do == "delete" && s.kind() != "health" && (!mayDelete || failed[s.slot]) {
			continue
		}
		told := s
		told.r, told.drained = s.r.shift(-toSlurm), p.drained(s.r.Nodes)
		d := Done{Do: s.code(), Slot: s.slot, Message: told.describe(p.Slurm.Hostlist(s.r.Nodes))}
		err := p.take(ctx, s, now.Add(toSlurm))
		failed[s.slot] = failed[s.slot] || err != nil
		p.did(d, err)
	}
	p.changeJobs(ctx, slots, now, toSlurm)
	p.giveBack(ctx)
	p.endCompleting(ctx)
	p.carryOut(ctx, endedBlocks(p.seen()))
	p.carryOut(ctx, openings(p.seen()))
	p.checkNodes(ctx)
}

// drained reports whether any of the nodes is drained, by this pass too.
func (p *pass) drained(nodes []string) bool {
	return slices.ContainsFunc(nodes, func(name string) bool {
		return p.node(name).State == "drain" || slices.ContainsFunc(p.health, func(s *slotHealth) bool {
			return s.Nodes[name] != nil && s.Nodes[name].State == state.HealthBad
		})
	})
}

// changeJobs does what a pass has to do with jobs, which it reads once.
func (p *pass) changeJobs(ctx context.Context, slots []slotView, now time.Time, toSlurm time.Duration) {
	byNode := p.fencedNodes(slots, toSlurm)
	ends := func(r capacity.Reservation) bool { return !r.End.IsZero() }
	if len(byNode) == 0 && !p.launches() && !slices.ContainsFunc(p.snap.Reservations, ends) {
		return // no job can be too long, and none is held by us
	}
	if err := p.readJobs(ctx); err != nil {
		err = fmt.Errorf("reading Slurm's jobs: %w", err)
		p.say(capacity.SlurmUnanswered, capacity.Subject{}, "", "%v; time limits and holds are as they were", err)
		p.fail(err)
		return
	}
	marks, before := p.marks(p.jobs, byNode)
	requeued := p.endJobs(ctx, p.jobs, byNode, marks, now, toSlurm)
	if p.begun { // the file is not that of before
		before = nil
	}
	p.keepMarks(marks, before)
	jobs := p.jobs
	if len(p.elsewhere) > 0 {
		jobs = slices.Concat(jobs, p.elsewhere)
	}
	jobs = without(jobs, func(j capacity.Job) bool { return requeued[j.Shown] })
	p.keepWithinWalls(jobs, marks)
	p.limits(ctx, jobs, byNode, marks, now, toSlurm)
	p.leaveToOwners(ctx, jobs)
}

// take makes one change to a Slurm reservation.
func (p *pass) take(ctx context.Context, s step, now time.Time) error {
	r := s.r
	if r.Start.Before(now) { // Slurm refuses a start in the past
		r.Start = now
	}
	switch s.do {
	case "create":
		return p.Slurm.CreateReservation(ctx, r)
	case "update":
		return p.Slurm.UpdateReservation(ctx, r)
	case "delete":
		return p.Slurm.DeleteReservation(ctx, r.Name)
	}
	// A stop between the two would leave both until the next pass.
	ctx = context.WithoutCancel(ctx)
	if s.occupied {
		if err := p.Slurm.DeleteReservation(ctx, r.Name); err != nil {
			return err
		}
	}
	if err := p.Slurm.CreateReservation(ctx, r); err != nil {
		return err
	}
	return p.Slurm.DeleteReservation(ctx, s.old)
}

// fencedNodes names the fenced slot of each node that has one.
func (p *pass) fencedNodes(slots []slotView, toSlurm time.Duration) map[string]fenced {
	byNode := map[string]fenced{}
	for _, v := range slots {
		if v.current.ID == "" || v.window.Unbounded() {
			continue
		}
		f := fenced{slot: v.slot.Name, start: v.window.Start.Add(toSlurm), fence: p.placedFence(v, toSlurm), maxTime: v.partition.MaxTime,
			reservation: v.current.ID, onEnd: v.partition.OnEnd}
		for _, name := range p.cluster.SlotNodes(v.slot.Name) {
			byNode[name] = f
		}
	}
	return byNode
}

// limits changes time limits. All changes are tried, even if one fails.
func (p *pass) limits(ctx context.Context, jobs []capacity.Job, byNode map[string]fenced, marks map[string]state.Mark, now time.Time, toSlurm time.Duration) {
	for _, c := range p.withinBudgets(ctx, limitChanges(jobs, byNode, marks, now.Add(toSlurm)), now.Add(toSlurm)) {
		do, verb := "lower-limit", "lowered"
		if c.raises() {
			do, verb = "raise-limit", "raised"
		}
		message := fmt.Sprintf("job %s on slot %s: %s the time limit from %s to %s, so that it ends by %s",
			c.job.Shown, c.slot, verb, c.job.TimeLimit, capacity.FormatMinutes(c.minutes), capacity.FormatUTC(c.fence.Add(-toSlurm)))
		if c.by != "" {
			message = fmt.Sprintf("job %s on slot %s: %s the time limit from %s to %s, all that %s leaves it", c.job.Shown, c.slot, verb, c.job.TimeLimit, capacity.FormatMinutes(c.minutes), c.by)
		}
		p.did(Done{Do: do, Slot: c.slot, Job: c.job.Shown, Message: message}, p.Slurm.SetTimeLimit(ctx, c.job.Shown, c.minutes))
	}
	if p.awsErr == nil {
		p.tellWaiting(ctx, jobs, p.fitPending(ctx, jobs))
	}
}

// placedFence is when a slot's fence begins, in Slurm's clock: as Slurm has it where
// that is the same time, so that a clock offset that is only known to the second does
// not move limits back and forth.
func (p *pass) placedFence(v slotView, toSlurm time.Duration) time.Time {
	fence := v.window.Fence.Add(toSlurm)
	for _, r := range p.cluster.Reservations {
		if r.fences(v.slot.Name, v.current.ID) && near(r.Start, fence) {
			return r.Start
		}
	}
	return fence
}
