package capacity

import (
	"slices"
	"time"
)

// SlurmPartition is a partition as Slurm shows it; PCS calls it a queue. A [Partition] is one of our settings.
type SlurmPartition struct {
	Name    string
	Default bool   // jobs without -p go there
	State   string // UP, DOWN, DRAIN, INACTIVE
	Nodes   []string
	MaxTime Limit // unset only if Slurm does not print it
	// DefaultTime is the limit of a job that states none; Slurm shows it as the job's own limit.
	DefaultTime Limit
	// OverTime is how much longer than its limit a job may run; unset: that of slurm.conf.
	OverTime      Limit
	AllowAccounts []string      // empty: every account
	AllowGroups   []string      // empty: every Unix group
	QOS           string        // its limits apply to all jobs; empty: none
	ResumeTimeout time.Duration // 0: that of slurm.conf
	SuspendTime   time.Duration // 0: that of slurm.conf; slurm.Never: idle nodes stay up
	Unread        string        // what Slurm shows and nobody can read
}

// OverTime is the most by which jobs of the named partitions may run longer than their limits: NoLimit where no limit
// ends a job. of is that of slurm.conf.
func OverTime(partitions []SlurmPartition, named []string, of Limit) (most Limit) {
	for _, p := range partitions {
		over := p.OverTime
		if !over.Set {
			over = of
		}
		if slices.Contains(named, p.Name) && !most.Unlimited && (over.Unlimited || over.Minutes > most.Minutes) {
			most = over
		}
	}
	return most
}
