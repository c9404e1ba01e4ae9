package awssim

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	pcstypes "github.com/aws/aws-sdk-go-v2/service/pcs/types"
)

// attach gives every caller a policy of these statements.
func attach(t testing.TB, sim *Sim, statements ...string) {
	t.Helper()
	document := `{"Version": "2012-10-17", "Statement": [` + strings.Join(statements, ",") + `]}`
	if err := sim.SetPolicy(AttachedPolicy{Document: json.RawMessage(document)}); err != nil {
		t.Fatal(err)
	}
}

// allow is a statement without a condition.
func allow(actions, resource string) string {
	return fmt.Sprintf(`{"Effect": "Allow", "Action": ["%s"], "Resource": "%s"}`, strings.ReplaceAll(actions, " ", `","`), resource)
}

func TestUnauthorized(t *testing.T) {
	w := newEC2World(t)
	attach(t, w.sim, allow("ec2:DescribeInstances ec2:RunInstances ec2:CreateTags", "*"),
		`{"Effect": "Deny", "Action": "ec2:*", "Resource": "arn:aws:ec2:*:*:subnet/`+defSubnetB+`"}`)
	do(t, w.ec2.DescribeInstances, &ec2.DescribeInstancesInput{})
	fails(t, w.ec2.DescribeInstances, &ec2.DescribeInstancesInput{DryRun: aws.Bool(true)}, "DryRunOperation")
	do(t, w.ec2.RunInstances, run(1, "c7i.4xlarge", defSubnetC))

	const user = "You are not authorized to perform this operation. User: arn:aws:iam::111122223333:user/simulated is not authorized to perform: "
	_, err := w.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{DryRun: aws.Bool(true)})
	wantMessage(t, err, "UnauthorizedOperation", user+"ec2:DescribeImages because no identity-based policy allows the ec2:DescribeImages action")
	_, err = w.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{"i-1"}})
	wantMessage(t, err, "UnauthorizedOperation", user+"ec2:TerminateInstances on resource: arn:aws:ec2:us-east-2:111122223333:instance/i-1 because no identity-based policy allows the ec2:TerminateInstances action. Encoded authorization failure message: ")
	_, err = w.ec2.RunInstances(t.Context(), run(1, "g6.12xlarge", defSubnetB))
	wantMessage(t, err, "UnauthorizedOperation", user+"ec2:RunInstances on resource: arn:aws:ec2:us-east-2:111122223333:subnet/"+defSubnetB+" with an explicit deny in an identity-based policy")

	w.control("DELETE", "policy", nil, nil)
	do(t, w.ec2.DescribeImages, &ec2.DescribeImagesInput{})
}

func wantMessage(t testing.TB, err error, wantCode, message string) {
	t.Helper()
	if code(err) != wantCode || !strings.Contains(err.Error(), message) {
		t.Errorf("error %v, want %s: %s", err, wantCode, message)
	}
}

func TestPolicyOfOneKey(t *testing.T) {
	w := newEC2World(t)
	attach(t, w.sim, allow("ec2:*", "*"))
	w.control("POST", "policy", json.RawMessage(`{"access_key": "AKIAOTHER", "document": {"Statement": {"Effect": "Allow", "Action": "pcs:*", "Resource": "*"}}}`), nil)
	o := w.ec2.Options()
	o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKIAOTHER", SecretAccessKey: "x"}, nil
	})
	fails(t, ec2.New(o).DescribeVpcs, &ec2.DescribeVpcsInput{}, "UnauthorizedOperation")
	do(t, w.ec2.DescribeVpcs, &ec2.DescribeVpcsInput{})

	for _, document := range []string{
		`{"Statement": {"Effect": "Allow", "Action": "*"}}`,
		`{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"StringEquals": {"aws:PrincipalTag/x": "y"}}}}`,
	} {
		if err := w.sim.SetPolicy(AttachedPolicy{Document: json.RawMessage(document)}); err == nil {
			t.Errorf("the policy %s is taken", document)
		}
	}
}

