package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(offset string) time.Time {
	d, err := time.ParseDuration(offset)
	if err != nil {
		panic(err)
	}

	return noon.Add(d)
}

func block(id, start, end string, state capacity.State) capacity.Reservation {
	return capacity.Reservation{ID: id, Kind: capacity.CapacityBlock, State: state, Start: at(start), End: at(end)}
}

// oneSlot is a snapshot with one slot "gpu" that has the reservations, in order.
func oneSlot(provider capacity.Provider, ids []string, rs ...capacity.Reservation) *capacity.Snapshot {
	d := func(d time.Duration) capacity.Duration { return capacity.Duration{Duration: d} }

	return &capacity.Snapshot{
		Timing: capacity.Timing{
			DrainMargin: d(10 * time.Minute),
			ReclaimLead: d(30 * time.Minute),
		}, Partitions: []capacity.Partition{{
			Name: "gpu", Provider: provider,
			Groups: []capacity.NodeGroup{{Name: "gpu", Slots: []capacity.Slot{{Name: "gpu", ReservationIDs: ids}}}},
		}},
		Reservations: rs,
	}
}

// me is the owner of the settings, other that of other settings.
const me, other = "0123abcd", "fedc4321"

// steps are those of me; every fence may go.
func steps(
	want, have []capacity.SlurmReservation,
	keep map[string]bool,
	now time.Time,
) (todo []guardChange, left []string) {
	todo, said := View{
		Owner: me,
		Now:   now,
		Snap:  &capacity.Snapshot{},
	}.diffGuards(want, have, keep, func(capacity.Guard) bool { return true })

	return todo, texts(said)
}

// texts are the sentences of problems, as people read them.
func texts(problems []capacity.Problem) (all []string) {
	for _, p := range problems {
		all = append(all, p.Text())
	}
	return all
}

// reservation is one of ours over nodes that are not a guest's.
func reservation(name string, nodes []string, start, end time.Time) capacity.SlurmReservation {
	return capacity.SlurmReservation{
		Name:  name,
		Nodes: nodes,
		Start: start,
		End:   end,
		Flags: []string{"MAINT", "IGNORE_JOBS"},
		Users: []string{"root"},
	}
}

// asGuest are reservations over nodes that something else launches.
func asGuest(all ...capacity.SlurmReservation) []capacity.SlurmReservation {
	for i := range all {
		all[i].Flags = []string{"OVERLAP", "IGNORE_JOBS"}
	}
	return all
}

