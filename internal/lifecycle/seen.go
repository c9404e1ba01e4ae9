package lifecycle

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Seen is what a pass saw, and what the pass did so far: plain data, which no decision changes.
// What could not be read is nil, and has been noted as a problem.
type Seen struct {
	Settings capacity.Settings
	// Owner marks the Slurm reservations of these settings. TakeOver: those of another owner
	// become this one's.
	Owner    string
	TakeOver bool
	// Old is the snapshot of the last pass, nil if there is none; Snap is this one's.
	Old, Snap *capacity.Snapshot
	// Cluster is nil if Slurm did not answer; NoAWS: some question to AWS was not answered.
	Cluster *Cluster
	NoAWS   bool
	// Jobs are those of our partitions and nodes; nil if they were not read. Elsewhere are those of
	// other partitions that bear a word of ours, Ended those that ended in the last minutes.
	Jobs, Elsewhere, Ended []capacity.Job
	// Marks are what counts of jobs, MarksFile what the next pass would read: see marks.go. Off are
	// the jobs that this pass has taken off their nodes.
	Marks, MarksFile map[string]state.Mark
	Off              map[string]bool
	// TakenBack are the nodes whose instances EC2 takes back now; nil in a pass.
	TakenBack map[string]fenced
	// Budgets are what accounting leaves jobs whose limits could be raised.
	Budgets budgets
	// OrphansSeen: the orphans of the snapshot are those of this pass.
	OrphansSeen bool
	// Misplaced are the nodes whose Prologs found another instance than they should be.
	Misplaced []misplaced
	// Rolling are the node groups of partitions that roll over by themselves.
	Rolling  []Rolling
	Setbacks map[string]state.Setback
	// LastSample is what the report knows of the last pass, nil if there is none. Poll is the most
	// time between two passes.
	LastSample *state.Sample
	Poll       time.Duration
	// Instances are this cluster's, as far as EC2 said.
	Instances []capacity.Instance
	// Guarded are reservations of EC2 that nothing but the names of fences tells of; Gone are
	// those that EC2 has not described for so long that they are over.
	Guarded map[string]capacity.Reservation
	Gone    map[string]bool
	// Checks are what was seen of the health command, Health what is known of nodes by it, by
	// slot.
	Checks Checks
	Health map[string]*state.Health
	// Now is AWS's time.
	Now time.Time

	dir state.Dir // for the names of files
}

// toSlurm turns AWS's time into Slurm's.
func (s Seen) toSlurm() time.Duration { return -s.Snap.ClockOffset.Duration }

// SlurmNow is the time by Slurm's clock.
func (s Seen) SlurmNow() time.Time { return s.Now.Add(s.toSlurm()) }

// second is AWS's time as it is written down.
func (s Seen) second() time.Time { return s.Now.UTC().Truncate(time.Second) }

// atAWS is a time of Slurm's by AWS's clock.
func (s Seen) atAWS(t time.Time) time.Time { return t.Add(-s.toSlurm()).UTC().Truncate(time.Second) }

// slots are the slots of the snapshot with what counts in them now.
func (s Seen) slots() []slotView { return views(s.Snap, s.Now) }
