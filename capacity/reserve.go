package capacity

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReservePolicy is when capacity is held for the jobs of a node group while their nodes are
// launched.
type ReservePolicy string

// The policies.
const (
	ReserveNever  ReservePolicy = "never"   // only for jobs that ask for it
	ReservePerJob ReservePolicy = "per-job" // for every job
)

// Reserve is what may be held, and for how long. To hold is to have an On-Demand Capacity
// Reservation (ODCR) of our own for the minutes that a launch takes.
type Reserve struct {
	// Enabled: without it nothing is ever held.
	Enabled bool
	// Strict: no launch on demand for a job for which nothing could be held.
	Strict bool
	// For is the time after which a held ODCR ends by itself.
	For Duration
	// MaxInstances is how many instances may be held at once.
	MaxInstances int
	// MaxPerHour is what all that is held at once may cost; the zero value is no bound.
	MaxPerHour Money
	// Prices of an instance for an hour on demand, by type.
	Prices map[string]Money
	// Order is that in which a node group's instance types are tried on demand.
	Order TypeOrder
}

// TypeOrder is an order of the instance types of a node group.
type TypeOrder string

// The orders.
const (
	ConfiguredOrder TypeOrder = "configured" // that of the settings
	CheapestFirst   TypeOrder = "cheapest"   // by Reserve.Prices
)

// CompareTypes is negative if a is to be tried before b by Order, and 0 where that leaves them
// as the settings have them: types at one price, and those without one, which come last.
func (r Reserve) CompareTypes(a, b string) int {
	if r.Order != CheapestFirst {
		return 0
	}
	first, known := r.Prices[a]
	second, too := r.Prices[b]
	if !known || !too {
		return rank(!known) - rank(!too)
	}
	order, _ := first.Compare(second) // settings have one currency
	return order
}

// CommitOrder asks EC2 for an ODCR that opens later and is paid from then on, used or not: a
// commitment.
type CommitOrder struct {
	// ClientToken is as in HoldOrder.
	ClientToken        string
	InstanceType, AZID string
	// Platform is in EC2's words ("Linux/UNIX").
	Platform string
	Count    int
	Start    time.Time
	// For is how long it cannot be cancelled.
	For  time.Duration
	Tags map[string]string
}

// What EC2 takes for an ODCR for later (EC2 API Reference, CreateCapacityReservation; EC2 User
// Guide, "Future-dated Capacity Reservations"): how far ahead it starts, and the shortest
// commitment.
const (
	CommitEarliest = 5 * 24 * time.Hour
	CommitLatest   = 120 * 24 * time.Hour
	CommitShortest = 14 * 24 * time.Hour
)

// commitTail is from the end of a commitment to the time after which EC2 ends the ODCR, which
// must not be within the commitment.
const commitTail = time.Minute

// End is when EC2 ends it at the earliest; it may take up to an hour more.
func (o CommitOrder) End() time.Time { return o.Start.Add(o.For + commitTail) }

// HoldOrder asks EC2 for an ODCR that takes launches which name it, and no other.
type HoldOrder struct {
	// ClientToken makes a repetition of the request the same ODCR; at most 64 characters.
	ClientToken        string
	InstanceType, AZID string
	// Platform is in EC2's words ("Linux/UNIX").
	Platform string
	Count    int
	// End is when EC2 ends it at the earliest; it may take up to an hour more.
	End  time.Time
	Tags map[string]string
}

// Held is an entry of the ledger of what is held: one ODCR, or one that is about to be made.
type Held struct {
	// Token is the ClientToken; ReservationID is "" before EC2 has answered.
	Token         string `json:"token"`
	ReservationID string `json:"reservation_id,omitempty"`
	InstanceType  string `json:"instance_type"`
	Count         int    `json:"count"`
	// Since is when it was entered, before EC2 was asked.
	Since time.Time `json:"since,omitzero"`
	// Until is when it counts no more, released or not: its EndDate.
	Until time.Time `json:"until"`
}

// ErrReserveLimit is a hold that the settings do not allow.
var ErrReserveLimit = errors.New("more than may be held")

