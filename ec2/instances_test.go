package ec2

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

func TestLaunchIntoABlockTagAndTerminate(t *testing.T) {
	sim, c := newSim(t)
	request := capacity.Launch{
		ClientToken:    "one",
		LaunchTemplate: nodes,
		InstanceType:   "p5.48xlarge",
		SubnetID:       subnetA,
		ReservationID:  openBlock,
		Kind:           capacity.CapacityBlock,
		Count:          3,
		Tags:           map[string]string{capacity.TagNodes: "gpu-[1-3]", capacity.TagCluster: "ml"},
	}

	launched, err := c.Launch(t.Context(), request)
	if err != nil || len(launched) != 3 {
		t.Fatalf("launched %v, %v", launched, err)
	}

	again, err := c.Launch(t.Context(), request)
	if err != nil || len(again) != 3 || again[0].ID != launched[0].ID {
		t.Errorf("the same token launched %v, %v", again, err)
	}

	for _, i := range launched {
		if i.ReservationID != openBlock || i.PrivateIP == "" || i.State == "" ||
			i.Tags[capacity.TagNodes] != "gpu-[1-3]" {
			t.Errorf("instance %+v", i)
		}
	}

	found, err := c.FindInstances(
		t.Context(),
		capacity.InstanceQuery{
			Tags: map[string][]string{capacity.TagNodes: {"gpu-[1-3]", "gpu-4"}, capacity.TagCluster: {"ml"}},
		},
	)
	if err != nil || len(found) != 3 {
		t.Fatalf("by tag %v, %v", found, err)
	}

	found = found[:2]

	if none, err := c.FindInstances(t.Context(),
		capacity.InstanceQuery{Tags: map[string][]string{capacity.TagNode: nil}}); len(
		none,
	) > 0 ||
		err != nil {
		t.Errorf("no value finds %v, %v", none, err)
	}

	c.shared.settle = time.Millisecond
	ends := []capacity.Instance{found[0], {ID: "i-0ffffffffffffffff"}, found[1]}
	if err := c.Terminate(t.Context(), ends); err != nil {
		t.Fatal(err)
	}

	sim.Clock().Advance(day)

	left, err := c.FindInstances(
		t.Context(),
		capacity.InstanceQuery{Tags: map[string][]string{capacity.TagCluster: {"ml"}}},
	)
	if err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}

	if err := c.Terminate(t.Context(), ends); err != nil {
		t.Errorf("terminating what is gone: %v", err)
	}
}

// Without a reservation a launch must not use up an open one that is there for others.
func TestOnDemandLaunchStaysOutOfOpenReservations(t *testing.T) {
	_, c := newSim(t)

	const openODCR, subnetC = "cr-0e200000000000c12", "subnet-0e200000000000c03"
	if _, err := c.Launch(t.Context(),
		capacity.Launch{
			ClientToken:    "t",
			LaunchTemplate: nodes,
			InstanceType:   "c7i.4xlarge",
			SubnetID:       subnetC,
			Kind:           capacity.OnDemand,
			Count:          2,
		}); err != nil {
		t.Fatal(err)
	}

	r, err := Reservation(t.Context(), c, openODCR)
	if err != nil || r.Used() != 0 {
		t.Errorf("%d of the open ODCR are used, %v", r.Used(), err)
	}
}

