package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// maxUserData is EC2's limit in bytes, before it is encoded.
const maxUserData = 16 << 10

// checkLaunch finds missing parts of a launch, and parts that EC2 would refuse: most pass in a launch
// template, and then every launch fails.
func (in *inspection) checkLaunch() {
	// Where --like names nothing, all that it would have is missing, too.
	copies := !slices.ContainsFunc(in.problems, func(m capacity.Problem) bool { return m.Code == capacity.LikeUnknown })
	if copies && in.ami() == "" && in.request.AMI == "" {
		in.problem(capacity.BadImage, "give --ami, or --like with "+in.likeWhat()+" that has one",
			"no image is given for the nodes")
	}
	if copies && !in.onEC2() && in.profile() == "" {
		in.problem(capacity.InstanceProfile, "give --like with a node group that has one",
			"no instance profile is given for the nodes")
	}
	if copies && len(in.source.SecurityGroupIDs) == 0 {
		in.problem(capacity.SecurityGroups, "give --like with "+in.likeWhat()+" that has some",
			"no security group is given for the nodes")
	}
	if n := len(in.userData); n > maxUserData {
		in.problem(capacity.BadUserData, "let it fetch the rest from Amazon S3",
			"the user data has %d bytes as a MIME multi-part archive; EC2 takes %d", n, maxUserData)
	}
	if in.names.noPlacementGroup {
		in.problem(capacity.PlacementGroup, "use another reservation",
			"reservation %s takes launches in placement group %q only, which this account does not have",
			in.reservation.ID, in.reservation.PlacementGroup)
	}
}

// checkSubnets finds requested subnets that cannot be used.
func (in *inspection) checkSubnets() {
	fix := "name subnets of the cluster's VPC with --subnet-ids"
	if in.onEC2() {
		fix = fmt.Sprintf("name subnets of one VPC in %s with --subnet-ids", in.reservation.AZID)
		if len(in.subnetsOnEC2()) == 0 {
			in.problem(capacity.NoSubnets, fix, "no subnet is given for the nodes")
		}
	}
	if there := in.subnetsThere(); len(there) > 0 {
		fix = quoted("give --subnet-ids", there)
	}
	if ids := in.network.unknown; len(ids) > 0 {
		in.problem(capacity.SubnetUnknown, fix, "EC2 has no subnet %s in %s", strings.Join(ids, ", "), in.region)
	}
	if ids := in.network.elsewhere; len(ids) > 0 {
		in.problem(capacity.SubnetVPC, fix, "subnet %s is outside the VPC %s", strings.Join(ids, ", "), in.vpcWord())
	}
}

// checkAddresses compares free addresses with the nodes that do not run yet.
func (in *inspection) checkAddresses(want *wanted, slot slotState) {
	free, there := slot.instances, []string{}
	for _, s := range in.launchSubnets() {
		free, there = free+s.Free/in.addressesPerNode(), append(there, s.ID)
	}
	if len(there) > 0 && free < want.partition.MaxNodes {
		fix := "use a larger subnet, free some addresses, or give a smaller --max-nodes"
		if n := in.addressesPerNode(); n > 1 {
			fix += fmt.Sprintf("; a node takes %d addresses, and one with --efa efa-only", n)
		}
		in.problem(capacity.Addresses, fix, "subnet %s has free addresses for %d nodes, but there are to be %d",
			strings.Join(there, ", "), max(free, 0), want.partition.MaxNodes)
	}
}
