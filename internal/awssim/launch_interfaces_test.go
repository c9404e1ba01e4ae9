package awssim

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// network interface number card/device of a launch.
func nic(card, device int32, kind string) types.InstanceNetworkInterfaceSpecification {
	return types.InstanceNetworkInterfaceSpecification{NetworkCardIndex: aws.Int32(card), DeviceIndex: aws.Int32(device),
		InterfaceType: aws.String(kind), SubnetId: aws.String(defSubnetA), Groups: []string{defGroup}}
}

// nics launches with these interfaces instead of a subnet.
func nics(all ...types.InstanceNetworkInterfaceSpecification) func(*runInput) {
	return func(in *runInput) { in.SubnetId, in.NetworkInterfaces = nil, all }
}

func TestInterfaceRefusals(t *testing.T) {
	w := newEC2World(t)
	elsewhere, public, group, unknown := nic(1, 1, "efa"), nic(0, 0, "interface"), nic(0, 0, "interface"), nic(0, 0, "interface")
	elsewhere.SubnetId, public.AssociatePublicIpAddress, group.Groups = aws.String(defSubnetB), aws.Bool(true), []string{"sg-1"}
	unknown.NetworkInterfaceId, unknown.SubnetId, unknown.Groups = aws.String("eni-1"), nil, nil
	efa := nic(0, 0, "efa")
	withTemplate := func(in *runInput) {
		out := do(t, w.ec2.CreateLaunchTemplate, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("efa"),
			LaunchTemplateData: &types.RequestLaunchTemplateData{NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
				{DeviceIndex: aws.Int32(0), Groups: []string{defGroup}}}}})
		template(*out.LaunchTemplate.LaunchTemplateId, "")(in)
	}
	for name, test := range map[string]struct {
		in   *runInput
		want string
	}{
		"a template's interfaces and a subnet": {run(1, "c7i.4xlarge", defSubnetA, withTemplate), "InvalidParameterCombination"},
		"interfaces and security groups": {run(1, "p5.48xlarge", "", nics(efa), func(in *runInput) {
			in.SecurityGroupIds = []string{defGroup}
		}), "InvalidParameterCombination"},
		"no device at index 0":           {run(1, "p5.48xlarge", "", nics(nic(0, 1, "interface"))), "InvalidParameterCombination"},
		"one index twice":                {run(1, "p5.48xlarge", "", nics(efa, efa)), "InvalidParameterValue"},
		"more devices than the card has": {run(1, "p5.48xlarge", "", nics(efa, nic(1, 2, "efa"))), "InvalidParameterValue"},
		"a card that is not there":       {run(1, "p5.48xlarge", "", nics(efa, nic(32, 1, "efa"))), "InvalidParameterValue"},
		"EFA where there is none":        {run(1, "c7i.4xlarge", "", nics(efa)), "Unsupported"},
		"two EFAs where one fits":        {run(1, "g6.12xlarge", "", nics(efa, nic(0, 1, "efa"))), "AttachmentLimitExceeded"},
		"EFA only as the primary":        {run(1, "p5.48xlarge", "", nics(nic(0, 0, "efa-only"))), "InvalidParameterCombination"},
		"two zones":                      {run(1, "p5.48xlarge", "", nics(efa, elsewhere)), "InvalidParameterCombination"},
		"a public address for many":      {run(1, "p5.48xlarge", "", nics(public, nic(1, 1, "efa"))), "InvalidParameterCombination"},
		"a group that is not there":      {run(1, "p5.48xlarge", "", nics(group)), "InvalidGroup.NotFound"},
		"an interface that is not there": {run(1, "p5.48xlarge", "", nics(unknown)), "InvalidNetworkInterfaceID.NotFound"},
		"another kind of interface":      {run(1, "p5.48xlarge", "", nics(nic(0, 0, "trunk"))), "InvalidParameterValue"},
	} {
		t.Run(name, func(t *testing.T) { fails(t, w.ec2.RunInstances, test.in, test.want) })
	}
	if n := len(w.instances()); n != 0 {
		t.Errorf("%d instances after refused launches, want none", n)
	}
}

// Every interface but efa-only takes an address.
func TestInterfacesTakeAddresses(t *testing.T) {
	w := newEC2World(t)
	west, image := w.region("us-west-2"), func(in *runInput) { in.ImageId = aws.String(westImage) }
	many := func(kind string) func(*runInput) {
		all := []types.InstanceNetworkInterfaceSpecification{nic(0, 0, "interface")}
		for device := range int32(3) {
			all = append(all, nic(0, device+1, kind))
		}
		for i := range all {
			all[i].SubnetId, all[i].Groups = aws.String(smallSubnet), nil
		}
		return nics(all...)
	}
	made := do(t, west.RunInstances, run(2, "c7i.4xlarge", "", image, many("interface"))).Instances // 8 of the 11 addresses of a /28
	if len(made[1].NetworkInterfaces) != 4 || *made[1].PrivateIpAddress != "10.9.0.5" || *made[1].NetworkInterfaces[3].PrivateIpAddress == "" {
		t.Errorf("second instance: %+v", made[1])
	}
	fails(t, west.RunInstances, run(1, "c7i.4xlarge", "", image, many("interface")), "InsufficientFreeAddressesInSubnet")
	do(t, west.RunInstances, run(3, "c7i.4xlarge", "", image, nics(types.InstanceNetworkInterfaceSpecification{DeviceIndex: aws.Int32(0), SubnetId: aws.String(smallSubnet)})))
}

// On p6-b300 the first card takes no EFA: aws/aws-parallelcluster, issue 7143.
func TestFirstCardOfB300(t *testing.T) {
	w := newEC2World(t)
	west := w.region("us-west-2")
	on := func(all ...types.InstanceNetworkInterfaceSpecification) *runInput {
		for i := range all {
			all[i].SubnetId, all[i].Groups = aws.String(westSubnet), nil
		}
		return run(1, "p6-b300.48xlarge", "", nics(all...), func(in *runInput) { in.ImageId = aws.String(westImage) })
	}
	fails(t, west.RunInstances, on(nic(0, 0, "efa")), "InvalidParameterValue")
	fails(t, west.RunInstances, on(nic(0, 0, "interface"), nic(1, 0, "efa"), nic(16, 0, "efa-only")), "InsufficientInstanceCapacity") // past the checks
}
