package ec2

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

// efaTemplate makes a launch template with one EFA on each of the cards of a type.
func efaTemplate(t *testing.T, c *Client, cards int32) (id string) {
	t.Helper()

	data := &types.RequestLaunchTemplateData{ImageId: aws.String(image)}
	for card := range cards {
		data.NetworkInterfaces = append(
			data.NetworkInterfaces,
			types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
				NetworkCardIndex: aws.Int32(card),
				DeviceIndex:      aws.Int32(min(card, 1)),
				InterfaceType:    aws.String("efa"),
				Groups:           []string{groupOfAll},
			},
		)
	}

	out, err := c.api.CreateLaunchTemplate(
		t.Context(),
		&ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("efa-nodes"), LaunchTemplateData: data},
	)
	if err != nil {
		t.Fatal(err)
	}

	return *out.LaunchTemplate.LaunchTemplateId
}

// A template with network interfaces takes no subnet beside them.
func TestLaunchFromATemplateWithInterfaces(t *testing.T) {
	_, c := newSim(t)
	id := efaTemplate(t, c, 32)

	launched, err := c.Launch(
		t.Context(),
		capacity.Launch{
			ClientToken:    "t",
			LaunchTemplate: id,
			InstanceType:   "p5.48xlarge",
			SubnetID:       subnetA,
			ReservationID:  openBlock,
			Kind:           capacity.CapacityBlock,
			Count:          2,
			Tags:           map[string]string{capacity.TagCluster: "ml"},
		},
	)
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
			return *n.InterfaceType != "efa" || *n.SubnetId != subnetA || len(n.Groups) != 1 ||
				*n.Groups[0].GroupId != groupOfAll
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

	err := copyByName(
		[]types.LaunchTemplateInstanceNetworkInterfaceSpecification{
			{
				DeviceIndex:              aws.Int32(0),
				SubnetId:                 aws.String("subnet-9"),
				AssociatePublicIpAddress: aws.Bool(false),
				EnaSrdSpecification:      &types.LaunchTemplateEnaSrdSpecification{EnaSrdEnabled: aws.Bool(true)},
			},
			{DeviceIndex: aws.Int32(1), NetworkInterfaceId: aws.String("eni-1")},
		},
		&sent,
	)
	if err != nil {
		t.Fatal(err)
	}

	setSubnet(sent, "subnet-1")

	first, second := sent[0], sent[1]
	if *first.SubnetId != "subnet-1" || *first.DeviceIndex != 0 || *first.AssociatePublicIpAddress ||
		!*first.EnaSrdSpecification.EnaSrdEnabled {
		t.Errorf("first: %+v", first)
	}

	if second.SubnetId != nil || *second.NetworkInterfaceId != "eni-1" {
		t.Errorf("an interface that exists already has its own subnet: %+v", second)
	}
}

// What $Latest and $Default mean may change between a launch and its repetition.
func TestTemplateIsPinned(t *testing.T) {
	_, c := newSim(t)
	for ref, want := range map[string]string{
		nodes:               nodes + ":1",
		"ec2-nodes":         nodes + ":1",
		"ec2-nodes:$Latest": nodes + ":1",
		nodes + ":1":        nodes + ":1",
	} {
		if got, err := c.PinTemplate(t.Context(), ref); got != want || err != nil {
			t.Errorf("%s is %s, %v; want %s", ref, got, err, want)
		}
	}

	if _, err := c.PinTemplate(t.Context(), "no-such-template"); Code(
		err,
	) != "InvalidLaunchTemplateName.NotFoundException" {
		t.Errorf("unknown template: %v", err)
	}

	if _, err := c.PinTemplate(t.Context(), nodes+":7"); Code(err) != "InvalidLaunchTemplateId.VersionNotFound" {
		t.Errorf("unknown version: %v", err)
	}
}

// laggingWorld is one in which nothing shows for 5 seconds after its creation, and each request takes 3.
func laggingWorld(t *testing.T) (*awssim.Sim, *Client) {
	t.Helper()
	sim, c := newSim(t)
	lag := awssim.Duration(5 * time.Second)
	sim.SetLag(awssim.Lag{Instances: &lag, Templates: &lag, Tags: &lag, Reservations: &lag})
	sim.Clock().SetStep(3 * time.Second)

	return sim, c
}