func TestWanted(t *testing.T) {
	nodes := []string{"gpu-1", "gpu-2"}
	sized := func(r capacity.Reservation, total int) capacity.Reservation { r.Total = total; return r }
	odcr := func(id string, state capacity.State, end time.Time) capacity.Reservation {
		return capacity.Reservation{ID: id, Kind: capacity.ODCR, State: state, End: end, Total: 1}
	}
	now := block("cr-0", "-1h", "24h", capacity.StateActive)
	later := block("cr-1", "24h", "48h", capacity.StateScheduled)
	ended := block("cr-9", "-48h", "-1h", capacity.StateExpired)

	type rs = []capacity.Reservation

	for name, c := range map[string]struct {
		provider capacity.Provider
		ids      string
		rs       rs
		want     string // kind, EC2's reservation, nodes, from, to
	}{
		"open block": {"ec2", "cr-0", rs{now}, "fence cr-0 gpu-[1-2] 23h20m"},
		"scheduled block on ec2 waits as well": {
			"ec2",
			"cr-1",
			rs{later},
			"wait cr-1 gpu-[1-2] 0s 1d, fence cr-1 gpu-[1-2] 1d23h20m",
		},
		"scheduled block on PCS: PCS holds the nodes": {"pcs", "cr-1", rs{later}, "fence cr-1 gpu-[1-2] 1d23h20m"},
		"the fence ends when the next block opens": {
			"ec2",
			"cr-1 cr-0",
			rs{now, later},
			"fence cr-0 gpu-[1-2] 23h20m 1d, fence cr-1 gpu-[1-2] 1d23h20m",
		},
		"not before the old block has ended": {
			"ec2",
			"cr-0 cr-2",
			rs{now, block("cr-2", "20h", "48h", capacity.StateScheduled)},
			"fence cr-0 gpu-[1-2] 23h20m 1d, fence cr-2 gpu-[1-2] 1d23h20m",
		},
		"a PCS group holds one block": {
			"pcs",
			"cr-0 cr-1",
			rs{now, later},
			"fence cr-0 gpu-[1-2] 23h20m",
		},
		"all ended: stays closed": {"ec2", "cr-9", rs{ended}, "fence cr-9 gpu-[1-2] -1h40m"},
		"over by the clock, though EC2 still says active": {
			"ec2",
			"cr-9",
			rs{block("cr-9", "-48h", "0s", capacity.StateActive)},
			"fence cr-9 gpu-[1-2] -40m",
		},
		"never paid: closed from now": {
			"ec2",
			"cr-9",
			rs{block("cr-9", "24h", "48h", capacity.StatePaymentFailed)},
			"fence cr-9 gpu-[1-2] 0s",
		},
		"an ended one before an open one": {"ec2", "cr-9 cr-0", rs{ended, now}, "fence cr-0 gpu-[1-2] 23h20m"},
		"a cancelled ODCR: closed from now": {
			"ec2",
			"cr-3",
			rs{odcr("cr-3", capacity.StateCancelled, time.Time{})},
			"fence  gpu-[1-2] 0s",
		},
		"an ODCR with an end has no reclaim lead": {
			"ec2",
			"cr-3",
			rs{odcr("cr-3", capacity.StateActive, at("2h"))},
			"fence cr-3 gpu-[1-2] 1h50m, surplus cr-3 gpu-2 0s",
		},
		"no reservation: closed from now":        {"ec2", "", nil, "fence  gpu-[1-2] 0s"},
		"no reservation on PCS: no nodes either": {"pcs", "", nil, ""},
		"more nodes than places": {
			"ec2",
			"cr-0",
			rs{sized(now, 1)},
			"fence cr-0 gpu-[1-2] 23h20m, surplus cr-0 gpu-2 0s",
		},
		"as many nodes as places":        {"ec2", "cr-0", rs{sized(now, 2)}, "fence cr-0 gpu-[1-2] 23h20m"},
		"more nodes than places, on PCS": {"pcs", "cr-0", rs{sized(now, 1)}, "fence cr-0 gpu-[1-2] 23h20m"},
		"guest, scheduled, nobody's size": {
			"none",
			"cr-1",
			rs{sized(later, 1)},
			"guest's wait cr-1 gpu-[1-2] 0s 1d, guest's fence cr-1 gpu-[1-2] 1d23h20m",
		},
		"the sum of those without an end": {
			"ec2",
			"cr-3 cr-4",
			rs{odcr("cr-3", capacity.StateActive, time.Time{}), odcr("cr-4", capacity.StateActive, time.Time{})},
			"",
		},
	} {
		snap := oneSlot(c.provider, strings.Fields(c.ids), c.rs...)

		var got []string
		for _, r := range (View{
			Owner:   me,
			Snap:    snap,
			Now:     noon,
			Cluster: &Cluster{},
		}).wantedGuards(snap.SlotStates(noon)[0], nodes) {
			g := r.Guard()
			text := fmt.Sprintf(
				"%s %s %s %s",
				g.Kind,
				g.Block,
				hostlist.Compress(r.Nodes),
				capacity.FormatExact(r.Start.Sub(noon)),
			)
			if !r.End.IsZero() {
				text += " " + capacity.FormatExact(r.End.Sub(noon))
			}

			if !r.IsMaintenance() {
				text = "guest's " + text
			}

			if got = append(got, text); !r.IsOurs() || g.Owner != me {
				t.Errorf("%s: %+v is not ours", name, r)
			}
		}

		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestUnknownReservationLeavesTheSlotAlone(t *testing.T) { // R8
	snap := oneSlot("ec2", []string{"cr-0"})
	if v := snap.SlotStates(noon)[0]; !v.Unknown {
		t.Errorf("a reservation that EC2 did not describe: %+v", v)
	}

	snap = oneSlot("ec2", []string{"cr-bad", "cr-0"}, block("cr-0", "-1h", "24h", capacity.StateActive))
	if v := snap.SlotStates(noon)[0]; v.Unknown || v.Reservation.ID != "cr-0" {
		t.Errorf("a bad id hides a good one: %+v", v)
	}
}

// A fence is only told to move when the two times differ as they are told, in minutes.
func TestFencesDue(t *testing.T) {
	const still = "Slurm still has the fence for cr-0 on slot gpu at "

	snap := oneSlot("ec2", []string{"cr-0"}, block("cr-0", "-1h", "2h0m31s", capacity.StateActive)) // fence: 13:20:31
	for has, want := range map[string]string{
		"1h20m31s": "",
		"1h20m33s": "",
		"1h19m32s": "",
		"1h21m30s": "",
		"1h19m31s": still + "2026-11-20 13:20 UTC; sync moves it to 2026-11-20 13:21 UTC",
		"1h21m31s": still + "2026-11-20 13:22 UTC; sync moves it to 2026-11-20 13:21 UTC",
		"1h50m":    still + "2026-11-20 13:50 UTC; sync moves it to 2026-11-20 13:21 UTC",
	} {
		cluster := &Cluster{
			slots: map[string][]string{"gpu": {"gpu-1"}},
			Reservations: []capacity.SlurmReservation{
				reservation("pcs-capacity-fence-gpu.cr-0."+me, []string{"gpu-1"}, at(has), time.Time{}),
			},
		}
		due := texts(checkDueFences(View{Owner: me, Snap: snap, Cluster: cluster, Now: noon}))
		if got := strings.Join(due, "; "); got != want {
			t.Errorf("%s: %q, want %q", has, got, want)
		}
	}
}

func TestSteps(t *testing.T) {
	nodes := []string{"gpu-1", "gpu-2"}

	year := 365 * 24 * time.Hour
	fence := func(start, end time.Time) capacity.SlurmReservation {
		return reservation("pcs-capacity-fence-gpu.cr-0."+me, nodes, start, end)
	}
	future := fence(at("1h"), time.Time{})
	for name, c := range map[string]struct {
		want, have []capacity.SlurmReservation
		keep       string
		todo       []string
	}{
		"placed": {
			want: []capacity.SlurmReservation{future},
			todo: []string{"create pcs-capacity-fence-gpu.cr-0." + me},
		},
		"there": {
			want: []capacity.SlurmReservation{future},
			have: []capacity.SlurmReservation{fence(at("1h2s"), at("1h2s").Add(year))},
		},
		"R11: the end moved, the fence not yet active": {
			want: []capacity.SlurmReservation{future},
			have: []capacity.SlurmReservation{fence(at("2h"), at("2h").Add(year))},
			todo: []string{"update pcs-capacity-fence-gpu.cr-0." + me},
		},
		"R11: an extension while the fence is active": {
			want: []capacity.SlurmReservation{future},
			have: []capacity.SlurmReservation{fence(at("-1m"), at("-1m").Add(year))},
			todo: []string{"replace pcs-capacity-fence-gpu.cr-0." + me + ".2"},
		},
		"active, start in the past either way": {
			want: []capacity.SlurmReservation{fence(at("-9m"), time.Time{})},
			have: []capacity.SlurmReservation{fence(at("-1m"), at("-1m").Add(year))},
		},
		"active, the next block became known": {
			want: []capacity.SlurmReservation{fence(at("-9m"), at("1h"))},
			have: []capacity.SlurmReservation{fence(at("-9m"), at("-9m").Add(year))},
			todo: []string{"update pcs-capacity-fence-gpu.cr-0." + me},
		},
		"nodes were added": {
			want: []capacity.SlurmReservation{future},
			have: []capacity.SlurmReservation{
				reservation("pcs-capacity-fence-gpu.cr-0."+me, nodes[:1], at("1h"), at("1h").Add(year)),
			},
			todo: []string{"update pcs-capacity-fence-gpu.cr-0." + me},
		},
		"nodes in another order": {
			want: []capacity.SlurmReservation{future},
			have: []capacity.SlurmReservation{
				reservation("pcs-capacity-fence-gpu.cr-0."+me, []string{"gpu-2", "gpu-1"},
					at("1h"), at("1h").Add(year)),
			},
		},
		"another end": {
			want: []capacity.SlurmReservation{fence(at("1h"), at("30h"))},
			have: []capacity.SlurmReservation{fence(at("1h"), at("31h"))},
			todo: []string{"update pcs-capacity-fence-gpu.cr-0." + me},
		},
		"300 days are without end": {
			want: []capacity.SlurmReservation{future},
			have: []capacity.SlurmReservation{fence(at("1h"), at("1h").Add(300*24*time.Hour))},
		},
		"six seconds are another start": {
			want: []capacity.SlurmReservation{future},
			have: []capacity.SlurmReservation{fence(at("1h6s"), at("1h6s").Add(year))},
			todo: []string{"update pcs-capacity-fence-gpu.cr-0." + me},
		},
		"ends now": {
			want: []capacity.SlurmReservation{future},
			have: []capacity.SlurmReservation{fence(at("-2h"), noon)},
			todo: []string{"replace pcs-capacity-fence-gpu.cr-0." + me + ".2"},
		},
		"not needed any more": {
			have: []capacity.SlurmReservation{future},
			todo: []string{"delete pcs-capacity-fence-gpu.cr-0." + me},
		},
		"R8: nothing is known": {have: []capacity.SlurmReservation{future}, keep: "gpu"},
		"one that has ended and is still listed": {
			want: []capacity.SlurmReservation{future},
			have: []capacity.SlurmReservation{fence(at("-2h"), at("-1h"))},
			todo: []string{"replace pcs-capacity-fence-gpu.cr-0." + me + ".2"},
		},
		"the nodes are somebody else's now": {
			want: asGuest(fence(at("1h"), time.Time{})),
			have: []capacity.SlurmReservation{fence(at("1h"), at("1h").Add(year))},
			todo: []string{"replace pcs-capacity-fence-gpu.cr-0." + me + ".2"},
		},
		"kept beside one that goes": {
			keep: "gpu",
			have: []capacity.SlurmReservation{
				future,
				reservation("pcs-capacity-fence-old.cr-0."+me, nodes, at("1h"), at("1h").Add(year)),
			},
			todo: []string{"delete pcs-capacity-fence-old.cr-0." + me},
		},
		"a guest's is there": {
			want: asGuest(fence(at("1h"), time.Time{})),
			have: asGuest(fence(at("1h"), at("1h").Add(year))),
		},
		"roll over: the wait is there before the fence goes": {
			want: []capacity.SlurmReservation{
				reservation("pcs-capacity-wait-gpu.cr-0."+me, nodes, noon, at("3h")),
				fence(at("9h"), time.Time{}),
			},
			have: []capacity.SlurmReservation{fence(at("-1h"), at("3h"))},
			todo: []string{
				"create pcs-capacity-wait-gpu.cr-0." + me,
				"replace pcs-capacity-fence-gpu.cr-0." + me + ".2",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			todo, foreign := steps(c.want, c.have, map[string]bool{c.keep: true}, noon)

			var got []string
			for _, s := range todo {
				got = append(got, s.do+" "+s.r.Name)
			}

			if !slices.Equal(got, c.todo) || foreign != nil {
				t.Errorf("got %q, foreign %v; want %q", got, foreign, c.todo)
			}
		})
	}
}

func TestR9OnlyOurReservations(t *testing.T) {
	maint := []string{"MAINT", "IGNORE_JOBS", "SPEC_NODES"}
	root := []string{"root"}

	untouched := []capacity.SlurmReservation{
		{Name: "gpu-a-scheduled", Flags: maint, Users: root},
		{Name: "pcluster-cr-0123456789abcdef0", Flags: maint, Users: root},
		{Name: "pcs-capacity-fence-gpu-scheduled", Flags: maint, Users: root},
		{Name: "pcs-capacity-fence-old.cr-0." + me, Flags: []string{"SPEC_NODES"}, Users: root},
		{Name: "pcs-capacity-fence-old.cr-0." + me, Flags: []string{"MAINT"}, Users: root},
		{Name: "pcs-capacity-fence-old.cr-0." + me, Flags: []string{"IGNORE_JOBS"}, Users: root},
		{Name: "pcs-capacity-fence-old.cr-0." + me, Flags: maint, Users: []string{"alice"}},
		{Name: "pcs-capacity-fence-old.cr-0." + me, Flags: maint, Users: []string{"alice", "root"}},
		{Name: "maintenance-friday", Flags: maint, Users: root},
	}
	for _, r := range untouched {
		if todo, _ := steps(nil, []capacity.SlurmReservation{r}, nil, noon); len(todo) > 0 {
			t.Errorf("%+v would be changed: %+v", r, todo)
		}
	}
	// A foreign reservation that has the name that we need is neither taken nor replaced.
	taken := capacity.SlurmReservation{
		Name:  "pcs-capacity-fence-gpu.cr-0." + me,
		Flags: maint,
		Users: []string{"alice"},
	}

	todo, foreign := steps(
		[]capacity.SlurmReservation{
			reservation("pcs-capacity-fence-gpu.cr-0."+me, []string{"gpu-1"}, noon, time.Time{}),
		},
		[]capacity.SlurmReservation{taken},
		nil,
		noon,
	)
	if len(todo) > 0 || len(foreign) != 1 {
		t.Errorf("todo %+v, foreign %v", todo, foreign)
	}

	ours := capacity.SlurmReservation{Name: "pcs-capacity-fence-old.cr-0." + me, Flags: maint, Users: root}
	if todo, _ := steps(nil, []capacity.SlurmReservation{ours}, nil, noon); len(todo) != 1 || todo[0].do != "delete" {
		t.Errorf("our own is not removed: %+v", todo)
	}
}

// A fence goes when nothing is left that it guards in its slot: its block has ended, can never have the slot, or has
// another one.
func TestAFenceMayGo(t *testing.T) {
	open := block("cr-0", "-1h", "24h", capacity.StateActive)
	within := block("cr-2", "1h", "20h", capacity.StateScheduled) // ends before cr-0 does: it never gets the slot
	later := block("cr-1", "25h", "48h", capacity.StateScheduled)
	third := block("cr-3", "50h", "72h", capacity.StateScheduled)
	slots := func(gpu, big []string) func(*View) {
		return func(s *View) {
			group := &s.Snap.Partitions[0].Groups[0]
			group.Slots = []capacity.Slot{{Name: "gpu", ReservationIDs: gpu}, {Name: "big", ReservationIDs: big}}
		}
	}
	formerly := func(name, id string) func(*View) {
		return func(s *View) {
			s.Snap.Former, s.Snap.Partitions[0].Groups[0].Slots[0].ReservationIDs = formerSlot(name, id), nil
		}
	}

	endless := open
	endless.End = time.Time{}
	odcr := func(end string) capacity.Reservation {
		r := endless
		r.ID, r.Kind = "cr-4", capacity.ODCR
		if end != "" {
			r.End = at(end)
		}

		return r
	}
	for name, c := range map[string]struct {
		block string
		rs    []capacity.Reservation
		but   func(*View)
		want  bool
	}{
		"of no block":       {"", nil, nil, true},
		"of an open block":  {"cr-0", []capacity.Reservation{open}, nil, false},
		"of the next block": {"cr-1", []capacity.Reservation{open, later}, nil, false},
		"of an ended block": {
			"cr-9",
			[]capacity.Reservation{block("cr-9", "-48h", "-1h", capacity.StateExpired), open},
			nil,
			true,
		},
		"of an ODCR that ends":         {"cr-4", []capacity.Reservation{odcr("24h")}, nil, false},
		"of an ODCR that ends no more": {"cr-4", []capacity.Reservation{odcr("")}, nil, true},
		"named by fences only, and no end": {
			"cr-4",
			nil,
			func(s *View) { s.Snap.Reservations = []capacity.Reservation{odcr("")} },
			true,
		},
		"of a block without an end":           {"cr-0", []capacity.Reservation{endless}, nil, false},
		"of one that never gets the slot":     {"cr-2", []capacity.Reservation{open, within}, nil, true},
		"beside one that never gets the slot": {"cr-0", []capacity.Reservation{open, within}, nil, false},
		"it has another slot": {
			"cr-0",
			[]capacity.Reservation{open},
			slots(nil, []string{"cr-0"}),
			true,
		},
		"it is the next of another slot": {
			"cr-1",
			[]capacity.Reservation{open, later},
			slots(nil, []string{"cr-0", "cr-1"}),
			true,
		},
		"it is the third of another slot": {
			"cr-3",
			[]capacity.Reservation{open, later, third},
			slots(nil, []string{"cr-0", "cr-1", "cr-3"}),
			false,
		},
		"another slot has another block": {
			"cr-0",
			[]capacity.Reservation{open, later},
			slots([]string{"cr-0"}, []string{"cr-1"}),
			false,
		},
		"another slot had it": {"cr-0", []capacity.Reservation{open}, formerly("big", "cr-0"), false},
		"another slot had it, and has others": {
			"cr-0",
			[]capacity.Reservation{open},
			func(s *View) { slots(nil, nil)(s); s.Snap.Former = formerSlot("big", "cr-0") },
			false,
		},
		"named by fences only, and open": {
			"cr-7",
			nil,
			func(s *View) { r := open; r.ID = "cr-7"; s.Snap.Reservations = []capacity.Reservation{r} },
			false,
		},
		"named by fences only, and ended": {"cr-7", nil, func(s *View) {
			s.Snap.Reservations = []capacity.Reservation{block("cr-7", "-48h", "-1h", capacity.StateExpired)}
		}, true},
		"EC2 does not describe it": {"cr-7", nil, nil, false},
		"EC2 has not described it for very long": {
			"cr-7",
			nil,
			func(s *View) { s.Snap.Missing = map[string]time.Time{"cr-7": at("-1h")} },
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ids []string
			for _, r := range c.rs {
				ids = append(ids, r.ID)
			}

			s := View{Snap: oneSlot("ec2", ids, c.rs...), Now: noon}
			if c.but != nil {
				c.but(&s)
			}

			if got := s.isObsolete(capacity.Guard{
				Kind:  capacity.GuardFence,
				Slot:  "gpu",
				Block: c.block,
				Owner: me,
			}); got != c.want {
				t.Errorf("%t", got)
			}
		})
	}
}

// formerSlot is a slot that the settings had with a reservation that is still live.
func formerSlot(name, id string) []capacity.Partition {
	return []capacity.Partition{
		{
			Name:   "gpu",
			Groups: []capacity.NodeGroup{{Slots: []capacity.Slot{{Name: name, ReservationIDs: []string{id}}}}},
		},
	}
}

// Each fence of ours that stays although no settings name its block is reported, with the reason.
func TestFencesThatStay(t *testing.T) {
	fence := func(kind, owner string) capacity.SlurmReservation {
		return reservation(
			"pcs-capacity-"+kind+"-old.cr-7."+owner,
			[]string{"gpu-1"},
			at("1h"),
			at("1h").AddDate(1, 0, 0),
		)
	}
	mine := fence("fence", me)
	notOurs := mine

	notOurs.Users = []string{"alice"}
	live := block("cr-7", "-1h", "24h", capacity.StateActive)
	ended := block("cr-7", "-48h", "-1h", capacity.StateExpired)

	const unnamed, missing = "the settings no longer name reservation cr-7 for slot old", "EC2 has not described " +
		"reservation cr-7 since 2026-11-20 11:30 UTC; its fence pcs-capacity-fence-old.cr-7." + me +
		" stays until 2026-11-20 12:30 UTC"
	for name, c := range map[string]struct {
		there   capacity.SlurmReservation
		guarded *capacity.Reservation
		missing bool
		in      []capacity.Partition
		want    string
	}{
		"of a live block":                       {there: mine, guarded: &live, want: unnamed},
		"of one that has ended":                 {there: mine, guarded: &ended},
		"of one that EC2 does not show":         {there: mine, missing: true, want: missing},
		"of one that is in the settings":        {there: mine, guarded: &live, in: formerSlot("old", "cr-7")},
		"of one that they have elsewhere":       {there: mine, guarded: &live, in: formerSlot("new", "cr-7")},
		"another owner's":                       {there: fence("fence", other), guarded: &live},
		"no fence":                              {there: fence("wait", me), guarded: &live},
		"somebody else's, under a name of ours": {there: notOurs, guarded: &live},
	} {
		t.Run(name, func(t *testing.T) {
			s := View{
				Owner:   me,
				Snap:    &capacity.Snapshot{Partitions: c.in},
				Cluster: &Cluster{Reservations: []capacity.SlurmReservation{notOurs, c.there}},
				Now:     noon,
			}
			if c.guarded != nil {
				s.Snap.Reservations = []capacity.Reservation{*c.guarded}
			}

			if c.missing {
				s.Snap.Missing = map[string]time.Time{"cr-7": at("-30m")}
			}

			got := texts(checkKeptFences(s))
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
				t.Errorf("said %q, want %q", got, c.want)
			}
		})
	}
}

