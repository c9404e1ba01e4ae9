package ec2

import (
	"errors"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

func holdOrder(token string) capacity.HoldOrder {
	return capacity.HoldOrder{ClientToken: token, InstanceType: "g6.12xlarge", AZID: "use2-az1", Platform: "Linux/UNIX", Count: 1, End: noon.Add(5 * time.Minute),
		Tags: map[string]string{capacity.TagCluster: "ml", capacity.TagHold: "jobs 1/0"}}
}

// What is held is targeted, has an end, a token and our tags; without them nothing is ordered.
func TestR4_Hold(t *testing.T) {
	sim, c := newSim(t)
	for name, spoil := range map[string]func(*capacity.HoldOrder){
		"no token":   func(o *capacity.HoldOrder) { o.ClientToken = "" },
		"no end":     func(o *capacity.HoldOrder) { o.End = time.Time{} },
		"no cluster": func(o *capacity.HoldOrder) { delete(o.Tags, capacity.TagCluster) },
		"no purpose": func(o *capacity.HoldOrder) { delete(o.Tags, capacity.TagHold) },
	} {
		o := holdOrder("t")
		spoil(&o)
		if _, err := c.CreateODCR(t.Context(), o); err == nil || calls(sim, "CreateCapacityReservation") != 0 {
			t.Errorf("%s: %v, %d calls", name, err, calls(sim, "CreateCapacityReservation"))
		}
	}
	fault(t, sim, awssim.Fault{Operation: "CreateCapacityReservation", Effect: awssim.CutAfter, Count: 1})
	r, err := c.CreateODCR(t.Context(), holdOrder("t"))
	if err != nil {
		t.Fatal(err)
	}
	if r.MatchCriteria != "targeted" || !r.End.Equal(noon.Add(5*time.Minute)) || r.Tags[capacity.TagCluster] != "ml" || r.AZID != "use2-az1" || r.Total != 1 {
		t.Errorf("%+v", r)
	}
	held, err := c.Holds(t.Context(), "ml")
	if err != nil || len(held) != 1 || held[0].ID != r.ID { // one, though it was asked for twice
		t.Fatalf("held %+v, %v", held, err)
	}
	if others, err := c.Holds(t.Context(), "m"); err != nil || len(others) != 0 {
		t.Errorf("of another cluster: %+v, %v", others, err)
	}
	other := holdOrder("t")
	other.Count = 2
	if _, err := c.CreateODCR(t.Context(), other); !errors.Is(err, capacity.ErrTokenUsed) {
		t.Errorf("another order under the same token: %v", err)
	}
	other.ClientToken, other.Count = "u", 1000
	if _, err := c.CreateODCR(t.Context(), other); !errors.Is(err, capacity.ErrNoRoom) || Code(err) != "InsufficientInstanceCapacity" {
		t.Errorf("more than there is: %v", err)
	}
	for range 2 { // what is gone already is no error
		if err := c.CancelODCR(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	if held, err := c.Holds(t.Context(), "ml"); err != nil || len(held) != 0 {
		t.Errorf("held %+v, %v", held, err)
	}
}
