package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// interruptionNotice is how long an instance of an interruptible reservation goes on after EC2
// has said that it takes it back: EC2 User Guide, "Monitor interruptible Capacity Reservations".
const interruptionNotice = "2 minutes"

// Interrupt gets jobs off instances that EC2 has said it takes back. Their jobs are told, and
// requeued or held as on_end says; then Slurm powers the nodes down. It may be told of the same
// instance twice, and of instances of others, which it leaves alone. The error joins what failed.
func Interrupt(ctx context.Context, s Sources, instances []string) (Report, error) {
	p := pass{Sources: s, snap: &capacity.Snapshot{}, now: s.MachineTime()}
	unlock, err := p.lock(ctx)
	if err != nil {
		return p.report(), err
	}
	defer unlock()
	if p.snap, err = p.State.ReadSnapshot(); err != nil {
		return (&pass{snap: &capacity.Snapshot{}, now: p.now}).report(), err
	}
	p.snap.Said = capacity.Said{} // that of the pass that wrote it
	p.fail(p.interrupt(ctx, instances))
	return p.report(), errors.Join(p.failed...)
}

func (p *pass) interrupt(ctx context.Context, ids []string) error {
	found, err := p.EC2.InstancesByID(ctx, ids)
	if err != nil {
		return err
	}
	p.now = p.MachineTime().Add(p.EC2.Offset())
	if p.cluster, err = p.Slurm.Look(ctx); err != nil {
		return fmt.Errorf("asking Slurm: %w", err)
	}
	if err := OtherOwner(p.cluster, p.Sources); err != nil {
		return err
	}
	p.cluster.assign(p.Settings)
	byNode := map[string]fenced{}
	for _, i := range found {
		if name := p.nodeOf(i); name != "" {
			part, _, slot, _ := p.Settings.PlaceOf(name)
			byNode[name] = fenced{slot: slot, reservation: i.ReservationID, onEnd: part.OnEnd, fence: p.now}
		}
	}
	if len(byNode) == 0 {
		return nil
	}
	jobs, _, err := p.Slurm.Jobs(ctx, nil, nil)
	if err != nil {
		return fmt.Errorf("reading Slurm's jobs: %w", err)
	}
	p.interruptJobs(ctx, jobs, byNode)
	bySlot := map[string][]string{}
	for _, n := range p.cluster.Nodes {
		if f, ok := byNode[n.Name]; ok && n.Up {
			bySlot[f.slot] = append(bySlot[f.slot], n.Name)
		}
	}
	for slot, nodes := range bySlot {
		err := p.Slurm.PowerDown(ctx, nodes, capacity.TakenBack)
		p.did(Done{Do: "power-down", Slot: slot, Message: fmt.Sprintf("slot %s: powering %s down, EC2 takes the instances back", slot, p.Slurm.Hostlist(nodes))}, err)
	}
	return nil
}

// nodeOf is the node of a slot of ours that an instance is now; "" if it is none.
func (p *pass) nodeOf(i capacity.Instance) string {
	for _, n := range p.cluster.Nodes {
		launched := i.Tags[capacity.TagCluster] == p.cluster.Mark && i.Node(p.Slurm.Expand) == n.Name
		if _, _, _, ours := p.Settings.PlaceOf(n.Name); ours && !n.PoweredDown && (launched || n.Address != "" && n.Address == i.PrivateIP) {
			return n.Name
		}
	}
	return ""
}

