package awssim

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

type runInput = ec2.RunInstancesInput

// Every way in which a launch is refused, with EC2's code. None leaves an instance.
func TestLaunchRefusals(t *testing.T) {
	w := newEC2World(t)

	image := func(id string) func(*runInput) { return func(in *runInput) { in.ImageId = aws.String(id) } }
	preference := func(p types.CapacityReservationPreference) func(*runInput) {
		return func(in *runInput) {
			if in.CapacityReservationSpecification == nil {
				in.CapacityReservationSpecification = &types.CapacityReservationSpecification{}
			}

			in.CapacityReservationSpecification.CapacityReservationPreference = p
		}
	}
	interruptible := market(types.MarketTypeInterruptibleCapacityReservation)
	for name, test := range map[string]struct {
		in   *runInput
		want string
	}{
		"block without market type": {run(1, "p5.48xlarge", defSubnetA, into(openBlock)), "InvalidParameterValue"},
		"market type without a target": {
			run(1, "p5.48xlarge", defSubnetA, market("capacity-block")),
			"InvalidParameterValue",
		},
		"market type of blocks for ODCR": {
			run(1, "g6.12xlarge", defSubnetA, intoBlock(gpuODCR)),
			"InvalidParameterValue",
		},
		"unknown reservation": {
			run(1, "p5.48xlarge", defSubnetA, intoBlock("cr-0123456789abcdef0")),
			"InvalidCapacityReservationId.NotFound",
		},
		"malformed reservation": {
			run(1, "p5.48xlarge", defSubnetA, intoBlock("block")),
			"InvalidCapacityReservationId.Malformed",
		},
		"block not open yet": {
			run(1, "p5.48xlarge", defSubnetA, intoBlock(laterBlock)),
			"InvalidCapacityReservationState.PendingActivation",
		},
		"block never paid": {
			run(1, "p5en.48xlarge", defSubnetC, intoBlock(failedBlock)),
			"InvalidCapacityReservationState",
		},
		"block that is over": {
			run(1, "trn1.32xlarge", defSubnetB, intoBlock(pastBlock)),
			"InvalidCapacityReservationState",
		},
		"more than the block has": {
			run(17, "p5.48xlarge", defSubnetA, intoBlock(openBlock)),
			"ReservationCapacityExceeded",
		},
		"another type": {run(1, "c7i.4xlarge", defSubnetA, into(gpuODCR)), "ReservationCapacityExceeded"},
		"another zone": {run(1, "p5.48xlarge", defSubnetB, intoBlock(openBlock)), "ReservationCapacityExceeded"},
		"another platform": {
			run(1, "g6.12xlarge", defSubnetA, into(gpuODCR), image(defRHELImage)),
			"ReservationCapacityExceeded",
		},
		"another tenancy": {run(1, "g6.12xlarge", defSubnetA, into(gpuODCR), func(in *runInput) {
			in.Placement = &types.Placement{Tenancy: types.TenancyDedicated}
		}), "ReservationCapacityExceeded"},
		"interruptible without market type": {
			run(1, "c7i.4xlarge", defSubnetA, into(borrowedODCR)),
			"InvalidParameterValue",
		},
		"interruptible market for a block": {
			run(1, "p5.48xlarge", defSubnetA, into(openBlock), interruptible),
			"InvalidParameterValue",
		},
		"target and preference open": {
			run(1, "g6.12xlarge", defSubnetA, into(gpuODCR), preference("open")),
			"InvalidParameterCombination",
		},
		"reservations only, none matches": {
			run(1, "c7i.4xlarge", defSubnetA, preference("capacity-reservations-only")),
			"ReservationCapacityExceeded",
		},
		"more than EC2 has":    {run(9, "g6.12xlarge", defSubnetA), "InsufficientInstanceCapacity"},
		"type not in the zone": {run(1, "g6.12xlarge", defSubnetC), "Unsupported"},
		"unknown type":         {run(1, "p9.huge", defSubnetA), "InvalidParameterValue"},
		"unknown subnet":       {run(1, "c7i.4xlarge", "subnet-1"), "InvalidSubnetID.NotFound"},
		"unknown image":        {run(1, "c7i.4xlarge", defSubnetA, image("ami-1")), "InvalidAMIID.NotFound"},
		"image of another architecture": {
			run(1, "c7i.4xlarge", defSubnetA, image(defARMImage)),
			"InvalidParameterValue",
		},
		"unknown security group": {run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
			in.SecurityGroupIds = []string{"sg-1"}
		}), "InvalidGroup.NotFound"},
		"unknown key pair": {run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
			in.KeyName = aws.String("nobody")
		}), "InvalidKeyPair.NotFound"},
		"unknown instance profile": {run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
			in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: aws.String("nobodys")}
		}), "InvalidParameterValue"},
		"unknown ARN of a profile": {run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
			in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Arn: aws.String(profile + "2")}
		}), "InvalidParameterValue"},
		"unknown placement group": {
			run(1, "c7i.4xlarge", defSubnetA, inGroup("nowhere")),
			"InvalidPlacementGroup.Unknown",
		},
		"no subnet and no default VPC": {run(1, "c7i.4xlarge", "", func(in *runInput) {
			in.SubnetId = nil
		}), "VPCIdNotSpecified"},
		"subnet given twice": {run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
			in.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{{
				DeviceIndex: aws.Int32(0),
				SubnetId:    aws.String(defSubnetA),
			}}
		}), "InvalidParameterCombination"},
		"placement in another zone": {run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
			in.Placement = &types.Placement{AvailabilityZone: aws.String("us-east-2b")}
		}), "InvalidParameterCombination"},
		"too much user data": {run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
			in.UserData = aws.String(base64.StdEncoding.EncodeToString(make([]byte, maxUserData+1)))
		}), "InvalidParameterValue"},
		"fewer than one": {run(0, "c7i.4xlarge", defSubnetA), "InvalidParameterValue"},
		"tag of AWS":     {run(1, "c7i.4xlarge", defSubnetA, tagged("aws:team", "nlp")), "InvalidParameterValue"},
		"unknown template": {
			run(1, "c7i.4xlarge", defSubnetA, template("lt-0123456789abcdef0", "")),
			"InvalidLaunchTemplateId.NotFound",
		},
		"unknown version": {
			run(1, "c7i.4xlarge", defSubnetA, template(defTemplate, "7")),
			"InvalidLaunchTemplateId.VersionNotFound",
		},
		"user data that is not base64": {run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
			in.UserData = aws.String("#!/bin/sh")
		}), "InvalidUserData.Malformed"},
		"unsupported parameter": {run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
			in.Ipv6AddressCount = aws.Int32(1)
		}), "UnknownParameter"},
	} {
		t.Run(name, func(t *testing.T) { fails(t, w.ec2.RunInstances, test.in, test.want) })
	}

	if n := len(w.instances()); n != 0 {
		t.Errorf("%d instances after refused launches, want none", n)
	}
}

