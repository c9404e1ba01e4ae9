package awssim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
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
