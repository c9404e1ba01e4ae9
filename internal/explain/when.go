package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Start says when a job could start. Reservations and limits decide it; nobody knows the job's place in the queue.
type Start struct {
	// Code is StartsNow, StartsOnDemand, WaitsInQueue, WaitsForHosts, WaitsForHold, WaitsToOpen, NextBlock, or the code
	// of the verdict that keeps the job from starting.
	Code capacity.Code `json:"code"`
	// Message says what the job waits for, or what to change; "" for StartsNow and NextBlock.
	Message     string `json:"message,omitempty"`
	Partition   string `json:"partition,omitempty"`
	Reservation string `json:"reservation,omitempty"`
	// Start is when the reservation opens, or now; zero if the job is refused.
	Start     time.Time `json:"start,omitzero"`
	Fence     time.Time `json:"fence,omitzero"`       // when jobs must have ended; zero if the reservation has no end
	TimeLimit string    `json:"time_limit,omitempty"` // the limit that the job gets, as --time takes it
	// SpareSeconds is the time between the end of the job's own limit and the fence; nil without such a limit or a
	// fence.
	SpareSeconds *int64 `json:"spare_seconds,omitempty"`
	// Runs has the runs of a job that is requeued at a fence; empty for other jobs.
	Runs     []capacity.ExpectedRun `json:"runs,omitempty"`
	Warnings []string               `json:"warnings"`
}

// Queue holds what Slurm shows of the nodes and of other jobs; nil if it did not answer.
type Queue struct {
	Idle    map[string]int // counts the idle nodes of each slot
	Waiting map[string]int // counts jobs that wait for nodes in each partition
}

// When says when a job could start that the filter judges as v.
func When(req capacity.Request, v capacity.Verdict, snap *capacity.Snapshot, queue *Queue, now time.Time) Start {
	s := Start{Code: v.Code, Warnings: append([]string{}, v.Warnings...)}

	stated := req.TimeLimit
	if v.Edits.TimeLimit.Set { // the filter chooses the limit
		req.TimeLimit = capacity.Limit{}
	}

	fits := slices.DeleteFunc(capacity.Prospects(req, snap, now), func(p capacity.Prospect) bool { return !p.Fits })
	if v.Refused || len(fits) == 0 {
		return noStart(v)
	}

	open := slices.DeleteFunc(slices.Clone(fits), func(p capacity.Prospect) bool { return !isOpen(p, now) })

	// Of the open ones, the one with enough idle nodes, and of those the one that lasts longest.
	p := fits[0]
	if len(open) > 0 {
		p = slices.MaxFunc(open, func(a, b capacity.Prospect) int {
			return cmp.Or(cmp.Compare(queue.missing(b), queue.missing(a)), cmp.Compare(a.Room, b.Room))
		})
	}

	s.Partition = p.Partition.Name
	s.Reservation = p.Reservation.ID
	s.Fence = p.Window.Fence

	s.Start = p.Window.Start
	if s.Start.Before(now) {
		s.Start = now
	}

	s.TimeLimit = p.Longest.String()
	if stated.Bounded() {
		s.TimeLimit = stated.String()
		switch runs := capacity.ExpectedRuns(req, snap, now); {
		case p.Window.Unbounded():
		case p.Room < stated.Duration():
			s.Runs = runs
		default:
			spare := int64((p.Room - stated.Duration()) / time.Second)
			s.SpareSeconds = &spare
		}
	}

	// The reasons in the order in which they would keep the job waiting.
	few, short := capacity.HostShortage(fits, now)
	switch {
	case len(open) == 0 && p.Window.Start.After(now):
		s.Code = capacity.NextBlock
	case len(open) == 0:
		s.Code = capacity.WaitsToOpen
		s.Message = fmt.Sprintf("as soon as EC2 opens %s, which it shows as %s", p.Reservation.ID, p.Reservation.State)
	case short:
		s.Code = capacity.WaitsForHosts
		s.Message = "when failed hosts are back: " + few.ShortageText()
	case p.NeedsOpening(now):
		s.Code = capacity.WaitsToOpen
		s.Message = "when its nodes are up: " + p.Slot.Opening.Describe(p.Reservation.ID)
	case queue == nil:
		s.Code = capacity.WaitsInQueue
		s.Message = "when nodes are free: Slurm did not answer"
	case queue.missing(p) > 0 && p.LaunchesHeld() && snap.IsStale(now):
		s.Code = capacity.WaitsForHold
		s.Message = syncIsDown
		s.Start = time.Time{}
	case queue.missing(p) > 0 && !p.LaunchesHeld():
		s.Code = capacity.WaitsInQueue
		s.Message = fmt.Sprintf("when nodes are free: it needs %d, and %d are idle", nodesNeeded(p),
			queue.Idle[p.Slot.Name])
	case queue.Waiting[p.Partition.Name] > 0:
		s.Code = capacity.WaitsInQueue
		s.Message = fmt.Sprintf("when its turn comes: other jobs wait for nodes (%d)", queue.Waiting[p.Partition.Name])
	case p.LaunchesHeld() && queue.missing(p) == 0:
		s.Code = capacity.StartsNow
	case p.LaunchesHeld():
		s.Code = capacity.StartsOnDemand
		s.Message = "when a zone has room: sync holds capacity for it, and its nodes are launched on demand"
	case p.Reservation.ID == "":
		s.Code = capacity.StartsOnDemand
		s.Message = "when EC2 has room: its nodes are launched on demand"
	default:
		s.Code = capacity.StartsNow
	}

	return s
}

