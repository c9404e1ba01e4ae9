package awssim

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	pcstypes "github.com/aws/aws-sdk-go-v2/service/pcs/types"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroups"
	grouptypes "github.com/aws/aws-sdk-go-v2/service/resourcegroups/types"
)

// groupsClient is the SDK's client, without retries.
func groupsClient(endpoint string) *resourcegroups.Client {
	return resourcegroups.New(
		resourcegroups.Options{
			Region:       "us-east-2",
			BaseEndpoint: &endpoint,
			Credentials:  dummyCredentials,
			Retryer:      aws.NopRetryer{},
			HTTPClient:   loopbackClient{},
		},
	)
}

// groupOf asks for a Capacity Reservation group.
func groupOf(name string, change ...func(*resourcegroups.CreateGroupInput)) *resourcegroups.CreateGroupInput {
	in := &resourcegroups.CreateGroupInput{
		Name: &name,
		Tags: map[string]string{"team": "nlp"},
		Configuration: []grouptypes.GroupConfigurationItem{
			{
				Type: aws.String("AWS::ResourceGroups::Generic"),
				Parameters: []grouptypes.GroupConfigurationParameter{
					{Name: aws.String("allowed-resource-types"), Values: []string{reservationType}},
				},
			},
			{Type: aws.String("AWS::EC2::CapacityReservationPool")},
		},
	}
	for _, f := range change {
		f(in)
	}

	return in
}

// reservationARN is the ARN of a reservation of the account in us-east-2.
func reservationARN(id string) string {
	return "arn:aws:ec2:us-east-2:111122223333:capacity-reservation/" + id
}

// add puts reservations into a group and returns the codes of those that are refused, by id.
func add(t testing.TB, client *resourcegroups.Client, group string, ids ...string) map[string]string {
	t.Helper()

	in := &resourcegroups.GroupResourcesInput{Group: &group}
	for _, id := range ids {
		in.ResourceArns = append(in.ResourceArns, reservationARN(id))
	}

	out := do(t, client.GroupResources, in)
	failed := map[string]string{}
	for _, f := range out.Failed {
		_, id, _ := strings.Cut(*f.ResourceArn, "/")
		failed[id] = *f.ErrorCode
	}

	if len(out.Succeeded)+len(failed) != len(ids) {
		t.Errorf("%d added and %d refused of %d", len(out.Succeeded), len(failed), len(ids))
	}

	return failed
}

