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
