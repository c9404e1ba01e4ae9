package ec2

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// Simulation asks IAM whether the caller's policies allow calls that have no dry run.
type Simulation struct {
	// A function, not *iam.Client: see api.
	simulate func(context.Context, *iam.SimulatePrincipalPolicyInput, ...func(*iam.Options)) (*iam.SimulatePrincipalPolicyOutput, error)
	caller   arn.ARN // of a user or role
	region   string
}

// Simulation finds the caller's principal by one call of AWS STS. The policies of the account's
// root user and of federated users cannot be simulated: an error.
func (c *Client) Simulation(ctx context.Context) (*Simulation, error) {
	caller, err := c.caller(ctx)
	if err != nil {
		return nil, err
	}
	if caller, err = principal(caller); err != nil {
		return nil, err
	}
	return &Simulation{iam.NewFromConfig(c.shared.Config).SimulatePrincipalPolicy, caller, c.region}, nil
}

// principal is the user, or the assumed role. STS leaves out a role's path, so IAM does not find a
// role with a path.
func principal(a arn.ARN) (arn.ARN, error) {
	caller := a.String()
	kind, name, _ := strings.Cut(a.Resource, "/")
	switch {
	case a.Service == "iam" && kind == "user":
		return a, nil
	case a.Service == "sts" && kind == "assumed-role":
		role, _, _ := strings.Cut(name, "/")
		a.Service, a.Resource = "iam", "role/"+role
		return a, nil
	}
	return a, fmt.Errorf("IAM simulates no policies of %s", caller)
}

// absent are condition keys that the simulated call lacks like the real one: parameters of a
// creation, and tags that the resource does not have.
var absent = []string{"aws:requesttag/", "aws:resourcetag/", "ec2:resourcetag/", "aws:tagkeys", "ec2:createaction", "iam:passedtoservice"}

// Account is the caller's.
func (s *Simulation) Account() string { return s.caller.AccountID }

// Allows reports whether the policies, with organization and boundary, allow an action of EC2 on a
// resource of the account, such as capacity-reservation/cr-…, with these tags. It is an error if
// they depend on context that is not known here.
func (s *Simulation) Allows(ctx context.Context, action, resource string, tags map[string]string) (bool, error) {
	target := arn.ARN{Partition: s.caller.Partition, Service: "ec2", Region: s.region, AccountID: s.caller.AccountID, Resource: resource}
	key := func(name, value string) types.ContextEntry {
		return types.ContextEntry{ContextKeyName: aws.String(name), ContextKeyType: types.ContextKeyTypeEnumString, ContextKeyValues: []string{value}}
	}
	in := &iam.SimulatePrincipalPolicyInput{PolicySourceArn: aws.String(s.caller.String()), ActionNames: []string{action}, ResourceArns: []string{target.String()},
		ContextEntries: []types.ContextEntry{key("aws:RequestedRegion", s.region)}}
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		in.ContextEntries = append(in.ContextEntries, key("aws:ResourceTag/"+tag, tags[tag]), key("ec2:ResourceTag/"+tag, tags[tag]))
	}
	out, err := s.simulate(ctx, in)
	if err != nil {
		return false, fmt.Errorf("simulating the policies of %s: %w", s.caller, err)
	}
	if len(out.EvaluationResults) != 1 || len(out.EvaluationResults[0].ResourceSpecificResults) != 1 {
		return false, errors.New("IAM gave no decision on " + target.String())
	}
	result := out.EvaluationResults[0].ResourceSpecificResults[0]
	if result.EvalResourceDecision == types.PolicyEvaluationDecisionTypeAllowed {
		return true, nil
	}
	for _, missing := range result.MissingContextValues {
		if !slices.ContainsFunc(absent, func(prefix string) bool { return strings.HasPrefix(strings.ToLower(missing), prefix) }) {
			return false, errors.New("the policies depend on " + missing)
		}
	}
	return false, nil
}
