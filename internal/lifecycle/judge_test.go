package lifecycle

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// checkedSeen is blockSeen with the health command, a record of each node, and all three nodes shown as they are named.
func checkedSeen(now string, nodes ...string) Seen {
	s := blockSeen("1h", now, capacity.StateActive, capacity.StateActive)
	s.Checks = Checks{HealthCommand: HealthCommand{Path: "/opt/health", Tries: 3, Timeout: time.Minute}, Time: time.Hour,
		Live: map[string]capacity.Job{}, Ended: map[string]capacity.Job{}, Exits: map[string]Exit{}, Files: map[string]*state.Health{}}
	for i, is := range nodes {
		s.Cluster.Nodes[i].State = is
	}
	return s
}

// record are the records of the slot's nodes, by their numbers.
func (s *Seen) record(nodes ...state.NodeHealth) {
	h := &state.Health{Slot: "gpu", ReservationID: "cr-0", Nodes: map[string]*state.NodeHealth{}}
	for i := range nodes {
		h.Nodes[[]string{"gpu-1", "gpu-2", "gpu-3"}[i]] = &nodes[i]
	}
	s.Checks.Files["gpu"], s.Health = h, map[string]*state.Health{"gpu": h}
}

// checkJob is a job that runs the command on a node of the slot.
func checkJob(shown, jobState, node string) capacity.Job {
	return capacity.Job{Shown: shown, State: jobState, Reservation: "pcs-capacity-health-gpu." + node + ".cr-0." + me}
}

// A node has its time, to the second, to come up and to pass; what other nodes do is not held against it.
func TestTheTimeOfACheck(t *testing.T) {
	for name, c := range map[string]struct {
		since, job string
		live       []capacity.Job
		want, left string // the node's state and job afterwards
		cancelled  bool
	}{
		"not up after just that time":         {"1h", "", nil, state.HealthOpen, "", false},
		"a second more":                       {"59m59s", "", nil, state.HealthUnknown, "", false},
		"its job still runs":                  {"1h", "7", []capacity.Job{checkJob("7", "RUNNING", "gpu-1")}, state.HealthOpen, "7", false},
		"a second more, its job runs":         {"59m59s", "7", []capacity.Job{checkJob("7", "RUNNING", "gpu-1")}, state.HealthUnknown, "7", true},
		"of a pass that was killed":           {"1h30m", "", []capacity.Job{checkJob("7", "RUNNING", "gpu-1")}, state.HealthOpen, "7", false},
		"another node's job":                  {"1h30m", "", []capacity.Job{checkJob("8", "RUNNING", "gpu-2")}, state.HealthOpen, "", false},
		"a job on the node of another slot":   {"1h30m", "", []capacity.Job{{Shown: "9", Reservation: "pcs-capacity-health-old.gpu-1.cr-0." + me}}, state.HealthOpen, "", false},
		"a user's job in a fence of the slot": {"1h30m", "", []capacity.Job{{Shown: "9", Reservation: "pcs-capacity-fence-gpu.cr-0." + me}}, state.HealthOpen, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := checkedSeen("2h", nodeIdle)
			s.record(state.NodeHealth{State: state.HealthOpen, Since: at(c.since), Job: c.job})
			for _, j := range c.live {
				s.Checks.Live[j.Shown] = j
			}
			verdicts, effects, problems := health(s)
			if n := verdicts["gpu"].Nodes["gpu-1"]; n.State != c.want || n.Job != c.left || len(effects) > 0 != c.cancelled || len(problems) > 0 {
				t.Errorf("%+v, %q, problems %q", n, did(effects), texts(problems))
			}
			if n := s.Checks.Files["gpu"].Nodes["gpu-1"]; n.State != state.HealthOpen || n.Job != c.job {
				t.Errorf("what was seen is changed: %+v", n)
			}
		})
	}
}

