package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// interruptionNotice is how long an instance of an interruptible reservation goes on after EC2
// has said that it takes it back: EC2 User Guide, "Monitor interruptible Capacity Reservations".
const interruptionNotice = "2 minutes"

// Interrupt gets jobs off instances that EC2 has said it takes back. Their jobs are told, and
// requeued or held as on_end says; then Slurm powers the nodes down. It may be told of the same
// instance twice, and of instances of others, which it leaves alone. The error joins what failed.
func Interrupt(ctx context.Context, s Sources, instances []string) (Report, error) {
	p := newPass(s)
	p.seen.Now = s.MachineTime()
	unlock, err := p.lock(ctx)
	if err != nil {
		return p.report(), err
	}
	defer unlock()
	old, err := p.State.ReadSnapshot()
	if err != nil {
		return p.report(), err
	}
	p.seen.Snap = old
	p.seen.Snap.Said = capacity.Said{} // that of the pass that wrote it
	p.fail(p.interrupt(ctx, instances))
	return p.report(), errors.Join(p.failed...)
}

func (p *pass) interrupt(ctx context.Context, ids []string) error {
	found, err := p.EC2.InstancesByID(ctx, ids)
	if err != nil {
		return err
	}
	p.seen.Now = p.MachineTime().Add(p.EC2.Offset())
	if p.seen.Cluster, err = p.Slurm.Look(ctx); err != nil {
		return fmt.Errorf("asking Slurm: %w", err)
	}
	if err := OtherOwner(p.seen.Cluster, p.Sources); err != nil {
		return err
	}
	p.seen.Cluster.assign(p.Settings)
	p.seen.TakenBack = map[string]fenced{}
	for _, i := range found {
		if name := p.nodeOf(i); name != "" {
			part, _, slot, _ := p.Settings.PlaceOf(name)
			p.seen.TakenBack[name] = fenced{slot: slot, reservation: i.ReservationID, onEnd: part.OnEnd, fence: p.seen.Now}
		}
	}
	if len(p.seen.TakenBack) == 0 {
		return nil
	}
	if p.seen.Jobs, _, err = p.Slurm.Jobs(ctx, nil, nil); err != nil {
		return fmt.Errorf("reading Slurm's jobs: %w", err)
	}
	p.readMarks()
	p.seen.Marks = trusted(p.seen)
	p.carryOut(ctx, interruptions(p.seen))
	return nil
}

// nodeOf is the node of a slot of ours that an instance is now; "" if it is none.
func (p *pass) nodeOf(i capacity.Instance) string {
	for _, n := range p.seen.Cluster.Nodes {
		launched := i.Tags[capacity.TagCluster] == p.seen.Cluster.Mark && i.Node(p.Slurm.Expand) == n.Name
		if _, _, _, ours := p.Settings.PlaceOf(n.Name); ours && !n.PoweredDown() && (launched || n.Address != "" && n.Address == i.PrivateIP) {
			return n.Name
		}
	}
	return ""
}

// interruptions get jobs off the nodes that EC2 takes back, and power those down. All of its jobs are told: what ends with its nodes in the AdminComment as well, where
// explain reads it.
func interruptions(seen Seen) []capacity.Effect {
	byNode := seen.TakenBack
	var effects []capacity.Effect
	requeued := map[string]bool{}
	for _, j := range seen.Jobs {
		f, on := earliestFence(j, byNode)
		if !on || !j.Allocated() {
			continue
		}
		nodes := slices.DeleteFunc(slices.Clone(j.Nodes), func(n string) bool { _, ok := byNode[n]; return !ok })
		why := fmt.Sprintf("EC2 takes %s of reservation %s back within %s", hostlist.Compress(nodes), f.reservation, interruptionNotice)
		tell := TellJob{Slot: f.slot, Job: j.Shown, That: "EC2 takes its nodes back", Deaf: !j.Running()}
		onEnd := f.atEnd(j, seen.Marks[j.Shown])
		if !j.Requeues() || onEnd == capacity.StopAtEnd {
			ends := "; this job ends then: save your work"
			if !j.Requeues() {
				ends = "; this job ends then and cannot be requeued: save your work"
			}
			tell.Text = "pcs-capacity: " + why + ends
			note := fmt.Sprintf("pcs-capacity: interrupted at %s: %s", capacity.FormatUTC(seen.Now), why+ends)
			effects = append(effects, tell, TellOwner{Job: j.Shown, Text: note, Quiet: true})
			continue
		}
		e := InterruptJob{Slot: f.slot, Job: j, Hold: onEnd == capacity.HoldAtEnd}
		verb := requeueVerb(e.Hold, capacity.Did)
		e.Note = fmt.Sprintf("%s at %s: %s", verb, capacity.FormatUTC(seen.Now), why)
		if e.Hold {
			e.Note += "; release it to go on"
		}
		tell.Text = "pcs-capacity: " + why + "; this job is " + verb + " now"
		effects = append(effects, tell)
		if whole, _, _ := strings.Cut(j.Shown, "+"); !requeued[whole] { // a het job's components go together
			requeued[whole] = true
			effects = append(effects, e)
		}
	}
	bySlot := map[string][]string{}
	for _, n := range seen.Cluster.Nodes {
		if f, ok := byNode[n.Name]; ok && n.Up() {
			bySlot[f.slot] = append(bySlot[f.slot], n.Name)
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(bySlot)) {
		effects = append(effects, PowerDown{Slot: slot, Nodes: bySlot[slot], Reason: capacity.TakenBack, Why: "EC2 takes the instances back"})
	}
	return effects
}
