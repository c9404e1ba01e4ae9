package capacity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What no other case of AdmitLaunch decides: a slot with some of these reservations, and what is said of it.
//
//	A      4 × p5  now-1d … now+2d
//	B      8 × p5  now+3d … now+6d
//	later  8 × p5  now+7d … now+9d
//	small  2 × p5  now+2.5d … now+3d
//	odcr   2 × p5  without an end
//	far    8 × p5  without an end, in another zone than the subnets
func TestAdmitLaunchAtTheEdges(t *testing.T) {
	as := func(r Reservation, id string, change func(*Reservation)) Reservation {
		r.ID = id
		change(&r)
		return r
	}
	small := as(blockB, "cr-00000000000000002", func(r *Reservation) {
		r.Tags, r.Total, r.Start, r.End = nil, 2, noon.Add(60*time.Hour), noon.Add(72*time.Hour)
	})
	odcr := as(
		blockA,
		"cr-00000000000000003",
		func(r *Reservation) { r.Kind, r.Total, r.End = CapacityBlock, 2, time.Time{} },
	)
	far := as(
		blockA,
		"cr-00000000000000004",
		func(r *Reservation) { r.Total, r.End, r.AZID = 8, time.Time{}, "use2-az9" },
	)
	inside := as(blockA, "cr-00000000000000005", func(r *Reservation) { r.Total, r.End = 8, noon.Add(24*time.Hour) })
	expired := as(
		blockA,
		"cr-00000000000000006",
		func(r *Reservation) { r.State, r.Start, r.End = StateExpired, noon.Add(-3*day), noon.Add(-2*day) },
	)

	late := as(blockA, "cr-00000000000000008", func(r *Reservation) { r.State = StateScheduled })
	early := as(blockA, "cr-00000000000000007", func(r *Reservation) { r.Start = noon.Add(5 * time.Minute) })
	place := func(id string) string { return "reservation " + id + " has " }
	for name, c := range map[string]struct {
		slot  []Reservation
		other []Reservation // in another slot of the partition
		nodes int
		at    time.Duration // from noon on
		code  Code
		says  string
		until time.Time
		want  []string
	}{
		"the next one is large enough": {
			slot: []Reservation{blockA, blockB}, nodes: 6, code: NoPlace, until: blockB.Start,
			says: place(blockA.ID) + "4 instances, but the job needs 6 nodes; " + blockB.ID +
				", which is large enough, gets slot gpu at 2026-03-04 12:00 UTC",
		},
		"not one that is too small itself": {
			slot: []Reservation{blockA, small, blockB}, nodes: 6, code: NoPlace, until: blockB.Start,
			says: place(blockA.ID) + "4 instances, but the job needs 6 nodes; " + blockB.ID +
				", which is large enough, gets slot gpu at 2026-03-04 12:00 UTC",
		},
		"not one of another slot": {
			slot: []Reservation{blockA}, other: []Reservation{blockB}, nodes: 6, code: NoPlace,
			says: place(blockA.ID) + "4 instances, but the job needs 6 nodes",
		},
		"not one that is open and of no use": {
			slot: []Reservation{odcr, far}, nodes: 6, code: TooManyNodes,
			says: "the job asks for 6 nodes, but the largest reservation of partition gpu that it may use has 2; " +
				"use --nodes=2",
		},
		"too large for all that it may ever have": {
			slot: []Reservation{blockA, small}, nodes: 6, code: TooManyNodes,
			says: "the job asks for 6 nodes, but the largest reservation of partition gpu that it may use has 4; " +
				"use --nodes=4",
		},
		"one that is active before its start": {
			slot: []Reservation{early}, nodes: 1, code: NotOpen, until: early.Start,
			says: "reservation " + early.ID + " is active, and gets slot gpu at 2026-03-01 12:05 UTC",
		},
		"one that EC2 opens late": {
			slot:  []Reservation{late},
			nodes: 1,
			code:  NotOpen,
			says:  "reservation " + late.ID + " is scheduled",
		},
		"one that never gets its turn does not count": {
			slot: []Reservation{blockA, inside}, nodes: 6, code: TooManyNodes,
			says: "the job asks for 6 nodes, but the largest reservation of partition gpu that it may use has 4; " +
				"use --nodes=4",
		},
		"what comes says more than what has ended": {
			slot: []Reservation{expired, blockB}, nodes: 1, code: NotOpen, until: blockB.Start,
			says: "reservation " + blockB.ID + " is scheduled, and gets slot gpu at 2026-03-04 12:00 UTC",
		},
		"ended, though EC2 does not say so yet": {
			slot: []Reservation{blockA}, nodes: 1, at: 48*time.Hour + time.Minute, code: NoReservation,
			says: "jobs on " + blockA.ID + " had to end by 2026-03-03 11:20 UTC",
		},
		"several without an end": {
			slot: []Reservation{odcr, as(odcr, "cr-00000000000000007", func(*Reservation) {})}, nodes: 2, code: OK,
			want: []string{odcr.ID, "cr-00000000000000007"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ids := func(rs []Reservation) (all []string) {
				for _, r := range rs {
					all = append(all, r.ID)
				}
				return all
			}
			snap := twoBlocks(dynamic)

			snap.Reservations = append(append([]Reservation{}, c.slot...), c.other...)
			p := snap.Partitions[0]

			p.Groups[0].Slots = []Slot{
				{Name: "gpu", ReservationIDs: ids(c.slot)},
				{Name: "other", ReservationIDs: ids(c.other)},
			}
			got, v := AdmitLaunch(Request{Nodes: c.nodes}, p, p.Groups[0].Slots[0].Name, snap, noon.Add(c.at))
			want := Verdict{Problem: Problem{Code: c.code, Sentence: c.says}, Refused: c.code != OK, NotBefore: c.until}
			if want.Refused {
				want.Severity = c.code.Severity()
			}

			if diff := cmp.Diff(want, v); diff != "" {
				t.Error(diff)
			}

			if diff := cmp.Diff(c.want, ids(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func forNLP(s *Snapshot) { s.Partitions[0].AllowAccounts = []string{"nlp", "vision"} }

// A change is judged by account and comment alone: length, size and time are Slurm's to check, and an ended
// reservation must not keep a comment from being corrected.
func TestAdmitChange(t *testing.T) {
	ended := func(s *Snapshot) { s.Reservations[0].State = StateExpired }
	for _, c := range []struct {
		name   string
		req    Request
		change []func(*Snapshot)
		code   Code
	}{
		{name: "no limit, no edit", code: OK},
		{name: "too long and too large", req: Request{TimeLimit: NoLimit, Nodes: 99}, code: OK},
		{name: "ended", change: []func(*Snapshot){ended}, code: OK},
		{name: "reservation of the partition", req: Request{Comment: "capacity_reservation_id=" + blockA.ID}, code: OK},
		{
			name: "reservation of nobody",
			req:  Request{Comment: "capacity_reservation_id=cr-0123456789abcdef0"},
			code: UnknownReservation,
		},
		{name: "cannot be right", req: Request{Comment: "capacity_reservation_id=mine"}, code: BadComment},
		{
			name: "another end of a job that runs",
			req:  Request{Comment: "on_end=requeue", OldComment: "on_end=stop", Started: true},
			code: BadComment,
		},
		{
			name: "the same end",
			req:  Request{Comment: "run=2 on_end=stop", OldComment: "on_end=stop", Started: true},
			code: OK,
		},
		{name: "account", req: Request{Account: "law"}, change: []func(*Snapshot){forNLP}, code: AccountNotAllowed},
		{
			name: "another partition's reservation, unmanaged partition",
			req:  Request{Partitions: []string{"cpu"}, Comment: "capacity_reservation_id=" + blockA.ID},
			code: WrongPartition,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.req.Partitions == nil {
				c.req.Partitions = []string{"gpu"}
			}

			v := AdmitChange(c.req, twoBlocks(append(c.change, onlyA)...), noon)
			if v.Code != c.code || v.Refused != (c.code != OK) || v.Edits != (Edits{}) {
				t.Errorf("got %+v, want %s", v, c.code)
			}
		})
	}
}

// An old snapshot lets through what may have changed in AWS, and nothing else.
func TestAdmitStale(t *testing.T) {
	ended := func(s *Snapshot) { s.Reservations[0].State = StateExpired }
	for _, c := range []struct {
		name    string
		req     Request
		change  []func(*Snapshot)
		code    Code
		refused bool
	}{
		{"account", Request{Account: "law"}, []func(*Snapshot){forNLP}, AccountNotAllowed, true},
		{"none", Request{AccountKnown: true}, []func(*Snapshot){forNLP}, AccountNotAllowed, true},
		{"comment that cannot be right", Request{Comment: "capacity_reservation_id=mine"}, nil, BadComment, true},
		{
			"reservation of nobody",
			Request{Comment: "capacity_reservation_id=cr-0123456789abcdef0"},
			nil,
			UnknownReservation,
			true,
		},
		{"a known end", Request{TimeLimit: NoLimit}, nil, TooLong, true},
		{"nodes", Request{Nodes: 9}, nil, TooManyNodes, false},
		{"ended", Request{}, []func(*Snapshot){ended}, NoReservation, false},
		{"subnet", Request{Comment: "subnet_id=subnet-bbbbbbbb"}, nil, NoMatchingCapacity, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Partitions = []string{"gpu"}
			if !c.req.TimeLimit.Set {
				c.req.TimeLimit = Minutes(60)
			}

			v := Admit(c.req, twoBlocks(append(c.change, onlyA, stale)...), noon)
			if v.Code != c.code || v.Refused != c.refused {
				t.Errorf("got %+v, want %s, refused %v", v, c.code, c.refused)
			}

			fresh := Admit(c.req, twoBlocks(append(c.change, onlyA)...), noon.Add(time.Second))
			if fresh.Code != c.code || !fresh.Refused {
				t.Errorf("with a fresh snapshot: %+v", fresh)
			}
		})
	}
}

// A job that Admit accepts can be launched while nothing else takes its nodes: in one of its slots, at a time when a
// reservation has it.
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
			t.Fatalf(
				"round %d: %+v is admitted with %+v and can never be placed:\n%+v\n%+v",
				round,
				req,
				v,
				snap.Partitions[0].Groups,
				snap.Reservations,
			)
		}
	}

	if accepted < 4000 || later < 1000 {
		t.Errorf(
			"%d of 20000 random jobs were accepted, for %d a later moment was tried; the test sees too little",
			accepted,
			later,
		)
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

		return len(admitted) > 0 && SortForLaunch(admitted, job.Nodes, nil)[0].Available >= job.Nodes
	})
}