func inGroup(name string) func(*runInput) {
	return func(in *runInput) { in.Placement = &types.Placement{GroupName: aws.String(name)} }
}

func template(id, version string) func(*runInput) {
	return func(in *runInput) {
		in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateId: aws.String(id)}
		if version != "" {
			in.LaunchTemplate.Version = aws.String(version)
		}
	}
}

func tagged(key, value string) func(*runInput) {
	return func(in *runInput) {
		in.TagSpecifications = []types.TagSpecification{{
			ResourceType: types.ResourceTypeInstance,
			Tags:         []types.Tag{{Key: aws.String(key), Value: aws.String(value)}},
		}}
	}
}

func TestLaunchTakesWhatThereIs(t *testing.T) {
	w := newEC2World(t)
	in := run(1, "p5.48xlarge", defSubnetA, intoBlock(openBlock))
	in.MaxCount = aws.Int32(20)

	out := do(t, w.ec2.RunInstances, in)
	if len(out.Instances) != 16 {
		t.Fatalf("%d instances, want the 16 of the block", len(out.Instances))
	}

	addresses := map[string]bool{}
	for n, i := range out.Instances {
		addresses[*i.PrivateIpAddress] = true
		if int(*i.AmiLaunchIndex) != n {
			t.Errorf("instance %d has launch index %d", n, *i.AmiLaunchIndex)
		}
	}

	if len(addresses) != 16 || !addresses["10.2.16.4"] || !addresses["10.2.16.19"] {
		t.Errorf("addresses %v, want 10.2.16.4 to 10.2.16.19", addresses)
	}
}

func TestOpenReservationMatchesUntargetedLaunches(t *testing.T) {
	w := newEC2World(t)
	do(t, w.ec2.RunInstances, run(12, "c7i.4xlarge", defSubnetC))

	inside := 0
	for _, i := range w.instances() {
		if aws.ToString(i.CapacityReservationId) == openODCR {
			inside++
		}
	}

	if inside != 10 {
		t.Errorf("%d of 12 instances in the open ODCR, want its 10", inside)
	}

	do(t, w.ec2.RunInstances, run(1, "g6.12xlarge", defSubnetA))

	if got := *w.reservation(gpuODCR).AvailableInstanceCount; got != 4 {
		t.Errorf("an untargeted launch took a place of a targeted ODCR: %d available", got)
	}
}

