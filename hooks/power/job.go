package power

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Job is a job as slurmctld has it. Its user can change the comment at any time.
type Job struct {
	// ID is what SLURM_RESUME_FILE has; Shown what squeue shows ("12_3") and what names
	// the job in a change: the last task of an array has the id of the whole array.
	ID        int
	Shown     string
	Account   string
	Comment   string
	TimeLimit capacity.Limit
	// Nodes that the job holds.
	Nodes    []string
	Restarts int
	// Allocated: the job holds nodes, booted or not.
	Allocated bool
	// Waiting: it does not run; its last run may still clean up. Eligible is when it may
	// start at the earliest.
	Waiting  bool
	Eligible time.Time
	// Batch: of sbatch, so that it has no terminal, and Slurm can requeue it; but for
	// --no-requeue, which is Requeue false.
	Batch   bool
	Requeue bool
	// Partition is the one that the job was started in; of a job that waits all that it may
	// start in, with commas.
	Partition string
	// HetJobID is that of the whole heterogeneous job; 0 if it is none.
	HetJobID     int
	AdminComment string
}
