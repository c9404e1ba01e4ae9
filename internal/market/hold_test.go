package market

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

// creations counts the calls of CreateCapacityReservation.
func (w *world) creations() int {
	return w.sim.Calls()[awssim.CallKey{Service: "ec2", Operation: "CreateCapacityReservation", Region: "us-east-2"}]
}

func (w *world) holder() Holder {
	return Holder{EC2: w.aws, State: w.dir, Limits: capacity.Reserve{MaxInstances: 4}, Cluster: "ml"}
}

// ledger is our own record of what is held.
func (w *world) ledger() []capacity.Hold {
	w.Helper()

	held, err := w.dir.Holds(w.aws.Now())
	if err != nil {
		w.Fatal(err)
	}

	return held
}

// Zones are tried one after the other, each once; what is held has an end, our tags and an
// entry in the ledger, until it is given back.
func TestR4_HoldTriesEachZoneOnce(t *testing.T) {
	w := newWorld(t, nil)
	h := w.holder()
	req := HoldRequest{
		InstanceType: "g6.12xlarge",
		Platform:     capacity.LinuxUNIX,
		Count:        2,
		Subnets:      []string{subnetA1, subnetA2, subnetB},
		For:          time.Hour,
	}

	off := h
	off.Limits.MaxInstances = 0
	if _, err := off.Hold(t.Context(), req); !errors.Is(err, ErrHoldingOff) || w.creations() != 0 {
		t.Errorf("held without leave: %v", err)
	}

	answer, err := h.Hold(t.Context(), req)
	if err != nil || len(answer.Tries) != 2 || w.creations() != 2 {
		t.Fatalf("%v, %+v", err, answer)
	}

	if first, second := answer.Tries[0], answer.Tries[1]; first.SubnetID != subnetA1 || first.Room ||
		first.Code != "Unsupported" ||
		second.SubnetID != subnetB ||
		!second.Room {
		t.Errorf("%+v", answer.Tries)
	}

	r := answer.Reservation
	if left := r.End.Sub(opening); r.AZID != "use2-az2" || r.Total != 2 || left < 59*time.Minute ||
		left > 61*time.Minute ||
		r.Tags[capacity.TagHold] != capacity.HoldByHand ||
		r.Tags[capacity.TagCluster] != "ml" ||
		answer.Held != 0 {
		t.Errorf("%+v, held for %s", r, answer.Held)
	}

	if held := w.ledger(); len(held) != 1 || held[0].ReservationID != r.ID || held[0].Count != 2 ||
		!held[0].Until.Equal(r.End) {
		t.Errorf("ledger %+v", held)
	}

	more := req
	more.Count = 3
	if _, err := h.Hold(t.Context(), more); !errors.Is(err, capacity.ErrReserveLimit) || w.creations() != 2 {
		t.Errorf("more than the settings allow: %v", err)
	}

	if _, err := h.Release(t.Context(), dollarBlock); err == nil || !strings.Contains(err.Error(), "it is left alone") {
		t.Errorf("a block was released: %v", err)
	}

	if back, err := h.Release(t.Context(), r.ID); err != nil || back.ID != r.ID || len(w.ledger()) != 0 {
		t.Errorf("%v, %+v, ledger %+v", err, back, w.ledger())
	}
}