// membersOf returns the ids of a group's members.
func membersOf(t testing.TB, client *resourcegroups.Client, group string) []string {
	t.Helper()

	var ids []string

	pages := resourcegroups.NewListGroupResourcesPaginator(client, &resourcegroups.ListGroupResourcesInput{
		Group:      &group,
		MaxResults: aws.Int32(1),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		for _, r := range must(t, page, err).Resources {
			_, id, _ := strings.Cut(*r.Identifier.ResourceArn, "/")
			ids = append(ids, id)
		}
	}

	return ids
}

func TestReservationGroups(t *testing.T) {
	w := newEC2World(t)
	c := groupsClient(w.endpoint)

	for _, bad := range []*resourcegroups.CreateGroupInput{
		groupOf("aws-holds"),
		groupOf("two words"),
		groupOf(strings.Repeat("x", 301)),
		groupOf("g", func(in *resourcegroups.CreateGroupInput) { in.Configuration = in.Configuration[:1] }),
		groupOf("g", func(in *resourcegroups.CreateGroupInput) { in.Tags = map[string]string{"aws:x": ""} }),
	} {
		fails(t, c.CreateGroup, bad, "BadRequestException")
	}

	made := do(t, c.CreateGroup, groupOf("holds"))
	if *made.Group.GroupArn != "arn:aws:resource-groups:us-east-2:111122223333:group/holds" {
		t.Errorf("made %s", *made.Group.GroupArn)
	}

	fails(t, c.CreateGroup, groupOf("holds"), "BadRequestException")

	for _, name := range []string{"holds", *made.Group.GroupArn} {
		if found := do(t, c.GetGroup, &resourcegroups.GetGroupInput{Group: &name}); *found.Group.Name != "holds" {
			t.Errorf("%s is %s", name, *found.Group.Name)
		}
	}

	_, err := c.GetGroup(t.Context(), &resourcegroups.GetGroupInput{Group: aws.String("holds")},
		func(o *resourcegroups.Options) { o.Region = "us-west-2" })
	if code(err) != "NotFoundException" {
		t.Errorf("the group in another region: %v", err)
	}

	tags := do(t, c.GetTags, &resourcegroups.GetTagsInput{Arn: made.Group.GroupArn}).Tags
	if tags["team"] != "nlp" {
		t.Errorf("tags %v", tags)
	}

	// Members are active targeted ODCRs, and leave the group when they end.
	over := *do(t, w.ec2.CreateCapacityReservation, odcrOf(1)).CapacityReservation.CapacityReservationId
	do(t, w.ec2.CancelCapacityReservation, &ec2.CancelCapacityReservationInput{CapacityReservationId: &over})

	hold := *do(t, w.ec2.CreateCapacityReservation, odcrOf(1)).CapacityReservation.CapacityReservationId
	refused := add(t, c, "holds", gpuODCR, hold, over, openODCR, openBlock, "cr-0ffffffffffffffff", gpuODCR)
	if refused[over] != "INVALID_STATE" || refused[openODCR] != "UNSUPPORTED" || refused[openBlock] != "UNSUPPORTED" ||
		refused["cr-0ffffffffffffffff"] != "RESOURCE_NOT_FOUND" || len(refused) != 4 {
		t.Errorf("refused %v", refused)
	}

	if ids := membersOf(t, c, "holds"); !slices.Equal(ids, []string{gpuODCR, hold}) {
		t.Errorf("members %v", ids)
	}

	do(t, w.ec2.CancelCapacityReservation, &ec2.CancelCapacityReservationInput{CapacityReservationId: &hold})

	if ids := membersOf(t, c, "holds"); !slices.Equal(ids, []string{gpuODCR}) {
		t.Errorf("members %v after one was cancelled", ids)
	}

	fails(t, c.GroupResources, &resourcegroups.GroupResourcesInput{
		Group:        aws.String("holds"),
		ResourceArns: make([]string, 11),
	}, "BadRequestException")

	do(t, c.DeleteGroup, &resourcegroups.DeleteGroupInput{Group: aws.String("holds")})

	fails(t, c.DeleteGroup, &resourcegroups.DeleteGroupInput{Group: aws.String("holds")}, "NotFoundException")
	fails(t, c.GetGroup, &resourcegroups.GetGroupInput{Group: aws.String("holds")}, "NotFoundException")
	fails(t, c.GetTags, &resourcegroups.GetTagsInput{Arn: made.Group.GroupArn}, "NotFoundException")
	fails(t, c.ListGroupResources,
		&resourcegroups.ListGroupResourcesInput{Group: aws.String("holds")}, "NotFoundException")

	// What the simulator does not do is an error, and so is a fault.
	fails(t, c.ListGroups, &resourcegroups.ListGroupsInput{}, "UnknownOperationException")
	fails(t, c.CreateGroup, groupOf("g", func(in *resourcegroups.CreateGroupInput) {
		in.Description = aws.String("new")
	}), "InternalServerErrorException")
	w.addFault(Fault{Service: groupsService, Effect: FailBefore, Code: "TooManyRequestsException", Status: 429})
	fails(t, c.GetGroup, &resourcegroups.GetGroupInput{Group: aws.String("g")}, "TooManyRequestsException")
}

// intoGroup targets a group.
func intoGroup(arn string, preference types.CapacityReservationPreference) func(*ec2.RunInstancesInput) {
	return func(in *ec2.RunInstancesInput) {
		in.CapacityReservationSpecification = &types.CapacityReservationSpecification{
			CapacityReservationPreference: preference,
			CapacityReservationTarget: &types.CapacityReservationTarget{
				CapacityReservationResourceGroupArn: &arn,
			},
		}
	}
}

const only = types.CapacityReservationPreferenceCapacityReservationsOnly

// A launch into a group takes a free place of its type in the zone of the subnet.
func TestLaunchIntoAGroup(t *testing.T) {
	w := newEC2World(t)
	c := groupsClient(w.endpoint)
	arn := *do(t, c.CreateGroup, groupOf("holds")).Group.GroupArn
	launch := func(n int32, subnet string, preference types.CapacityReservationPreference) *ec2.RunInstancesInput {
		return run(n, "g6.12xlarge", subnet, intoGroup(arn, preference))
	}

	fails(t, w.ec2.RunInstances, launch(1, defSubnetA, only), "ReservationCapacityExceeded")

	hold := *do(t, w.ec2.CreateCapacityReservation, odcrOf(1)).CapacityReservation.CapacityReservationId
	add(t, c, "holds", gpuODCR, hold)

	fails(t, w.ec2.RunInstances, launch(6, defSubnetA, only), "ReservationCapacityExceeded")
	fails(t, w.ec2.RunInstances, launch(1, defSubnetB, only), "ReservationCapacityExceeded")
	fails(t, w.ec2.RunInstances, run(1, "c7i.4xlarge", defSubnetA, intoGroup(arn, only)), "ReservationCapacityExceeded")
	do(t, w.ec2.RunInstances, launch(5, defSubnetA, only))

	for _, id := range []string{gpuODCR, hold} {
		if n := *w.reservation(id).AvailableInstanceCount; n != 0 {
			t.Errorf("%s has %d places left", id, n)
		}
	}

	fails(t, w.ec2.RunInstances, launch(1, defSubnetA, only), "ReservationCapacityExceeded")
	do(t, w.ec2.RunInstances, launch(1, defSubnetA, "")) // on demand

	for want, bad := range map[string]*ec2.RunInstancesInput{
		"InvalidParameterCombination": launch(1, defSubnetA, types.CapacityReservationPreferenceOpen),
		"InvalidParameterValue":       run(1, "g6.12xlarge", defSubnetA, intoGroup(arn+"x", only)),
	} {
		fails(t, w.ec2.RunInstances, bad, want)

		bad.DryRun = aws.Bool(true)
		fails(t, w.ec2.RunInstances, bad, want)
	}

	two := launch(1, defSubnetA, only)
	two.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId = aws.String(gpuODCR)
	fails(t, w.ec2.RunInstances, two, "InvalidParameterCombination")

	// As AWS PCS's page about ODCRs has it: outside the target.
	status, body := post(t, w.endpoint, "ec2", "us-east-2", url.Values{
		"Action":             {"CreateLaunchTemplate"},
		"Version":            {ec2Version},
		"LaunchTemplateName": {"x"},
		"LaunchTemplateData.CapacityReservationSpecification.CapacityReservationResourceGroupArn": {arn},
	})
	if status != 400 || !strings.Contains(body, "<Code>UnknownParameter</Code>") {
		t.Errorf("a group outside the target: %d, %s", status, body)
	}
}

// An instance whose reservation has ended runs on, and takes a place of the next one that joins its group.
func TestInstancesMoveIntoAGroup(t *testing.T) {
	w := newEC2World(t)
	c := groupsClient(w.endpoint)
	arn := *do(t, c.CreateGroup, groupOf("holds")).Group.GroupArn
	hold := func(n int32) string {
		id := *do(t, w.ec2.CreateCapacityReservation, odcrOf(n)).CapacityReservation.CapacityReservationId
		add(t, c, "holds", id)

		return id
	}

	first := hold(2)

	do(t, w.ec2.RunInstances, run(2, "g6.12xlarge", defSubnetA, intoGroup(arn, only)))
	do(t, w.ec2.CancelCapacityReservation, &ec2.CancelCapacityReservationInput{CapacityReservationId: &first})

	left := w.instances()
	if len(left) != 2 || left[0].CapacityReservationId != nil {
		t.Errorf("instances after the cancellation: %+v", left)
	}

	second := hold(3)
	if n := *w.reservation(second).AvailableInstanceCount; n != 1 {
		t.Errorf("%d of 3 places are free beside 2 that were left", n)
	}

	do(t, w.ec2.RunInstances, run(1, "g6.12xlarge", defSubnetA, intoGroup(arn, "")))
	do(t, w.ec2.RunInstances, run(1, "g6.12xlarge", defSubnetA, intoGroup(arn, ""))) // on demand
	do(t, w.ec2.ModifyCapacityReservation, &ec2.ModifyCapacityReservationInput{
		CapacityReservationId: &second,
		InstanceCount:         aws.Int32(5),
	})

	if n := *w.reservation(second).AvailableInstanceCount; n != 1 {
		t.Errorf("%d places are free after the reservation has grown by 2", n)
	}

	third := hold(2)

	do(t, w.ec2.CancelCapacityReservation, &ec2.CancelCapacityReservationInput{CapacityReservationId: &second})

	if n := *w.reservation(third).AvailableInstanceCount; n != 0 {
		t.Errorf("%d of 2 places are free after the other reservation has ended", n)
	}
}

// A new ODCR is pending for a while, and so is its addition to a group.
func TestPendingReservations(t *testing.T) {
	w := newEC2World(t)
	c := groupsClient(w.endpoint)
	arn := *do(t, c.CreateGroup, groupOf("holds")).Group.GroupArn
	minute := Duration(time.Minute)
	w.sim.SetLag(Lag{Activation: &minute, Groups: &minute})

	id := *do(t, w.ec2.CreateCapacityReservation, odcrOf(1)).CapacityReservation.CapacityReservationId
	if state := w.reservation(id).State; state != "pending" || add(t, c, "holds", id)[id] != "INVALID_STATE" {
		t.Errorf("the new ODCR is %s", state)
	}

	fails(t, w.ec2.ModifyCapacityReservation, &ec2.ModifyCapacityReservationInput{
		CapacityReservationId: &id,
		InstanceCount:         aws.Int32(2),
	}, "InvalidCapacityReservationState")

	w.sim.Clock().Advance(time.Minute)

	in := &resourcegroups.GroupResourcesInput{Group: aws.String("holds"), ResourceArns: []string{reservationARN(id)}}
	for range 2 {
		if out := do(t, c.GroupResources, in); len(out.Pending) != 1 || len(out.Succeeded) > 0 {
			t.Errorf("added %+v", out)
		}
	}

	launch := run(1, "g6.12xlarge", defSubnetA, intoGroup(arn, only))
	fails(t, w.ec2.RunInstances, launch, "ReservationCapacityExceeded")
	w.sim.Clock().Advance(time.Minute)
	do(t, w.ec2.RunInstances, launch)

	if out := do(t, c.GroupResources, in); len(out.Pending) > 0 || len(out.Succeeded) != 1 {
		t.Errorf("added again: %+v", out)
	}
}

// PCS launches a node group's nodes in a subnet in whose zone the group has a place.
func TestNodeGroupTargetsAGroup(t *testing.T) {
	w := newPCSWorld(t)
	c := groupsClient(w.endpoint)
	arn := "arn:aws:resource-groups:us-east-2:111122223333:group/holds"
	template := func(market types.MarketType) *pcstypes.CustomLaunchTemplate {
		made := do(t, w.ec2.CreateLaunchTemplate, &ec2.CreateLaunchTemplateInput{
			LaunchTemplateName: aws.String("holds" + string(market)),
			LaunchTemplateData: &types.RequestLaunchTemplateData{
				ImageId:      aws.String("ami-0000000000000000a"),
				InstanceType: "p5.48xlarge",
				InstanceMarketOptions: &types.LaunchTemplateInstanceMarketOptionsRequest{
					MarketType: market,
				},
				CapacityReservationSpecification: &types.LaunchTemplateCapacityReservationSpecificationRequest{
					CapacityReservationPreference: only,
					CapacityReservationTarget: &types.CapacityReservationTarget{
						CapacityReservationResourceGroupArn: &arn,
					},
				},
			},
		})

		return &pcstypes.CustomLaunchTemplate{
			Id:      made.LaunchTemplate.LaunchTemplateId,
			Version: aws.String("1"),
		}
	}

	in := w.demandGroup("cpu", 8)
	in.CustomLaunchTemplate = template("")
	in.SubnetIds = []string{subnetA, subnetB}
	fails(t, w.pcs.CreateComputeNodeGroup, in, "ValidationException") // there is no such group yet
	do(t, c.CreateGroup, groupOf("holds"))

	block := w.blockGroup("gpu")
	block.CustomLaunchTemplate = template("capacity-block")
	fails(t, w.pcs.CreateComputeNodeGroup, block, "ValidationException")

	w.group(in)

	if _, err := w.sim.LaunchForNodeGroup("hpc", "cpu", "cpu-1"); err == nil ||
		!strings.Contains(err.Error(), "ReservationCapacityExceeded") {
		t.Errorf("launched into an empty group: %v", err)
	}

	add(t, c, "holds", "cr-00000000000000006") // in the zone of the second subnet

	for _, node := range []string{"cpu-1", "cpu-2", "cpu-3", "cpu-4"} {
		launched, err := w.sim.LaunchForNodeGroup("hpc", "cpu", node)
		if err != nil || launched.SubnetID != subnetB || launched.ReservationID != "cr-00000000000000006" {
			t.Errorf("launched %+v, %v", launched, err)
		}
	}

	if _, err := w.sim.LaunchForNodeGroup("hpc", "cpu", "cpu-5"); err == nil {
		t.Error("launched into a full group")
	}

	for _, cl := range w.sim.PCSClusters() {
		for _, g := range cl.NodeGroups {
			if g.ReservationGroup != arn || g.ReservationID != "" {
				t.Errorf("the node group %+v", g)
			}
		}
	}
}
