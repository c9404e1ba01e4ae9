package lifecycle

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Report is what a pass did.
type Report struct {
	// At is AWS's time of the pass.
	At time.Time `json:"at"`
	// DryRun: the pass changed nothing.
	DryRun bool `json:"dry_run,omitzero"`
	// Done are the changes in order, made or (DryRun) planned; empty if there were none.
	Done []Done `json:"done"`
	// Said is what the pass could not read or do, and what people should know.
	capacity.Said
	// NoAWS: some call to AWS was not answered.
	NoAWS bool `json:"-"`
	// Failed: the pass did not do all that it had to.
	Failed bool `json:"-"`
	// Cluster is Slurm as it was before the pass changed it, nil if it did not answer. Jobs are its jobs, nil if they
	// were not read.
	Cluster *Cluster       `json:"-"`
	Jobs    []capacity.Job `json:"-"`
	// AlsoOurs is Sources.AlsoOurs for the next pass.
	AlsoOurs []string `json:"-"`
	// Rolling are the node groups of partitions that roll over by themselves, as the pass left them.
	Rolling []Rolling `json:"-"`
}

// Done is one change, or an attempted one.
type Done struct {
	// Do is stable, for scripts: create-fence, update-fence, replace-fence,
	// delete-fence, the same with wait, surplus and health, check-node, raise-limit, lower-limit,
	// set-limit, requeue-job, hold-job, tell-job, tell-owner, end-hold, power-up, power-down, end-instance, release,
	// return-nodes, set-up-slot, remove-slot.
	Do   string `json:"do"`
	Slot string `json:"slot,omitempty"`
	Job  string `json:"job,omitempty"`
	// Message is a sentence for a person.
	Message string `json:"message"`
	// Error is why it failed; "" if it did not.
	Error string `json:"error,omitempty"`
}

// String is the sentence, with the error if there was one.
func (d Done) String() string {
	if d.Error != "" {
		return d.Message + ": " + d.Error
	}
	return d.Message
}
