package capacity

import "time"

// SlurmPartition is a partition as Slurm shows it; PCS calls it a queue. A [Partition] is one of
// the settings.
type SlurmPartition struct {
	Name    string
	Default bool   // jobs without -p go there
	State   string // UP, DOWN, DRAIN, INACTIVE
	Nodes   []string
	MaxTime Limit // not set only when Slurm does not print it
	// DefaultTime is the limit of a job that states none, which Slurm shows as the job's own.
	DefaultTime   Limit
	AllowAccounts []string      // empty: every account
	AllowGroups   []string      // empty: every Unix group
	QOS           string        // whose limits hold for all its jobs; empty: none
	ResumeTimeout time.Duration // 0: that of slurm.conf
	SuspendTime   time.Duration // 0: that of slurm.conf; slurm.Never: idle nodes stay up
}
