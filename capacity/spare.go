package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A spare partition lends the nodes of a partition while nobody there needs them. It is a second Slurm partition over
// the same nodes, lower in PriorityTier, so that Slurm requeues a spare job when a job of the lender needs its nodes.
// Slots, fences and launches are those of the lender: guards are over nodes, whatever partition a job is in.

// Spare describes the spare partition of a partition in Slurm; zero if it has none.
type Spare struct {
	Name    string `json:"name"`
	MaxTime Limit  `json:"max_time,omitzero"`
	QOS     string `json:"qos,omitempty"` // as those of a partition
}

// spare returns the spare partition as its jobs see it: all accounts may use it, its jobs are requeued at a fence, and
// nothing is launched on demand for them.
func (p Partition) spare() Partition {
	lender := p.Name
	p.Name = p.Spare.Name
	p.MaxTime = p.Spare.MaxTime
	p.QOS = p.Spare.QOS
	p.Spare = Spare{}
	p.Lender = lender
	p.AllowAccounts = nil
	p.OnEnd = RequeueAtEnd
	p.Groups = slices.DeleteFunc(slices.Clone(p.Groups),
		func(g NodeGroup) bool { return !g.PurchaseOption.IsReserved() })

	return p
}

// SlurmNames returns the names of the partition and of its spare one, if it has one.
func (p Partition) SlurmNames() []string { return slurmNames(p.Name, p.Spare.Name) }

// SlurmNames returns the names of all partitions, each with its spare one.
func (s Settings) SlurmNames() (names []string) {
	for _, p := range s.Partitions {
		names = append(names, p.SlurmNames()...)
	}
	return names
}

func slurmNames(name, spare string) []string {
	if spare == "" {
		return []string{name}
	}
	return []string{name, spare}
}

// warnPreempted returns the warning for a job that Slurm ends instead of requeuing it, when a job of the lender needs
// its nodes; "" for others.
func warnPreempted(req Request, parts []Partition, snap *Snapshot) string {
	why := req.whyNotRequeued(snap)

	i := slices.IndexFunc(parts, func(p Partition) bool { return p.Lender != "" })
	if i < 0 || why == "" {
		return ""
	}

	return fmt.Sprintf("when jobs of partition %s need its nodes, Slurm ends this job in partition %s and does not "+
		"requeue it: %s", parts[i].Lender, parts[i].Name, why)
}

// Preemption holds Slurm's settings for all partitions.
type Preemption struct {
	Type       string        // of PreemptType, without "preempt/"; "" if Slurm preempts no jobs
	Mode       string        // of PreemptMode
	ExemptTime time.Duration // PreemptExemptTime: how long after its start no job is preempted
	// NoGraceTime: this Slurm loses or repeats jobs that it has preempted with a GraceTime.
	NoGraceTime bool
}

// ByPartition is the PreemptType with which jobs of a partition with a higher PriorityTier preempt others.
const ByPartition = "partition_prio"

// ParsePreemption reads PreemptType and PreemptMode.
func ParsePreemption(preemptType, mode string) Preemption {
	return Preemption{Type: strings.TrimSuffix(strings.TrimPrefix(preemptType, "preempt/"), "none"), Mode: mode}
}

// requeues reports whether jobs with a PreemptMode are requeued, whatever else it says.
func requeues(mode string) bool { return slices.Contains(strings.Split(mode, ","), "REQUEUE") }

// byPriority reports whether a PreemptMode spares jobs with a higher priority.
func byPriority(mode string) bool { return slices.Contains(strings.Split(mode, ","), "PRIORITY") }

// CheckSpare returns what keeps jobs of the lender from getting their nodes back, or spare jobs from being requeued.
func CheckSpare(lender, spare SlurmPartition, p Preemption) (found []Problem) {
	about := Subject{Partition: spare.Name}
	add := func(fix, format string, args ...any) {
		found = append(found, Problemf(NotPreempted, about, fix, format, args...))
	}

	switch {
	case p.Type == "":
		add("set PreemptType=preempt/partition_prio and PreemptMode=REQUEUE in Slurm",
			"jobs of partition %s keep their nodes when jobs of partition %s need them: Slurm's PreemptType is none",
			spare.Name, lender.Name)

		return found
	case p.Type != ByPartition:
		add("use PreemptType=preempt/partition_prio, or no spare partition",
			"jobs of partition %s may keep their nodes when jobs of partition %s need them: Slurm's PreemptType is "+
				"preempt/%s, which does not go by partitions", spare.Name, lender.Name, p.Type)

		return found
	case lender.PriorityTier <= spare.PriorityTier:
		add(fmt.Sprintf("set a PriorityTier below %d for %s", lender.PriorityTier, spare.Name),
			"jobs of partition %s keep their nodes when jobs of partition %s need them: its PriorityTier is %d, that "+
				"of %[2]s is %[4]d", spare.Name, lender.Name, spare.PriorityTier, lender.PriorityTier)
	}

	if !requeues(spare.PreemptMode) {
		add("set PreemptMode=REQUEUE for that partition",
			"jobs of partition %s are not requeued when jobs of partition %s need their nodes: its PreemptMode is %s",
			spare.Name, lender.Name, spare.PreemptMode)
	}

	if spare.GraceTime > 0 && p.NoGraceTime {
		add("set GraceTime=0 for that partition: jobs get TERM without it, and KILL after KillWait",
			"jobs of partition %s may be lost, or run again after they have completed: Slurm before 26.05 does so with "+
				"jobs that it has preempted with a GraceTime", spare.Name)
	}

	if byPriority(p.Mode) || byPriority(lender.PreemptMode) {
		add("remove PRIORITY from PreemptMode",
			"jobs of partition %s keep their nodes from jobs of partition %s with a lower priority: PreemptMode has "+
				"PRIORITY", spare.Name, lender.Name)
	}

	return found
}

// CheckLending returns what keeps a partition from lending its nodes in a Slurm that preempts jobs by p: another way to
// preempt, which is the site's, and partitions whose jobs would be preempted as well, or not. all are those of Slurm.
func CheckLending(lender, spare string, p Preemption, all []SlurmPartition) (found []Problem) {
	about := Subject{Partition: spare}
	add := func(fix, format string, args ...any) {
		found = append(found, Problemf(NotPreempted, about, fix, format, args...))
	}

	isOff := p.Mode == "" || p.Mode == "OFF"
	switch {
	case p.Type != "" && p.Type != ByPartition:
		add("leave `spare` out", "Slurm preempts jobs by preempt/%s (PreemptType), not by partition, and that stays as "+
			"it is", p.Type)
	case p.Type == "" && !isOff:
		add("leave `spare` out", "Slurm has PreemptMode=%s, and that stays as it is", p.Mode)
	}

	for _, other := range all {
		switch {
		case other.Name == lender && other.PriorityTier < 1:
			add("set PriorityTier=1 for it", "partition %s has PriorityTier=%d, and a spare partition needs a lower one",
				lender, other.PriorityTier)
		case p.Type == "" && other.Name != lender && other.Name != spare && other.PriorityTier != 1:
			add("set PreemptMode=OFF for partitions whose jobs are not to be preempted, then PreemptType=preempt/"+
				"partition_prio and PreemptMode=REQUEUE for all of Slurm, and run this again",
				"partition %s has PriorityTier=%d: jobs of partitions that share nodes with it would preempt one another",
				other.Name, other.PriorityTier)
		}
	}

	return found
}
