package lifecycle

import (
	"cmp"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// View holds what a pass saw and has done so far. It is plain data, which neither decisions nor their actions change:
// see Outcome. A field that could not be read is nil, and a problem says why.
type View struct {
	Settings capacity.Settings
	Now      time.Time     // AWS's time
	Poll     time.Duration // the longest time between two passes

	// Owner is in the names of the Slurm reservations that these settings make.
	Owner string
	// OwnerIs describes Owner for people.
	OwnerIs string

	// Old is the snapshot of the last pass; nil if there is none.
	Old *capacity.Snapshot
	// Snap is the snapshot of this pass.
	Snap *capacity.Snapshot

	// NoAWS: AWS left some question unanswered.
	NoAWS bool
	// Told has the reservations that EC2 described in this pass, by id.
	Told map[string]bool
	// Instances are this cluster's, as far as EC2 has listed them.
	Instances []capacity.Instance
	// FailedGroups has PCS's words on the compute node groups that it could not create, update or delete, by name.
	FailedGroups map[string]string
	// OrphansSeen: the orphans of Snap are from this pass, not from an earlier one.
	OrphansSeen bool

	// Cluster is nil if Slurm did not answer.
	Cluster *Cluster
	// Jobs run or wait in our partitions or on our nodes.
	Jobs []capacity.Job
	// Elsewhere has jobs of other partitions with a record, or with a word of ours in comment or AdminComment.
	Elsewhere []capacity.Job
	// OursOnly: jobs of other partitions were not read, so Elsewhere is empty.
	OursOnly bool
	// Ended has the jobs that ended in the last minutes.
	Ended []capacity.Job
	// Unread has jobs in our partitions or on our nodes that could be read only in part. They stay as they are.
	Unread []capacity.Job
	// Off has the jobs that this pass has taken off their nodes, by name.
	Off map[string]bool

	// JobRecords are the records that count in this pass (see trustRecords), by recordKey.
	JobRecords map[string]state.JobRecord
	// SavedRecords are the records as the last pass saved them.
	SavedRecords map[string]state.JobRecord

	// Tests are the tests of nodes as the last pass saved them, by slot.
	Tests map[string]state.NodeTests
	// Scripts are the tests of node groups, by path.
	Scripts map[string]script
	// TestJobs are the jobs of tests, those that have ended in the last minutes too, by name.
	TestJobs map[string]capacity.Job

	// Holds has the ODCRs that are held for this cluster; nil before they are read.
	Holds *Holds
	// Members has the reservations in the groups of slots; a group that was not read has no entry.
	Members map[string][]string
	// Orders has the jobs for which this pass has ordered ODCRs: see Outcome.
	Orders map[string]string

	// Placed has the nodes that a Prolog reported on a wrong instance, and that are right now.
	Placed []string
	// Rolling has the node groups that sync sets up or removes by itself.
	Rolling []Rolling
	// Setbacks say why some of Rolling cannot go on, by Rolling.key.
	Setbacks map[string]state.Setback
	// LastSample is the last pass's sample for the report; nil if there is none.
	LastSample *state.Sample
}

// old returns the last snapshot, empty if there is none.
func (s View) old() *capacity.Snapshot { return cmp.Or(s.Old, &capacity.Snapshot{}) }

// slurmOffset turns AWS's time into Slurm's.
func (s View) slurmOffset() time.Duration { return -s.Snap.ClockOffset.Duration }

// SlurmNow returns the time by Slurm's clock.
func (s View) SlurmNow() time.Time { return s.Now.Add(s.slurmOffset()) }

func (s View) nowInSeconds() time.Time { return s.Now.UTC().Truncate(time.Second) }

// toAWSTime converts a time of Slurm's to AWS's clock.
func (s View) toAWSTime(t time.Time) time.Time {
	return t.Add(-s.slurmOffset()).UTC().Truncate(time.Second)
}