func (p *pass) interruptJobs(ctx context.Context, jobs []capacity.Job, byNode map[string]fenced) {
	marks, _ := p.marks(jobs, byNode)
	type change struct {
		capacity.Job
		slot, verb string
		err        error
	}
	var taken []change
	seen := map[string]bool{}
	for _, j := range jobs {
		f, on := earliestFence(j, byNode)
		if !on || j.State != "RUNNING" && j.State != "SUSPENDED" {
			continue
		}
		onEnd := f.onEnd
		if mark := marks[j.Shown]; mark.OnEnd != "" {
			onEnd = mark.OnEnd
		}
		if j.AdminHeld() && onEnd == capacity.HoldAtEnd {
			onEnd = capacity.RequeueAtEnd // it stays held, and not for its owner to release
		}
		nodes := slices.DeleteFunc(slices.Clone(j.Nodes), func(n string) bool { _, ok := byNode[n]; return !ok })
		why := fmt.Sprintf("EC2 takes %s of reservation %s back within %s", p.Slurm.Hostlist(nodes), f.reservation, interruptionNotice)
		verb := ""
		switch {
		case !j.Batch || !j.Requeue:
			p.tellEnd(ctx, j, f.slot, why+"; this job ends then and cannot be requeued: save your work")
			continue
		case onEnd == capacity.RequeueAtEnd:
			verb = "requeued"
		case onEnd == capacity.HoldAtEnd:
			verb = "requeued and held"
		default:
			p.tellEnd(ctx, j, f.slot, why+"; this job ends then: save your work")
			continue
		}
		p.tellInterrupted(ctx, j, f.slot, why+"; this job is "+verb+" now")
		whole, _, _ := strings.Cut(j.Shown, "+") // of a het job all components are requeued together
		if seen[whole] {
			continue
		}
		seen[whole] = true
		note := fmt.Sprintf("%s at %s: %s", verb, capacity.FormatUTC(p.now), why)
		var err error
		if onEnd == capacity.HoldAtEnd {
			note = capacity.HoldNote(p.MachineTime(), note+"; release it to go on")
			err = p.Slurm.RequeueHold(ctx, j.Shown)
		} else {
			note = "pcs-capacity: " + note
			err = p.Slurm.Requeue(ctx, j.Shown)
		}
		if said := p.Slurm.SetAdminComment(ctx, j.Shown, note); said != nil {
			p.problem(capacity.ChangeFailed, said)
		}
		taken = append(taken, change{j, f.slot, verb, err})
	}
	if len(taken) == 0 {
		return
	}
	after, _, err := p.Slurm.Jobs(ctx, nil, nil) // an exit status says little
	for _, t := range taken {
		why := errors.Join(t.err, err)
		i := slices.IndexFunc(after, func(j capacity.Job) bool { return j.Shown == t.Shown })
		if i >= 0 && after[i].State == "PENDING" {
			why = nil
		} else if why == nil && i >= 0 && after[i].State == t.State && after[i].Restarts == t.Restarts {
			why = errors.New("Slurm took the change, and the job still runs")
		}
		p.did(Done{Do: "interrupt-job", Slot: t.slot, Job: t.Shown, Message: fmt.Sprintf("job %s on slot %s: %s, EC2 takes its nodes back", t.Shown, t.slot, t.verb)}, why)
	}
}

// tellEnd tells a job that ends with its nodes, in its AdminComment as well, where explain reads it.
func (p *pass) tellEnd(ctx context.Context, j capacity.Job, slot, text string) {
	p.tellInterrupted(ctx, j, slot, text)
	if err := p.Slurm.SetAdminComment(ctx, j.Shown, fmt.Sprintf("pcs-capacity: interrupted at %s: %s", capacity.FormatUTC(p.now), text)); err != nil {
		p.problem(capacity.ChangeFailed, err)
	}
}

func (p *pass) tellInterrupted(ctx context.Context, j capacity.Job, slot, text string) {
	err := p.Slurm.Notify(ctx, j.Shown, "pcs-capacity: "+text)
	if j.Configuring() || j.State != "RUNNING" {
		err = nil // it has nobody to tell
	}
	p.did(Done{Do: "tell-job", Slot: slot, Job: j.Shown, Message: fmt.Sprintf("job %s on slot %s: told that EC2 takes its nodes back", j.Shown, slot)}, err)
}
