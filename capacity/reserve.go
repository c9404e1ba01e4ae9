package capacity

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ReservePolicy says for which jobs of a node group we create a temporary ODCR while their nodes launch.
type ReservePolicy string

// The policies.
const (
	ReserveNever  ReservePolicy = "never"   // only for jobs that ask for it
	ReservePerJob ReservePolicy = "per-job" // for every job
)

// LaunchesHeld reports whether PCS launches the nodes of a slot only into ODCRs that sync creates for waiting jobs.
func (at SlotRef) LaunchesHeld() bool {
	return at.Partition.Provider.Configures() && at.Group.Reserve == ReservePerJob
}

// DescribeHolding says what is held for jobs of a slot; "" for nothing.
func (at SlotRef) DescribeHolding() string {
	h := at.Slot.Holding
	if h == nil {
		return ""
	}

	var words []string
	if h.Count > 0 {
		words = append(words, fmt.Sprintf("%d × %s held in %s for %s, %d not launched yet", h.Count,
			at.Group.InstanceType, h.AZID, nameJobs(h.Jobs), h.Free))
	}

	if len(h.Paused) > 0 {
		jobs := slices.Sorted(maps.Keys(h.Paused))
		words = append(words, fmt.Sprintf("paused for %s, which Slurm did not start", nameJobs(jobs)))
	}

	return strings.Join(words, "; ")
}

func nameJobs(jobs []string) string {
	if len(jobs) == 1 {
		return "job " + jobs[0]
	}
	return "jobs " + strings.Join(jobs, ", ")
}

// Reserve limits the temporary ODCRs: to hold capacity is to have an On-Demand Capacity Reservation (ODCR) of our own
// for the minutes of a launch.
type Reserve struct {
	// MaxInstances is the most instances that our ODCRs may hold at once; with 0 no ODCR is ever created.
	MaxInstances int `toml:"max_instances"`
}

// HoldTime limits the life of a temporary ODCR, which then ends by itself. SOCA, which did this first, holds for 5
// minutes; a launch never takes longer.
const HoldTime = 5 * time.Minute

// HoldOrder orders a targeted ODCR: only launches that name it use it.
type HoldOrder struct {
	ClientToken  string // makes a repeated request the same ODCR; at most 64 characters
	InstanceType string
	AZID         string
	Platform     string // EC2's term ("Linux/UNIX")
	Count        int
	End          time.Time // the EndDate; EC2 may end the ODCR up to an hour later
	Tags         map[string]string
}

// Hold is the ledger entry of one temporary ODCR that exists or is about to be created.
type Hold struct {
	Token         string    `json:"token"`                    // the ClientToken of the order
	ReservationID string    `json:"reservation_id,omitempty"` // "" until EC2 has answered
	InstanceType  string    `json:"instance_type"`
	Count         int       `json:"count"`
	Since         time.Time `json:"since,omitzero"` // when the entry was written, before the call to EC2
	// Until is the ODCR's EndDate, after which the entry no longer counts, released or not.
	Until time.Time `json:"until"`
}

// ReservationGroup describes a Capacity Reservation group of AWS Resource Groups.
type ReservationGroup struct {
	Name string
	ARN  string // what a launch template names as its target
	Tags map[string]string
}

// HoldGroupName names the Capacity Reservation group that has the ODCRs for a compute node group of PCS.
func HoldGroupName(cluster, nodeGroup string) string {
	return "pcs-capacity-" + cluster + "-" + nodeGroup
}

// ErrReserveLimit: the settings do not allow another ODCR of this size.
var ErrReserveLimit = errors.New("more than may be held")

// Allows checks whether more may be held in addition to others; an error wraps ErrReserveLimit.
func (r Reserve) Allows(more Hold, others []Hold) error {
	instances := 0
	for _, h := range append(slices.Clone(others), more) {
		instances += h.Count
	}

	if instances > r.MaxInstances {
		return fmt.Errorf("%w: %d instances with these %d, and max_instances of [reserve] is %d",
			ErrReserveLimit, instances, more.Count, r.MaxInstances)
	}

	return nil
}

// Values of TagHold on an ODCR of ours: the jobs it is for, or that it is a probe or was created by hand.
const (
	HoldProbe  = "probe"
	HoldByHand = "by hand"
	holdJobs   = "jobs "
)

