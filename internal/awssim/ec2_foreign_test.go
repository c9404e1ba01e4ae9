package awssim

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// What other clients read agrees with what the product does.
func TestForeignReads(t *testing.T) {
	const odcr = "cr-0e200000000000a16" // two p5.48xlarge
	w := newEC2World(t)
	usage := func() [3]int32 {
		out := do(t, w.ec2.GetCapacityReservationUsage, &ec2.GetCapacityReservationUsageInput{CapacityReservationId: aws.String(odcr)})
		return [3]int32{*out.TotalInstanceCount, *out.AvailableInstanceCount, *out.InstanceUsages[0].UsedInstanceCount}
	}
	if got := usage(); got != [3]int32{2, 2, 0} {
		t.Errorf("unused: %v", got)
	}
	fails(t, w.ec2.GetCapacityReservationUsage, &ec2.GetCapacityReservationUsageInput{CapacityReservationId: aws.String("cr-0123456789abcdef0")}, "InvalidCapacityReservationId.NotFound")

	made := do(t, w.ec2.RunInstances, run(1, "p5.48xlarge", defSubnetA, into(odcr)))
	id := *made.Instances[0].InstanceId
	if got := usage(); got != [3]int32{2, 1, 1} {
		t.Errorf("one is used: %v", got)
	}

	do(t, w.ec2.CreateTags, &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("vision")}}})
	tags := do(t, w.ec2.DescribeTags, &ec2.DescribeTagsInput{Filters: filters("resource-id", id, "tag:team", "vision")}).Tags
	if len(tags) != 1 || *tags[0].Key != "team" || *tags[0].Value != "vision" || *tags[0].ResourceId != id || tags[0].ResourceType != "instance" {
		t.Errorf("tags: %+v", tags)
	}
	for _, tag := range do(t, w.ec2.DescribeTags, &ec2.DescribeTagsInput{Filters: filters("resource-type", "capacity-reservation")}).Tags {
		if tag.ResourceType != "capacity-reservation" {
			t.Errorf("another type: %+v", tag)
		}
	}

	status := func(all bool) string {
		out := do(t, w.ec2.DescribeInstanceStatus, &ec2.DescribeInstanceStatusInput{InstanceIds: []string{id}, IncludeAllInstances: aws.Bool(all)}).InstanceStatuses
		if len(out) == 0 {
			return "not shown"
		}
		return string(out[0].SystemStatus.Status)
	}
	if got := status(false); got != "not shown" {
		t.Errorf("pending: %s", got)
	}
	if got := status(true); got != "not-applicable" {
		t.Errorf("pending, of all: %s", got)
	}
	w.sim.Clock().Advance(90 * time.Second)
	if got := status(false); got != "initializing" {
		t.Errorf("just booted: %s", got)
	}
	w.sim.Clock().Advance(10 * time.Minute)
	if got := status(false); got != "ok" {
		t.Errorf("running: %s", got)
	}
	if err := w.sim.FailHost("us-east-2", id); err != nil {
		t.Fatal(err)
	}
	if got := status(false); got != "impaired" {
		t.Errorf("its host failed: %s", got)
	}

	interfaces := do(t, w.ec2.DescribeNetworkInterfaces, &ec2.DescribeNetworkInterfacesInput{Filters: filters("attachment.instance-id", id)}).NetworkInterfaces
	if len(interfaces) == 0 || *interfaces[0].SubnetId != defSubnetA || *interfaces[0].PrivateIpAddress != *made.Instances[0].PrivateIpAddress {
		t.Errorf("interfaces: %+v", interfaces)
	}
	fails(t, w.ec2.DescribeNetworkInterfaces, &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{"eni-x"}}, "InvalidNetworkInterfaceId.Malformed")
	fails(t, w.ec2.DescribeNetworkInterfaces, &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{"eni-0123456789abcdef0"}}, "InvalidNetworkInterfaceID.NotFound")

	volumes := func() int {
		return len(do(t, w.ec2.DescribeVolumes, &ec2.DescribeVolumesInput{Filters: filters("attachment.instance-id", id)}).Volumes)
	}
	if n := volumes(); n != 1 {
		t.Errorf("%d volumes", n)
	}
	fails(t, w.ec2.DescribeVolumes, &ec2.DescribeVolumesInput{VolumeIds: []string{"x"}}, "InvalidParameterValue")
	fails(t, w.ec2.DescribeVolumes, &ec2.DescribeVolumesInput{VolumeIds: []string{"vol-0123456789abcdef0"}}, "InvalidVolume.NotFound")
	do(t, w.ec2.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	w.sim.Clock().Advance(30 * time.Minute)
	if n := volumes(); n != 0 {
		t.Errorf("%d volumes are left", n)
	}

	attributes := do(t, w.ec2.DescribeAccountAttributes, &ec2.DescribeAccountAttributesInput{AttributeNames: []types.AccountAttributeName{"default-vpc"}}).AccountAttributes
	if len(attributes) != 1 || *attributes[0].AttributeValues[0].AttributeValue != "none" {
		t.Errorf("attributes: %+v", attributes)
	}
}
