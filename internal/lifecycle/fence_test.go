package lifecycle

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
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
		Timing: capacity.Timing{DrainMargin: d(10 * time.Minute), ReclaimLead: d(30 * time.Minute)},
		Partitions: []capacity.Partition{{Name: "gpu", Provider: provider,
			Groups: []capacity.NodeGroup{{Name: "gpu", Slots: []capacity.Slot{{Name: "gpu", ReservationIDs: ids}}}}}},
		Reservations: rs,
	}
}

// me is the owner of the settings, other that of other settings.
const me, other = "0123abcd", "fedc4321"

// steps are those of me; every fence may go.
func steps(want, have []capacity.SlurmReservation, keep map[string]bool, now time.Time) (todo []guardChange, left []string) {
	todo, said := steering{owner: me, keep: keep, mayGo: func(capacity.Guard) bool { return true }, now: now}.steps(want, have)
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
	return capacity.SlurmReservation{Name: name, Nodes: nodes, Start: start, End: end, Flags: []string{"MAINT", "IGNORE_JOBS"}, Users: []string{"root"}}
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
	fence := func(id string, start, end time.Time) capacity.SlurmReservation {
		return reservation("pcs-capacity-fence-gpu."+id+"."+me, nodes, start, end)
	}
	surplus := func(node string) capacity.SlurmReservation {
		return reservation("pcs-capacity-surplus-gpu.cr-0."+me, []string{node}, noon, time.Time{})
	}
	sized := func(r capacity.Reservation, total int) capacity.Reservation { r.Total = total; return r }
	wait := func(end time.Time) capacity.SlurmReservation {
		return reservation("pcs-capacity-wait-gpu.cr-1."+me, nodes, noon, end)
	}
	never := time.Time{}
	now := block("cr-0", "-1h", "24h", capacity.StateActive)
	later := block("cr-1", "24h", "48h", capacity.StateScheduled)
	for name, c := range map[string]struct {
		provider capacity.Provider
		ids      []string
		rs       []capacity.Reservation
		want     []capacity.SlurmReservation
	}{
		"open block": {"ec2", []string{"cr-0"}, []capacity.Reservation{now}, []capacity.SlurmReservation{fence("cr-0", at("23h20m"), never)}},
		"scheduled block on ec2 waits as well": {"ec2", []string{"cr-1"}, []capacity.Reservation{later},
			[]capacity.SlurmReservation{wait(at("24h")), fence("cr-1", at("47h20m"), never)}},
		"scheduled block on PCS: PCS holds the nodes": {"pcs", []string{"cr-1"}, []capacity.Reservation{later},
			[]capacity.SlurmReservation{fence("cr-1", at("47h20m"), never)}},
		"the fence ends when the next block opens": {"ec2", []string{"cr-1", "cr-0"}, []capacity.Reservation{now, later},
			[]capacity.SlurmReservation{fence("cr-0", at("23h20m"), at("24h")), fence("cr-1", at("47h20m"), never)}},
		"not before the old block has ended": {"ec2", []string{"cr-0", "cr-2"},
			[]capacity.Reservation{now, block("cr-2", "20h", "48h", capacity.StateScheduled)},
			[]capacity.SlurmReservation{fence("cr-0", at("23h20m"), at("24h")), fence("cr-2", at("47h20m"), never)}},
		"a PCS group holds one block": {"pcs", []string{"cr-0", "cr-1"}, []capacity.Reservation{now, later},
			[]capacity.SlurmReservation{fence("cr-0", at("23h20m"), never)}},
		"all ended: stays closed": {"ec2", []string{"cr-9"}, []capacity.Reservation{block("cr-9", "-48h", "-1h", capacity.StateExpired)},
			[]capacity.SlurmReservation{fence("cr-9", at("-1h40m"), never)}},
		"over by the clock, though EC2 still says active": {"ec2", []string{"cr-9"}, []capacity.Reservation{block("cr-9", "-48h", "0s", capacity.StateActive)},
			[]capacity.SlurmReservation{fence("cr-9", at("-40m"), never)}},
		"never paid: closed from now": {"ec2", []string{"cr-9"}, []capacity.Reservation{block("cr-9", "24h", "48h", capacity.StatePaymentFailed)},
			[]capacity.SlurmReservation{fence("cr-9", noon, never)}},
		"an ended one before an open one": {"ec2", []string{"cr-9", "cr-0"},
			[]capacity.Reservation{block("cr-9", "-48h", "-1h", capacity.StateExpired), now}, []capacity.SlurmReservation{fence("cr-0", at("23h20m"), never)}},
		"an ODCR without end": {"ec2", []string{"cr-3"}, []capacity.Reservation{{ID: "cr-3", Kind: capacity.ODCR, State: capacity.StateActive}}, nil},
		"a cancelled ODCR: closed from now": {"ec2", []string{"cr-3"}, []capacity.Reservation{{ID: "cr-3", Kind: capacity.ODCR, State: capacity.StateCancelled}},
			[]capacity.SlurmReservation{fence("none", noon, never)}},
		"an ODCR with an end has no reclaim lead": {"ec2", []string{"cr-3"},
			[]capacity.Reservation{{ID: "cr-3", Kind: capacity.ODCR, State: capacity.StateActive, End: at("2h")}}, []capacity.SlurmReservation{fence("cr-3", at("1h50m"), never)}},
		"no reservation: closed from now":        {"ec2", nil, nil, []capacity.SlurmReservation{fence("none", noon, never)}},
		"no reservation on PCS: no nodes either": {"pcs", nil, nil, nil},
		"overlapping, both open: the fence of the one that has the slot": {"ec2", []string{"cr-0", "cr-2"},
			[]capacity.Reservation{now, block("cr-2", "-1h", "48h", capacity.StateActive)}, []capacity.SlurmReservation{fence("cr-0", at("23h20m"), at("24h")), fence("cr-2", at("47h20m"), never)}},
		"more nodes than places": {"ec2", []string{"cr-0"}, []capacity.Reservation{sized(now, 1)},
			[]capacity.SlurmReservation{fence("cr-0", at("23h20m"), never), surplus("gpu-2")}},
		"as many nodes as places":        {"ec2", []string{"cr-0"}, []capacity.Reservation{sized(now, 2)}, []capacity.SlurmReservation{fence("cr-0", at("23h20m"), never)}},
		"more nodes than places, on PCS": {"pcs", []string{"cr-0"}, []capacity.Reservation{sized(now, 1)}, []capacity.SlurmReservation{fence("cr-0", at("23h20m"), never)}},
		"guest, open":                    {"none", []string{"cr-0"}, []capacity.Reservation{now}, asGuest(fence("cr-0", at("23h20m"), never))},
		"guest, scheduled":               {"none", []string{"cr-1"}, []capacity.Reservation{later}, asGuest(wait(at("24h")), fence("cr-1", at("47h20m"), never))},
		"guest, all ended":               {"none", []string{"cr-9"}, []capacity.Reservation{block("cr-9", "-48h", "-1h", capacity.StateExpired)}, asGuest(fence("cr-9", at("-1h40m"), never))},
		"guest, nobody's size":           {"none", []string{"cr-0"}, []capacity.Reservation{sized(now, 1)}, asGuest(fence("cr-0", at("23h20m"), never))},
		"the sum of those without an end": {"ec2", []string{"cr-3", "cr-4"}, []capacity.Reservation{
			{ID: "cr-3", Kind: capacity.ODCR, State: capacity.StateActive, Total: 1}, {ID: "cr-4", Kind: capacity.ODCR, State: capacity.StateActive, Total: 1}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			snap := oneSlot(c.provider, c.ids, c.rs...)
			v := views(snap, noon)[0]
			v.owner = me
			got := v.wanted(nodes, noon)
			for i := range got {
				got[i].Comment = ""
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("wanted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownReservationLeavesTheSlotAlone(t *testing.T) { // R8
	snap := oneSlot("ec2", []string{"cr-0"})
	if v := views(snap, noon)[0]; !v.unknown {
		t.Errorf("a reservation that EC2 did not describe: %+v", v)
	}
	snap = oneSlot("ec2", []string{"cr-bad", "cr-0"}, block("cr-0", "-1h", "24h", capacity.StateActive))
	if v := views(snap, noon)[0]; v.unknown || v.current.ID != "cr-0" {
		t.Errorf("a bad id hides a good one: %+v", v)
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
		"placed": {want: []capacity.SlurmReservation{future}, todo: []string{"create pcs-capacity-fence-gpu.cr-0." + me}},
		"there":  {want: []capacity.SlurmReservation{future}, have: []capacity.SlurmReservation{fence(at("1h2s"), at("1h2s").Add(year))}},
		"R11: the end moved, the fence not yet active": {want: []capacity.SlurmReservation{future}, have: []capacity.SlurmReservation{fence(at("2h"), at("2h").Add(year))}, todo: []string{"update pcs-capacity-fence-gpu.cr-0." + me}},
		"R11: an extension while the fence is active":  {want: []capacity.SlurmReservation{future}, have: []capacity.SlurmReservation{fence(at("-1m"), at("-1m").Add(year))}, todo: []string{"replace pcs-capacity-fence-gpu.cr-0." + me + ".2"}},
		"active, start in the past either way":         {want: []capacity.SlurmReservation{fence(at("-9m"), time.Time{})}, have: []capacity.SlurmReservation{fence(at("-1m"), at("-1m").Add(year))}},
		"active, the next block became known":          {want: []capacity.SlurmReservation{fence(at("-9m"), at("1h"))}, have: []capacity.SlurmReservation{fence(at("-9m"), at("-9m").Add(year))}, todo: []string{"update pcs-capacity-fence-gpu.cr-0." + me}},
		"nodes were added":                             {want: []capacity.SlurmReservation{future}, have: []capacity.SlurmReservation{reservation("pcs-capacity-fence-gpu.cr-0."+me, nodes[:1], at("1h"), at("1h").Add(year))}, todo: []string{"update pcs-capacity-fence-gpu.cr-0." + me}},
		"nodes in another order":                       {want: []capacity.SlurmReservation{future}, have: []capacity.SlurmReservation{reservation("pcs-capacity-fence-gpu.cr-0."+me, []string{"gpu-2", "gpu-1"}, at("1h"), at("1h").Add(year))}},
		"another end":                                  {want: []capacity.SlurmReservation{fence(at("1h"), at("30h"))}, have: []capacity.SlurmReservation{fence(at("1h"), at("31h"))}, todo: []string{"update pcs-capacity-fence-gpu.cr-0." + me}},
		"300 days are without end":                     {want: []capacity.SlurmReservation{future}, have: []capacity.SlurmReservation{fence(at("1h"), at("1h").Add(300*24*time.Hour))}},
		"six seconds are another start":                {want: []capacity.SlurmReservation{future}, have: []capacity.SlurmReservation{fence(at("1h6s"), at("1h6s").Add(year))}, todo: []string{"update pcs-capacity-fence-gpu.cr-0." + me}},
		"ends now":                                     {want: []capacity.SlurmReservation{future}, have: []capacity.SlurmReservation{fence(at("-2h"), noon)}, todo: []string{"replace pcs-capacity-fence-gpu.cr-0." + me + ".2"}},
		"not needed any more":                          {have: []capacity.SlurmReservation{future}, todo: []string{"delete pcs-capacity-fence-gpu.cr-0." + me}},
		"R8: nothing is known":                         {have: []capacity.SlurmReservation{future}, keep: "gpu"},
		"one that has ended and is still listed":       {want: []capacity.SlurmReservation{future}, have: []capacity.SlurmReservation{fence(at("-2h"), at("-1h"))}, todo: []string{"replace pcs-capacity-fence-gpu.cr-0." + me + ".2"}},
		"the nodes are somebody else's now":            {want: asGuest(fence(at("1h"), time.Time{})), have: []capacity.SlurmReservation{fence(at("1h"), at("1h").Add(year))}, todo: []string{"replace pcs-capacity-fence-gpu.cr-0." + me + ".2"}},
		"kept beside one that goes":                    {keep: "gpu", have: []capacity.SlurmReservation{future, reservation("pcs-capacity-fence-old.cr-0."+me, nodes, at("1h"), at("1h").Add(year))}, todo: []string{"delete pcs-capacity-fence-old.cr-0." + me}},
		"a guest's is there":                           {want: asGuest(fence(at("1h"), time.Time{})), have: asGuest(fence(at("1h"), at("1h").Add(year)))},
		"roll over: the wait is there before the fence goes": {
			want: []capacity.SlurmReservation{reservation("pcs-capacity-wait-gpu.cr-0."+me, nodes, noon, at("3h")), fence(at("9h"), time.Time{})},
			have: []capacity.SlurmReservation{fence(at("-1h"), at("3h"))},
			todo: []string{"create pcs-capacity-wait-gpu.cr-0." + me, "replace pcs-capacity-fence-gpu.cr-0." + me + ".2"}},
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
	taken := capacity.SlurmReservation{Name: "pcs-capacity-fence-gpu.cr-0." + me, Flags: maint, Users: []string{"alice"}}
	todo, foreign := steps([]capacity.SlurmReservation{reservation("pcs-capacity-fence-gpu.cr-0."+me, []string{"gpu-1"}, noon, time.Time{})}, []capacity.SlurmReservation{taken}, nil, noon)
	if len(todo) > 0 || len(foreign) != 1 {
		t.Errorf("todo %+v, foreign %v", todo, foreign)
	}
	ours := capacity.SlurmReservation{Name: "pcs-capacity-fence-old.cr-0." + me, Flags: maint, Users: root}
	if todo, _ := steps(nil, []capacity.SlurmReservation{ours}, nil, noon); len(todo) != 1 || todo[0].do != "delete" {
		t.Errorf("our own is not removed: %+v", todo)
	}
}
