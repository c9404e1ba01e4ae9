package ec2

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

func TestRegionComesFromTheOptionThenFromTheEnvironment(t *testing.T) {
	_, c := newSim(t)
	if c.Region() != homeRegion {
		t.Errorf("region %q, want %q from AWS_REGION", c.Region(), homeRegion)
	}
	named, err := New(t.Context(), Options{Region: otherRegion})
	if err != nil || named.Region() != otherRegion {
		t.Errorf("New with a region: %q, %v", named.Region(), err)
	}
	west := c.In(otherRegion)
	if west != c.In(otherRegion) || west.In(homeRegion) != c || c.In("") != c {
		t.Error("the clients of a region are not one")
	}
	rs, err := west.AllReservations(t.Context())
	if err != nil || len(rs) != 1 || rs[0].Region != otherRegion {
		t.Errorf("reservations of %s: %v, %v", otherRegion, rs, err)
	}
}

func TestOffsetIsLearntFromFailedCallsToo(t *testing.T) {
	sim, c := newSim(t)
	if c.Offset() != 0 {
		t.Fatalf("offset before any call: %s", c.Offset())
	}
	fault(t, sim, awssim.Fault{Effect: awssim.FailBefore, Code: "UnauthorizedOperation"})
	if _, err := c.Regions(t.Context()); Code(err) != "UnauthorizedOperation" {
		t.Fatalf("error %v, want UnauthorizedOperation", err)
	}
	if off := c.Now().Sub(noon); off < -time.Second || off > time.Minute {
		t.Errorf("Now is %s off AWS's time", off)
	}
	if c.In(otherRegion).Offset() != c.Offset() {
		t.Error("the other region has another offset")
	}
}

// A want of capacity has a server error's status, but asking again at once is no use.
func TestNoCapacityIsNotRetriedButAServerErrorIs(t *testing.T) {
	for code, want := range map[string]int{"InsufficientInstanceCapacity": 1, "InternalError": 3} {
		sim, c, attempts := countedSim(t)
		fault(t, sim, awssim.Fault{Effect: awssim.FailBefore, Operation: "RunInstances", Code: code, Status: 500})
		_, err := c.Launch(t.Context(), capacity.Launch{ClientToken: "t", LaunchTemplate: nodes, InstanceType: "c7i.4xlarge", SubnetID: subnetA, Count: 1, Kind: "on-demand"})
		if Code(err) != code {
			t.Errorf("error %v, want %s", err, code)
		}
		if n := attempts("RunInstances"); n != want {
			t.Errorf("%s: %d attempts, want %d", code, n, want)
		}
	}
}
