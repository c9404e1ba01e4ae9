package lifecycle

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Seen is what a pass saw and has done so far: plain data, which no decision changes. A field that could not be read
// is nil, and the failure is noted as a problem.
type Seen struct {
	Settings capacity.Settings
	// Owner marks the Slurm reservations of these settings, OwnerIs describes it.
	Owner, OwnerIs string
	// Old is the snapshot of the last pass, nil if there is none; Snap is this one's.
	Old, Snap *capacity.Snapshot
	// Cluster is nil if Slurm did not answer; NoAWS: some question to AWS was not answered.
	Cluster *Cluster
	NoAWS   bool
	// Jobs are those of our partitions and nodes; nil if not read. Elsewhere are jobs of other partitions with a word
	// of ours, Ended those that ended in the last minutes.
	Jobs, Elsewhere, Ended []capacity.Job
	// Unread are jobs of our partitions and nodes of which not all can be read: they stay as they are.
	Unread []capacity.Job
	// Marks are the trusted marks of jobs: see marks.go. What is done to a job changes its mark. MarksFile is what the
	// last pass kept. Off are the jobs that this pass has taken off their nodes.
	Marks, MarksFile map[string]state.Mark
	Off              map[string]bool
	// OrphansSeen: the snapshot's orphans were read by this pass.
	OrphansSeen bool
	// Misplaced are the nodes whose instance, by their Prologs, does not match.
	Misplaced []misplaced
	// Rolling are the node groups of partitions that roll over by themselves.
	Rolling  []Rolling
	Setbacks map[string]state.Setback
	// LastSample is the last pass's sample for the report, nil if there is none. Poll is the longest time between two
	// passes.
	LastSample *state.Sample
	Poll       time.Duration
	// Instances are this cluster's, as far as EC2 has listed them.
	Instances []capacity.Instance
	// Guarded are EC2 reservations that only the names of fences mention. Gone are those that EC2 has not described for
	// so long that they are over.
	Guarded map[string]capacity.Reservation
	Gone    map[string]bool
	// Now is AWS's time.
	Now time.Time
}

// toSlurm turns AWS's time into Slurm's.
func (s Seen) toSlurm() time.Duration { return -s.Snap.ClockOffset.Duration }

// SlurmNow is the time by Slurm's clock.
func (s Seen) SlurmNow() time.Time { return s.Now.Add(s.toSlurm()) }

// second is AWS's time to the second, as it is written to files.
func (s Seen) second() time.Time { return s.Now.UTC().Truncate(time.Second) }

// atAWS converts a time of Slurm's to AWS's clock.
func (s Seen) atAWS(t time.Time) time.Time { return t.Add(-s.toSlurm()).UTC().Truncate(time.Second) }

// slots are the slots of the snapshot with what counts in them now.
func (s Seen) slots() []slotView { return views(s.Snap, s.Now) }
