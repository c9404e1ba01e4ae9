package ec2

import (
	"reflect"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// efaTemplate makes a launch template with one EFA on each of the cards of a type.
func efaTemplate(t *testing.T, c *Client, cards int32) (id string) {
	t.Helper()
	data := &types.RequestLaunchTemplateData{ImageId: aws.String(image)}
	for card := range cards {
		data.NetworkInterfaces = append(data.NetworkInterfaces, types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			NetworkCardIndex: aws.Int32(card), DeviceIndex: aws.Int32(min(card, 1)), InterfaceType: aws.String("efa"), Groups: []string{groupOfAll},
		})
	}
	out, err := c.api.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("efa-nodes"), LaunchTemplateData: data})
	if err != nil {
		t.Fatal(err)
	}
	return *out.LaunchTemplate.LaunchTemplateId
}

// A template with network interfaces takes no subnet beside them.
func TestLaunchFromATemplateWithInterfaces(t *testing.T) {
	_, c := newSim(t)
	id := efaTemplate(t, c, 32)
	launched, err := c.Launch(t.Context(), capacity.Launch{ClientToken: "t", LaunchTemplate: id, InstanceType: "p5.48xlarge", SubnetID: subnetA,
		ReservationID: openBlock, Kind: capacity.CapacityBlock, Count: 2, Tags: map[string]string{capacity.TagCluster: "ml"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(launched) != 2 || launched[0].ReservationID != openBlock || launched[0].PrivateIP == "" {
		t.Errorf("launched %+v", launched)
	}
	out, err := c.api.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range out.Reservations[0].Instances {
		efas := slices.DeleteFunc(slices.Clone(i.NetworkInterfaces), func(n types.InstanceNetworkInterface) bool {
			return *n.InterfaceType != "efa" || *n.SubnetId != subnetA || len(n.Groups) != 1 || *n.Groups[0].GroupId != groupOfAll
		})
		if len(efas) != 32 || *i.SubnetId != subnetA {
			t.Errorf("%s in %s has %d EFAs in the subnet, with the group", *i.InstanceId, *i.SubnetId, len(efas))
		}
	}
}

// An interface of a template loses nothing when it is sent with a launch.
func TestInterfacesOfATemplateCanAllBeSent(t *testing.T) {
	from, to := reflect.TypeFor[types.LaunchTemplateInstanceNetworkInterfaceSpecification](), reflect.TypeFor[types.InstanceNetworkInterfaceSpecification]()
	for i := range from.NumField() {
		if f := from.Field(i); f.IsExported() {
			if _, ok := to.FieldByName(f.Name); !ok {
				t.Errorf("RunInstances has no %s for an interface", f.Name)
			}
		}
	}
	var sent []types.InstanceNetworkInterfaceSpecification
	err := copyByName([]types.LaunchTemplateInstanceNetworkInterfaceSpecification{
		{DeviceIndex: aws.Int32(0), SubnetId: aws.String("subnet-9"), AssociatePublicIpAddress: aws.Bool(false), EnaSrdSpecification: &types.LaunchTemplateEnaSrdSpecification{EnaSrdEnabled: aws.Bool(true)}},
		{DeviceIndex: aws.Int32(1), NetworkInterfaceId: aws.String("eni-1")},
	}, &sent)
	if err != nil {
		t.Fatal(err)
	}
	inSubnet(sent, "subnet-1")
	first, second := sent[0], sent[1]
	if *first.SubnetId != "subnet-1" || *first.DeviceIndex != 0 || *first.AssociatePublicIpAddress || !*first.EnaSrdSpecification.EnaSrdEnabled {
		t.Errorf("first: %+v", first)
	}
	if second.SubnetId != nil || *second.NetworkInterfaceId != "eni-1" {
		t.Errorf("an interface that exists already has its own subnet: %+v", second)
	}
}

// What $Latest and $Default mean may change between a launch and its repetition.
func TestTemplateIsPinned(t *testing.T) {
	_, c := newSim(t)
	for ref, want := range map[string]string{nodes: nodes + ":1", "ec2-nodes": nodes + ":1", "ec2-nodes:$Latest": nodes + ":1", nodes + ":1": nodes + ":1"} {
		if got, err := c.PinTemplate(t.Context(), ref); got != want || err != nil {
			t.Errorf("%s is %s, %v; want %s", ref, got, err, want)
		}
	}
	if _, err := c.PinTemplate(t.Context(), "no-such-template"); Code(err) != "InvalidLaunchTemplateName.NotFoundException" {
		t.Errorf("unknown template: %v", err)
	}
	if _, err := c.PinTemplate(t.Context(), nodes+":7"); Code(err) != "InvalidLaunchTemplateId.VersionNotFound" {
		t.Errorf("unknown version: %v", err)
	}
}
