package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Interrupt gets jobs off instances that EC2 has announced to interrupt. Jobs are warned, and requeued or held by
// their on_end; then Slurm powers the nodes down. Instances may repeat, and other owners' instances are ignored. The
// error joins all failures.
func Interrupt(ctx context.Context, s Sources, instances []string) (Report, error) {
	p := newPass(s)
	p.seen.Now = s.MachineTime()
	unlock, err := p.State.Lock(ctx, state.PassLock, lockWait)
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
	if p.seen.Cluster, err = p.World.Look(ctx); err != nil {
		return fmt.Errorf("asking Slurm: %w", err)
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
	if p.seen.Jobs, _, err = p.World.Jobs(ctx, nil, nil); err != nil {
		return fmt.Errorf("reading Slurm's jobs: %w", err)
	}
	p.readMarks()
	p.seen.Marks = trusted(p.seen)
	p.carryOut(ctx, interruptions(p.seen))
	return nil
}

// nodeOf is the node of our slots that an instance backs now; "" if none.
func (p *pass) nodeOf(i capacity.Instance) string {
	for _, n := range p.seen.Cluster.Nodes {
		launched := i.Tags[capacity.TagCluster] == p.seen.Cluster.Mark && i.Node(hostlist.Expand) == n.Name
		if _, _, _, ours := p.Settings.PlaceOf(n.Name); ours && !n.PoweredDown() &&
			(launched || n.Address != "" && n.Address == i.PrivateIP) {
			return n.Name
		}
	}
	return ""
}
