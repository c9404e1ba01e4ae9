package awssim

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// EC2 does not look for what cannot be one of its ids.
func TestMalformedIDs(t *testing.T) {
	w := newEC2World(t)
	for id, code := range map[string]string{"i-xyz": "InvalidInstanceID.Malformed", "cr-1": "InvalidInstanceID.Malformed", "i-0123456789abcdef0": "InvalidInstanceID.NotFound"} {
		fails(t, w.ec2.DescribeInstances, &ec2.DescribeInstancesInput{InstanceIds: []string{id}}, code)
		fails(t, w.ec2.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: []string{id}}, code)
	}
	for id, code := range map[string]string{"default": "InvalidGroupId.Malformed", "sg-": "InvalidGroupId.Malformed", "sg-0123456789abcdef0": "InvalidGroup.NotFound"} {
		fails(t, w.ec2.DescribeSecurityGroups, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{id}}, code)
	}
	for id, code := range map[string]string{"node": "InvalidAMIID.Malformed", "ami-0123456789abcdef0": "InvalidAMIID.NotFound"} {
		fails(t, w.ec2.DescribeImages, &ec2.DescribeImagesInput{ImageIds: []string{id}}, code)
	}
	for id, code := range map[string]string{"lt-gpu": "InvalidLaunchTemplateId.Malformed", "lt-0123456789abcdef0": "InvalidLaunchTemplateId.NotFound"} {
		fails(t, w.ec2.DescribeLaunchTemplates, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{id}}, code)
	}
	for id, code := range map[string]string{"cr-gpu": "InvalidCapacityReservationId.Malformed", "cr-0123456789abcdef0": "InvalidCapacityReservationId.NotFound"} {
		fails(t, w.ec2.DescribeCapacityReservations, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{id}}, code)
	}
}
