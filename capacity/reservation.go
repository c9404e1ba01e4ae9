package capacity

import (
	"strconv"
	"time"
)

// Kind is what sort of reservation EC2 sold. Its values are also the values of
// a node group's purchase_option, which adds OnDemand and Mixed.
type Kind string

// The kinds of reservation, OnDemand for a node group that has none, and Mixed for one that
// takes reservations of every kind, each bought as what it is.
const (
	CapacityBlock     Kind = "capacity-block"
	ODCR              Kind = "odcr"
	InterruptibleODCR Kind = "interruptible-odcr"
	OnDemand          Kind = "on-demand"
	Mixed             Kind = "mixed"
)

// kinds are what is special about each kind: what it is to EC2, to PCS and to time.
var kinds = map[Kind]struct {
	bought bool   // for a span of time, before it begins
	market string // EC2's MarketType, which it demands with the target; it refuses one for an ODCR
	pcs    string // PCS's purchase option; the target in the launch template makes an ODCR of on-demand
}{
	CapacityBlock:     {bought: true, market: "capacity-block", pcs: "CAPACITY_BLOCK"},
	ODCR:              {pcs: "ONDEMAND"},
	InterruptibleODCR: {market: "interruptible-capacity-reservation", pcs: "INTERRUPTIBLE_CAPACITY_RESERVATION"},
	OnDemand:          {pcs: "ONDEMAND"},
}

// Bought reports whether a reservation is a block: bought for a span of time, at whose end EC2 takes
// the instances back early.
func (k Kind) Bought() bool { return kinds[k].bought }

// Reserved reports whether launches go into a reservation.
func (k Kind) Reserved() bool { return k != OnDemand }

// Interruptible reports whether EC2 may take the instances back with two minutes' notice.
func (k Kind) Interruptible() bool { return k == InterruptibleODCR }

// Mixes reports whether a node group takes reservations of every kind.
func (k Kind) Mixes() bool { return k == Mixed }

// Market is the purchasing option (MarketType) of a launch into such a reservation; "" for none.
func (k Kind) Market() string { return kinds[k].market }

// PCSPurchaseOption is PCS's word: CAPACITY_BLOCK. It has none for Mixed, nor for what is unknown.
func (k Kind) PCSPurchaseOption() string { return kinds[k].pcs }

// KindOfPCS turns PCS's purchase option back. OnDemand also stands for an ODCR, and "" is on demand;
// an unknown option stays as it is.
func KindOfPCS(option string) Kind {
	for _, k := range []Kind{CapacityBlock, InterruptibleODCR, OnDemand} {
		if option == kinds[k].pcs {
			return k
		}
	}
	if option == "" {
		return OnDemand
	}
	return Kind(option)
}

// PurchaseOptions are what a node group may buy.
var PurchaseOptions = []Kind{CapacityBlock, ODCR, InterruptibleODCR, Mixed, OnDemand}

// Buys reports whether what a node group buys goes with a reservation of a kind.
func (k Kind) Buys(reservation Kind) bool {
	return k == reservation || k == Mixed || !k.Reserved() && reservation == ODCR
}

// BuysBlocks reports whether a node group may have blocks.
func (k Kind) BuysBlocks() bool { return k == Mixed || k.Bought() }

// State is EC2's state of a reservation, verbatim. A value that is not in the
// list below counts as unusable and is shown as EC2 wrote it.
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
	// StateUnsupported is that of an ODCR for later that EC2 has turned down.
	StateUnsupported State = "unsupported"
	StateFailed      State = "failed"
)

// Expected reports whether a reservation in this state may still open.
func (s State) Expected() bool {
	switch s {
	case StateScheduled, StatePaymentPending, StatePending, StateAssessing, StateDelayed:
		return true
	}
	return false
}

// Live reports whether the reservation is open now or may still open.
func (s State) Live() bool { return s == StateActive || s.Expected() }

