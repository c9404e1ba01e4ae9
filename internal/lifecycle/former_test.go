package lifecycle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// A slot that the settings have no more keeps its fence while its reservation is live, unless somebody took it away.
func TestFormerSlots(t *testing.T) {
	live, ended := block("cr-0", "-1h", "24h", capacity.StateActive), block("cr-0", "-1h", "0s", capacity.StateActive)
	gone := &capacity.Snapshot{Reservations: []capacity.Reservation{live}}
	for name, c := range map[string]struct {
		snap  *capacity.Snapshot
		fence string // of Slurm's reservation; "" if Slurm does not answer
		users string
		kept  bool
	}{
		"the settings have it still":   {oneSlot("ec2", []string{"cr-0"}, live), "gpu.cr-0", "root", false},
		"the partition is gone":        {gone, "gpu.cr-0", "root", true},
		"another reservation is there": {oneSlot("ec2", []string{"cr-1"}, live), "gpu.cr-0", "root", true},
		"it has ended": {
			&capacity.Snapshot{Reservations: []capacity.Reservation{ended}},
			"gpu.cr-0",
			"root",
			false,
		},
		"nothing is known of it": {&capacity.Snapshot{}, "gpu.cr-0", "root", false},
		"Slurm does not answer":  {gone, "", "", true},
		"another slot's fence":   {gone, "gpu2.cr-0", "root", false},
		"somebody else's":        {gone, "gpu.cr-0", "alice", false},
	} {
		s := View{Old: oneSlot("ec2", []string{"cr-0"}, live), Snap: c.snap, Now: noon}
		s.Old.Partitions[0].Groups[0].Slots[0].Nodes = "gpu-[1-2]"
		if c.fence != "" {
			fence := reservation("pcs-capacity-fence-"+c.fence+"."+me, []string{"gpu-1"}, at("23h20m"), at("23h20m"))
			fence.Users = []string{c.users}
			s.Cluster = &Cluster{Reservations: []capacity.SlurmReservation{fence}}
		}

		if all := formerSlots(s); (len(all) == 1 && all[0].Groups[0].Slots[0].Nodes == "gpu-[1-2]") != c.kept {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// Running jobs read when their reservation ends. Of several in one slot nobody knows which one is a job's.
func TestFacts(t *testing.T) {
	endless := func(id string) capacity.Reservation {
		return capacity.Reservation{ID: id, Kind: capacity.ODCR, State: capacity.StateActive}
	}
	for name, c := range map[string]struct {
		rs   []capacity.Reservation
		want string // the reservation and its fence
	}{
		"a block": {
			[]capacity.Reservation{block("cr-0", "-1h", "24h", capacity.StateActive)},
			"cr-0 2026-11-21 11:20 UTC",
		},
		"without an end":     {[]capacity.Reservation{endless("cr-3")}, "cr-3 never"},
		"two without an end": {[]capacity.Reservation{endless("cr-3"), endless("cr-4")}, ""},
		"one after the other": {
			[]capacity.Reservation{
				block("cr-0", "-1h", "24h", capacity.StateActive),
				block("cr-1", "25h", "48h", capacity.StateScheduled),
			},
			"cr-0 2026-11-21 11:20 UTC",
		},
		"none is live": {[]capacity.Reservation{block("cr-9", "-9h", "-1h", capacity.StateExpired)}, ""},
	} {
		var ids []string
		for _, r := range c.rs {
			ids = append(ids, r.ID)
		}

		snap := oneSlot("ec2", ids, c.rs...)
		group := &snap.Partitions[0].Groups[0]
		group.Slots = append([]capacity.Slot{{Name: "empty"}}, group.Slots...)

		got := ""
		for _, f := range jobFacts(View{Snap: snap, Now: noon}) {
			if got += f.ReservationID + " never"; !f.Fence.IsZero() {
				got = f.ReservationID + " " + capacity.FormatUTC(f.Fence)
			}
		}

		if got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Instances that another cluster of the same name may own are reported together, by what is known of them.
func TestTwins(t *testing.T) {
	instance := func(id, node, address, mark string) capacity.Instance {
		return capacity.Instance{
			ID:        id,
			State:     "running",
			PrivateIP: address,
			Tags:      map[string]string{capacity.TagNode: node, capacity.TagCluster: mark},
		}
	}

	const theirs, mine = "lab/fedcba9876543210", "lab/0123456789abcdef"

	gone := instance("i-0", "gpu-1", "10.0.0.9", theirs)

	gone.State = "terminated"

	const yours = ", but this cluster's is "

	advice := func(mark string) string {
		return "; terminate what is not used, or tag it " + capacity.TagCluster + "=" + mark + " for this cluster"
	}
	for name, c := range map[string]struct {
		others []capacity.Instance
		err    error
		want   []string
	}{
		"for a node of ours": {
			[]capacity.Instance{gone, instance("i-1", "gpu-1", "10.0.0.9", theirs)},
			nil,
			[]string{"instance i-1 (gpu-1) is left alone: its mark is " + theirs + yours + mine + advice(mine)},
		},
		"for a hidden node": {
			[]capacity.Instance{instance("i-1", "gpu-2", "10.0.0.9", theirs)},
			nil,
			[]string{"instance i-1 (gpu-2) is left alone: its mark is " + theirs + yours + mine + advice(mine)},
		},
		"for no node of ours": {[]capacity.Instance{instance("i-1", "cpu-1", "10.0.0.9", theirs)}, nil, nil},
		"at an address of ours": {
			[]capacity.Instance{instance("i-1", "", "10.0.0.1", theirs)},
			nil,
			[]string{"instance i-1 (no node) is left alone: its mark is " + theirs + yours + mine + advice(mine)},
		},
		"two": {
			[]capacity.Instance{
				instance("i-1", "gpu-1", "10.0.0.8", theirs),
				instance("i-2", "gpu-2", "10.0.0.9", theirs),
			},
			nil,
			[]string{
				"instances i-1, i-2 (gpu-[1-2]) are left alone: their mark is " + theirs + yours + mine +
					advice(mine),
			},
		},
		"our mark is not known": {
			[]capacity.Instance{instance("i-1", "gpu-1", "10.0.0.9", theirs)},
			errors.New("run sync on the controller"),
			[]string{
				"instance i-1 (gpu-1) is left alone: its mark is " + theirs + yours +
					"not known: run sync on the controller" + advice("MARK"),
			},
		},
	} {
		mark := mine
		if c.err != nil {
			mark = ""
		}

		s := View{
			Cluster: &Cluster{
				Mark:       mark,
				MarkErr:    c.err,
				Nodes:      []capacity.Node{{Name: "gpu-1", Address: "10.0.0.1"}},
				Partitions: []capacity.SlurmPartition{{Name: "gpu", Nodes: []string{"gpu-1", "gpu-2"}}},
			},
		}
		if diff := cmp.Diff(c.want, texts(s.checkForeignInstances(c.others))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// An open block that is taken out of the settings keeps its fence, which is said, and no more
// jobs are admitted to it; on PCS too, where its compute node group still holds it.
func TestAnOpenBlockIsTakenOutOfTheSettings(t *testing.T) {
	const open, next = "cr-0", "cr-1"

	nodes := []string{"gpu-a-1", "gpu-a-2"}
	for name, c := range map[string]struct {
		ids     []string
		refused bool
		problem bool
		slot    string // where jobs are sent
	}{
		"named":           {[]string{open}, false, false, ""},
		"an empty list":   {nil, true, true, ""},
		"another instead": {[]string{next}, false, true, "gpu-b"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := capacity.Settings{
				Timing: oneSlot("pcs", nil).Timing,
				Partitions: []capacity.PartitionSettings{{
					Name: "gpu", Provider: capacity.ProviderPCS,
					Groups: []capacity.GroupSettings{
						{Name: "gpu", PurchaseOption: capacity.CapacityBlock, ReservationIDs: c.ids, MaxNodes: 2},
					},
				}},
			}
			sized := func(r capacity.Reservation) capacity.Reservation { r.Total = 2; return r }

			snap := capacity.Build(
				settings,
				capacity.Facts{Held: map[string]string{"gpu-a": open}, Now: noon, Reservations: []capacity.Reservation{
					sized(
						block(open, "-1h", "24h", capacity.StateActive),
					), sized(block(next, "-1h", "48h", capacity.StateActive)),
				}},
			)
			for i, feature := range []string{"gpu-a", "gpu-b"} {
				snap.Partitions[0].Groups[0].Slots[i].Feature = feature
			}

			snap.TakenAt, snap.Submit = noon, capacity.Submit{
				Strict:     true,
				StaleAfter: capacity.Duration{Duration: 1e12},
			}

			v := capacity.Admit(
				capacity.Request{Partitions: []string{"gpu"}, TimeLimit: capacity.Minutes(30)},
				snap,
				noon,
			)
			if v.Refused != c.refused || v.Edits.Constraint != c.slot {
				t.Errorf("a job: %+v", v)
			}

			fences := View{
				Owner:   me,
				Snap:    snap,
				Now:     noon,
				Cluster: &Cluster{},
			}.wantedGuards(snap.SlotStates(noon)[0], nodes)
			if len(fences) == 0 || !fences[0].IsFenceFor("gpu-a", open) {
				t.Fatalf("wanted: %+v", fences)
			}

			snap.Add(checkKeptFences(View{
				Owner:   me,
				Snap:    snap,
				Now:     noon,
				Cluster: &Cluster{Reservations: fences},
			})...)

			if said := strings.Join(snap.Texts(capacity.Admin), "\n"); strings.Contains(
				said,
				"the settings no longer name reservation cr-0 for slot gpu-a; its fence stays",
			) != c.problem {
				t.Errorf("said: %q", said)
			}
		})
	}
}

// sampledSeen is a slot of six nodes with some reservations. The nodes are written as one letter each: up, boots,
// drained, broken, off, powering down (s for "suspending").
func sampledSeen(nodes string, rs ...capacity.Reservation) View {
	states := map[rune]string{
		'u': "IDLE",
		'b': model.Boots,
		'd': "IDLE+DRAIN",
		'x': "DOWN",
		'o': model.Off,
		's': "IDLE+CLOUD+POWERING_DOWN",
	}
	cluster := &Cluster{slots: map[string][]string{}, Nodes: []capacity.Node{{Name: "login", State: "IDLE"}}}
	for i, letter := range nodes {
		name := fmt.Sprintf("gpu-%d", i+1)
		cluster.Nodes = append(cluster.Nodes, capacity.Node{Name: name, State: states[letter]})
		cluster.slots["gpu"] = append(cluster.slots["gpu"], name)
	}

	var ids []string
	for _, r := range rs {
		ids = append(ids, r.ID)
	}

	return View{
		Snap:    oneSlot(capacity.ProviderEC2, ids, rs...),
		Cluster: cluster,
		Jobs:    []capacity.Job{},
		Now:     noon,
		Poll:    time.Minute,
	}
}

// The report shows each open reservation once, and the nodes that stand for it: never more than it has instances, and
// first those that can run jobs.
func TestSampleOfReservations(t *testing.T) {
	sized := func(r capacity.Reservation, total int) capacity.Reservation { r.Total = total; return r }

	odcr := func(id string, total int) capacity.Reservation {
		return capacity.Reservation{ID: id, Kind: capacity.ODCR, State: capacity.StateActive, Total: total}
	}
	open, later := sized(block("cr-0", "-1h", "24h", capacity.StateActive), 6), sized(
		block("cr-1", "-30m", "48h", capacity.StateActive),
		2,
	)
	slots := func(s *View, first, second []string) {
		group := &s.Snap.Partitions[0].Groups[0]
		group.Slots[0].ReservationIDs = first
		group.Slots = append(group.Slots, capacity.Slot{Name: "big", ReservationIDs: second})
		s.Cluster.slots["big"], s.Cluster.Nodes = []string{
			"big-1",
		}, append(s.Cluster.Nodes, capacity.Node{Name: "big-1", State: "IDLE"})
	}
	for name, c := range map[string]struct {
		nodes string
		rs    []capacity.Reservation
		but   func(*View)
		want  string
	}{
		"each node by its state": {
			"xdbuos",
			[]capacity.Reservation{open},
			nil,
			"cr-0: boot=gpu-3 down=gpu-1 drain=gpu-2 up=gpu-4",
		},
		"smaller than the slot": {
			"xdbuuo",
			[]capacity.Reservation{sized(open, 3)},
			nil,
			"cr-0: boot=gpu-3 up=gpu-[4-5]",
		},
		"yet to open": {
			"uu",
			[]capacity.Reservation{block("cr-0", "1h", "24h", capacity.StateScheduled)},
			nil,
			"",
		},
		"EC2 opens it late": {
			"uu",
			[]capacity.Reservation{block("cr-0", "-1s", "24h", capacity.StateScheduled)},
			nil,
			"",
		},
		"EC2 opens it early": {
			"uu",
			[]capacity.Reservation{sized(block("cr-0", "1s", "24h", capacity.StateActive), 2)},
			nil,
			"",
		},
		"it opens now": {
			"uu",
			[]capacity.Reservation{sized(block("cr-0", "0s", "24h", capacity.StateActive), 2)},
			nil,
			"cr-0: up=gpu-[1-2]",
		},
		"EC2 ends it late": {
			"uu",
			[]capacity.Reservation{block("cr-0", "-24h", "-1s", capacity.StateActive)},
			nil,
			"",
		},
		"two without an end": {
			"uubuxo",
			[]capacity.Reservation{odcr("cr-3", 2), odcr("cr-4", 3)},
			nil,
			"cr-3: up=gpu-[1-2]; cr-4: boot=gpu-3 down=gpu-5 up=gpu-4",
		},
		"an open one waits its turn": {
			"uu",
			[]capacity.Reservation{sized(open, 2), later},
			nil,
			"cr-0: up=gpu-[1-2]; cr-1: without nodes",
		},
		"named twice": {"uu", []capacity.Reservation{sized(open, 2)}, func(s *View) {
			s.Snap.Partitions[0].Groups[0].Slots[0].ReservationIDs = []string{"cr-0", "cr-0"}
		}, "cr-0: up=gpu-[1-2]"},
		"none beside an end": {
			"uu",
			[]capacity.Reservation{odcr("cr-3", 1), sized(open, 1)},
			nil,
			"cr-0: without nodes; cr-3: up=gpu-1",
		},
		"of two slots, it waits in the first": {"uu", []capacity.Reservation{sized(open, 2), later}, func(s *View) {
			slots(s, []string{"cr-0", "cr-1"}, []string{"cr-1"})
		}, "cr-0: up=gpu-[1-2]; cr-1: up=big-1"},
		"of two slots, it waits in the second": {"uu", []capacity.Reservation{sized(open, 2), later}, func(s *View) {
			slots(s, []string{"cr-1"}, []string{"cr-0", "cr-1"})
		}, "cr-0: up=big-1; cr-1: up=gpu-[1-2]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sampledSeen(c.nodes, c.rs...)
			if c.but != nil {
				c.but(&s)
			}

			var got []string

			now := s.sample()
			if now == nil {
				now = &state.Sample{}
			}

			for _, id := range slices.Sorted(maps.Keys(now.Paid)) {
				line := id + ":"
				if now.Paid[id].Nodes == nil {
					line += " without nodes"
				}

				for _, what := range slices.Sorted(maps.Keys(now.Paid[id].Nodes)) {
					line += " " + what + "=" + now.Paid[id].Nodes[what]
				}

				got = append(got, line)
			}

			if diff := cmp.Diff(c.want, strings.Join(got, "; ")); diff != "" {
				t.Error(diff)
			}
		})
	}

	s := sampledSeen("u", open)

	s.Now, s.Snap.Partitions[0].Groups[0].GPUs = noon.Add(700*time.Millisecond), 8
	s.Snap.Reservations[0].InstanceType, s.Snap.Reservations[0].Unhealthy = "p5.48xlarge", 1
	want := state.Sample{
		At:   noon,
		Runs: map[string]capacity.Run{},
		Paid: map[string]*state.Paid{
			"cr-0": {
				Partition:    "gpu",
				Slot:         "gpu",
				Kind:         capacity.CapacityBlock,
				InstanceType: "p5.48xlarge",
				GPUs:         8,
				Size:         6,
				Unhealthy:    1,
				Start:        at("-1h"),
				Fence:        at("23h20m"),
				End:          at("24h"),
				Nodes:        map[string]string{"up": "gpu-1"},
			},
		},
	}
	if diff := cmp.Diff(want, *s.sample()); diff != "" {
		t.Error(diff)
	}
}

// Idle nodes count as wasted while a job waits for them, unless its owner or an administrator holds it back.
func TestSampleOfWaitingJobs(t *testing.T) {
	job := func(partition, jobState string, change func(*capacity.Job)) capacity.Job {
		j := capacity.Job{Partition: partition, State: jobState, Eligible: at("-1h")}
		if change != nil {
			change(&j)
		}

		return j
	}
	for name, c := range map[string]struct {
		job  capacity.Job
		want bool
	}{
		"waits":                      {job("gpu", "PENDING", nil), true},
		"of several partitions":      {job("cpu,gpu", "PENDING", nil), true},
		"of another":                 {job("cpu", "PENDING", nil), false},
		"runs":                       {job("gpu", "RUNNING", nil), false},
		"held":                       {job("gpu", "PENDING", func(j *capacity.Job) { j.Held = true }), false},
		"begins later, in Slurm's":   {job("gpu", "PENDING", func(j *capacity.Job) { j.Eligible = at("1m1s") }), false},
		"begins now, by Slurm's now": {job("gpu", "PENDING", func(j *capacity.Job) { j.Eligible = at("1m") }), true},
	} {
		s := sampledSeen("u", block("cr-0", "-1h", "24h", capacity.StateActive))
		s.Snap.ClockOffset.Duration = -time.Minute
		s.Jobs = []capacity.Job{c.job}
		if got := s.sample().Paid["cr-0"].Waits; got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Every run of a job on our nodes is recorded, with its end and how it ended as far as anybody knows.
func TestSampleOfRuns(t *testing.T) {
	const minuteAgo = "-1m" // when the last sample was made

	job := func(shown, jobState string, restarts int, start string, nodes ...string) capacity.Job {
		return capacity.Job{
			Shown:     shown,
			State:     jobState,
			Restarts:  restarts,
			User:      "alice",
			Account:   "nlp",
			Partition: "gpu",
			Nodes:     nodes,
			Start:     at(start),
		}
	}
	ended := func(j capacity.Job, end string) capacity.Job { j.End = at(end); return j }
	run := func(shown, start string) capacity.Run {
		return capacity.Run{
			Job:       shown,
			User:      "alice",
			Account:   "nlp",
			Partition: "gpu",
			Nodes:     "gpu-1",
			Start:     at(start),
		}
	}
	over := func(r capacity.Run, end, how string) capacity.Run { r.End, r.State = at(end), how; return r }
	booting := func(r capacity.Run) capacity.Run { r.Boots = true; return r }

	type runs = map[string]capacity.Run

	for name, c := range map[string]struct {
		before      runs // nil: this is the first sample
		jobs, ended []capacity.Job
		want        runs
	}{
		"starts": {
			runs{},
			[]capacity.Job{job("7", "RUNNING", 0, "-30s", "gpu-1")},
			nil,
			runs{"7.0": run("7", "-30s")},
		},
		"waits": {runs{}, []capacity.Job{job("7", "PENDING", 0, "1h")}, nil, runs{}},
		"its second run": {
			runs{},
			[]capacity.Job{job("7", "RUNNING", 1, "-30s", "gpu-1")},
			nil,
			runs{"7.1": run("7", "-30s")},
		},
		"on none of our nodes": {
			runs{},
			[]capacity.Job{job("7", "RUNNING", 0, "-30s", "cpu-1"), job("8", "RUNNING", 0, "-30s", "gpu-1")},
			nil,
			runs{"8.0": run("8", "-30s")},
		},
		"goes on": {
			runs{"7.0": run("7", "-1h")},
			[]capacity.Job{job("7", "RUNNING", 0, "-1h", "gpu-1")},
			nil,
			runs{"7.0": run("7", "-1h")},
		},
		"the offset changed": {
			runs{"7.0": run("7", "-1h")},
			[]capacity.Job{job("7", "RUNNING", 0, "-1h3s", "gpu-1")},
			nil,
			runs{"7.0": run("7", "-1h")},
		},
		"somebody has set a clock": {
			runs{"7.0": run("7", "-1h")},
			[]capacity.Job{job("7", "RUNNING", 0, "-30s", "gpu-1")},
			nil,
			runs{"7.0": run("7", "-1h")},
		},
		"its nodes have booted since": {
			runs{"7.0": booting(run("7", "-1h"))},
			[]capacity.Job{job("7", "RUNNING", 0, "-30s", "gpu-1")},
			nil,
			runs{"7.0": run("7", "-30s")},
		},
		"cleans up": {
			runs{"7.0": run("7", "-1h")},
			[]capacity.Job{job("7", "COMPLETING", 0, "-1h", "gpu-1")},
			nil,
			runs{"7.0": run("7", "-1h")},
		},
		"cleans up after its end": {
			runs{"7.0": over(run("7", "-1h"), "-2m", "FAILED")},
			[]capacity.Job{job("7", "COMPLETING", 0, "-1h", "gpu-1")},
			nil,
			runs{},
		},
		"ended": {
			runs{"7.0": run("7", "-1h")},
			nil,
			[]capacity.Job{ended(job("7", "FAILED", 0, "-1h", "gpu-1"), "-20s")},
			runs{"7.0": over(run("7", "-1h"), "-20s", "FAILED")},
		},
		"ended, and nobody saw how": {
			runs{"7.0": run("7", "-1h")},
			nil,
			nil,
			runs{"7.0": over(run("7", "-1h"), "0s", "")},
		},
		"its end is told once": {
			runs{"7.0": over(run("7", "-1h"), "-2m", "FAILED")},
			nil,
			[]capacity.Job{ended(job("7", "FAILED", 0, "-1h", "gpu-1"), "-2m")},
			runs{},
		},
		"requeued": {
			runs{"7.0": run("7", "-1h")},
			[]capacity.Job{job("7", "PENDING", 1, "1h")},
			nil,
			runs{"7.0": over(run("7", "-1h"), "0s", "REQUEUED")},
		},
		"requeued, runs again": {
			runs{"7.0": run("7", "-1h")},
			[]capacity.Job{job("7", "RUNNING", 1, "-20s", "gpu-1")},
			nil,
			runs{"7.0": over(run("7", "-1h"), "0s", "REQUEUED"), "7.1": run("7", "-20s")},
		},
		"began and ended meanwhile": {
			runs{},
			nil,
			[]capacity.Job{ended(job("7", "COMPLETED", 0, "-50s", "gpu-1"), "-10s")},
			runs{"7.0": over(run("7", "-50s"), "-10s", "COMPLETED")},
		},
		"ended before the last": {
			runs{},
			nil,
			[]capacity.Job{ended(job("7", "COMPLETED", 0, "-90s", "gpu-1"), "-61s")},
			runs{},
		},
		"ended before the first": {
			nil,
			nil,
			[]capacity.Job{ended(job("7", "COMPLETED", 0, "-50s", "gpu-1"), "-10s")},
			runs{},
		},
		"cancelled, never began": {
			runs{},
			nil,
			[]capacity.Job{ended(capacity.Job{Shown: "7", State: "CANCELLED", Nodes: []string{"gpu-1"}}, "-10s")},
			runs{},
		},
		"began and ended not ours": {
			runs{},
			nil,
			[]capacity.Job{
				ended(job("7", "COMPLETED", 0, "-50s", "cpu-1"), "-10s"),
				ended(job("8", "COMPLETED", 0, "-50s", "gpu-1"), "-10s"),
			},
			runs{"8.0": over(run("8", "-50s"), "-10s", "COMPLETED")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sampledSeen("u", block("cr-0", "-1h", "24h", capacity.StateActive))

			s.Jobs, s.Ended = append([]capacity.Job{}, c.jobs...), c.ended
			if c.before != nil {
				s.LastSample = &state.Sample{At: at(minuteAgo), Runs: c.before}
			}

			if diff := cmp.Diff(c.want, s.sample().Runs); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A compute node group that PCS could not create is named, once: by its roll over, if there is one.
func TestFailedNodeGroups(t *testing.T) {
	view := View{
		Snap:         oneSlot("pcs", nil),
		FailedGroups: map[string]string{"gpu-a": "UPDATE_FAILED: no", "gpu-b": "CREATE_FAILED: no"},
	}
	view.Snap.Partitions[0].Groups[0].Slots = []capacity.Slot{{Name: "gpu-a"}, {Name: "gpu-b"}}
	view.Rolling = []Rolling{{Slot: "gpu-a"}, {Slot: "gpu-b", Setback: state.Setback{Problem: "no"}}}

	said := checkNodeGroups(view)
	if len(said) != 1 || said[0].Sentence != "PCS node group gpu-a is UPDATE_FAILED: no" || said[0].About.Partition == "" {
		t.Errorf("%+v", said)
	}
}