// Which slots' nodes are checked, from which time on.
func TestWhichSlotsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		now  string
		but  func(*Seen)
		want bool
	}{
		"the block is open":        {"1h", nil, true},
		"it opens a second later":  {"59m59s", nil, false},
		"within the time":          {"1h59m59s", nil, true},
		"it has been open longer":  {"2h", nil, false},
		"EC2 opens it late":        {"1h1m", func(s *Seen) { s.Snap.Reservations[0].State = capacity.StateScheduled }, false},
		"Slurm shows no nodes yet": {"1h", func(s *Seen) { s.Cluster.slots = nil }, false},
	} {
		s := checkedSeen(c.now, nodeIdle, nodeIdle, nodeIdle)
		if c.but != nil {
			c.but(&s)
		}
		if verdicts, _, _ := health(s); (verdicts["gpu"] != nil) != c.want || c.want && len(verdicts["gpu"].Nodes) != 3 {
			t.Errorf("%s: %+v", name, verdicts["gpu"])
		}
	}
	// A slot that has long been open keeps no other from its checks.
	s := checkedSeen("25h", nodeIdle)
	group := &s.Snap.Partitions[0].Groups[0]
	group.Slots[0].ReservationIDs, group.Slots = []string{"cr-2"}, append(group.Slots, capacity.Slot{Name: "big", ReservationIDs: []string{"cr-1"}})
	s.Snap.Reservations = []capacity.Reservation{block("cr-2", "-9h", "99h", capacity.StateActive), block("cr-1", "25h", "48h", capacity.StateActive)}
	s.Cluster.slots["big"] = []string{"big-1"}
	if verdicts, _, _ := health(s); len(verdicts) != 1 || verdicts["big"] == nil {
		t.Errorf("%+v", verdicts)
	}
}

