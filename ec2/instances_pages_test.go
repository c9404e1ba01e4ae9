package ec2

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// EC2 lists instances by launch ("reservation" in its words), and page by page: every
// instance of every launch of every page is found.
func TestInstancesOfEveryLaunchAndPageAreFound(t *testing.T) {
	const subnet = "subnet-0e2000000000000ff"
	scenario := awssim.DefaultScenario()
	home := &scenario.Regions[0]
	home.Capacity = append(home.Capacity, awssim.CapacityScenario{Zone: "us-east-2a", Type: "c7i.4xlarge", Count: 5000})
	home.Subnets = append(home.Subnets, awssim.SubnetScenario{ID: subnet, VPC: home.Subnets[0].VPC, Zone: "us-east-2a", CIDR: "10.2.64.0/20"})
	sim, c, _ := simOf(t, scenario)
	var want []string
	for n, count := range []int{2, 3, pageSize, 4} { // the third goes over the end of a page
		launched, err := c.Launch(t.Context(), capacity.Launch{ClientToken: fmt.Sprint(n), LaunchTemplate: nodes, InstanceType: "c7i.4xlarge", SubnetID: subnet,
			Kind: capacity.OnDemand, Count: count, Tags: map[string]string{capacity.TagCluster: "ml"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range launched {
			want = append(want, i.ID)
		}
	}
	found, err := c.InstancesByTag(t.Context(), map[string][]string{capacity.TagCluster: {"ml"}})
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
