package power

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// holder is an EC2 that holds capacity and launches as it is told.
type holder struct {
	EC2
	answers  []func(capacity.HoldOrder) (capacity.Reservation, error) // of Hold, the last one again and again
	tokens   []string
	launched []capacity.Launch
}

func (h *holder) Offset() time.Duration                               { return 0 }
func (h *holder) PinTemplate(context.Context, string) (string, error) { return "lt-1:1", nil }
func (h *holder) Release(context.Context, string) error               { return nil }
func (h *holder) Launch(_ context.Context, l capacity.Launch) ([]capacity.Instance, error) {
	h.launched = append(h.launched, l)
	return []capacity.Instance{{ID: "i-1", PrivateIP: "10.0.0.1"}}, nil
}

func (h *holder) ImagePlatform(context.Context, string) (capacity.ImagePlatform, error) {
	return capacity.ImagePlatform{Platform: capacity.LinuxUNIX}, nil
}

func (h *holder) Hold(_ context.Context, o capacity.HoldOrder) (capacity.Reservation, error) {
	answer := h.answers[min(len(h.tokens), len(h.answers)-1)]
	h.tokens = append(h.tokens, o.ClientToken)
	return answer(o)
}

// answer is one of Hold.
func answer(r capacity.Reservation, err error) func(capacity.HoldOrder) (capacity.Reservation, error) {
	return func(capacity.HoldOrder) (capacity.Reservation, error) { return r, err }
}

// holding is a power-up that holds capacity in EC2.
func holding(t *testing.T, ec2 EC2) (*powerUp, state.Dir) {
	t.Helper()
	dir := state.Dir(t.TempDir())
	u := newPowerUp(twoReservations())
	u.EC2, u.Held, u.Records, u.MachineTime = ec2, dir, dir, func() time.Time { return noon }
	u.Settings.Reserve = capacity.Reserve{Enabled: true, MaxInstances: 8, For: capacity.Duration{Duration: time.Hour}}
	u.budget, u.work, u.finish, u.last = time.Minute, t.Context(), t.Context(), t.Context()
	u.calls, u.holdCalls = rate.NewLimiter(rate.Inf, 1), rate.NewLimiter(rate.Inf, 1)
	return u, dir
}

func heldPart(u *powerUp, t *testing.T) (part, unit, target) {
	job := nlp(1, "gpu-1")
	in := target{subnetID: subnet1, azID: "az1", instanceType: wanted, kind: capacity.OnDemand, hold: true}
	p := part{place: u.place(t, "gpu-1"), nodes: []string{"gpu-1"}, targets: []target{in}}
	return p, unit{groups: []group{{nodes: p.nodes, jobs: []capacity.Job{job}}}, parts: []part{p}}, in
}

// awsError is an answer of AWS.
type awsError string

func (e awsError) Error() string        { return string(e) }
func (e awsError) ErrorCode() string    { return string(e) }
func (e awsError) ErrorMessage() string { return string(e) }

// What may be held counts on the ledger until it is known that it is not: `max_usd_per_hour`
// and `max_instances` would allow too much else.
func TestLedgerAfterAHold(t *testing.T) {
	live := capacity.Reservation{ID: one, State: capacity.StateActive}
	for name, c := range map[string]struct {
		reservation capacity.Reservation
		err         error
		listed      bool
	}{
		"held":                       {live, nil, true},
		"refused":                    {err: fmt.Errorf("%w: %w", capacity.ErrRefused, awsError("UnauthorizedOperation"))},
		"no room":                    {err: fmt.Errorf("%w: %w", capacity.ErrNoRoom, awsError("InsufficientInstanceCapacity"))},
		"no answer":                  {err: errors.New("connection reset by peer"), listed: true},
		"an answer that is no no":    {err: awsError("InternalError"), listed: true},
		"given back since, for ever": {reservation: capacity.Reservation{ID: one, State: capacity.StateCancelled}},
	} {
		u, dir := holding(t, &holder{answers: []func(capacity.HoldOrder) (capacity.Reservation, error){answer(c.reservation, c.err)}})
		p, what, in := heldPart(u, t)
		h, err := u.hold(p, what, in, p.nodes)
		listed, heldErr := dir.Held(noon)
		if heldErr != nil || (len(listed) == 1) != c.listed || len(listed) > 1 {
			t.Errorf("%s: the ledger has %+v, %v", name, listed, heldErr)
		}
		if (err == nil) != (c.reservation.State == capacity.StateActive) || err == nil && h.ID != one {
			t.Errorf("%s: %v, %+v", name, err, h)
		}
	}
}

// EC2 answers a token with what it once made for it, which may have been given back: nothing is
// launched into that.
func TestNoLaunchIntoWhatWasGivenBack(t *testing.T) {
	back := capacity.Reservation{ID: ended, State: capacity.StateCancelled}
	live := capacity.Reservation{ID: two, State: capacity.StateActive}
	ec2 := &holder{answers: []func(capacity.HoldOrder) (capacity.Reservation, error){answer(back, nil), answer(back, nil), answer(live, nil)}}
	u, dir := holding(t, ec2)
	p, what, in := heldPart(u, t)
	instances, err := u.launchIn(p, what, in, p.nodes)
	if err != nil || len(instances) != 1 || len(ec2.launched) != 1 || ec2.launched[0].ReservationID != two {
		t.Errorf("%v, %v, launched %+v", err, instances, ec2.launched)
	}
	if len(ec2.tokens) != 3 || ec2.tokens[0] == ec2.tokens[1] || ec2.tokens[1] == ec2.tokens[2] {
		t.Errorf("tokens %v", ec2.tokens)
	}
	if listed, err := dir.Held(noon); err != nil || len(listed) != 1 || listed[0].ReservationID != two {
		t.Errorf("the ledger has %+v, %v", listed, err)
	}
}
