package capacity

import (
	"strconv"
	"time"
)

// Kind is the kind of reservation that EC2 sold. A node group's purchase_option has the same values, and adds OnDemand.
type Kind string

// The kinds of reservation, of which nothing of ours uses InterruptibleODCR; OnDemand for a node group without one.
const (
	CapacityBlock     Kind = "capacity-block"
	ODCR              Kind = "odcr"
	InterruptibleODCR Kind = "interruptible-odcr"
	OnDemand          Kind = "on-demand"
)

// kinds holds the properties of each kind: for EC2, for PCS and in time.
var kinds = map[Kind]struct {
	bought bool   // sold for a fixed span of time, in advance
	market string // EC2's MarketType: EC2 demands it with a block as the target and refuses it for an ODCR
	pcs    string // PCS's purchase option; on-demand becomes an ODCR by the target in the launch template
}{
	CapacityBlock: {bought: true, market: "capacity-block", pcs: "CAPACITY_BLOCK"},
	ODCR:          {pcs: "ONDEMAND"},
	OnDemand:      {pcs: "ONDEMAND"},
}

// IsBlock reports whether the reservation is a block: bought for a fixed span, at whose end EC2 takes the instances
// back early.
func (k Kind) IsBlock() bool { return kinds[k].bought }

// IsReserved reports whether launches go into a reservation.
func (k Kind) IsReserved() bool { return k != OnDemand }

// Market returns the purchasing option (MarketType) of a launch into such a reservation; "" for none.
func (k Kind) Market() string { return kinds[k].market }

// PCSPurchaseOption returns PCS's purchase option, such as CAPACITY_BLOCK; "" for unknown kinds.
func (k Kind) PCSPurchaseOption() string { return kinds[k].pcs }

// KindOfPCS returns the kind of a PCS purchase option. OnDemand also stands for an ODCR, and "" means on demand. An
// unknown option stays verbatim.
func KindOfPCS(option string) Kind {
	for _, k := range []Kind{CapacityBlock, OnDemand} {
		if option == kinds[k].pcs {
			return k
		}
	}

	if option == "" {
		return OnDemand
	}

	return Kind(option)
}

// PurchaseOptions lists the options that a node group may have.
var PurchaseOptions = []Kind{CapacityBlock, ODCR, OnDemand}

// CanUse reports whether a node group with this purchase option can use a reservation of the given kind. Nobody uses
// one of a kind that is new.
func (k Kind) CanUse(reservation Kind) bool {
	_, known := kinds[reservation]
	return known && (k == reservation || !k.IsReserved() && reservation == ODCR)
}

// State is EC2's state of a reservation, verbatim. A value that is not listed below counts as unusable and is shown
// as EC2 wrote it.
type State string

// The states that a decision depends on. EC2 has more; all others are unusable.
const (
	StateActive         State = "active"
	StateScheduled      State = "scheduled"
	StatePaymentPending State = "payment-pending"
	StatePaymentFailed  State = "payment-failed"
	StatePending        State = "pending"
	StateAssessing      State = "assessing"
	StateDelayed        State = "delayed"
	StateExpired        State = "expired"
	StateCancelled      State = "cancelled"
	// StateUnsupported: EC2 has turned down a future-dated ODCR.
	StateUnsupported State = "unsupported"
	StateFailed      State = "failed"
)

// MayOpen reports whether a reservation in this state may still open.
func (s State) MayOpen() bool {
	switch s {
	case StateScheduled, StatePaymentPending, StatePending, StateAssessing, StateDelayed:
		return true
	}

	return false
}

// IsLive reports whether the reservation is open now or may still open.
func (s State) IsLive() bool { return s == StateActive || s.MayOpen() }

// RequestedQuantityTag is written by EC2 on a block before it opens. Its value is the number of instances bought,
// while TotalInstanceCount may still be 0 (EC2 User Guide, "View Capacity Blocks").
const RequestedQuantityTag = "aws:ec2capacityreservation:incrementalRequestedQuantity"

