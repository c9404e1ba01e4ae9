package lifecycle

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// TestTell follows a slot through its life: each thing is told once, an extension begins the
// fence anew, and what could not be told is told later.
func TestTell(t *testing.T) {
	dir := state.Dir(t.TempDir())
	first, failed := block("cr-1", "0s", "48h", capacity.StateScheduled), block("cr-9", "20h", "40h", capacity.StatePaymentFailed)
	first.Total = 4
	idle := &Cluster{slots: map[string][]string{"gpu": {"gpu-1", "gpu-2"}}, Nodes: []capacity.Node{{Name: "gpu-1", State: "IDLE"}, {Name: "gpu-2", State: "ALLOCATED"}}}
	busy := &Cluster{slots: idle.slots, Nodes: []capacity.Node{{Name: "gpu-1", State: "MIXED"}}}
	settings := NoticeSettings{FenceNear: time.Hour, IdleAfter: 30 * time.Minute, Successor: 24 * time.Hour, Lost: 10 * time.Minute}
	broken := false
	tell := func(now string, cluster *Cluster, taken string, rs ...capacity.Reservation) string {
		t.Helper()
		var ids, kinds []string
		for _, r := range rs {
			ids = append(ids, r.ID)
		}
		snap := oneSlot("ec2", ids, rs...)
		snap.TakenAt = at(taken)
		errs := Tell(dir, snap, Report{Cluster: cluster, At: at(now)}, settings, func(n Notice) error {
			if broken {
				return errors.New("no")
			}
			if n.Message == "" || !n.At.Equal(at(now)) {
				t.Errorf("%+v", n)
			}
			kinds = append(kinds, string(n.Kind))
			return nil
		})
		if (len(errs) > 0) != broken {
			t.Errorf("at %s: %v", now, errs)
		}
		return strings.Join(kinds, ",")
	}
	is := func(r capacity.Reservation, state capacity.State, end string, dead int) capacity.Reservation {
		r.State, r.End, r.Unhealthy = state, at(end), dead
		return r
	}
	open := is(first, capacity.StateActive, "48h", 0)
	longer := is(first, capacity.StateActive, "72h", 0)
	dead := is(longer, capacity.StateActive, "72h", 1)
	for _, step := range []struct {
		now     string
		cluster *Cluster
		taken   string
		r       capacity.Reservation
		broken  bool
		want    string
	}{
		{"-1h", nil, "-1h", first, false, "payment-failed"},
		{"1m", idle, "1m", open, true, ""},
		{"2m", idle, "2m", open, false, "opened"},
		{"3m", idle, "3m", open, false, ""},
		{"33m", idle, "33m", open, false, "idle"},
		{"1h", idle, "1h", open, false, ""},
		{"2h", busy, "2h", open, false, ""},
		{"3h", idle, "3h", open, false, ""},
		{"4h", idle, "4h", open, false, "idle"},
		{"5h", busy, "4h45m", open, false, "heartbeat-lost"},
		{"5h1m", busy, "4h45m", open, false, ""},
		{"24h", busy, "24h", open, false, "no-successor"},
		{"46h30m", busy, "46h30m", open, false, "fence-near"},
		{"46h40m", busy, "46h40m", longer, false, ""},
		{"47h", busy, "47h", dead, false, "host-failed"},
		{"50h", busy, "50h", dead, false, "no-successor"},
		{"71h", busy, "71h", dead, false, "fence-near"},
		{"72h", busy, "72h", is(dead, capacity.StateExpired, "72h", 1), false, "closed"},
		{"73h", busy, "73h", is(dead, capacity.StateExpired, "72h", 1), false, ""},
	} {
		broken = step.broken
		if got := tell(step.now, step.cluster, step.taken, step.r, failed); got != step.want {
			t.Errorf("at %s it told %q, want %q", step.now, got, step.want)
		}
	}
	// With a next block there is a successor.
	broken, dir = false, state.Dir(t.TempDir())
	if got := tell("47h", busy, "47h", open, block("cr-2", "60h", "90h", capacity.StateScheduled)); got != "opened,fence-near" {
		t.Errorf("with a next block it told %q", got)
	}
}