// Run records one time that a job held nodes. A requeued job has one for each start.
type Run struct {
	Job       string `json:"job"` // as squeue shows it: 12_3, 12+1
	User      string `json:"user,omitempty"`
	Account   string `json:"account,omitempty"`
	Partition string `json:"partition,omitempty"`
	Nodes     string `json:"nodes"` // a hostlist
	// Start and End are AWS's time, or, as Slurm tells them, Slurm's. End is zero as long as it runs.
	Start time.Time `json:"start"`
	End   time.Time `json:"end,omitzero"`
	State string    `json:"state,omitempty"` // Slurm's final state; "" as long as it runs, and if nobody saw its end
	Boots bool      `json:"boots,omitempty"` // its nodes have not booted yet: then Slurm begins to count anew
}

// JobRun is one run of a job: each requeue starts another.
type JobRun struct{ ID, Restarts int }

// MarshalText writes the run as ID/RESTARTS.
func (r JobRun) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d/%d", r.ID, r.Restarts), nil
}

// HoldJobs returns the value of TagHold for runs of jobs. If a tag cannot hold them all, it has the first ones.
func HoldJobs(runs []JobRun) string {
	text := strings.TrimSpace(holdJobs)
	for _, r := range runs {
		run, _ := r.MarshalText()

		more := " " + string(run)
		if len(text)+len(more) > MaxTagValue {
			break
		}

		text += more
	}

	return text
}

// HoldRuns returns the runs of jobs that HoldJobs wrote; ok is false if the ODCR is not for jobs.
func (r Reservation) HoldRuns() (runs []JobRun, ok bool) {
	list, ok := strings.CutPrefix(r.Tags[TagHold]+" ", holdJobs)
	if !ok {
		return nil, false
	}

	for _, word := range strings.Fields(list) {
		var run JobRun
		if n, _ := fmt.Sscanf(word, "%d/%d", &run.ID, &run.Restarts); n == 2 {
			runs = append(runs, run)
		}
	}

	return runs, true
}

// The longest time that a probe takes, and a launch without a job or an order by hand. Older ODCRs are left over.
const (
	probeTime = time.Minute
	// LaunchTime is more than a power-up ever takes: see hooks/power, maxBudget.
	LaunchTime = 5 * time.Minute
)

// StartTime is how long Slurm has to start a job for which an ODCR has been created. Slurm looks at all jobs once a
// minute (sched_interval), and at the first ones more often.
const StartTime = 2 * time.Minute

// IsAwaited reports whether an ODCR of ours for jobs still has to take their instances: their nodes boot, or they may
// start soon. booting is as in UnneededReason.
func (r Reservation) IsAwaited(booting map[JobRun]bool, now time.Time) bool {
	runs, _ := r.HoldRuns()
	young := r.State == StatePending || later(r.Created, r.Start).After(now.Add(-StartTime))

	return booting == nil || slices.ContainsFunc(runs, func(run JobRun) bool {
		boots, pending := booting[run]
		return boots || pending && young
	})
}

// UnneededReason says why an ODCR of ours for a cluster no longer serves a purpose; "" if it may. booting are the runs
// of jobs that wait for their nodes, and false for those that have no nodes yet; with nil, because Slurm did not answer,
// an ODCR for jobs counts as needed until its end. unheard are the tokens of orders whose answers were lost.
func (r Reservation) UnneededReason(
	cluster string, booting map[JobRun]bool, unheard map[string]bool, now time.Time,
) string {
	runs, forJobs := r.HoldRuns()

	switch {
	case r.Tags[TagCluster] != cluster || r.Tags[TagHold] == "" || r.Kind != ODCR || !r.State.IsLive():
		return ""
	case r.Tags[TagNodeGroup] != "" && r.Used() > 0:
		return "" // it goes with the last of its nodes
	case !r.End.IsZero() && !r.End.After(now):
		return "its end has passed"
	case r.Tags[TagHold] == HoldProbe && r.Created.Before(now.Add(-probeTime)):
		return "its probe is over"
	case r.Tags[TagHold] == HoldByHand && unheard[r.Tags[TagToken]] && r.Created.Before(now.Add(-LaunchTime)):
		return "the command that ordered it was interrupted before it got the id"
	case forJobs && len(runs) == 0 && r.Created.Before(now.Add(-LaunchTime)):
		return "its launch is over"
	case forJobs && len(runs) > 0 && !r.IsAwaited(booting, now):
		return "no job waits for it"
	}

	return ""
}

// ErrRefused: EC2 certainly refused a call, or never saw it, for a reason other than those of ErrNoRoom and
// ErrTokenUsed.
var ErrRefused = errors.New("refused")

// CreatedNothing reports whether a launch, or an order of an ODCR, has certainly made nothing, by its error.
func CreatedNothing(err error) bool {
	return errors.Is(err, ErrNoRoom) || errors.Is(err, ErrTokenUsed) || errors.Is(err, ErrRefused)
}
