package market

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// probeTime bounds the life of a probe that was not released: EC2 ends it as early as SOCA's.
const probeTime = 2 * time.Minute

// releaseTime is for giving back, also after an interrupt.
const releaseTime = 30 * time.Second

// Holder holds capacity for a person by our ODCRs, and releases it.
type Holder struct {
	EC2     *ec2.Client
	State   state.Dir
	Limits  capacity.Reserve // the limits of the settings
	Cluster string           // the value of our mark
}

// HoldRequest is the capacity to hold. Subnets are tried in their order, one for each zone.
type HoldRequest struct {
	InstanceType, Platform string
	Count                  int
	Subnets                []string
	For                    time.Duration // the longest time to hold it
	Probe                  bool          // releases it at once: it only shows where there is room
}

// HoldTry is a tried subnet; without room, Code and Message are EC2's reason.
type HoldTry struct {
	SubnetID      string    `json:"subnet_id"`
	AZID          string    `json:"az_id"`
	Room          bool      `json:"room"`
	ReservationID string    `json:"capacity_reservation_id,omitempty"` // the ODCR that is held there
	End           time.Time `json:"end,omitzero"`                      // when EC2 ends it at the earliest
	Code          string    `json:"code,omitempty"`
	Message       string    `json:"message,omitempty"`
}

// HoldAnswer is the outcome. Reservation is the zero value if there was no room anywhere.
type HoldAnswer struct {
	Tries       []HoldTry
	Reservation capacity.Reservation
	Held        time.Duration // how long a probe was held
}

// ErrHoldingOff is the error if the settings hold nothing.
var ErrHoldingOff = errors.New(
	"[reserve] max_instances is 0 in the settings, so nothing is held; say how many instances may be held at once",
)

// Hold holds capacity in the first of the subnets that has room for all of it, targeted and with an
// end. It is an error if EC2 could not be asked, or a probe not given back; no room is an answer.
func (h Holder) Hold(ctx context.Context, req HoldRequest) (HoldAnswer, error) {
	var answer HoldAnswer
	if h.Limits.MaxInstances == 0 {
		return answer, ErrHoldingOff
	}

	subnets, missing, err := h.EC2.Subnets(ctx, req.Subnets)
	if err == nil && len(missing) > 0 {
		err = missing[0].Err
	}

	if err != nil {
		return answer, err
	}

	// The tag says who may cancel it: a probe that was left behind goes at once, one held by hand stays to its end.
	purpose := capacity.HoldByHand
	length := req.For
	if req.Probe {
		purpose = capacity.HoldProbe
		length = probeTime
	}

	var zones []string
	for _, subnet := range subnets {
		if slices.Contains(zones, subnet.AZID) {
			continue // an ODCR is in a zone, not in a subnet
		}

		zones = append(zones, subnet.AZID)
		order := capacity.HoldOrder{
			ClientToken:  rand.Text(),
			InstanceType: req.InstanceType,
			AZID:         subnet.AZID,
			Platform:     req.Platform,
			Count:        req.Count,
			End:          h.EC2.Now().Add(length).Truncate(time.Second),
			Tags: map[string]string{
				capacity.TagCluster: h.Cluster,
				capacity.TagHold:    purpose,
				capacity.TagName:    "held " + purpose,
			},
		}
		began := time.Now()

		// No room is the expected answer: the next zone is tried. Anything else would fail there as well.
		r, err := h.order(ctx, order)
		if err != nil && !errors.Is(err, capacity.ErrNoRoom) {
			return answer, err
		}

		try := HoldTry{SubnetID: subnet.ID, AZID: subnet.AZID, Room: err == nil}
		switch {
		case err != nil:
			try.Code, try.Message = ec2.Code(err), ec2.Message(err)
		case req.Probe:
			err = h.release(ctx, r, order.ClientToken)
			answer.Held = time.Since(began)
		default:
			try.ReservationID = r.ID
			try.End = r.End
		}

		answer.Tries = append(answer.Tries, try)
		if try.Room {
			answer.Reservation = r
			return answer, err
		}
	}

	return answer, nil
}

// order enters the ODCR into the ledger before EC2 is asked.
func (h Holder) order(ctx context.Context, o capacity.HoldOrder) (capacity.Reservation, error) {
	entry := capacity.Hold{
		Token:        o.ClientToken,
		InstanceType: o.InstanceType,
		Count:        o.Count,
		Since:        h.EC2.Now(),
		Until:        o.End,
	}
	if err := h.State.Create(); err != nil {
		return capacity.Reservation{}, err
	}

	if _, err := h.State.AddHold(entry, h.EC2.Now(), h.Limits.Allows); err != nil {
		return capacity.Reservation{}, err
	}

	r, err := h.EC2.CreateODCR(ctx, o)
	if err != nil {
		// Only a clear refusal proves that nothing was created, so only then the entry goes.
		if ec2.IsRefused(err) {
			return r, errors.Join(err, h.State.RemoveHolds(h.EC2.Now(), o.ClientToken))
		}

		return r, fmt.Errorf(
			"%w; if EC2 holds it anyway, `pcs-capacity release --unused` after %s, or sync, releases it", err,
			capacity.FormatUTC(h.EC2.Now().Add(capacity.LaunchTime)))
	}

	// Now the entry can be matched with what EC2 shows, even without its tag.
	entry.ReservationID = r.ID
	_, err = h.State.AddHold(entry, h.EC2.Now(), h.Limits.Allows)

	return r, err
}

func (h Holder) release(ctx context.Context, r capacity.Reservation, names ...string) error {
	// An interrupt must not leave it behind.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()

	if err := h.EC2.CancelODCR(ctx, r.ID); err != nil {
		return fmt.Errorf("%w; EC2 ends it at %s, or up to an hour later: until then try `pcs-capacity release %s`",
			err, capacity.FormatUTC(r.End), r.ID)
	}

	return h.State.RemoveHolds(h.EC2.Now(), append(names, r.ID)...)
}

// Release gives back ODCRs that we hold for the cluster, by id. Others are left alone.
func (h Holder) Release(ctx context.Context, id string) (capacity.Reservation, error) {
	all, err := h.EC2.FindReservations(ctx, ec2.HoldsQuery(h.Cluster))
	if err != nil {
		return capacity.Reservation{}, err
	}

	i := slices.IndexFunc(all, func(r capacity.Reservation) bool { return r.ID == id })
	if i < 0 {
		return capacity.Reservation{},
			fmt.Errorf("%s is not held by pcs-capacity for cluster %s; it is left alone", id, h.Cluster)
	}

	return all[i], h.release(ctx, all[i])
}
