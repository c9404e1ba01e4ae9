package awssim

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// What a template for another type says is refused when it is launched, not when it is made.
func TestOptionsOfAnotherType(t *testing.T) {
	w := newEC2World(t)
	for name, test := range map[string]struct {
		data types.RequestLaunchTemplateData
		want string
	}{
		"credits": {types.RequestLaunchTemplateData{CreditSpecification: &types.CreditSpecificationRequest{CpuCredits: aws.String("unlimited")}}, "InstanceCreditSpecification.NotSupported"},
		"cores":   {types.RequestLaunchTemplateData{CpuOptions: &types.LaunchTemplateCpuOptionsRequest{CoreCount: aws.Int32(9)}}, "InvalidParameterValue"},
		"threads": {types.RequestLaunchTemplateData{CpuOptions: &types.LaunchTemplateCpuOptionsRequest{ThreadsPerCore: aws.Int32(3)}}, "InvalidParameterValue"},
		"key":     {types.RequestLaunchTemplateData{KeyName: aws.String("nobody's")}, "InvalidKeyPair.NotFound"},
		"group":   {types.RequestLaunchTemplateData{Placement: &types.LaunchTemplatePlacementRequest{GroupName: aws.String("nowhere")}}, "InvalidPlacementGroup.Unknown"},
	} {
		made := do(t, w.ec2.CreateLaunchTemplate, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String(name), LaunchTemplateData: &test.data})
		fails(t, w.ec2.RunInstances, run(1, "c7i.4xlarge", defSubnetA, template(*made.LaunchTemplate.LaunchTemplateId, "")), test.want)
	}
	do(t, w.ec2.RunInstances, run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
		in.CpuOptions = &types.CpuOptionsRequest{CoreCount: aws.Int32(8), ThreadsPerCore: aws.Int32(1)}
	}))
}

// A block has a placement of its own.
func TestBlockTakesNoPlacementGroup(t *testing.T) {
	w := newEC2World(t)
	in := run(1, "p5.48xlarge", defSubnetA, intoBlock(openBlock))
	in.Placement = &types.Placement{GroupName: aws.String("ml-cluster")}
	fails(t, w.ec2.RunInstances, in, "InvalidParameterCombination")
}

// An image and a reservation may call the same platform by two names.
func TestPlatformOfAnImage(t *testing.T) {
	toml := strings.Replace(string(defaultTOML), `platform = "Red Hat Enterprise Linux" }`, `platform = "Red Hat Enterprise Linux with HA" }`, 1)
	sim, endpoint := wireSim(t, toml)
	w := &ec2World{t, sim, ec2Client(endpoint), endpoint}
	odcr := *do(t, w.ec2.CreateCapacityReservation, &ec2.CreateCapacityReservationInput{InstanceType: aws.String("c7i.4xlarge"), InstanceCount: aws.Int32(1),
		InstancePlatform: types.CapacityReservationInstancePlatformRhelWithHa, AvailabilityZone: aws.String("us-east-2a"), InstanceMatchCriteria: "targeted"}).CapacityReservation.CapacityReservationId
	fails(t, w.ec2.RunInstances, run(1, "c7i.4xlarge", defSubnetA, into(odcr)), "ReservationCapacityExceeded")
	do(t, w.ec2.RunInstances, run(1, "c7i.4xlarge", defSubnetA, into(odcr), func(in *runInput) { in.ImageId = aws.String(defRHELImage) }))
}