// TestTagConditions has the policy that is usual for a tool that must touch only what it made.
func TestTagConditions(t *testing.T) {
	w := newEC2World(t)
	theirs := do(t, w.ec2.RunInstances, run(1, "c7i.4xlarge", defSubnetC)).Instances[0].InstanceId
	attach(t, w.sim, allow("ec2:Describe*", "*"),
		allow("ec2:RunInstances", "arn:aws:ec2:*::image/*"),
		`{"Effect": "Allow", "Action": "ec2:RunInstances", "NotResource": "arn:aws:ec2:*:*:instance/*"}`,
		`{"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": "arn:aws:ec2:*:*:instance/*",
		  "Condition": {"StringLike": {"aws:RequestTag/cluster": "hpc*"}, "StringEquals": {"ec2:InstanceType": "c7i.4xlarge"}}}`,
		`{"Effect": "Allow", "Action": "ec2:CreateTags", "Resource": "*", "Condition": {"StringEquals": {"ec2:CreateAction": "RunInstances"}}}`,
		`{"Effect": "Allow", "Action": ["ec2:TerminateInstances", "ec2:CreateTags", "ec2:DeleteTags"], "Resource": "*", "Condition": {"StringEquals": {"ec2:ResourceTag/cluster": "hpc-1"}}}`,
		`{"Effect": "Allow", "Action": "iam:PassRole", "Resource": "arn:aws:iam::*:role/AWSPCS-*", "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}}`,
		allow("ssm:GetParameters", "arn:aws:ssm:*:*:parameter/aws/service/*"),
	)
	tagged := func(cluster string) func(*ec2.RunInstancesInput) {
		return func(in *ec2.RunInstancesInput) {
			in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: aws.String("cluster"), Value: &cluster}}}}
		}
	}
	profile := func(name string) func(*ec2.RunInstancesInput) {
		return func(in *ec2.RunInstancesInput) {
			in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: &name}
		}
	}
	image := func(id string) func(*ec2.RunInstancesInput) {
		return func(in *ec2.RunInstancesInput) { in.ImageId = &id }
	}
	mine := do(t, w.ec2.RunInstances, run(1, "c7i.4xlarge", defSubnetC, tagged("hpc-1"), profile("AWSPCS-nodes"))).Instances[0].InstanceId
	for _, c := range []struct {
		why, want string
		in        *ec2.RunInstancesInput
	}{
		{"no tag", "ec2:RunInstances on resource: arn:aws:ec2:us-east-2:111122223333:instance/*", run(1, "c7i.4xlarge", defSubnetC)},
		{"other tag", "ec2:RunInstances on resource: arn:aws:ec2:us-east-2:111122223333:instance/*", run(1, "c7i.4xlarge", defSubnetC, tagged("web"))},
		{"other type", "ec2:RunInstances on resource: arn:aws:ec2:us-east-2:111122223333:instance/*", run(1, "g6.12xlarge", defSubnetA, tagged("hpc-1"))},
		{"other role", "iam:PassRole on resource: arn:aws:iam::111122223333:role/admin", run(1, "c7i.4xlarge", defSubnetC, tagged("hpc-1"), profile("admin"))},
		{"other parameter", "ssm:GetParameters on resource: arn:aws:ssm:us-east-2:111122223333:parameter/mine", run(1, "c7i.4xlarge", defSubnetC, tagged("hpc-1"), image("resolve:ssm:/mine"))},
	} {
		_, err := w.ec2.RunInstances(t.Context(), c.in)
		if code(err) != "UnauthorizedOperation" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one about %s", c.why, err, c.want)
		}
	}
	tag := func(id *string) *ec2.CreateTagsInput {
		return &ec2.CreateTagsInput{Resources: []string{*id}, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}
	}
	do(t, w.ec2.CreateTags, tag(mine))
	fails(t, w.ec2.CreateTags, tag(theirs), "UnauthorizedOperation")
	fails(t, w.ec2.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: []string{*mine, *theirs}}, "UnauthorizedOperation")
	do(t, w.ec2.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: []string{*mine}})
}

// TestLaunchNeeds takes one permission after another away from a launch that needs each.
func TestLaunchNeeds(t *testing.T) {
	w := newEC2World(t)
	template := do(t, w.ec2.CreateLaunchTemplate, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("nodes"), LaunchTemplateData: &types.RequestLaunchTemplateData{
		ImageId: aws.String(defImage), SecurityGroupIds: []string{defGroup},
		TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeVolume, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}},
	}}).LaunchTemplate.LaunchTemplateId
	launch := run(1, "p5.48xlarge", defSubnetA, intoBlock(openBlock))
	launch.ImageId = nil
	launch.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateId: template}
	launch.DryRun = aws.Bool(true)
	account := "arn:aws:ec2:us-east-2:111122223333:"
	for _, arn := range []string{
		account + "instance/*", account + "volume/*", account + "network-interface/*", "arn:aws:ec2:us-east-2::image/" + defImage,
		account + "subnet/" + defSubnetA, account + "security-group/" + defGroup, account + "launch-template/" + *template,
		account + "capacity-reservation/" + openBlock,
	} {
		attach(t, w.sim, allow("ec2:*", "*"), fmt.Sprintf(`{"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "%s"}`, arn))
		_, err := w.ec2.RunInstances(t.Context(), launch)
		wantMessage(t, err, "UnauthorizedOperation", "ec2:RunInstances on resource: "+arn+" with an explicit deny")
	}
	attach(t, w.sim, allow("ec2:RunInstances", "*"))
	_, err := w.ec2.RunInstances(t.Context(), launch)
	wantMessage(t, err, "UnauthorizedOperation", "ec2:CreateTags on resource: "+account+"volume/*")
	attach(t, w.sim, allow("ec2:RunInstances ec2:CreateTags", "*"))
	fails(t, w.ec2.RunInstances, launch, "DryRunOperation")
}