// noStart says why nobody can tell when a job starts that the filter judges as v.
func noStart(v capacity.Verdict) Start {
	s := Start{Code: v.Code, Message: v.Sentence, Warnings: append([]string{}, v.Warnings...)}

	switch {
	case v.Refused:
	case v.Code == capacity.OK || v.Code == capacity.NotManaged:
		s.Code = capacity.NotManaged
		s.Message = "its partition is not managed by pcs-capacity; ask Slurm: sbatch --test-only"
	default: // strict = false, or EC2 did not describe the reservation
		s.Message = strings.Join(v.Warnings, "; ")
		s.Warnings = []string{}
	}

	return s
}

// Longest says how long a job may run that starts now in one of the open reservations; its TimeLimit is "" if none
// does. It leaves a minute for the submission.
func Longest(req capacity.Request, v capacity.Verdict, snap *capacity.Snapshot, now time.Time) Start {
	req.TimeLimit = capacity.Limit{}
	soon := now.Add(time.Minute)
	open := slices.DeleteFunc(capacity.Prospects(req, snap, soon), func(p capacity.Prospect) bool {
		return !isOpen(p, now) || p.Longest.Bounded() && p.Longest.Minutes < 1
	})

	// Nothing is open: say when the next one is.
	if len(open) == 0 {
		s := When(req, v, snap, nil, now)
		s.TimeLimit = ""

		return s
	}

	byLength := func(a, b capacity.Prospect) int {
		return cmp.Compare(limitMinutes(a.Longest), limitMinutes(b.Longest))
	}
	p := slices.MaxFunc(open, byLength)

	return Start{
		Code:        capacity.StartsNow,
		Partition:   p.Partition.Name,
		Reservation: p.Reservation.ID,
		Start:       now,
		Fence:       p.Window.Fence,
		TimeLimit:   p.Longest.String(),
		Warnings:    append([]string{}, v.Warnings...),
	}
}

// isOpen reports whether EC2 lets instances run in a reservation now.
func isOpen(p capacity.Prospect, now time.Time) bool {
	return !p.Window.Start.After(now) && (p.Reservation.ID == "" || p.Reservation.State == capacity.StateActive)
}

func nodesNeeded(p capacity.Prospect) int { return max(1, p.Needs) }

// missing returns the number of idle nodes that a job lacks; 0 if Slurm did not answer.
func (q *Queue) missing(p capacity.Prospect) int {
	if q == nil {
		return 0
	}
	return max(0, nodesNeeded(p)-q.Idle[p.Slot.Name])
}

func limitMinutes(l capacity.Limit) int {
	if l.Unlimited {
		return math.MaxInt
	}
	return l.Minutes
}