func TestHoldWithoutRoom(t *testing.T) {
	w := newWorld(t, nil)
	answer, err := w.holder().
		Hold(t.Context(), HoldRequest{
			InstanceType: "g6.12xlarge",
			Platform:     capacity.LinuxUNIX,
			Count:        1,
			Subnets:      []string{subnetA1},
			For:          time.Hour,
		})
	if err != nil || len(answer.Tries) != 1 || answer.Reservation.ID != "" || len(w.ledger()) != 0 {
		t.Errorf("%v, %+v, ledger %+v", err, answer, w.ledger())
	}

	if _, err := w.holder().Hold(t.Context(), HoldRequest{
		InstanceType: "g6.12xlarge",
		Count:        1,
		Subnets:      []string{"subnet-0ffffffffffffffff"},
	}); ec2.Code(
		err,
	) != "InvalidSubnetID.NotFound" {
		t.Errorf("a subnet that there is not: %v", err)
	}

	w.fault(
		awssim.Fault{
			Operation: "CreateCapacityReservation",
			Effect:    awssim.FailBefore,
			Code:      "UnauthorizedOperation",
			Status:    403,
		},
	)

	answer, err = w.holder().
		Hold(t.Context(), HoldRequest{
			InstanceType: "g6.12xlarge",
			Platform:     capacity.LinuxUNIX,
			Count:        1,
			Subnets:      []string{subnetA1, subnetB},
			For:          time.Hour,
		})
	if ec2.Code(err) != "UnauthorizedOperation" || len(answer.Tries) != 0 || len(w.ledger()) != 0 {
		t.Errorf("who may not hold tries on: %v, %+v, ledger %+v", err, answer, w.ledger())
	}
}

// A refused hold leaves the ledger, even one refused with status 500; one that may exist stays.
func TestRefusedHoldLeavesTheLedger(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "1") // the SDK's pauses are the machine's time

	for name, c := range map[string]struct {
		fault awssim.Fault
		left  int
	}{
		"no room": {
			awssim.Fault{Effect: awssim.FailBefore, Code: "InsufficientInstanceCapacity", Status: 500, Count: 1},
			0,
		},
		"no answer":        {awssim.Fault{Effect: awssim.CutAfter}, 1},
		"an unclear error": {awssim.Fault{Effect: awssim.FailAfter}, 1},
	} {
		for _, probe := range []bool{false, true} {
			w := newWorld(t, nil)
			c.fault.Operation = "CreateCapacityReservation"
			w.fault(c.fault)

			answer, err := w.holder().
				Hold(t.Context(), HoldRequest{
					InstanceType: "g6.12xlarge",
					Platform:     capacity.LinuxUNIX,
					Count:        4,
					Subnets:      []string{subnetB},
					For:          time.Hour,
					Probe:        probe,
				})
			if len(w.ledger()) != c.left || (err != nil) != (c.left > 0) || answer.Reservation.ID != "" {
				t.Errorf("%s, probe %t: %v, %+v, ledger %+v", name, probe, err, answer, w.ledger())
			}
		}
	}
}

// A probe is cancelled at once. If that fails, the error says when EC2 ends it, and it stays in the ledger until then.
func TestProbe(t *testing.T) {
	w := newWorld(t, nil)
	req := HoldRequest{
		InstanceType: "g6.12xlarge",
		Platform:     capacity.LinuxUNIX,
		Count:        4,
		Subnets:      []string{subnetB},
		For:          time.Hour,
		Probe:        true,
	}

	answer, err := w.holder().Hold(t.Context(), req)
	if err != nil || answer.Reservation.Tags[capacity.TagHold] != capacity.HoldProbe || answer.Held <= 0 ||
		len(w.ledger()) != 0 {
		t.Errorf("%v, %+v, ledger %+v", err, answer, w.ledger())
	}

	if left := answer.Reservation.End.Sub(opening); left < time.Minute || left > 3*time.Minute {
		t.Errorf("it ends by itself after %s", left)
	}

	if held, err := w.aws.FindReservations(t.Context(), ec2.HoldsQuery("ml")); err != nil || len(held) != 0 {
		t.Errorf("still held: %+v, %v", held, err)
	}

	w.fault(
		awssim.Fault{
			Operation: "CancelCapacityReservation",
			Effect:    awssim.FailBefore,
			Code:      "UnauthorizedOperation",
			Status:    403,
		},
	)

	answer, err = w.holder().Hold(t.Context(), req)
	if err == nil || !strings.Contains(err.Error(), "EC2 ends it at "+capacity.FormatUTC(answer.Reservation.End)) ||
		len(w.ledger()) != 1 {
		t.Errorf("%v, ledger %+v", err, w.ledger())
	}
}
