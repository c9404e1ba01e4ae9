package pcs

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// Role is a role of IAM.
type Role struct{ Path, Name string }

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
	return Role{str(r.Path), str(r.RoleName)}, nil
}
