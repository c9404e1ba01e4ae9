package ec2

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// BenchmarkLaunchBesideFleet launches 4 instances of one of two types in one of two subnets, of which
// only the n-th choice has room: by our calls of RunInstances, one after the other, and by one
// CreateFleet, which does not tell the addresses of what it launched, so that DescribeInstances has to.
// Each call of AWS takes 50 ms. It reports the time of ours by that of the fleet's.
func BenchmarkLaunchBesideFleet(b *testing.B) {
	choices := []struct{ instanceType, subnet, zone string }{
		{"p5.48xlarge", subnetA, "us-east-2a"}, {"p5.48xlarge", subnetB, "us-east-2b"}, {"c7i.4xlarge", subnetA, "us-east-2a"}, {"c7i.4xlarge", subnetB, "us-east-2b"}}
	const count = 4
	for room := range choices {
		b.Run(fmt.Sprintf("choice %d has room", room+1), func(b *testing.B) {
			sim, c, _ := simOf(b, nil)
			for i, choice := range choices {
				n := 0
				if i == room {
					n = 1000
				}
				if err := sim.SetCapacity(homeRegion, choice.zone, choice.instanceType, n); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := c.PinTemplate(b.Context(), nodes); err != nil { // as a hook has done by then
				b.Fatal(err)
			}
			if _, err := sim.AddFault(awssim.Fault{Service: "ec2", Effect: awssim.Delay, Latency: awssim.Duration(50 * time.Millisecond)}); err != nil {
				b.Fatal(err)
			}
			var ours, fleet time.Duration
			for n := range b.N {
				began := time.Now()
				for i, choice := range choices {
					launched, err := c.Launch(b.Context(), capacity.Launch{ClientToken: fmt.Sprint(n, i), LaunchTemplate: nodes, InstanceType: choice.instanceType, SubnetID: choice.subnet,
						Kind: capacity.OnDemand, Count: count, Tags: map[string]string{capacity.TagCluster: "ml"}})
					if err == nil && len(launched) == count {
						break
					} else if !errors.Is(err, capacity.ErrNoRoom) {
						b.Fatal(len(launched), err)
					}
				}
				ours += time.Since(began)
				began = time.Now()
				var overrides []types.FleetLaunchTemplateOverridesRequest
				for i, choice := range choices {
					overrides = append(overrides, types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(choice.instanceType), SubnetId: aws.String(choice.subnet), Priority: aws.Float64(float64(i))})
				}
				out, err := c.api.CreateFleet(b.Context(), &ec2.CreateFleetInput{
					Type: types.FleetTypeInstant, ClientToken: aws.String(fmt.Sprint(n)),
					TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(count), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand},
					OnDemandOptions: &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyPrioritized, MinTargetCapacity: aws.Int32(count),
						SingleAvailabilityZone: aws.Bool(true), SingleInstanceType: aws.Bool(true)},
					LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{Overrides: overrides,
						LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: aws.String(nodes), Version: aws.String("1")}}},
				})
				if err != nil || len(out.Instances) != 1 || len(out.Instances[0].InstanceIds) != count || len(out.Errors) != room {
					b.Fatalf("%+v, %v", out, err)
				}
				found, err := c.InstancesByID(b.Context(), out.Instances[0].InstanceIds)
				if err != nil || len(found) != count || found[0].PrivateIP == "" {
					b.Fatal(found, err)
				}
				fleet += time.Since(began)
			}
			b.ReportMetric(float64(ours)/float64(fleet), "ours/fleet")
			b.ReportMetric(0, "ns/op")
		})
	}
}