func launchOne(t *testing.T, c *Client) capacity.Instance {
	t.Helper()

	launched, err := c.Launch(
		t.Context(),
		capacity.Launch{
			ClientToken: "t", LaunchTemplate: nodes, InstanceType: "c7i.4xlarge", SubnetID: subnetA,
			Kind: capacity.OnDemand, Count: 1, Tags: map[string]string{capacity.TagCluster: "ml"},
		},
	)
	if err != nil {
		t.Fatal(err)
	}

	return launched[0]
}

// NotFound soon after a launch does not mean that the instance is gone.
func TestNewInstanceIsTerminated(t *testing.T) {
	sim, c := laggingWorld(t)
	i := launchOne(t, c)

	second, err := c.Launch(
		t.Context(),
		capacity.Launch{
			ClientToken:    "second",
			LaunchTemplate: nodes,
			InstanceType:   "c7i.4xlarge",
			SubnetID:       subnetA,
			Kind:           capacity.OnDemand,
			Count:          1,
		},
	)
	if err != nil {
		t.Fatal(err)
	}

	if err := c.Terminate(t.Context(), []capacity.Instance{i, second[0]}); err != nil {
		t.Fatal(err)
	}

	for _, i := range sim.Instances(homeRegion) {
		if i.State != "shutting-down" && i.State != "terminated" {
			t.Errorf("%s is %s", i.ID, i.State)
		}
	}
}

func TestNewInstanceThatNeverShowsIsNotGone(t *testing.T) {
	sim, c := laggingWorld(t)
	c.shared.settle = 20 * time.Millisecond

	sim.Clock().SetStep(0)

	i := launchOne(t, c)
	if err := c.Terminate(t.Context(), []capacity.Instance{i}); Code(err) != "InvalidInstanceID.NotFound" {
		t.Errorf("terminating what does not show: %v", err)
	}

	if err := c.Terminate(t.Context(), []capacity.Instance{{ID: "i-0ffffffffffffffff"}}); err != nil {
		t.Errorf("one that nobody has launched is gone: %v", err)
	}
}

// A launch template is what its creation answered, and shows when it is handed out.
func TestNewLaunchTemplate(t *testing.T) {
	_, c := laggingWorld(t)
	made, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock))
	if err != nil || made.ID == "" || made.Version != "1" || made.ReservationID != openBlock || made.Digest == "" ||
		made.Tags[capacity.TagCluster] != "ml" {
		t.Fatalf("made %+v, %v", made, err)
	}

	if shown, found, err := c.LaunchTemplate(t.Context(), made.ID, "1"); !found || err != nil ||
		shown.Digest != made.Digest {
		t.Errorf("handed out before it shows: %v, %v", found, err)
	}

	next, err := c.EnsureLaunchTemplate(t.Context(), spec(laterBlock))
	if err != nil || next.ID != made.ID || next.Version != "2" || next.ReservationID != laterBlock ||
		next.Tags[capacity.TagReservation] != laterBlock {
		t.Fatalf("next %+v, %v", next, err)
	}

	if shown, found, err := c.LaunchTemplate(t.Context(), made.ID, "2"); !found || err != nil ||
		shown.ReservationID != laterBlock {
		t.Errorf("handed out before it shows: %v, %v", found, err)
	}
}

// Another run finds the name taken, and nothing to read yet.
func TestLaunchTemplateThatAnotherRunMade(t *testing.T) {
	sim, c := laggingWorld(t)
	sim.Clock().SetStep(0)

	c.shared.settle = 20 * time.Millisecond
	if _, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock)); err != nil {
		t.Fatal(err) // what EC2 answered, though it does not show
	}

	if _, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock)); !isTemplateMissing(err) {
		t.Errorf("no way to read it: %v", err)
	}

	c.shared.settle = settleTime

	sim.Clock().SetStep(3 * time.Second)

	again, err := c.EnsureLaunchTemplate(t.Context(), spec(openBlock))
	if err != nil || again.Version != "1" || calls(sim, "CreateLaunchTemplateVersion") != 0 {
		t.Errorf("again %+v, %v", again, err)
	}
}
