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

// Reservations without an end share a slot: the size decides which of them a job can have,
// and the free places which it gets.
func TestLaunchGoesWhereThereIsRoom(t *testing.T) {
	small, large := hours("cr-00000000000000004", -1, 0), hours("cr-00000000000000008", -1, 0)
	small.Total, small.Available, large.Total, large.Available = 4, 4, 8, 8
	for name, c := range map[string]struct {
		nodes, job       int // to launch, and of the whole job
		freeSmall, taken int
		want             string
		code             Code
	}{
		"the first in the settings":               {nodes: 2, job: 2, freeSmall: 4, want: small.ID},
		"too large for the first":                 {nodes: 8, job: 8, freeSmall: 4, want: large.ID},
		"the first is full":                       {nodes: 2, job: 2, freeSmall: 1, want: large.ID},
		"the first was filled since EC2 was read": {nodes: 2, job: 2, freeSmall: 4, taken: 3, want: large.ID},
		"a part of a job that needs the larger":   {nodes: 2, job: 6, freeSmall: 4, want: large.ID},
		"too large for both":                      {nodes: 9, job: 9, freeSmall: 4, code: TooManyNodes},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1)
			w.settings.Partitions[0].Groups[0].PurchaseOption = ODCR
			w.settings.Partitions[0].Groups[0].MaxNodes = 12
			w.add(small)
			w.add(large)
			snap := w.see(noon, nil)
			snap.Reservations[0].Available = c.freeSmall
			p := snap.Partitions[0]
			admitted, v := AdmitLaunch(Request{Nodes: c.job}, p, p.Groups[0].Slots[0].Name, snap, noon)
			got := ""
			if len(admitted) > 0 {
				got = LaunchOrder(admitted, c.nodes, map[string]int{small.ID: c.taken})[0].ID
			}
			if got != c.want || v.Refused != (c.code != "") || c.code != "" && v.Code != c.code {
				t.Errorf("got %q, %+v; want %q, %q", got, v, c.want, c.code)
			}
		})
	}
}

// A reservation whose slot another one has is not launched into before its turn, whoever
// names it; and a job that only it is large enough for waits for it.
func TestLaunchWaitsForTheTurn(t *testing.T) {
	w := newWorld(1)
	w.settings.Timing = Timing{BootAllowance: minutes(10)}
	first, second := hours("cr-0000000000000000b", -1, 1), hours("cr-0000000000000000a", -1, 10)
	first.Total = 2
	w.add(first)
	w.add(second)
	for name, c := range map[string]struct {
		req       Request
		at        time.Duration
		want      string
		code      Code
		notBefore time.Time
	}{
		"what has the slot":            {req: Request{Nodes: 1}, want: first.ID},
		"what waits":                   {req: Request{Nodes: 1, Comment: "capacity_reservation_id=" + second.ID}, code: NotOpen, notBefore: first.End},
		"what waits, when it has come": {req: Request{Nodes: 1, Comment: "capacity_reservation_id=" + second.ID}, at: time.Hour, want: second.ID},
		"too large for the first":      {req: Request{Nodes: 4}, code: NoPlace, notBefore: first.End},
		"too large for both":           {req: Request{Nodes: 5}, code: TooManyNodes},
	} {
		t.Run(name, func(t *testing.T) {
			snap := w.see(noon.Add(c.at), w.see(noon, nil))
			p := snap.Partitions[0]
			admitted, v := AdmitLaunch(c.req, p, p.Groups[0].Slots[0].Name, snap, noon.Add(c.at))
			var got string
			if len(admitted) == 1 {
				got = admitted[0].ID
			}
			if got != c.want || v.Refused && v.Code != c.code || !v.NotBefore.Equal(c.notBefore) {
				t.Errorf("got %v, %+v; want %q, %q", admitted, v, c.want, c.code)
			}
		})
	}
}