// Reservation is one EC2 capacity reservation of any kind.
type Reservation struct {
	ID           string `json:"id"`
	Kind         Kind   `json:"kind"`
	State        State  `json:"state"`
	InstanceType string `json:"instance_type"`
	Region       string `json:"region"`

	// AZID identifies the Availability Zone in every account (use2-az1); AZ is only the name that this account has for
	// it. Compare AZID, never AZ. Both may be empty until EC2 has allocated a scheduled block.
	AZID string `json:"az_id"`
	AZ   string `json:"az"`

	Total     int `json:"total"` // TotalInstanceCount. Use Size, which also covers blocks before their start.
	Available int `json:"available"`

	// Unhealthy counts the instances of an open block that EC2 reports as unavailable (DescribeCapacityBlockStatus); 0
	// when EC2 said nothing.
	Unhealthy int `json:"unhealthy,omitempty"`
	// Interconnect: EC2 calls the network between the instances of its UltraServers impaired.
	Interconnect  bool `json:"interconnect_impaired,omitempty"`
	HealthUnknown bool `json:"health_unknown,omitempty"` // EC2 was not allowed to say how many instances are unhealthy now

	Platform    string `json:"platform"`
	Tenancy     string `json:"tenancy"`
	UltraServer bool   `json:"ultraserver,omitempty"`
	OwnerID     string `json:"owner_id,omitempty"`

	// PlacementGroup names the cluster placement group that an ODCR was created in, which takes launches in that group
	// only; "" if none.
	PlacementGroup string `json:"placement_group,omitempty"`

	MatchCriteria string `json:"match_criteria,omitempty"` // "targeted" or "open"

	Created time.Time `json:"created,omitzero"` // when the reservation was bought or requested
	Start   time.Time `json:"start,omitzero"`   // when the reservation opens or opened; zero when EC2 gave none
	// End is EndDate; zero for a reservation that stays until it is cancelled. An extension moves it once it is paid,
	// so read it again on every pass.
	End time.Time `json:"end,omitzero"`

	// Committed is the committed size of a future-dated ODCR, which must be paid until CommittedUntil in any case; zero
	// for all other reservations.
	Committed      int       `json:"committed,omitempty"`
	CommittedUntil time.Time `json:"committed_until,omitzero"`

	// CapacityBlockIDs names the blocks of an UltraServer purchase.
	CapacityBlockIDs []string          `json:"capacity_block_ids,omitempty"`
	Tags             map[string]string `json:"tags,omitempty"`
}

// Missing names a reservation that EC2 would not describe, and why.
type Missing struct {
	ID     string
	Err    error
	Unread bool // EC2 has described it, in an answer that cannot be read
}

// Size returns the number of instances that the reservation has, or will have once it opens: the larger of
// TotalInstanceCount and the bought or committed number.
func (r Reservation) Size() int {
	bought, err := strconv.Atoi(r.Tags[RequestedQuantityTag])
	if err != nil {
		bought = 0
	}

	return max(r.Total, bought, r.Committed)
}

// UsableSize returns Size without the failed hosts.
func (r Reservation) UsableSize() int { return max(0, r.Size()-r.Unhealthy) }

// Used returns the number of instances that run in the reservation; 0 before it opens.
func (r Reservation) Used() int {
	if r.State != StateActive {
		return 0
	}
	return max(0, r.Total-r.Available)
}

// Timing sets the time between the events at the end of a reservation. Package config documents defaults and their
// sources.
type Timing struct {
	DrainMargin Duration `json:"drain_margin"` // the time between the fence and EC2's first termination
	// BootAllowance is the longest time that powering up a node may take. It counts only for node groups whose nodes
	// start on demand.
	BootAllowance Duration `json:"boot_allowance"`
	// ReclaimLead is how long before EndDate EC2 starts to terminate a block's instances. With UltraServers it starts
	// twice as early: 60 minutes instead of 30 (EC2 User Guide, "Capacity Blocks").
	ReclaimLead Duration `json:"reclaim_lead"`
	// OverTime is how much longer than its limit Slurm lets a job run (OverTimeLimit). It is no setting.
	OverTime Duration `json:"over_time,omitzero"`
}

