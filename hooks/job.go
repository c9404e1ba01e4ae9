package hooks

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
	// Completing: its last run is over, and its nodes still clean up.
	Completing bool
	// AdminHeld: it waits, and its owner cannot release it.
	AdminHeld bool
	// Batch: of sbatch, so that it has no terminal, and Slurm can requeue it.
	Batch bool
}
