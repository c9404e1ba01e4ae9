package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// sampledSeen is a slot of six nodes with some reservations. The nodes are written as one letter each: up, boots,
// drained, broken, off, powering down (s for "suspending").
func sampledSeen(nodes string, rs ...capacity.Reservation) Seen {
	states := map[rune]string{'u': "IDLE", 'b': model.Boots, 'd': "IDLE+DRAIN", 'x': "DOWN", 'o': model.Off, 's': "IDLE+CLOUD+POWERING_DOWN"}
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
	return Seen{Snap: oneSlot(capacity.ProviderEC2, ids, rs...), Cluster: cluster, Jobs: []capacity.Job{}, Now: noon, Poll: time.Minute}
}

// The report shows each open reservation once, and the nodes that stand for it: never more than it has instances, and
// first those that can run jobs.
func TestSampleOfReservations(t *testing.T) {
	sized := func(r capacity.Reservation, total int) capacity.Reservation { r.Total = total; return r }
	odcr := func(id string, total int) capacity.Reservation {
		return capacity.Reservation{ID: id, Kind: capacity.ODCR, State: capacity.StateActive, Total: total}
	}
	open, later := sized(block("cr-0", "-1h", "24h", capacity.StateActive), 6), sized(block("cr-1", "-30m", "48h", capacity.StateActive), 2)
	slots := func(s *Seen, first, second []string) {
		group := &s.Snap.Partitions[0].Groups[0]
		group.Slots[0].ReservationIDs = first
		group.Slots = append(group.Slots, capacity.Slot{Name: "big", ReservationIDs: second})
		s.Cluster.slots["big"], s.Cluster.Nodes = []string{"big-1"}, append(s.Cluster.Nodes, capacity.Node{Name: "big-1", State: "IDLE"})
	}
	for name, c := range map[string]struct {
		nodes string
		rs    []capacity.Reservation
		but   func(*Seen)
		want  string
	}{
		"each node by its state":     {"xdbuos", []capacity.Reservation{open}, nil, "cr-0: boot=gpu-3 down=gpu-1 drain=gpu-2 up=gpu-4"},
		"smaller than the slot":      {"xdbuuo", []capacity.Reservation{sized(open, 3)}, nil, "cr-0: boot=gpu-3 up=gpu-[4-5]"},
		"yet to open":                {"uu", []capacity.Reservation{block("cr-0", "1h", "24h", capacity.StateScheduled)}, nil, ""},
		"EC2 opens it late":          {"uu", []capacity.Reservation{block("cr-0", "-1s", "24h", capacity.StateScheduled)}, nil, ""},
		"EC2 opens it early":         {"uu", []capacity.Reservation{sized(block("cr-0", "1s", "24h", capacity.StateActive), 2)}, nil, ""},
		"it opens now":               {"uu", []capacity.Reservation{sized(block("cr-0", "0s", "24h", capacity.StateActive), 2)}, nil, "cr-0: up=gpu-[1-2]"},
		"EC2 ends it late":           {"uu", []capacity.Reservation{block("cr-0", "-24h", "-1s", capacity.StateActive)}, nil, ""},
		"two without an end":         {"uubuxo", []capacity.Reservation{odcr("cr-3", 2), odcr("cr-4", 3)}, nil, "cr-3: up=gpu-[1-2]; cr-4: boot=gpu-3 down=gpu-5 up=gpu-4"},
		"an open one waits its turn": {"uu", []capacity.Reservation{sized(open, 2), later}, nil, "cr-0: up=gpu-[1-2]; cr-1: without nodes"},
		"named twice": {"uu", []capacity.Reservation{sized(open, 2)}, func(s *Seen) {
			s.Snap.Partitions[0].Groups[0].Slots[0].ReservationIDs = []string{"cr-0", "cr-0"}
		}, "cr-0: up=gpu-[1-2]"},
		"none beside an end": {"uu", []capacity.Reservation{odcr("cr-3", 1), sized(open, 1)}, nil, "cr-0: without nodes; cr-3: up=gpu-1"},
		"of two slots, it waits in the first": {"uu", []capacity.Reservation{sized(open, 2), later}, func(s *Seen) {
			slots(s, []string{"cr-0", "cr-1"}, []string{"cr-1"})
		}, "cr-0: up=gpu-[1-2]; cr-1: up=big-1"},
		"of two slots, it waits in the second": {"uu", []capacity.Reservation{sized(open, 2), later}, func(s *Seen) {
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
	want := state.Sample{At: noon, Runs: map[string]state.Run{}, Paid: map[string]*state.Paid{"cr-0": {Partition: "gpu", Slot: "gpu", Kind: capacity.CapacityBlock, InstanceType: "p5.48xlarge",
		GPUs: 8, Size: 6, Unhealthy: 1, Start: at("-1h"), Fence: at("23h20m"), End: at("24h"), Nodes: map[string]string{"up": "gpu-1"}}}}
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
		return capacity.Job{Shown: shown, State: jobState, Restarts: restarts, User: "alice", Account: "nlp", Partition: "gpu", Nodes: nodes, Start: at(start)}
	}
	ended := func(j capacity.Job, end string) capacity.Job { j.End = at(end); return j }
	run := func(shown, start string) state.Run {
		return state.Run{Job: shown, User: "alice", Account: "nlp", Partition: "gpu", Nodes: "gpu-1", Start: at(start)}
	}
	over := func(r state.Run, end, how string) state.Run { r.End, r.State = at(end), how; return r }
	type runs = map[string]state.Run
	for name, c := range map[string]struct {
		before      runs // nil: this is the first sample
		jobs, ended []capacity.Job
		want        runs
	}{
		"starts":                    {runs{}, []capacity.Job{job("7", "RUNNING", 0, "-30s", "gpu-1")}, nil, runs{"7.0": run("7", "-30s")}},
		"waits":                     {runs{}, []capacity.Job{job("7", "PENDING", 0, "1h")}, nil, runs{}},
		"its second run":            {runs{}, []capacity.Job{job("7", "RUNNING", 1, "-30s", "gpu-1")}, nil, runs{"7.1": run("7", "-30s")}},
		"on none of our nodes":      {runs{}, []capacity.Job{job("7", "RUNNING", 0, "-30s", "cpu-1"), job("8", "RUNNING", 0, "-30s", "gpu-1")}, nil, runs{"8.0": run("8", "-30s")}},
		"goes on":                   {runs{"7.0": run("7", "-1h")}, []capacity.Job{job("7", "RUNNING", 0, "-1h", "gpu-1")}, nil, runs{"7.0": run("7", "-1h")}},
		"the offset changed":        {runs{"7.0": run("7", "-1h")}, []capacity.Job{job("7", "RUNNING", 0, "-1h3s", "gpu-1")}, nil, runs{"7.0": run("7", "-1h")}},
		"its start was wrong":       {runs{"7.0": run("7", "-1h")}, []capacity.Job{job("7", "RUNNING", 0, "-1h4s", "gpu-1")}, nil, runs{"7.0": run("7", "-1h4s")}},
		"cleans up":                 {runs{"7.0": run("7", "-1h")}, []capacity.Job{job("7", "COMPLETING", 0, "-1h", "gpu-1")}, nil, runs{"7.0": run("7", "-1h")}},
		"cleans up after its end":   {runs{"7.0": over(run("7", "-1h"), "-2m", "FAILED")}, []capacity.Job{job("7", "COMPLETING", 0, "-1h", "gpu-1")}, nil, runs{}},
		"ended":                     {runs{"7.0": run("7", "-1h")}, nil, []capacity.Job{ended(job("7", "FAILED", 0, "-1h", "gpu-1"), "-20s")}, runs{"7.0": over(run("7", "-1h"), "-20s", "FAILED")}},
		"ended, and nobody saw how": {runs{"7.0": run("7", "-1h")}, nil, nil, runs{"7.0": over(run("7", "-1h"), "0s", "")}},
		"its end is told once":      {runs{"7.0": over(run("7", "-1h"), "-2m", "FAILED")}, nil, []capacity.Job{ended(job("7", "FAILED", 0, "-1h", "gpu-1"), "-2m")}, runs{}},
		"requeued":                  {runs{"7.0": run("7", "-1h")}, []capacity.Job{job("7", "PENDING", 1, "1h")}, nil, runs{"7.0": over(run("7", "-1h"), "0s", "REQUEUED")}},
		"requeued, runs again": {runs{"7.0": run("7", "-1h")}, []capacity.Job{job("7", "RUNNING", 1, "-20s", "gpu-1")}, nil,
			runs{"7.0": over(run("7", "-1h"), "0s", "REQUEUED"), "7.1": run("7", "-20s")}},
		"began and ended meanwhile": {runs{}, nil, []capacity.Job{ended(job("7", "COMPLETED", 0, "-50s", "gpu-1"), "-10s")}, runs{"7.0": over(run("7", "-50s"), "-10s", "COMPLETED")}},
		"ended before the last":     {runs{}, nil, []capacity.Job{ended(job("7", "COMPLETED", 0, "-90s", "gpu-1"), "-61s")}, runs{}},
		"ended before the first":    {nil, nil, []capacity.Job{ended(job("7", "COMPLETED", 0, "-50s", "gpu-1"), "-10s")}, runs{}},
		"cancelled, never began":    {runs{}, nil, []capacity.Job{ended(capacity.Job{Shown: "7", State: "CANCELLED", Nodes: []string{"gpu-1"}}, "-10s")}, runs{}},
		"began and ended not ours": {runs{}, nil, []capacity.Job{ended(job("7", "COMPLETED", 0, "-50s", "cpu-1"), "-10s"), ended(job("8", "COMPLETED", 0, "-50s", "gpu-1"), "-10s")},
			runs{"8.0": over(run("8", "-50s"), "-10s", "COMPLETED")}},
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
