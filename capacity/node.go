package capacity

import (
	"slices"
	"strings"
)

// Node is a node as Slurm shows it.
type Node struct {
	Name       string
	State      string   // as scontrol shows it: IDLE+CLOUD+POWERED_DOWN
	Address    string   // NodeAddr: where slurmctld finds its slurmd
	HostName   string   // NodeHostName
	Features   []string // available, not only active
	Partitions []string
	Reason     string // without the "[who@when]" that Slurm appends
	InstanceID string // the cloud's id; "" if nobody set it in Slurm
	CPUs       int
	Memory     int // RealMemory, in MB
	GPUs       int // of any type
}

// Base is the base state: IDLE, MIXED, ALLOCATED, DOWN, …
func (n Node) Base() string {
	base, _, _ := strings.Cut(n.State, "+")
	return base
}

// Has is true when the node's state has this flag, such as POWERED_DOWN.
func (n Node) Has(flag string) bool {
	_, flags, _ := strings.Cut(n.State, "+")
	for f := range strings.SplitSeq(flags, "+") {
		if f == flag {
			return true
		}
	}
	return false
}

// PoweredDown is true for a cloud node that is off and changes in neither direction.
func (n Node) PoweredDown() bool {
	return n.Has("POWERED_DOWN") && !n.PoweringUp() && !n.PoweringDown()
}

// PoweringUp is true for a cloud node that is being resumed and has not registered yet.
func (n Node) PoweringUp() bool { return n.Has("POWERING_UP") || n.Has("POWER_UP") }

// PoweringDown is true for a cloud node that is being powered down. Its instance may still run.
func (n Node) PoweringDown() bool { return n.Has("POWERING_DOWN") || n.Has("POWER_DOWN") }

// Boots is true for a cloud node that is being resumed and that nobody has sent down meanwhile.
func (n Node) Boots() bool { return n.PoweringUp() && !n.PoweringDown() }

// GivenUp is true for a node that did not boot within ResumeTimeout, or that someone set DOWN while it was off.
// slurmctld does not use the node again until someone changes its state.
func (n Node) GivenUp() bool { return n.Base() == "DOWN" && n.PoweredDown() }

// TimedOut is true for a node that Slurm itself gave up, by its reason. A node that an administrator set DOWN stays
// down.
func (n Node) TimedOut() bool {
	return n.GivenUp() && strings.HasPrefix(n.Reason, "ResumeTimeout reached")
}

// Busy is true for a node that runs a job, or is still cleaning up after one.
func (n Node) Busy() bool {
	return n.Base() == "ALLOCATED" || n.Base() == "MIXED" || n.Has("COMPLETING")
}

// notIdle are the flags of an idle node that takes no job now, or takes only another's.
var notIdle = []string{"COMPLETING", "MAINTENANCE", "NOT_RESPONDING", "PLANNED", "RESERVED"}

// Idle is true for a node that Slurm can give to a job now, also after a boot.
func (n Node) Idle() bool {
	return n.Base() == "IDLE" && n.Out() == "" && !n.PoweringDown() && !slices.ContainsFunc(notIdle, n.Has)
}

// powerFlags are the flags that say more than the base state, the most informative first.
var powerFlags = []string{
	"POWERING_DOWN",
	"POWER_DOWN",
	"POWERING_UP",
	"POWER_UP",
	"POWERED_DOWN",
	"DRAIN",
	"NOT_RESPONDING",
}

// Up is true for a node that can run jobs, busy or not: its slurmd answers and nothing keeps jobs away.
func (n Node) Up() bool {
	return !slices.ContainsFunc(powerFlags, n.Has) && slices.Contains([]string{"IDLE", "MIXED", "ALLOCATED"}, n.Base())
}

// Word is the node's state in one word: idle, powering-up, drain, …
func (n Node) Word() string {
	word := n.Base()
	if i := slices.IndexFunc(powerFlags, n.Has); i >= 0 {
		word = powerFlags[i]
	}
	return strings.ToLower(strings.ReplaceAll(word, "_", "-"))
}

// Out is the state that keeps jobs away until someone acts: drained, down or failed; "" if none does. It is "" for a
// node that was given up or is powering down: the next ResumeProgram takes it.
func (n Node) Out() string {
	switch {
	case n.GivenUp(), n.PoweringDown():
		return ""
	case n.Has("DRAIN"):
		return "drained"
	case n.Base() == "DOWN":
		return "down"
	case n.Base() == "FAIL" || n.Has("FAIL"):
		return "failed"
	}
	return ""
}