// RequestedQuantityTag is written by EC2 on a block that has not opened yet; its
// value is the number of instances that were bought, while TotalInstanceCount may
// still be 0 (EC2 User Guide, "View Capacity Blocks").
const RequestedQuantityTag = "aws:ec2capacityreservation:incrementalRequestedQuantity"

// Reservation is one EC2 capacity reservation of any kind.
type Reservation struct {
	ID           string `json:"id"`
	Kind         Kind   `json:"kind"`
	State        State  `json:"state"`
	InstanceType string `json:"instance_type"`
	Region       string `json:"region"`

	// AZID identifies the Availability Zone in every account (use2-az1); AZ is
	// only the name that this account has for it. Compare AZID, never AZ.
	// Both may be empty until EC2 has allocated a scheduled block.
	AZID string `json:"az_id"`
	AZ   string `json:"az"`

	// Total is TotalInstanceCount. Use Size, which also knows blocks before their start.
	Total     int `json:"total"`
	Available int `json:"available"`

	// Unhealthy counts the instances of an open block that EC2 reports as
	// unavailable (DescribeCapacityBlockStatus); 0 when EC2 said nothing.
	Unhealthy int `json:"unhealthy,omitempty"`
	// HealthUnknown: EC2 was not allowed to say how many those are now.
	HealthUnknown bool `json:"health_unknown,omitempty"`

	Platform    string `json:"platform"`
	Tenancy     string `json:"tenancy"`
	UltraServer bool   `json:"ultraserver,omitempty"`
	OwnerID     string `json:"owner_id,omitempty"`

	// PlacementGroup is the cluster placement group that an ODCR was made in, by name;
	// it takes launches in that group only. "" if none.
	PlacementGroup string `json:"placement_group,omitempty"`

	// MatchCriteria is "targeted" or "open".
	MatchCriteria string `json:"match_criteria,omitempty"`

	// Created is when it was bought or asked for.
	Created time.Time `json:"created,omitzero"`
	// Start is when the reservation opens or opened; zero when EC2 gave none.
	Start time.Time `json:"start,omitzero"`
	// End is EndDate; zero for a reservation that stays until it is cancelled.
	// It can move: an extension is paid for later. Read it again on every pass.
	End time.Time `json:"end,omitzero"`

	// Committed is the size that was committed to of a future-dated ODCR, which is paid until
	// CommittedUntil whatever happens; zero for all others.
	Committed      int       `json:"committed,omitempty"`
	CommittedUntil time.Time `json:"committed_until,omitzero"`

	// MissingSince is when EC2 left the reservation out of an answer for the first time,
	// if the last one left it out: what is here was true before that.
	MissingSince time.Time `json:"missing_since,omitzero"`

	// CapacityBlockIDs names the blocks behind an UltraServer purchase, one each.
	CapacityBlockIDs []string          `json:"capacity_block_ids,omitempty"`
	Tags             map[string]string `json:"tags,omitempty"`
}

// Missing is a reservation that EC2 would not describe, and why.
type Missing struct {
	ID  string
	Err error
}

// FutureODCR reports whether it is an ODCR that EC2 has promised for later.
func (r Reservation) FutureODCR() bool {
	return r.Kind == ODCR && r.State.Expected() && r.Start.After(r.Created)
}

// Size is the number of instances that the reservation has, or will have once it
// opens: the larger of TotalInstanceCount and what was bought, or committed to.
func (r Reservation) Size() int {
	bought, err := strconv.Atoi(r.Tags[RequestedQuantityTag])
	if err != nil {
		bought = 0
	}
	return max(r.Total, bought, r.Committed)
}

// UsableSize is Size without the hosts that have failed.
func (r Reservation) UsableSize() int { return max(0, r.Size()-r.Unhealthy) }

// Used is the number of instances that run in the reservation; 0 before it opens.
func (r Reservation) Used() int {
	if r.State != StateActive {
		return 0
	}
	return max(0, r.Total-r.Available)
}
