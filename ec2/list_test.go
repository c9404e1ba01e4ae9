package ec2

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

func ids(rs []capacity.Reservation) []string {
	var all []string
	for _, r := range rs {
		all = append(all, r.ID)
	}
	slices.Sort(all)
	return all
}

// A region can have more reservations than EC2 puts on one page.
func TestEveryReservationOfEveryPageIsRead(t *testing.T) {
	const many = pageSize + 100
	scenario := awssim.DefaultScenario()
	home := &scenario.Regions[0]
	home.Capacity = append(home.Capacity, awssim.CapacityScenario{Zone: "us-east-2a", Type: "c7i.4xlarge", Count: many})
	var want []string
	for n := range many {
		id := fmt.Sprintf("cr-%017x", n+1)
		want = append(want, id)
		home.Reservations = append(home.Reservations, awssim.ReservationScenario{ID: id, Type: "c7i.4xlarge", Zone: "us-east-2a", Count: 1, Tags: map[string]string{"many": "yes"}})
	}
	sim, c, _ := simOf(t, scenario)
	listed, err := c.List(t.Context(), ReservationQuery{Tags: map[string]string{"many": "yes"}})
	if err != nil || !slices.Equal(ids(listed), want) {
		t.Errorf("listed %d of %d, %v", len(listed), many, err)
	}
	if n := calls(sim, "DescribeCapacityReservations"); n != 2 {
		t.Errorf("%d calls for 2 pages", n)
	}
	found, missing, err := c.Reservations(t.Context(), want[:3])
	if err != nil || len(missing) > 0 || !slices.Equal(ids(found), want[:3]) {
		t.Errorf("by id: %v, missing %v, %v", ids(found), missing, err)
	}
}

func TestAccount(t *testing.T) {
	sim, c := newSim(t)
	if id, err := c.Account(t.Context()); id != "111122223333" || err != nil {
		t.Errorf("account %q, %v", id, err)
	}
	t.Setenv("AWS_ACCOUNT_ID", "444455556666")
	told, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := told.Account(t.Context()); id != "444455556666" || err != nil {
		t.Errorf("account %q, %v", id, err)
	}
	if n := calls(sim, "GetCallerIdentity"); n != 1 {
		t.Errorf("%d calls", n)
	}
}