// What becomes of each node of a slot in one pass: one at a time is launched anew, and only idle nodes are checked.
func TestNextStepOfACheck(t *testing.T) {
	var (
		open    = state.NodeHealth{State: state.HealthOpen, Since: at("1h30m")}
		failed  = state.NodeHealth{State: state.HealthFailed, Since: at("1h30m"), Failures: []state.HealthFailure{{ExitStatus: 3, Output: "no GPU 3\n"}}}
		powered = state.NodeHealth{State: state.HealthPowering, Since: at("1h"), Failures: failed.Failures}
		good    = state.NodeHealth{State: state.HealthGood}
	)
	again, checking, untold, long := open, open, failed, powered
	again.Failures, checking.Job, untold.Failures, long.Since = failed.Failures, "7", nil, at("59m59s")
	const off, goes, comes = nodeOff, "IDLE+CLOUD+POWERING_DOWN", "IDLE+CLOUD+POWERING_UP"
	for name, c := range map[string]struct {
		nodes   []string
		records []state.NodeHealth
		but     func(*Seen)
		want    []string
		states  []string // afterwards, without what comes of effects
	}{
		"up and closed":               {[]string{nodeIdle}, []state.NodeHealth{open}, nil, []string{"check-node: slot gpu: running /opt/health on gpu-1"}, []string{"open"}},
		"is being checked":            {[]string{nodeIdle}, []state.NodeHealth{checking}, nil, nil, []string{"open"}},
		"still boots":                 {[]string{comes}, []state.NodeHealth{open}, nil, nil, []string{"open"}},
		"squeue did not answer":       {[]string{nodeIdle}, []state.NodeHealth{open}, func(s *Seen) { s.Checks.Live = nil }, nil, []string{"open"}},
		"not closed yet":              {[]string{nodeIdle}, []state.NodeHealth{open}, func(s *Seen) { s.Cluster.Reservations[0].Active = false }, nil, []string{"open"}},
		"closed by somebody else":     {[]string{nodeIdle}, []state.NodeHealth{open}, func(s *Seen) { s.Cluster.Reservations[0].Users = []string{"bob"} }, nil, []string{"open"}},
		"not closed at all":           {[]string{nodeIdle}, []state.NodeHealth{open}, func(s *Seen) { s.Cluster.Reservations = nil }, nil, []string{"open"}},
		"a job is there":              {[]string{nodeIdle}, []state.NodeHealth{open}, func(s *Seen) { s.Jobs = []capacity.Job{{Nodes: []string{"gpu-1"}}} }, nil, []string{"unknown"}},
		"a job is elsewhere":          {[]string{nodeIdle}, []state.NodeHealth{open}, func(s *Seen) { s.Jobs = []capacity.Job{{Nodes: []string{"gpu-2"}}} }, []string{"check-node: slot gpu: running /opt/health on gpu-1"}, []string{"open"}},
		"healthy":                     {[]string{nodeIdle}, []state.NodeHealth{good}, nil, nil, []string{"good"}},
		"failed":                      {[]string{nodeIdle}, []state.NodeHealth{failed}, nil, []string{"power-down: slot gpu: powering gpu-1 down, to launch it anew"}, []string{"failed"}},
		"failed, nobody knows why":    {[]string{nodeIdle}, []state.NodeHealth{untold}, nil, []string{"power-down: slot gpu: powering gpu-1 down, to launch it anew"}, []string{"failed"}},
		"failed, and is off":          {[]string{off}, []state.NodeHealth{failed}, nil, nil, []string{"powering"}},
		"failed, and goes down":       {[]string{goes}, []state.NodeHealth{failed}, nil, nil, []string{"powering"}},
		"two failed":                  {[]string{nodeIdle, nodeIdle}, []state.NodeHealth{failed, failed}, nil, []string{"power-down: slot gpu: powering gpu-1 down, to launch it anew"}, []string{"failed", "failed"}},
		"another is on its way":       {[]string{nodeIdle, goes}, []state.NodeHealth{failed, powered}, nil, nil, []string{"failed", "powering"}},
		"another is looked at again":  {[]string{nodeIdle, comes}, []state.NodeHealth{failed, again}, nil, nil, []string{"failed", "open"}},
		"another has its first check": {[]string{nodeIdle, comes}, []state.NodeHealth{failed, open}, nil, []string{"power-down: slot gpu: powering gpu-1 down, to launch it anew"}, []string{"failed", "open"}},
		"down":                        {[]string{off}, []state.NodeHealth{powered}, nil, []string{"power-up: slot gpu: powering gpu-1 up, to look at it again"}, []string{"powering"}},
		"it comes":                    {[]string{comes}, []state.NodeHealth{powered}, nil, nil, []string{"open"}},
		"it is up":                    {[]string{nodeIdle}, []state.NodeHealth{powered}, nil, nil, []string{"open"}},
		"it goes down for an hour":    {[]string{goes}, []state.NodeHealth{powered}, nil, nil, []string{"powering"}},
		"it never goes down":          {[]string{goes}, []state.NodeHealth{long}, nil, nil, []string{"bad"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := checkedSeen("2h", c.nodes...)
			s.record(c.records...)
			s.Cluster.Reservations = []capacity.SlurmReservation{reservation("pcs-capacity-health-gpu.gpu-1.cr-0."+me, []string{"gpu-1"}, at("1h"), at("3h"))}
			s.Cluster.Reservations[0].Active = true
			if c.but != nil {
				c.but(&s)
			}
			verdicts, effects := healthChecks(s)
			var states []string
			for i := range c.records {
				n := verdicts["gpu"].Nodes[s.Cluster.Nodes[i].Name]
				if states = append(states, n.State); n.State != c.records[i].State && n.State != state.HealthBad && !n.Since.Equal(s.Now) {
					t.Errorf("%s since %s", n.State, n.Since)
				}
			}
			if diff := cmp.Diff(c.want, did(effects)) + cmp.Diff(c.states, states); diff != "" {
				t.Error(diff)
			}
			if len(effects) == 1 && effects[0].Code() == "power-down" {
				why := "pcs-capacity: health command"
				if name != "failed, nobody knows why" {
					why += ": exit status 3: no GPU 3"
				}
				if diff := cmp.Diff(why, effects[0].(PowerDown).Reason); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// What the answers of a pass's effects make of the records.
func TestWhatAChecksEffectsTell(t *testing.T) {
	refused := Answer{Err: errors.New("slurmctld is busy")}
	one := []state.HealthFailure{{ExitStatus: 3}}
	three := []state.HealthFailure{{ExitStatus: 3}, {ExitStatus: 3}, {ExitStatus: 3}}
	drain := func(failures []state.HealthFailure) capacity.Effect {
		return DrainFailed{state.HealthCase{Slot: "gpu", Node: "gpu-1", Failures: failures}}
	}
	check, down, anew := CheckNode{"gpu", NodeCheck{Node: "gpu-1"}}, PowerDown{Slot: "gpu", Nodes: []string{"gpu-1"}}, Relaunch{"gpu", "gpu-1"}
	before := state.NodeHealth{State: state.HealthOpen, Since: noon, Job: "7"}
	later := at("2h")
	for name, c := range map[string]struct {
		effect capacity.Effect
		answer Answer
		want   state.NodeHealth
	}{
		"drained":                   {drain(one), Answer{}, state.NodeHealth{State: state.HealthFailed, Since: later, Failures: one}},
		"drained for the last time": {drain(three), Answer{}, state.NodeHealth{State: state.HealthBad, Since: later, Failures: three}},
		"cannot be drained":         {drain(one), refused, before},
		"submitted":                 {check, Answer{Job: "8"}, state.NodeHealth{State: state.HealthOpen, Since: noon, Job: "8"}},
		"cannot be submitted":       {check, refused, state.NodeHealth{State: state.HealthUnknown, Since: later, Why: "slurmctld is busy"}},
		"powered down":              {down, Answer{}, state.NodeHealth{State: state.HealthPowering, Since: later, Job: "7"}},
		"cannot be powered down":    {down, refused, before},
		"launched anew":             {anew, Answer{}, state.NodeHealth{State: state.HealthOpen, Since: later}},
		"cannot be launched":        {anew, refused, before},
	} {
		s := checkedSeen("2h")
		s.record(before)
		s.learnHealth(s.Health, []Result{{Effect: c.effect, Answer: c.answer}})
		if diff := cmp.Diff(c.want, *s.Health["gpu"].Nodes["gpu-1"]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A failed command is described by its last line, cut where Slurm's Reason could not hold it.
func TestHowACheckFailed(t *testing.T) {
	long := strings.Repeat("x", 199) + "é" // 201 bytes
	for _, c := range []struct {
		status int
		output string
		want   string
	}{
		{3, "", "exit status 3"}, {3, " \n\n", "exit status 3"}, {3, "looking\nGPU 3 is gone \n\n", "exit status 3: GPU 3 is gone"},
		{124, "", "no answer within its timeout"}, {124, "looking", "no answer within its timeout: looking"},
		{1, long, "exit status 1: " + strings.Repeat("x", 199)},
	} {
		if got := failure(state.HealthFailure{ExitStatus: c.status, Output: c.output}); got != c.want {
			t.Errorf("%d, %q: %q", c.status, c.output, got)
		}
	}
}

// People hear of nodes that get jobs without a check for an hour, and of those that failed it for good until they are up.
func TestProblemsOfChecks(t *testing.T) {
	unknown := state.NodeHealth{State: state.HealthUnknown, Why: "it was not up within 1h"}
	bad := state.NodeHealth{State: state.HealthBad}
	since := func(when string) state.NodeHealth { n := unknown; n.Since = at(when); return n }
	const unchecked, broken = "node gpu-1 gets jobs without having shown that it is healthy: it was not up within 1h", "node gpu-1 of cr-0 has failed the health command; it is drained: open a case with AWS Support"
	for name, c := range map[string]struct {
		node   string
		record state.NodeHealth
		want   string
	}{
		"unchecked for a moment":    {nodeIdle, since("1h0m1s"), unchecked},
		"unchecked for an hour":     {nodeIdle, since("1h"), ""},
		"failed for good":           {"IDLE+DRAIN", bad, broken},
		"failed for good, and off":  {nodeOff, bad, broken},
		"failed for good, resumed":  {nodeIdle, bad, ""},
		"healthy":                   {nodeIdle, state.NodeHealth{State: state.HealthGood}, ""},
		"failed, and has a next go": {"IDLE+DRAIN", state.NodeHealth{State: state.HealthFailed}, ""},
	} {
		s := checkedSeen("2h", c.node)
		s.record(c.record)
		_, problems := healthProblems(s)
		if got := strings.Join(texts(problems), "; "); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A watching sync makes its next pass soon while nodes are closed for a check.
func TestChecking(t *testing.T) {
	for what, want := range map[string]bool{state.HealthOpen: true, state.HealthFailed: true, state.HealthPowering: true, state.HealthGood: false, state.HealthBad: false, state.HealthUnknown: false} {
		verdicts := map[string]*state.Health{"gpu": {Nodes: map[string]*state.NodeHealth{"gpu-1": {State: what}}}}
		if got := checking(verdicts); got != want {
			t.Errorf("%s: %t", what, got)
		}
	}
}
