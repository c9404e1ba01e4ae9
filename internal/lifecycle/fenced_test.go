package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A fence goes when nothing is left that it guards in its slot: its block has ended, can never have the slot, or has
// another one.
func TestAFenceMayGo(t *testing.T) {
	open := block("cr-0", "-1h", "24h", capacity.StateActive)
	within := block("cr-2", "1h", "20h", capacity.StateScheduled) // ends before cr-0 does: it never gets the slot
	later := block("cr-1", "25h", "48h", capacity.StateScheduled)
	third := block("cr-3", "50h", "72h", capacity.StateScheduled)
	slots := func(gpu, big []string) func(*Seen) {
		return func(s *Seen) {
			group := &s.Snap.Partitions[0].Groups[0]
			group.Slots = []capacity.Slot{{Name: "gpu", ReservationIDs: gpu}, {Name: "big", ReservationIDs: big}}
		}
	}
	formerly := func(name, id string) func(*Seen) {
		return func(s *Seen) {
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
		but   func(*Seen)
		want  bool
	}{
		"of no block":                         {"", nil, nil, true},
		"of an open block":                    {"cr-0", []capacity.Reservation{open}, nil, false},
		"of the next block":                   {"cr-1", []capacity.Reservation{open, later}, nil, false},
		"of an ended block":                   {"cr-9", []capacity.Reservation{block("cr-9", "-48h", "-1h", capacity.StateExpired), open}, nil, true},
		"of an ODCR that ends":                {"cr-4", []capacity.Reservation{odcr("24h")}, nil, false},
		"of an ODCR that ends no more":        {"cr-4", []capacity.Reservation{odcr("")}, nil, true},
		"named by fences only, and no end":    {"cr-4", nil, func(s *Seen) { s.Guarded = map[string]capacity.Reservation{"cr-4": odcr("")} }, true},
		"of a block without an end":           {"cr-0", []capacity.Reservation{endless}, nil, false},
		"of one that never gets the slot":     {"cr-2", []capacity.Reservation{open, within}, nil, true},
		"beside one that never gets the slot": {"cr-0", []capacity.Reservation{open, within}, nil, false},
		"it has another slot":                 {"cr-0", []capacity.Reservation{open}, slots(nil, []string{"cr-0"}), true},
		"it is the next of another slot":      {"cr-1", []capacity.Reservation{open, later}, slots(nil, []string{"cr-0", "cr-1"}), true},
		"it is the third of another slot":     {"cr-3", []capacity.Reservation{open, later, third}, slots(nil, []string{"cr-0", "cr-1", "cr-3"}), false},
		"another slot has another block":      {"cr-0", []capacity.Reservation{open, later}, slots([]string{"cr-0"}, []string{"cr-1"}), false},
		"another slot had it":                 {"cr-0", []capacity.Reservation{open}, formerly("big", "cr-0"), false},
		"another slot had it, and has others": {"cr-0", []capacity.Reservation{open}, func(s *Seen) { slots(nil, nil)(s); s.Snap.Former = formerSlot("big", "cr-0") }, false},
		"named by fences only, and open":      {"cr-7", nil, func(s *Seen) { s.Guarded = map[string]capacity.Reservation{"cr-7": open} }, false},
		"named by fences only, and ended": {"cr-7", nil, func(s *Seen) {
			s.Guarded = map[string]capacity.Reservation{"cr-7": block("cr-7", "-48h", "-1h", capacity.StateExpired)}
		}, true},
		"EC2 does not describe it":               {"cr-7", nil, nil, false},
		"EC2 has not described it for very long": {"cr-7", nil, func(s *Seen) { s.Gone = map[string]bool{"cr-7": true} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			var ids []string
			for _, r := range c.rs {
				ids = append(ids, r.ID)
			}
			s := Seen{Snap: oneSlot("ec2", ids, c.rs...), Now: noon}
			if c.but != nil {
				c.but(&s)
			}
			if got := s.mayGo(capacity.Guard{Kind: capacity.GuardFence, Slot: "gpu", Block: c.block, Owner: me}); got != c.want {
				t.Errorf("%t", got)
			}
		})
	}
}

// formerSlot is a slot that the settings had with a reservation that is still live.
func formerSlot(name, id string) []capacity.Partition {
	return []capacity.Partition{{Name: "gpu", Groups: []capacity.NodeGroup{{Slots: []capacity.Slot{{Name: name, ReservationIDs: []string{id}}}}}}}
}

// People hear of each fence of ours that stays although no settings name its block, and why.
func TestFencesThatStay(t *testing.T) {
	fence := func(kind, owner string) capacity.SlurmReservation {
		return reservation("pcs-capacity-"+kind+"-old.cr-7."+owner, []string{"gpu-1"}, at("1h"), at("1h").AddDate(1, 0, 0))
	}
	mine := fence("fence", me)
	notOurs := mine
	notOurs.Users = []string{"alice"}
	live, ended := block("cr-7", "-1h", "24h", capacity.StateActive), block("cr-7", "-48h", "-1h", capacity.StateExpired)
	const unnamed, missing = "the settings no longer name reservation cr-7 for slot old", "EC2 has not described reservation cr-7 since 2026-11-20 11:30 UTC; its fence pcs-capacity-fence-old.cr-7." + me + " stays until 2026-11-20 12:30 UTC"
	for name, c := range map[string]struct {
		there   capacity.SlurmReservation
		guarded *capacity.Reservation
		missing bool
		todo    []guardChange
		want    string
	}{
		"of a live block":                       {there: mine, guarded: &live, want: unnamed},
		"of one that has ended":                 {there: mine, guarded: &ended},
		"of one that EC2 does not show":         {there: mine, missing: true, want: missing},
		"of one that it showed, but is over":    {there: mine, guarded: &ended, missing: true, want: missing},
		"of one that is in the settings":        {there: mine},
		"another owner's":                       {there: fence("fence", other), guarded: &live},
		"no fence":                              {there: fence("wait", me), guarded: &live},
		"somebody else's, under a name of ours": {there: notOurs, guarded: &live},
		"it goes":                               {there: mine, guarded: &live, todo: []guardChange{{do: "delete", r: mine}}},
		"another takes its place":               {there: mine, guarded: &live, todo: []guardChange{{do: "replace", r: fence("fence", other), old: mine.Name}}},
		"it is moved":                           {there: mine, guarded: &live, todo: []guardChange{{do: "update", r: mine}}, want: unnamed},
	} {
		t.Run(name, func(t *testing.T) {
			s := Seen{Owner: me, Snap: &capacity.Snapshot{Missing: map[string]time.Time{}}, Cluster: &Cluster{Reservations: []capacity.SlurmReservation{c.there}}, Now: noon}
			if c.guarded != nil {
				s.Guarded = map[string]capacity.Reservation{"cr-7": *c.guarded}
			}
			if c.missing {
				s.Snap.Missing["cr-7"] = at("-30m")
			}
			got := texts(s.keptFences(c.todo))
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
				t.Errorf("said %q, want %q", got, c.want)
			}
		})
	}
	// One that needs no word hides no other.
	s := Seen{Owner: me, Snap: &capacity.Snapshot{}, Cluster: &Cluster{Reservations: []capacity.SlurmReservation{notOurs, mine}}, Guarded: map[string]capacity.Reservation{"cr-7": live}, Now: noon}
	if diff := cmp.Diff(1, len(s.keptFences(nil))); diff != "" {
		t.Error(diff)
	}
}
