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
	ARN          string `json:"-"` // as EC2 gives it; "" in a snapshot
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