func TestLifeOfAnInstance(t *testing.T) {
	w := newEC2World(t)
	made := do(t, w.ec2.RunInstances, run(4, "g6.12xlarge", defSubnetA, into(gpuODCR))).Instances
	id := *made[0].InstanceId

	state := func() types.InstanceStateName {
		out := do(t, w.ec2.DescribeInstances, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		return out.Reservations[0].Instances[0].State.Name
	}
	for _, step := range []struct {
		after time.Duration
		want  types.InstanceStateName
	}{{0, "pending"}, {30 * time.Second, "running"}} {
		w.sim.Clock().Advance(step.after)

		if got := state(); got != step.want {
			t.Errorf("state %s, want %s", got, step.want)
		}
	}

	ended := do(t, w.ec2.TerminateInstances, &ec2.TerminateInstancesInput{
		InstanceIds: []string{id},
	}).TerminatingInstances[0]
	if ended.PreviousState.Name != "running" || ended.CurrentState.Name != "shutting-down" {
		t.Errorf("from %s to %s", ended.PreviousState.Name, ended.CurrentState.Name)
	}

	w.sim.Clock().Advance(30 * time.Second)

	if got := state(); got != "terminated" {
		t.Errorf("state %s, want terminated", got)
	}
	// The place comes back only when EC2 has cleaned it.
	fails(t, w.ec2.RunInstances, run(1, "g6.12xlarge", defSubnetA, into(gpuODCR)), "ReservationCapacityExceeded")
	w.sim.Clock().Advance(3 * time.Minute)
	do(t, w.ec2.RunInstances, run(1, "g6.12xlarge", defSubnetA, into(gpuODCR)))
	w.sim.Clock().Advance(2 * time.Hour)
	fails(
		t,
		w.ec2.DescribeInstances,
		&ec2.DescribeInstancesInput{InstanceIds: []string{id}},
		"InvalidInstanceID.NotFound",
	)
	fails(
		t,
		w.ec2.TerminateInstances,
		&ec2.TerminateInstancesInput{InstanceIds: []string{"i-0123456789abcdef0"}},
		"InvalidInstanceID.NotFound",
	)
}

func TestClientTokenOfALaunch(t *testing.T) {
	w := newEC2World(t)
	token := func(in *runInput) { in.ClientToken = aws.String("one-launch") }
	first := do(t, w.ec2.RunInstances, run(2, "c7i.4xlarge", defSubnetA, token))
	w.sim.Clock().Advance(time.Minute)

	again := do(t, w.ec2.RunInstances, run(2, "c7i.4xlarge", defSubnetA, token))
	if *first.Instances[0].InstanceId != *again.Instances[0].InstanceId || again.Instances[0].State.Name != "running" {
		t.Errorf(
			"the second call launched %s in state %s",
			*again.Instances[0].InstanceId,
			again.Instances[0].State.Name,
		)
	}

	fails(t, w.ec2.RunInstances, run(3, "c7i.4xlarge", defSubnetA, token), "IdempotentParameterMismatch")

	if n := len(w.instances()); n != 2 {
		t.Errorf("%d instances, want 2", n)
	}
	// A launch that failed has bound its token to its parameters, and can be made again with these only.
	retry := func(in *runInput) { in.ClientToken = aws.String("retry") }

	do(t, w.ec2.RunInstances, run(4, "g6.12xlarge", defSubnetA, into(gpuODCR)))
	fails(t, w.ec2.RunInstances, run(1, "g6.12xlarge", defSubnetA, into(gpuODCR), retry), "ReservationCapacityExceeded")
	fails(t, w.ec2.RunInstances, run(1, "g6.12xlarge", defSubnetA, retry), "IdempotentParameterMismatch")

	for _, i := range w.instances() {
		do(t, w.ec2.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: []string{*i.InstanceId}})
	}

	w.sim.Clock().Advance(5 * time.Minute)
	do(t, w.ec2.RunInstances, run(1, "g6.12xlarge", defSubnetA, into(gpuODCR), retry))
	fails(t, w.ec2.RunInstances, run(2, "c7i.4xlarge", defSubnetA, token), "IdempotentInstanceTerminated")
}