func TestPurchaseNeedsItsTags(t *testing.T) {
	w := newEC2World(t)
	buy := &ec2.PurchaseCapacityBlockInput{CapacityBlockOfferingId: aws.String("cb-00000000000000001"), InstancePlatform: types.CapacityReservationInstancePlatformLinuxUnix, DryRun: aws.Bool(true),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeCapacityReservation, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("nlp")}}}}}
	attach(t, w.sim, allow("ec2:PurchaseCapacityBlock", "*"))
	_, err := w.ec2.PurchaseCapacityBlock(t.Context(), buy)
	wantMessage(t, err, "UnauthorizedOperation", "ec2:CreateTags on resource: arn:aws:ec2:us-east-2:111122223333:capacity-reservation/*")
	attach(t, w.sim, `{"Effect": "Allow", "Action": ["ec2:PurchaseCapacityBlock", "ec2:CreateTags"], "Resource": "arn:aws:ec2:*:*:capacity-reservation/*", "Condition": {"StringEquals": {"aws:RequestTag/team": "nlp"}}}`)
	fails(t, w.ec2.PurchaseCapacityBlock, buy, "DryRunOperation")
}

// TestNodeGroupNeeds takes one permission after another away from the caller.
func TestNodeGroupNeeds(t *testing.T) {
	w := newPCSWorld(t)
	in := w.blockGroup("gpu")
	in.Tags = map[string]string{"team": "nlp"}
	hpc, err := w.cluster("hpc")
	cluster := *must(t, hpc, err).Arn
	everything := []string{"pcs:CreateComputeNodeGroup", "pcs:TagResource", "iam:GetInstanceProfile", "iam:PassRole"}
	for _, a := range append(append(everything, groupNeeds...), blockNeeds...) {
		attach(t, w.sim, allow("*", "*"), fmt.Sprintf(`{"Effect": "Deny", "Action": "%s", "Resource": "*"}`, a))
		_, err := w.pcs.CreateComputeNodeGroup(t.Context(), in)
		wantMessage(t, err, "AccessDeniedException", "User: arn:aws:iam::111122223333:user/simulated is not authorized to perform: "+a)
	}
	const tagged = `"Condition": {"StringEquals": {"aws:ResourceTag/team": "nlp"}}`
	attach(t, w.sim, allow("ec2:*", "*"), allow("pcs:CreateComputeNodeGroup pcs:TagResource pcs:Get*", cluster+"*"),
		allow("iam:GetInstanceProfile", profile), allow("iam:PassRole", "arn:aws:iam::111122223333:role/AWSPCS-nodes"),
		allow("pcs:DeleteComputeNodeGroup", cluster), `{"Effect": "Allow", "Action": "pcs:DeleteComputeNodeGroup", "Resource": "*", `+tagged+`}`)
	tags := w.group(in)
	in.ComputeNodeGroupName, in.Tags, in.ClientToken = aws.String("other"), nil, nil
	in.ScalingConfiguration = scaling(0, 0)
	plain := w.group(in)
	w.settle()
	remove := func(g *pcstypes.ComputeNodeGroup) error {
		_, err := w.pcs.DeleteComputeNodeGroup(t.Context(), &pcs.DeleteComputeNodeGroupInput{ClusterIdentifier: aws.String("hpc"), ComputeNodeGroupIdentifier: g.Name})
		return err
	}
	wantMessage(t, remove(plain), "AccessDeniedException", "pcs:DeleteComputeNodeGroup on resource: "+*plain.Arn+" because no identity-based policy allows the pcs:DeleteComputeNodeGroup action")
	if err := remove(tags); err != nil {
		t.Error(err)
	}
	_, err = w.pcs.ListClusters(t.Context(), &pcs.ListClustersInput{})
	wantMessage(t, err, "AccessDeniedException", "pcs:ListClusters because")
}
