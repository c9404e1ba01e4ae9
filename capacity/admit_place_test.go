package capacity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// What Admit lets through the launch can place, when nothing else takes the places: in one
// of the slots where the job may run, at the moment when a reservation has it.
func TestWhatIsAdmittedCanBePlaced(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 22))
	accepted, later := 0, 0
	for round := range 20000 {
		w, req := randomGroup(rng), Request{Partitions: []string{"gpu"}, Nodes: rng.IntN(10)}
		if rng.IntN(3) > 0 {
			req.TimeLimit = Minutes(1 + rng.IntN(600))
		}
		if ids := w.settings.Partitions[0].Groups[0].ReservationIDs; rng.IntN(4) == 0 && len(ids) > 0 {
			req.Comment = "capacity_reservation_id=" + ids[rng.IntN(len(ids))]
		}
		snap := w.see(noon, nil)
		v := Admit(req, snap, noon)
		if v.Refused {
			continue
		}
		accepted++
		if v.Edits.TimeLimit.Set {
			req.TimeLimit = v.Edits.TimeLimit
		}
		job := req
		job.Nodes = max(1, req.Nodes)
		placed := w.placed(job, v.Edits.Constraint, snap, noon)
		for _, moment := range w.moments(snap) {
			if placed {
				break
			}
			later++
			placed = w.placed(job, v.Edits.Constraint, w.see(moment, snap), moment)
		}
		if !placed {
			t.Fatalf("round %d: %+v is admitted with %+v and can never be placed:\n%+v\n%+v", round, req, v, snap.Partitions[0].Groups, snap.Reservations)
		}
	}
	if accepted < 4000 || later < 1000 {
		t.Errorf("%d of 20000 random jobs were accepted, for %d a later moment was tried; the test sees too little", accepted, later)
	}
}

// randomGroup is a node group with reservations of all sizes and times, some of which do not go with it.
func randomGroup(rng *rand.Rand) *world {
	w := newWorld(1 + rng.IntN(2))
	w.settings.Timing = Timing{DrainMargin: minutes(10), BootAllowance: minutes(10), ReclaimLead: minutes(30)}
	w.settings.Submit = Submit{Strict: true, StaleAfter: minutes(10)}
	p := &w.settings.Partitions[0]
	p.MinTime = minutes(30)
	g := &p.Groups[0]
	g.MaxNodes, g.SubnetIDs = 1+rng.IntN(9), []string{"subnet-1"}
	kinds := []Kind{CapacityBlock, ODCR}
	g.PurchaseOption = kinds[rng.IntN(2)]
	for i := range rng.IntN(5) {
		from := rng.IntN(12) - 6
		to := from + 1 + rng.IntN(8)
		if g.PurchaseOption == ODCR && rng.IntN(2) == 0 {
			to = 0
		}
		r := hours(fmt.Sprintf("cr-%017d", i), from, to)
		r.Kind, r.Total = g.PurchaseOption, 1+rng.IntN(8)
		if rng.IntN(10) == 0 {
			r.AZID = "use2-az2"
		}
		if rng.IntN(10) == 0 {
			r.InstanceType = "p4d.24xlarge"
		}
		w.add(r)
	}
	return w
}

// see is what a pass sees at a time, with all places free.
func (w *world) see(at time.Time, before *Snapshot) *Snapshot {
	snap := w.pass(at, before, nil)
	for i := range snap.Reservations {
		snap.Reservations[i].Available = snap.Reservations[i].Total
	}
	g := &snap.Partitions[0].Groups[0]
	g.Subnets = []Subnet{{ID: "subnet-1", AZID: "use2-az1"}}
	for i := range g.Slots {
		g.Slots[i].Feature = g.Slots[i].Name
	}
	return snap
}

// moments are when reservations get their slots.
func (w *world) moments(snap *Snapshot) (all []time.Time) {
	for _, t := range snap.AllTurns() {
		if t.Window.Start.After(noon) {
			all = append(all, t.Window.Start)
		}
	}
	return all
}

// placed reports whether the job can be launched in a slot of its constraint.
func (w *world) placed(job Request, constraint string, snap *Snapshot, at time.Time) bool {
	p := snap.Partitions[0]
	return slices.ContainsFunc(p.Groups[0].Slots, func(slot Slot) bool {
		if constraint != "" && !slices.Contains(strings.Split(strings.Trim(constraint, "[]"), "|"), slot.Name) {
			return false
		}
		admitted, _ := AdmitLaunch(job, p, slot.Name, snap, at)
		return len(admitted) > 0 && LaunchOrder(admitted, job.Nodes, nil)[0].Available >= job.Nodes
	})
}
