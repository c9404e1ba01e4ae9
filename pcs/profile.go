package pcs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// Role is a role of IAM.
type Role struct{ Path, Name, ARN string }

// Taken reports whether PCS accepts the role for nodes: AWS PCS User Guide, "IAM instance
// profiles".
func (r Role) Taken() bool {
	return strings.HasPrefix(r.Name, "AWSPCS") || strings.HasPrefix(r.Path, "/aws-pcs/")
}

// RoleOf is the role of an instance profile, by its ARN; zero for a profile without one. An unknown
// profile is an error with Code NoSuchEntity.
func (c *Client) RoleOf(ctx context.Context, profileARN string) (Role, error) {
	name := profileARN[strings.LastIndex(profileARN, "/")+1:]
	out, err := c.getInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(name)})
	if err != nil {
		return Role{}, fmt.Errorf("reading instance profile %s: %w", name, err)
	}
	if out.InstanceProfile == nil || len(out.InstanceProfile.Roles) == 0 {
		return Role{}, nil
	}
	r := out.InstanceProfile.Roles[0] // there is one at most
	return Role{str(r.Path), str(r.RoleName), str(r.Arn)}, nil
}

// Registering is the action with which a node joins a cluster, by the role of its instance profile.
const Registering = "pcs:RegisterComputeNodeGroupInstance"

// Registers reports whether the policies of a role let nodes join a cluster. It is an error if they
// depend on context that is not known here.
func (c *Client) Registers(ctx context.Context, role Role, clusterARN string) (bool, error) {
	// Policies may name clusters, or what is in them.
	out, err := c.simulatePrincipalPolicy(ctx, &iam.SimulatePrincipalPolicyInput{PolicySourceArn: aws.String(role.ARN), ActionNames: []string{Registering},
		ResourceArns: []string{clusterARN, clusterARN + "/computenodegroup/pcs_0123456789"}})
	if err != nil {
		return false, fmt.Errorf("simulating the policies of role %s: %w", role.Name, err)
	}
	var missing []string
	for _, result := range out.EvaluationResults {
		for _, one := range result.ResourceSpecificResults {
			if one.EvalResourceDecision == types.PolicyEvaluationDecisionTypeAllowed {
				return true, nil
			}
			missing = append(missing, one.MissingContextValues...)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return false, errors.New("the policies of role " + role.Name + " depend on " + strings.Join(slices.Compact(missing), ", "))
	}
	return false, nil
}