// Allows says whether so much more may be held beside others; an error wraps ErrReserveLimit.
func (r Reserve) Allows(more Held, others []Held) error {
	instances := 0
	var cost Money
	for _, h := range append(slices.Clone(others), more) {
		instances += h.Count
		if r.MaxPerHour == (Money{}) {
			continue
		}
		price, known := r.Prices[h.InstanceType]
		if !known {
			return fmt.Errorf("%w: max_usd_per_hour of [reserve] is %s, and nobody knows the price of %s; add it to prices of [reserve]", ErrReserveLimit, r.MaxPerHour, h.InstanceType)
		}
		cost = cost.Plus(price.Times(h.Count))
	}
	if instances > r.MaxInstances {
		return fmt.Errorf("%w: %d instances with these %d, and max_instances of [reserve] is %d", ErrReserveLimit, instances, more.Count, r.MaxInstances)
	}
	if r.MaxPerHour != (Money{}) && cost.micros > r.MaxPerHour.micros {
		return fmt.Errorf("%w: %s an hour with these, and max_usd_per_hour of [reserve] is %s", ErrReserveLimit, cost, r.MaxPerHour)
	}
	return nil
}

// Cost is what so many instances cost in a time; not known without a price.
func (r Reserve) Cost(instanceType string, count int, d time.Duration) (Money, bool) {
	price, known := r.Prices[instanceType]
	return price.Times(count).For(d), known
}

// What TagHold says of an ODCR that is held: for which jobs, or that it is a probe, or that
// a person holds it.
const (
	HoldProbe  = "probe"
	HoldByHand = "by hand"
	holdJobs   = "jobs "
)

// JobRun is a run of a job: it has another one after each requeue.
type JobRun struct{ ID, Restarts int }

// HoldJobs is the value of TagHold for runs of jobs; of those that are too many for a tag
// the first.
func HoldJobs(runs []JobRun) string {
	text := strings.TrimSpace(holdJobs)
	for _, r := range runs {
		more := fmt.Sprintf(" %d/%d", r.ID, r.Restarts)
		if len(text)+len(more) > MaxTagValue {
			break
		}
		text += more
	}
	return text
}

// HeldFor are the runs of jobs that HoldJobs wrote down; ok is false if it is held for
// something else.
func (r Reservation) HeldFor() (runs []JobRun, ok bool) {
	list, ok := strings.CutPrefix(r.Tags[TagHold]+" ", holdJobs)
	if !ok {
		return nil, false
	}
	for _, word := range strings.Fields(list) {
		id, restarts, _ := strings.Cut(word, "/")
		job, err := strconv.Atoi(id)
		times, err2 := strconv.Atoi(restarts)
		if err == nil && err2 == nil {
			runs = append(runs, JobRun{job, times})
		}
	}
	return runs, true
}

// Times that a probe, and a launch without a job or an order by hand, may take: what is older
// is left over.
const (
	probeTime = time.Minute
	// LaunchTime is more than a hook ever takes: see hooks/power.ResumeBudget.
	LaunchTime = 5 * time.Minute
)

// Needless says why an ODCR that we hold for a cluster serves nothing any more; "" if it may.
// booting are the runs of jobs that wait for their nodes; nil if Slurm did not say: then what
// is held for jobs counts as needed until its end. unheard are the tokens of orders whose answer
// nobody has seen.
func (r Reservation) Needless(cluster string, booting map[JobRun]bool, unheard map[string]bool, now time.Time) string {
	runs, forJobs := r.HeldFor()
	switch {
	case r.Tags[TagCluster] != cluster || r.Tags[TagHold] == "" || r.Kind != ODCR || !r.State.Live():
		return ""
	case !r.End.IsZero() && !r.End.After(now):
		return "its end has passed"
	case r.Tags[TagHold] == HoldProbe && r.Created.Before(now.Add(-probeTime)):
		return "its probe is over"
	case r.Tags[TagHold] == HoldByHand && unheard[r.Tags[TagToken]] && r.Created.Before(now.Add(-LaunchTime)):
		return "the command that ordered it was cut off before it knew"
	case forJobs && len(runs) == 0 && r.Created.Before(now.Add(-LaunchTime)):
		return "its launch is over"
	case forJobs && len(runs) > 0 && booting != nil && !slices.ContainsFunc(runs, func(run JobRun) bool { return booting[run] }):
		return "no job waits for it"
	}
	return ""
}