// What a pass does about the Slurm reservations of a slot, by what it could see.
func TestFences(t *testing.T) {
	open := block("cr-0", "-1h", "24h", capacity.StateActive)
	there := func(kind string) capacity.SlurmReservation {
		return reservation(
			"pcs-capacity-"+kind+"-gpu.cr-9."+me,
			[]string{"gpu-1"},
			at("-2h"),
			at("-2h").AddDate(1, 0, 0),
		)
	}
	for name, c := range map[string]struct {
		provider capacity.Provider
		ids      []string
		rs       []capacity.Reservation
		have     []capacity.SlurmReservation
		noAWS    bool
		noQueue  bool
		noNodes  bool
		want     string
	}{
		"an open block": {
			provider: "ec2",
			ids:      []string{"cr-0"},
			rs:       []capacity.Reservation{open},
			want:     "create-fence",
		},
		"a wait that nobody needs": {
			provider: "ec2",
			ids:      []string{"cr-0"},
			rs:       []capacity.Reservation{open},
			have:     []capacity.SlurmReservation{there("wait")},
			want:     "create-fence delete-wait",
		},
		"without AWS nothing goes": {
			provider: "ec2",
			ids:      []string{"cr-0"},
			rs:       []capacity.Reservation{open},
			have:     []capacity.SlurmReservation{there("wait")},
			noAWS:    true,
			want:     "create-fence",
		},
		"EC2 does not describe what the slot has": {
			provider: "ec2",
			ids:      []string{"cr-0"},
			have:     []capacity.SlurmReservation{there("wait"), there("surplus")},
		},
		"nothing on PCS, in a queue": {
			provider: "pcs",
			ids:      []string{"cr-9"},
			rs:       []capacity.Reservation{block("cr-9", "-48h", "-24h", capacity.StateExpired)},
			want:     "create-fence",
		},
		"nothing on our nodes, in no partition": {
			provider: "ec2",
			ids:      []string{"cr-9"},
			rs:       []capacity.Reservation{block("cr-9", "-48h", "-24h", capacity.StateExpired)},
			noQueue:  true,
			want:     "create-fence",
		},
		"an open block on PCS, in no queue yet": {
			provider: "pcs",
			ids:      []string{"cr-0"},
			rs:       []capacity.Reservation{open},
			noQueue:  true,
			want:     "create-fence",
		},
		"Slurm shows no nodes of an open block": {
			provider: "ec2",
			ids:      []string{"cr-0"},
			rs:       []capacity.Reservation{open},
			have:     []capacity.SlurmReservation{there("wait")},
			noNodes:  true,
		},
		"no nodes and no block": {
			provider: "ec2",
			have:     []capacity.SlurmReservation{there("wait")},
			noNodes:  true,
			want:     "delete-wait",
		},
		"nothing on PCS, in no queue any more": {
			provider: "pcs",
			ids:      []string{"cr-9"},
			rs:       []capacity.Reservation{block("cr-9", "-48h", "-24h", capacity.StateExpired)},
			noQueue:  true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &Cluster{slots: map[string][]string{"gpu": {"gpu-1"}}, Reservations: c.have}
			if c.noNodes {
				cluster.slots = nil
			}

			if !c.noQueue {
				cluster.Partitions = []capacity.SlurmPartition{{Name: "gpu", Nodes: []string{"gpu-1"}}}
			}

			effects, _ := decideFences(
				View{Owner: me, Snap: oneSlot(c.provider, c.ids, c.rs...), Cluster: cluster, NoAWS: c.noAWS, Now: noon},
			)

			var got []string
			for _, e := range effects {
				got = append(got, e.Code)
			}

			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
