package capacity

import "testing"

// What a node does. One that is on its way down, or back, is not powered down: its instance may
// be there still.
func TestNodeStates(t *testing.T) {
	for state, want := range map[string]struct {
		word              string
		up, off, busy     bool
		out               string
		givenUp, timedOut bool
	}{
		"IDLE":                                     {word: "idle", up: true},
		"MIXED+CLOUD":                              {word: "mixed", up: true, busy: true},
		"ALLOCATED":                                {word: "allocated", up: true, busy: true},
		"IDLE+COMPLETING":                          {word: "idle", up: true, busy: true},
		"IDLE+CLOUD+NOT_RESPONDING":                {word: "not-responding"},
		"IDLE+CLOUD+POWERED_DOWN":                  {word: "powered-down", off: true},
		"IDLE+CLOUD+POWERING_DOWN":                 {word: "powering-down"},
		"IDLE+CLOUD+POWERED_DOWN+POWERING_DOWN":    {word: "powering-down"},
		"IDLE+CLOUD+POWERED_DOWN+POWER_DOWN":       {word: "power-down"},
		"IDLE+CLOUD+POWERED_DOWN+POWER_UP":         {word: "power-up"},
		"ALLOCATED+CLOUD+POWERING_UP":              {word: "powering-up", busy: true},
		"IDLE+DRAIN":                               {word: "drain", out: "drained"},
		"IDLE+FAIL":                                {word: "idle", up: true, out: "failed"},
		"DOWN":                                     {word: "down", out: "down"},
		"DOWN+CLOUD+POWERED_DOWN":                  {word: "powered-down", off: true, givenUp: true, timedOut: true},
		"DOWN+CLOUD+POWERED_DOWN+POWERING_DOWN":    {word: "powering-down"},
		"MIXED+CLOUD+DRAIN+POWER_DOWN+POWERING_UP": {word: "power-down", busy: true}, // let go
		"POWERED_DOWN":                             {word: "powered-down"},           // no flag, and no state of Slurm
		"":                                         {},
	} {
		n := Node{State: state, Reason: "ResumeTimeout reached [slurm@now]"}
		if n.Word() != want.word || n.Up() != want.up || n.PoweredDown() != want.off || n.Busy() != want.busy || n.Out() != want.out ||
			n.GivenUp() != want.givenUp || n.TimedOut() != want.timedOut {
			t.Errorf("%s: %s, up %t, off %t, busy %t, out %q, given up %t, timed out %t", state, n.Word(), n.Up(), n.PoweredDown(), n.Busy(), n.Out(), n.GivenUp(), n.TimedOut())
		}
	}
	if n := (Node{State: "DOWN+CLOUD+POWERED_DOWN", Reason: "bad disk"}); n.TimedOut() || !n.GivenUp() {
		t.Error("a node that an administrator sent down counts as timed out")
	}
}