// Window says when a reservation can be used: [Start, Reclaim), with no job left at Fence. In a window without an end,
// Fence, Reclaim and End are zero.
type Window struct {
	Start   time.Time `json:"start,omitzero"`
	Fence   time.Time `json:"fence,omitzero"`
	Reclaim time.Time `json:"reclaim,omitzero"`
	End     time.Time `json:"end,omitzero"`
}

// Unbounded reports whether the window has no end.
func (w Window) Unbounded() bool { return w.End.IsZero() }

// Window computes the window of r. What Slurm lets jobs run over their limits is taken off here, and so off every limit
// that is set or allowed: Slurm itself compares limits with the start of the fence. EC2 terminates a block's instances
// before its EndDate, but lets an ODCR's instances continue on demand after it, so an ODCR has no reclaim lead.
func (t Timing) Window(r Reservation) Window {
	w := Window{Start: r.Start}
	if r.End.IsZero() {
		return w
	}

	lead := time.Duration(0)
	if r.Kind.IsBlock() {
		lead = t.ReclaimLead.Duration
		if r.UltraServer {
			lead *= 2
		}
	}

	w.End = r.End
	w.Reclaim = r.End.Add(-lead)
	w.Fence = w.Reclaim.Add(-t.DrainMargin.Duration - t.OverTime.Duration)

	return w
}

// FitLimit returns the time limit, in whole minutes, that ends a job at the fence, for a job that has run for elapsed
// at now: floor((fence - now + elapsed) / minute), at most maxTime. Slurm counts a limit from the job's start, boot not
// included.
func FitLimit(now, fence time.Time, elapsed time.Duration, maxTime Limit) int {
	minutes := max(0, int((fence.Sub(now)+elapsed)/time.Minute))
	if maxTime.Bounded() {
		minutes = min(minutes, maxTime.Minutes)
	}

	return minutes
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Duration is a time.Duration in the form of FormatExact and ParseDuration: in configuration, in JSON and on the
// command line.
type Duration struct{ time.Duration }

// String writes FormatExact's form.
func (d Duration) String() string { return FormatExact(d.Duration) }

// MarshalText writes FormatExact's form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	d.Duration, err = ParseDuration(string(text))
	return err
}

// Extension describes a purchased extension of a block, from the old end (From) to the new one.
type Extension struct {
	OfferingID string    `json:"offering_id"`
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	// State is EC2's state of the payment, one of those below. The block's end moves only once the extension is paid.
	State     string    `json:"state"`
	Purchased time.Time `json:"purchased"`
	Fee       Money     `json:"fee"`
}

// The states of an extension.
const (
	ExtensionPending = "payment-pending"
	ExtensionFailed  = "payment-failed"
	ExtensionPaid    = "payment-succeeded"
)

// Offering describes a Capacity Block that EC2 has for sale.
type Offering struct {
	ID           string `json:"id"`
	InstanceType string `json:"instance_type"`
	Count        int    `json:"count"`
	Region       string `json:"region"`
	// AZ is the buying account's name of the zone; EC2 gives no zone id here, so AZID is looked up.
	AZ   string `json:"az"`
	AZID string `json:"az_id"`
	// Start and End give the exact length; EC2's duration fields only approximate it.
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	Fee     Money     `json:"fee"` // the price of the whole block, charged at once
	Tenancy string    `json:"tenancy,omitempty"`
	// UltraServerType and UltraServerCount are set only for UltraServer blocks.
	UltraServerType  string `json:"ultraserver_type,omitempty"`
	UltraServerCount int    `json:"ultraserver_count,omitempty"`
}

// Duration returns the time from start to end.
func (o Offering) Duration() time.Duration { return o.End.Sub(o.Start) }

// Reservation returns the reservation that the offering becomes once bought and paid.
func (o Offering) Reservation(id string) Reservation {
	return Reservation{
		ID:           id,
		Kind:         CapacityBlock,
		State:        StateScheduled,
		InstanceType: o.InstanceType,
		Region:       o.Region,
		AZ:           o.AZ,
		AZID:         o.AZID,
		Total:        o.Count,
		UltraServer:  o.UltraServerType != "",
		Start:        o.Start,
		End:          o.End,
	}
}
