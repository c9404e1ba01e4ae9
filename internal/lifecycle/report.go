package lifecycle

import (
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Report is what a pass did.
type Report struct {
	// At is AWS's time of the pass.
	At time.Time `json:"at"`
	// Done is in the order in which it was done; empty when there was nothing to do.
	Done []Done `json:"done"`
	// Said is what the pass could not learn or do, and what people should know.
	capacity.Said
	// NoAWS: some question to AWS was not answered.
	NoAWS bool `json:"-"`
	// Cluster is what Slurm said before the changes of the pass, nil if it did not answer; Jobs
	// are its jobs, nil if they were not asked for.
	Cluster *Cluster       `json:"-"`
	Jobs    []capacity.Job `json:"-"`
	// AlsoOurs is that of Sources, for the next pass.
	AlsoOurs []string `json:"-"`
	// Rolling are the node groups of partitions that roll over by themselves, as the pass left
	// them.
	Rolling []Rolling `json:"-"`
	// Checking: nodes are closed until the health command has run there.
	Checking bool `json:"-"`
}

// Done is one change, or the attempt at one.
type Done struct {
	// Do is stable, for scripts: create-fence, update-fence, replace-fence,
	// delete-fence, the same with wait, surplus and health, check-node, raise-limit, lower-limit,
	// set-limit, requeue-job, hold-job, tell-job, tell-owner, end-hold, power-up, power-down, end-instance, release, return-nodes, drain-node,
	// set-up-slot, remove-slot.
	Do   string `json:"do"`
	Slot string `json:"slot,omitempty"`
	Job  string `json:"job,omitempty"`
	// Message is a sentence for a person.
	Message string `json:"message"`
	// Error is why it did not work; "" when it did.
	Error string `json:"error,omitempty"`
}

// String is the sentence, with the error if there was one.
func (d Done) String() string {
	if d.Error != "" {
		return d.Message + ": " + d.Error
	}
	return d.Message
}

// describe says what a step on a Slurm reservation means; times in AWS's clock.
func (s step) describe(hostlist string) string {
	removed := s.do == "delete"
	switch s.kind() {
	case "wait":
		if removed {
			return fmt.Sprintf("slot %s: removed the wait %s, nothing holds jobs back from %s any more", s.slot, s.r.Name, hostlist)
		}
		return fmt.Sprintf("slot %s: %s the wait %s, no job starts on %s before %s", s.slot, past[s.do], s.r.Name, hostlist, capacity.FormatUTC(s.r.End))
	case "surplus":
		if removed {
			return fmt.Sprintf("slot %s: removed %s, jobs get %s again", s.slot, s.r.Name, hostlist)
		}
		return fmt.Sprintf("slot %s: %s %s, no job starts on %s: there are no instances for more nodes, or max_nodes allows no more", s.slot, past[s.do], s.r.Name, hostlist)
	case "health":
		if removed && s.drained {
			return fmt.Sprintf("slot %s: removed %s, %s is drained and gets no jobs", s.slot, s.r.Name, hostlist)
		}
		if removed {
			return fmt.Sprintf("slot %s: removed %s, jobs get %s", s.slot, s.r.Name, hostlist)
		}
		return fmt.Sprintf("slot %s: %s %s, no job starts on %s before it has shown that it is healthy", s.slot, past[s.do], s.r.Name, hostlist)
	}
	if removed {
		return fmt.Sprintf("slot %s: removed the fence %s, no reservation needs it", s.slot, s.r.Name)
	}
	until := ""
	if !s.r.endless() {
		until = fmt.Sprintf(" until %s, when the next block opens", capacity.FormatUTC(s.r.End))
	}
	return fmt.Sprintf("slot %s: %s the fence %s, no job runs on %s after %s%s", s.slot, past[s.do], s.r.Name, hostlist, capacity.FormatUTC(s.r.Start), until)
}

var past = map[string]string{"create": "placed", "update": "moved", "replace": "moved"}

// kind is what the Slurm reservation of a step is for: fence, wait, surplus or health.
func (s step) kind() string {
	return s.r.guard().kind
}

// code is Done.Do of a step.
func (s step) code() string { return s.do + "-" + s.kind() }