// A launch is whole or not at all. Fewer instances may fit, into a reservation and into a quota.
func TestLaunchTakesNoPart(t *testing.T) {
	sim, c := newSim(t)
	launch := capacity.Launch{
		ClientToken: "t", LaunchTemplate: nodes, InstanceType: "g6.12xlarge", SubnetID: subnetA,
		ReservationID: gpuODCR, Kind: capacity.ODCR, Count: 5, Tags: map[string]string{capacity.TagCluster: "ml"},
	}

	for _, code := range []string{"ReservationCapacityExceeded", "VcpuLimitExceeded"} {
		_, err := c.Launch(t.Context(), launch)
		if Code(err) != code || !errors.Is(err, capacity.ErrNoRoom) {
			t.Errorf("%s: error %v", code, err)
		}

		fault(t, sim, awssim.Fault{
			Operation: "RunInstances",
			Effect:    awssim.FailBefore,
			Code:      "VcpuLimitExceeded",
			Status:    400,
		})
	}

	left, err := c.FindInstances(
		t.Context(),
		capacity.InstanceQuery{Tags: map[string][]string{capacity.TagCluster: {"ml"}}},
	)
	if len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

// EC2's reports of impaired hosts and planned retirements come through before Slurm loses the nodes.
func TestImpaired(t *testing.T) {
	sim, c := newSim(t)

	launched, err := c.Launch(
		t.Context(),
		capacity.Launch{
			ClientToken:    "t",
			LaunchTemplate: nodes,
			InstanceType:   "c7i.4xlarge",
			SubnetID:       subnetA,
			Kind:           capacity.OnDemand,
			Count:          3,
		},
	)
	if err != nil {
		t.Fatal(err)
	}

	sim.Clock().Advance(time.Hour)

	if err := sim.FailHost(homeRegion, launched[0].ID); err != nil {
		t.Fatal(err)
	}

	sim.Retire(homeRegion, launched[1].ID, time.Date(2027, 1, 3, 0, 0, 0, 0, time.UTC))
	sim.OnConsole(func(id string) string {
		return "[  12.3] cloud-init: pcs-capacity: the image has no curl; install it there\r\n" + id + " login: "
	})

	if says, err := c.BootFailure(t.Context(), launched[0].ID); err != nil ||
		says != "pcs-capacity: the image has no curl; install it there" {
		t.Errorf("the console says %q, %v", says, err)
	}

	want := map[string]string{
		launched[0].ID: "its host is impaired",
		launched[1].ID: "instance-retirement, not before 2027-01-03T00:00:00Z: The instance is running on degraded " +
			"hardware",
	}
	if said, err := c.Impaired(t.Context()); err != nil || !maps.Equal(said, want) {
		t.Errorf("%v, %v", said, err)
	}

	fault(
		t,
		sim,
		awssim.Fault{
			Operation: "DescribeInstanceStatus",
			Effect:    awssim.FailBefore,
			Code:      "UnauthorizedOperation",
			Status:    403,
		},
	)

	if said, err := c.Impaired(t.Context()); err != nil || said != nil || len(c.Withheld()) != 1 {
		t.Errorf("without permission: %v, %v", said, err)
	}
}

func TestCatalog(t *testing.T) {
	sim, c := newSim(t)
	found, err := c.InstanceTypes(t.Context(), []string{"p5.48xlarge", "trn1.32xlarge", "c7i.4xlarge", "none.large"})
	if err != nil || len(found) != 3 {
		t.Fatalf("found %v, %v", found, err)
	}

	p5 := found["p5.48xlarge"]
	if p5.GPUs != 8 || p5.Cores != 96 || p5.ThreadsPerCore != 2 || p5.GPUName != "H100" || p5.EFAInterfaces != 32 ||
		!slices.Contains(p5.UsageClasses, "capacity-block") {
		t.Errorf("p5 %+v", p5)
	}

	if found["trn1.32xlarge"].GPUs != 16 || found["c7i.4xlarge"].GPUs != 0 {
		t.Errorf("devices %+v", found)
	}

	image, err := c.Image(t.Context(), "ami-0e200000000000c03")
	if err != nil ||
		image != (Image{
			ID:       "ami-0e200000000000c03",
			Name:     "rhel-9-x86_64",
			Owner:    "111122223333",
			Created:  "2026-10-01",
			Keywords: "rhel-9-x86_64 ",
			Platform: "Red Hat Enterprise Linux",
		}) {
		t.Errorf("image %+v, %v", image, err)
	}

	if _, err := c.Image(t.Context(), "ami-0ffffffffffffffff"); Code(err) != "InvalidAMIID.NotFound" {
		t.Errorf("unknown image: %v", err)
	}

	vpc, err := c.VPCSubnets(t.Context(), "vpc-0e2000000000000a1")
	if err != nil || len(vpc) != 3 || vpc[0].ID != subnetA || vpc[0].VPC != "vpc-0e2000000000000a1" ||
		vpc[0].Free != 4091 {
		t.Errorf("subnets of the VPC %+v, %v", vpc, err)
	}

	ordered, missing, err := c.Subnets(t.Context(), []string{subnetB, "subnet-0ffffffffffffffff", subnetA})
	if err != nil || len(ordered) != 2 || ordered[0].ID != subnetB || len(missing) != 1 ||
		Code(missing[0].Err) != "InvalidSubnetID.NotFound" {
		t.Errorf("subnets %v, missing %v, %v", ordered, missing, err)
	}

	for range 2 {
		if _, err := c.Zones(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	if n := calls(sim, "DescribeAvailabilityZones"); n != 1 {
		t.Errorf("the zones were asked for %d times", n)
	}

	regions, err := c.Regions(t.Context())
	if err != nil || !slices.Equal(regions, []string{"eu-west-1", homeRegion, otherRegion}) {
		t.Errorf("regions %v, %v", regions, err)
	}
}

// EC2 lists instances by launch ("reservation" in its words), and page by page: every
// instance of every launch of every page is found.
func TestInstancesOfEveryLaunchAndPageAreFound(t *testing.T) {
	const subnet = "subnet-0e2000000000000ff"

	scenario := awssim.DefaultScenario()
	home := &scenario.Regions[0]
	home.Capacity = append(home.Capacity, awssim.CapacityScenario{Zone: "us-east-2a", Type: "c7i.4xlarge", Count: 5000})

	home.Subnets = append(
		home.Subnets,
		awssim.SubnetScenario{ID: subnet, VPC: home.Subnets[0].VPC, Zone: "us-east-2a", CIDR: "10.2.64.0/20"},
	)
	sim, c, _ := simOf(t, scenario)

	var want []string
	for n, count := range []int{2, 3, pageSize, 4} { // the third goes over the end of a page
		launched, err := c.Launch(
			t.Context(),
			capacity.Launch{
				ClientToken:    fmt.Sprint(n),
				LaunchTemplate: nodes,
				InstanceType:   "c7i.4xlarge",
				SubnetID:       subnet,
				Kind:           capacity.OnDemand,
				Count:          count,
				Tags:           map[string]string{capacity.TagCluster: "ml"},
			},
		)
		if err != nil {
			t.Fatal(err)
		}

		for _, i := range launched {
			want = append(want, i.ID)
		}
	}

	found, err := c.FindInstances(
		t.Context(),
		capacity.InstanceQuery{Tags: map[string][]string{capacity.TagCluster: {"ml"}}},
	)

	var ids []string
	for _, i := range found {
		ids = append(ids, i.ID)
	}

	slices.Sort(ids)
	slices.Sort(want)

	if err != nil || !slices.Equal(ids, want) {
		t.Errorf("found %d of %d instances, %v", len(found), len(want), err)
	}

	if n := calls(sim, "DescribeInstances"); n != 2 {
		t.Errorf("%d calls for 2 pages", n)
	}
}

// EC2 has not decided what it throttles, fails at or cuts; it has decided what it refuses, whatever the status is.
func TestNotNow(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "1") // the SDK would wait between its own attempts

	for name, test := range map[string]struct {
		fault  awssim.Fault
		notNow bool
	}{
		"throttled":       {awssim.Fault{Effect: awssim.FailBefore, Code: "RequestLimitExceeded", Status: 503}, true},
		"failed":          {awssim.Fault{Effect: awssim.FailBefore}, true},
		"failed after it": {awssim.Fault{Effect: awssim.FailAfter}, true},
		"cut":             {awssim.Fault{Effect: awssim.CutBefore}, true},
		"cut after it":    {awssim.Fault{Effect: awssim.CutAfter}, true},
		"no capacity": {
			awssim.Fault{Effect: awssim.FailBefore, Code: "InsufficientInstanceCapacity", Status: 500},
			false,
		},
		"not allowed": {awssim.Fault{Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403}, false},
	} {
		sim, c := newSim(t)
		fault(t, sim, test.fault)

		_, launch := c.Launch(t.Context(), capacity.Launch{
			ClientToken:    "t",
			LaunchTemplate: nodes,
			InstanceType:   "p5.48xlarge",
			SubnetID:       subnetA,
			ReservationID:  openBlock,
			Kind:           capacity.CapacityBlock,
			Count:          1,
		})
		_, _, read := c.Reservations(t.Context(), []string{openBlock})

		for _, err := range []error{launch, read} {
			if err == nil || errors.Is(err, ErrUndecided) != test.notNow {
				t.Errorf("%s: not now %t: %v", name, !test.notNow, err)
			}
		}
	}
}
