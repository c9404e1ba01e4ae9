package capacity

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Node describes a node as Slurm shows it.
type Node struct {
	Name       string
	State      string   // as scontrol shows it: IDLE+CLOUD+POWERED_DOWN
	Address    string   // NodeAddr: where slurmctld finds its slurmd
	HostName   string   // NodeHostName
	Features   []string // available, not only active
	Partitions []string
	Reason     string // without the "[who@when]" that Slurm appends
	InstanceID string // the cloud's id; "" if nobody set it in Slurm
	// SlurmdStart tells when the node's slurmd started, by the node's clock; zero if unknown.
	SlurmdStart time.Time
	CPUs        int
	Memory      int // RealMemory, in MB
	GPUs        int // of any type
}

// BaseState returns the base state: IDLE, MIXED, ALLOCATED, DOWN, …
func (n Node) BaseState() string {
	base, _, _ := strings.Cut(n.State, "+")
	return base
}

// HasFlag reports whether the node's state has this flag, such as POWERED_DOWN.
func (n Node) HasFlag(flag string) bool {
	_, flags, _ := strings.Cut(n.State, "+")
	for f := range strings.SplitSeq(flags, "+") {
		if f == flag {
			return true
		}
	}

	return false
}

// PoweredDown reports whether a cloud node is off and changes in neither direction.
func (n Node) PoweredDown() bool {
	return n.HasFlag("POWERED_DOWN") && !n.PoweringUp() && !n.PoweringDown()
}

// PoweringUp reports whether a cloud node is being resumed and has not registered yet.
func (n Node) PoweringUp() bool { return n.HasFlag("POWERING_UP") || n.HasFlag("POWER_UP") }

// PoweringDown reports whether a cloud node is being powered down. Its instance may still run.
func (n Node) PoweringDown() bool { return n.HasFlag("POWERING_DOWN") || n.HasFlag("POWER_DOWN") }

// IsBooting reports whether a cloud node is being resumed and nobody has sent it down meanwhile.
func (n Node) IsBooting() bool { return n.PoweringUp() && !n.PoweringDown() }

// IsGivenUp reports whether the node did not boot within ResumeTimeout, or someone set it DOWN while it was off.
// slurmctld does not use the node again until someone changes its state.
func (n Node) IsGivenUp() bool { return n.BaseState() == "DOWN" && n.PoweredDown() }

// TimedOut reports whether Slurm itself gave the node up, by its reason. A node that an administrator set DOWN stays
// down.
func (n Node) TimedOut() bool {
	return n.IsGivenUp() && strings.HasPrefix(n.Reason, "ResumeTimeout reached")
}

// IsBusy reports whether the node runs a job, or is still cleaning up after one.
func (n Node) IsBusy() bool {
	return n.BaseState() == "ALLOCATED" || n.BaseState() == "MIXED" || n.HasFlag("COMPLETING")
}

// notIdle lists the flags of an idle node that takes no job now, or takes only another's.
var notIdle = []string{"COMPLETING", "MAINTENANCE", "NOT_RESPONDING", "PLANNED", "RESERVED"}

// IsIdle reports whether Slurm can give the node to a job now, also after a boot.
func (n Node) IsIdle() bool {
	return n.BaseState() == "IDLE" && n.OutState() == "" && !n.PoweringDown() &&
		!slices.ContainsFunc(notIdle, n.HasFlag)
}

// powerFlags lists the flags that say more than the base state, the most informative first.
var powerFlags = []string{
	"POWERING_DOWN", "POWER_DOWN",
	"POWERING_UP", "POWER_UP",
	"POWERED_DOWN", "DRAIN", "NOT_RESPONDING",
}

// IsUp reports whether the node can run jobs, busy or not: its slurmd answers and nothing keeps jobs away.
func (n Node) IsUp() bool {
	return !slices.ContainsFunc(powerFlags, n.HasFlag) &&
		slices.Contains([]string{"IDLE", "MIXED", "ALLOCATED"}, n.BaseState())
}

// ShortState returns the node's state in one word: idle, powering-up, drain, …
func (n Node) ShortState() string {
	word := n.BaseState()
	if i := slices.IndexFunc(powerFlags, n.HasFlag); i >= 0 {
		word = powerFlags[i]
	}

	return strings.ToLower(strings.ReplaceAll(word, "_", "-"))
}

// OutState returns the state that keeps jobs away until someone acts: drained, down or failed; "" if none does. It is
// "" for a node that was given up or is powering down: the next ResumeProgram takes it.
func (n Node) OutState() string {
	switch {
	case n.IsGivenUp(), n.PoweringDown():
		return ""
	case n.HasFlag("DRAIN"):
		return "drained"
	case n.BaseState() == "DOWN":
		return "down"
	case n.BaseState() == "FAIL" || n.HasFlag("FAIL"):
		return "failed"
	}

	return ""
}

// socketSuffix matches the suffix that Slurm adds to a node's resource: "(S:0-1)", "(IDX:0,2)".
var socketSuffix = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\([^()]*\)`) })

// CountGPUs counts the GPUs in a list of generic resources: a node's "gpu:h100:8(S:0-1),shard:16", or a job's
// "gres:gpu:24" (22.05) and "gres/gpu:h100=24". An entry without a number counts one.
func CountGPUs(gres string) int {
	if strings.Contains(gres, "(") {
		gres = socketSuffix().ReplaceAllString(gres, "")
	}

	total := 0
	for item := range strings.SplitSeq(gres, ",") {
		parts := strings.FieldsFunc(item, func(r rune) bool { return strings.ContainsRune(":/=", r) })
		if len(parts) > 0 && parts[0] == "gres" {
			parts = parts[1:]
		}

		if len(parts) == 0 || parts[0] != "gpu" {
			continue
		}

		n, err := strconv.ParseUint(parts[len(parts)-1], 10, 16)
		if err != nil {
			n = 1
		}

		total += int(n)
	}

	return total
}
