package awssim

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// A fleet launches what there is room for, in the order of the priorities; with a minimum all in
// one place or nothing. That it launched less is no error of the call.
func TestInstantFleet(t *testing.T) {
	w := newEC2World(t)
	for zone, count := range map[string]int{"us-east-2a": 2, "us-east-2b": 3} {
		if err := w.sim.SetCapacity("us-east-2", zone, "p5.48xlarge", count); err != nil {
			t.Fatal(err)
		}
	}
	fleet := func(count int32, minimum bool) *ec2.CreateFleetInput {
		in := &ec2.CreateFleetInput{Type: types.FleetTypeInstant,
			TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(count), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand},
			LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
				LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String("ec2-nodes"), Version: aws.String("1")},
				Overrides: []types.FleetLaunchTemplateOverridesRequest{
					{InstanceType: "p5.48xlarge", SubnetId: aws.String(defSubnetB), Priority: aws.Float64(2)},
					{InstanceType: "p5.48xlarge", SubnetId: aws.String(defSubnetA), Priority: aws.Float64(1)}}}}}
		if minimum {
			in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyPrioritized,
				MinTargetCapacity: aws.Int32(count), SingleAvailabilityZone: aws.Bool(true), SingleInstanceType: aws.Bool(true)}
		}
		return in
	}
	for _, c := range []struct {
		count         int32
		minimum       bool
		first, second int // instances in the subnets with priority 1 and 2
		errors        int
	}{{3, true, 0, 3, 1}, {4, true, 0, 0, 2}, {3, false, 2, 1, 1}, {6, false, 2, 3, 2}} {
		out := do(t, w.ec2.CreateFleet, fleet(c.count, c.minimum))
		launched := map[string]int{}
		var ids []string
		for _, some := range out.Instances {
			launched[*some.SubnetId] += len(some.InstanceIds)
			ids = append(ids, some.InstanceIds...)
		}
		if launched[defSubnetA] != c.first || launched[defSubnetB] != c.second || len(out.Errors) != c.errors {
			t.Errorf("%d, minimum %t: %v, %d errors", c.count, c.minimum, launched, len(out.Errors))
		}
		if len(ids) > 0 {
			do(t, w.ec2.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: ids})
			w.sim.Clock().Advance(10 * time.Minute)
		}
	}
	// A template that is not there is no error of the call either: each override says so.
	in := fleet(1, false)
	in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = aws.String("nobodys")
	if out := do(t, w.ec2.CreateFleet, in); len(out.Instances) != 0 || len(out.Errors) != 2 || *out.Errors[0].ErrorCode != "InvalidLaunchTemplateName.NotFoundException" {
		t.Errorf("without its template: %+v", out)
	}
	in = fleet(3, true)
	in.OnDemandOptions.SingleAvailabilityZone, in.OnDemandOptions.SingleInstanceType = nil, nil
	fails(t, w.ec2.CreateFleet, in, "InvalidParameterCombination")
	in = fleet(3, false)
	in.Type = types.FleetTypeMaintain
	fails(t, w.ec2.CreateFleet, in, "InvalidParameterValue")
}