// TestTellOfJobs: of a job that can never start, a site is told once, with its owner; of another
// job that gets the same id later, again. What could not be told is told later.
func TestTellOfJobs(t *testing.T) {
	dir := state.Dir(t.TempDir())
	never := capacity.Job{Shown: "7", User: "alice", Partition: "gpu", State: "PENDING", AdminComment: neverStarts + "no block is that long"}
	unlimited := capacity.Job{Shown: "8_1", User: "bob", Partition: "gpu", State: "PENDING", AdminComment: neverWords + ": it needs 4 days"}
	others := []capacity.Job{{Shown: "9", State: "PENDING", AdminComment: fewHosts + "3 are usable"}, {Shown: "10", State: "PENDING"}, {Shown: "11", State: "RUNNING", AdminComment: neverStarts + "as it was"}}
	for i, step := range []struct {
		jobs   []capacity.Job
		broken bool
		want   string
	}{
		{append(others, never), true, ""},
		{append(others, never), false, "7 alice"},
		{append(others, never, unlimited), false, "8_1 bob"},
		{nil, false, ""}, // Slurm did not say
		{append(others, never, unlimited), false, ""},
		{others, false, ""},
		{append(others, never), false, "7 alice"},
	} {
		var told []string
		snap := oneSlot("ec2", nil)
		snap.TakenAt = at("1h")
		errs := Tell(dir, snap, Report{Jobs: step.jobs, At: at("1h")}, NoticeSettings{Lost: time.Hour}, func(n Notice) error {
			if step.broken {
				return errors.New("no")
			}
			if n.Kind != "never-starts" || !strings.Contains(n.Message, "can never start") {
				t.Errorf("%+v", n)
			}
			told = append(told, n.Job+" "+n.User)
			return nil
		})
		if got := strings.Join(told, ","); got != step.want || (len(errs) > 0) != step.broken {
			t.Errorf("step %d told %q, want %q, %v", i, got, step.want, errs)
		}
	}
}

// A block in the other slot of its node group follows as well as one in the same.
func TestSuccessorInTheOtherSlot(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	first := capacity.Reservation{ID: "cr-1", Kind: capacity.CapacityBlock, State: capacity.StateActive, Total: 2, Start: now.Add(-time.Hour), End: now.Add(24 * time.Hour)}
	second := first
	second.ID, second.State, second.Start, second.End = "cr-2", capacity.StateScheduled, first.End, first.End.Add(240*time.Hour)
	snap := &capacity.Snapshot{TakenAt: now, Reservations: []capacity.Reservation{first, second}, Partitions: []capacity.Partition{{Name: "gpu", Provider: capacity.ProviderPCS,
		Groups: []capacity.NodeGroup{{Name: "gpu", Slots: []capacity.Slot{{Name: "gpu-a", Holds: "cr-1", ReservationIDs: []string{"cr-1"}}, {Name: "gpu-b", Holds: "cr-2", ReservationIDs: []string{"cr-2"}}}}}}}}
	told := func() (kinds []string) {
		for _, n := range notices(snap, nil, now, NoticeSettings{Successor: 48 * time.Hour, Lost: time.Hour}, nil) {
			kinds = append(kinds, string(n.Kind))
		}
		return kinds
	}
	if got := told(); !slices.Equal(got, []string{"opened"}) {
		t.Errorf("told of %v", got)
	}
	snap.Reservations = snap.Reservations[:1]
	if got := told(); !slices.Equal(got, []string{"opened", "no-successor"}) {
		t.Errorf("without the second, told of %v", got)
	}
}

// What sync has set up for the next block is told once, and what keeps it from that once for each
// cause.
func TestNoticesOfRollOver(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	dir := state.Dir(t.TempDir())
	block := capacity.Reservation{ID: "cr-2", Start: now.Add(time.Hour)}
	var told []string
	for _, r := range []Rolling{
		{Block: block}, // under way
		{Block: block, Setback: state.Setback{Since: now, Tried: now, Problem: "no subnet"}},
		{Block: block, Setback: state.Setback{Since: now, Tried: now.Add(time.Minute), Problem: "no subnet"}},
		{Block: block, Setback: state.Setback{Since: now.Add(time.Hour), Problem: "no address"}},
		{Block: block, Slot: "gpu-b", Ready: true},
		{Block: block, Slot: "gpu-b", Ready: true},
		{Block: capacity.Reservation{ID: "cr-1", Start: now.Add(-time.Hour)}, Slot: "gpu-a", Ready: true},
	} {
		r.Partition = "gpu"
		for _, err := range Tell(dir, &capacity.Snapshot{TakenAt: now}, Report{At: now, Rolling: []Rolling{r}}, NoticeSettings{Lost: time.Hour}, func(n Notice) error {
			told = append(told, string(n.Kind)+" "+n.Reservation+": "+n.Message)
			return nil
		}) {
			t.Error(err)
		}
	}
	want := []string{"roll-over-failed cr-2: no subnet", "roll-over-failed cr-2: no address", "set-up cr-2: cr-2 is set up: slot gpu-b has it from 2026-11-20 13:00 UTC"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
}
