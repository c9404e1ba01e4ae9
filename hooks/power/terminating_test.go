package power

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Which instances a power-down ends: those of its nodes, by their tags and by our records, and none
// that was launched after the call.
func TestTerminateStories(t *testing.T) {
	instance := func(id, node string, after time.Duration, more ...func(*capacity.Instance)) capacity.Instance {
		i := capacity.Instance{ID: id, State: "running", Launched: noon.Add(after), Tags: map[string]string{capacity.TagCluster: "ml", capacity.TagNode: node}}
		for _, change := range more {
			change(&i)
		}
		return i
	}
	foreign := func(i *capacity.Instance) {
		i.Tags = map[string]string{capacity.TagCluster: "other", capacity.TagNode: "gpu-1"}
	}
	ended := func(i *capacity.Instance) { i.State = "shutting-down" }
	record := func(hook, code, nodes string, ago time.Duration, ids ...string) state.Record {
		return state.Record{At: noon.Add(-ago), Hook: hook, Code: code, Nodes: nodes, Instances: ids}
	}
	for name, c := range map[string]struct {
		records   []state.Record
		instances []capacity.Instance
		script    string
		fails     bool
	}{
		"by tags": {nil, []capacity.Instance{instance("i-2", "gpu-2", -time.Hour), instance("i-1", "gpu-1", clockSlack), instance("i-3", "gpu-3", -time.Hour),
			instance("i-new", "gpu-1", clockSlack+time.Second), instance("i-foreign", "gpu-1", -time.Hour, foreign), instance("i-ended", "gpu-1", -time.Hour, ended)}, `
			ask-records → records
			ask-instances → instances
			note
			terminate i-1,i-2
			tell suspend ok gpu-[1-2];`, false},
		"by records": {[]state.Record{record("resume", "ok", "gpu-[1-3]", time.Minute, "i-1", "i-2", "i-3"), record("resume", "failed", "gpu-[2-9]", time.Minute, "i-failed"), record("resume", "ok", "gpu-1", unseenTime+time.Second, "i-old"),
			record("resume", "ok", "gpu-1", -time.Second, "i-newer"), record("resume", "ok", "gpu-[1-2]", time.Minute, "i-one of two"), record("resume", "ok", "gpu-[", time.Minute, "i-x")}, nil, `
			ask-records → records
			ask-instances → instances
			terminate i-1,i-2,i-failed
			tell suspend ok gpu-[1-2];`, false},
		"what our records have ended, and EC2 shows": {[]state.Record{record("resume", "ok", "gpu-[1-2]", time.Minute, "i-1", "i-2"), record("suspend", "ok", "gpu-2", time.Second, "i-2")}, []capacity.Instance{instance("i-1", "gpu-1", -time.Minute, ended)}, `
			ask-records → records
			ask-instances → instances
			note`, false},
		"EC2 does not answer": {nil, nil, `
			ask-records → unknown
			ask-instances → unknown
			tell suspend failed gpu-[1-2];`, true},
		"EC2 refuses": {nil, []capacity.Instance{instance("i-1", "gpu-1", -time.Hour)}, `
			ask-records → unknown
			ask-instances → instances
			terminate i-1 → refused
			tell suspend failed gpu-[1-2];`, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := session(t, terminating{cluster: "ml", nodes: []string{"gpu-1", "gpu-2"}, called: noon},
				map[string]Answer{"records": {Records: c.records}, "instances": {Instances: c.instances}}, c.script)
			if (s.failure != nil) != c.fails {
				t.Error(s.failure)
			}
		})
	}
}

// Nodes that did not boot are given back to Slurm, and their jobs wait longer each time.
func TestNotBootedStories(t *testing.T) {
	launch := state.Record{At: noon, Hook: "resume", Code: "ok", Nodes: "gpu-1", Jobs: []string{"1", "2"}}
	again := state.Record{At: noon, Hook: "resume", Code: "not-booted", Nodes: "gpu-1", Jobs: []string{"1"}}
	answers := map[string]Answer{"gpu-1": {Nodes: []string{"gpu-1"}}, "launched": {Records: []state.Record{launch}}, "launched again": {Records: []state.Record{launch, again}},
		"queue": {Jobs: []capacity.Job{queued(1), nlp(2), queued(3)}}}
	for name, script := range map[string]string{
		"all are up":          "ask-given-up",
		"Slurm does not say":  "ask-given-up → unknown",
		"Slurm keeps them":    "ask-given-up → gpu-1\nsend-down gpu-1 → unknown",
		"nobody had them":     "ask-given-up → gpu-1\nsend-down gpu-1\nask-records",
		"nobody knows who":    "ask-given-up → gpu-1\nsend-down gpu-1\nask-records → unknown",
		"Slurm has forgotten": "ask-given-up → gpu-1\nsend-down gpu-1\nask-records → launched\nask-jobs → unknown",
		"the first time": `
			ask-given-up → gpu-1
			send-down gpu-1
			ask-records → launched
			ask-jobs → queue
			tell resume not-booted gpu-1;
			admin-comment 1`,
		"the second time": `
			ask-given-up → gpu-1
			send-down gpu-1
			ask-records → launched again
			ask-jobs → queue
			tell resume not-booted gpu-1;
			begin 1 30s
			admin-comment 1`,
	} {
		t.Run(name, func(t *testing.T) {
			session(t, notBooting{nodes: []string{"gpu-1", "gpu-2"}, called: noon}, answers, script)
		})
	}
}

// A compute node group is made right for what it was set up for, in the subnets of that zone.
func TestConfigureStories(t *testing.T) {
	snap := twoReservations()
	at := newFacts(snap).place(t, "gpu-1")
	for name, c := range map[string]struct {
		reservation string
		script      string
		code, says  string
	}{
		"it was not right": {two, "configure gpu " + two + " → changed\ntell resume ok ;", "", ""},
		"it is right":      {two, "configure gpu " + two + "\ntell resume ok ;", "", ""},
		"PCS refuses":      {two, "configure gpu " + two + " → refused\ntell resume UnauthorizedOperation ;", "UnauthorizedOperation", ""},
		"for none":         {"", "tell resume failed ;", "failed", ""},
		"for another":      {"cr-0fffffffffffffff0", "tell resume reservation-not-known ;", "reservation-not-known", ""},
		"for what is over": {ended, "tell resume mismatch ;", "mismatch", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := session(t, configuring{at: at, reservation: c.reservation, snap: snap, now: noon}, map[string]Answer{"changed": {Changed: true}}, c.script)
			if (s.failure == nil) != (c.code == "") || s.failure != nil && s.failure.Code != c.code {
				t.Error(s.failure)
			}
			if e, refused := s.decide(); refused == nil && (len(e.Group.Subnets) != 2 || e.Group.Subnets[0].ID != subnet2) {
				t.Errorf("%+v", e.Group.Subnets)
			}
		})
	}
}

// What did not boot names the instance of its last launch, for its console.
func TestLaunchedInstance(t *testing.T) {
	records := []state.Record{{Hook: "resume", Nodes: "gpu-[1-2]", Instances: []string{"i-1", "i-2"}}, {Hook: "resume", Nodes: "gpu-2", Instances: []string{"i-3"}},
		{Hook: "resume", Nodes: "gpu-[1-2]", Code: "failed"}, {Hook: "suspend", Nodes: "gpu-1", Instances: []string{"i-9"}}}
	for node, want := range map[string]string{"gpu-1": "i-1", "gpu-2": "i-3", "gpu-3": ""} {
		if got := launchedInstance(node, records); got != want {
			t.Errorf("%s: %q, want %q", node, got, want)
		}
	}
}
