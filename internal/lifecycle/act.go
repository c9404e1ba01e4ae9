package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// act changes Slurm where it has to.
func (p *pass) act(ctx context.Context) {
	p.seeHealth(ctx)
	p.judgeHealth(ctx)
	p.decide(ctx, fences)
	p.changeJobs(ctx, p.seen().slots(), p.now, p.seen().ToSlurm)
	p.carryOut(ctx, givenUp(p.seen()))
	p.carryOut(ctx, completing(p.seen()))
	p.carryOut(ctx, endedBlocks(p.seen()))
	p.carryOut(ctx, openings(p.seen()))
	p.checkNodes(ctx)
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