// A dry run is refused as the launch would be, and says nothing about room. It binds no token.
func TestDryRunOfALaunch(t *testing.T) {
	w := newEC2World(t)
	do(t, w.ec2.RunInstances, run(4, "g6.12xlarge", defSubnetA, into(gpuODCR)))

	dry := func(in *runInput) { in.DryRun, in.ClientToken = aws.Bool(true), aws.String("dry") }
	for _, test := range []struct {
		in   *runInput
		want string
	}{
		{run(1, "g6.12xlarge", defSubnetA, into(gpuODCR)), "DryRunOperation"}, // it is full
		{run(1, "c7i.4xlarge", defSubnetA), "DryRunOperation"},
		{run(1, "c7i.4xlarge", "subnet-0ffffffffffffffff"), "InvalidSubnetID.NotFound"},
		{run(1, "c7i.4xlarge", defSubnetA, into("cr-0ffffffffffffffff")), "InvalidCapacityReservationId.NotFound"},
		{run(1, "g6.12xlarge", defSubnetB, into(gpuODCR)), "ReservationCapacityExceeded"}, // another zone
		{run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
			in.KeyName = aws.String("nobody")
		}), "InvalidKeyPair.NotFound"},
		{run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
			in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("nobody")}
		}), "InvalidLaunchTemplateName.NotFoundException"},
		{run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
			in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: "capacity-block"}
		}), "InvalidParameterValue"},
	} {
		dry(test.in)
		fails(t, w.ec2.RunInstances, test.in, test.want)
	}

	if n := len(w.instances()); n != 4 {
		t.Errorf("%d instances", n)
	}
}

// A launch takes what a template's interface may have, and shows it; a profile is named or given by its ARN.
func TestLaunchWithInterfaceAndProfile(t *testing.T) {
	w := newEC2World(t)

	for _, p := range []types.IamInstanceProfileSpecification{
		{Name: aws.String("AWSPCS-nodes")},
		{Arn: aws.String(profile)},
	} {
		out := do(t, w.ec2.RunInstances, run(1, "c7i.4xlarge", defSubnetA, func(in *runInput) {
			in.SubnetId = nil
			in.IamInstanceProfile = &p
			in.NetworkInterfaces = []types.InstanceNetworkInterfaceSpecification{{
				DeviceIndex:         aws.Int32(0),
				SubnetId:            aws.String(defSubnetA),
				DeleteOnTermination: aws.Bool(false),
			}}
		}))

		if n := out.Instances[0].NetworkInterfaces[0]; *n.Attachment.DeleteOnTermination {
			t.Errorf("%+v", n.Attachment)
		}
	}
}

// Instances and reservations are tagged as templates are; of what is not there EC2 says what it is.
func TestCreateTags(t *testing.T) {
	w := newEC2World(t)
	launched := do(t, w.ec2.RunInstances, run(1, "c7i.4xlarge", defSubnetA)).Instances[0]
	tag := func(id string) *ec2.CreateTagsInput {
		return &ec2.CreateTagsInput{
			Resources: []string{id},
			Tags:      []types.Tag{{Key: aws.String("team"), Value: aws.String("nlp")}},
		}
	}

	for _, id := range []string{*launched.InstanceId, gpuODCR, defTemplate} {
		do(t, w.ec2.CreateTags, tag(id))
	}

	if tags := w.instances()[0].Tags; len(tags) != 1 || *tags[0].Value != "nlp" {
		t.Errorf("tags of the instance: %+v", tags)
	}

	for id, code := range map[string]string{
		"i-0123456789abcdef0":   "InvalidInstanceID.NotFound",
		"cr-0123456789abcdef0":  "InvalidCapacityReservationId.NotFound",
		"lt-0123456789abcdef0":  "InvalidLaunchTemplateId.NotFound",
		"vol-0123456789abcdef0": "InvalidID",
	} {
		fails(t, w.ec2.CreateTags, tag(id), code)
	}
}

// Without Versions EC2 describes all of a template, the newest first.
func TestAllVersionsOfATemplate(t *testing.T) {
	w := newEC2World(t)
	do(t, w.ec2.CreateLaunchTemplateVersion, &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId:   aws.String(defTemplate),
		LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: "c7i.4xlarge"},
	})

	all := do(
		t,
		w.ec2.DescribeLaunchTemplateVersions,
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: aws.String(defTemplate)},
	)
	if v := all.LaunchTemplateVersions; len(v) != 2 || *v[0].VersionNumber != 2 || *v[1].VersionNumber != 1 {
		t.Errorf("%d versions: %+v", len(v), v)
	}
}

// EC2 takes five launches at once, and then two a second.
func TestLaunchesAreThrottled(t *testing.T) {
	w := newEC2World(t)
	w.sim.scenario.Throttle = true
	once := func(o *ec2.Options) { o.Retryer = aws.NopRetryer{} }

	launches := func() (taken int) {
		for range 8 {
			if _, err := w.ec2.RunInstances(t.Context(), run(1, "c7i.4xlarge", defSubnetA), once); err == nil {
				taken++
			} else if code(err) != "RequestLimitExceeded" {
				t.Fatal(err)
			}
		}

		return taken
	}

	if n := launches(); n != 5 {
		t.Errorf("%d at once", n)
	}

	w.sim.Clock().Advance(time.Second)

	if n := launches(); n != 2 {
		t.Errorf("%d after a second", n)
	}
}
