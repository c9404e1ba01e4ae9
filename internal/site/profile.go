package site

import (
	"fmt"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Profile is IAM's answer about the instance profile; zero if IAM was not asked.
type Profile struct {
	// Missing: no instance profile has that name.
	Missing bool
	// NoRole: the instance profile has no role. Role is its role.
	NoRole bool
	Role   pcs.Role
	// CannotRegister: the role's policies do not let nodes join a PCS cluster.
	CannotRegister bool
}

func profile(s Launch) []capacity.Problem {
	p, name := s.Profile, s.Template.InstanceProfile
	const fix = "give an instance profile whose role has a name that begins with AWSPCS, or the path /aws-pcs/"
	onPCS := s.Provider == capacity.ProviderPCS
	switch {
	case p.Missing:
		return s.problem(capacity.InstanceProfile, "take another --like, or make it",
			"IAM has no instance profile %s", name)
	case p.NoRole && onPCS:
		return s.problem(capacity.InstanceProfile, fix, "instance profile %s has no role", name)
	case p.NoRole:
		return s.problem(
			capacity.InstanceProfile,
			fmt.Sprintf("run `aws iam add-role-to-instance-profile --instance-profile-name %s --role-name ROLE`",
				name[strings.LastIndex(name, "/")+1:]),
			"instance profile %s has no role, so that EC2 refuses each launch",
			name,
		)
	case !onPCS || p.Role.Name == "":
		return nil
	case !p.Role.Taken():
		return s.problem(capacity.InstanceProfile, fix, "PCS does not take role %s%s of instance profile %s for nodes",
			p.Role.Path, p.Role.Name, name)
	case p.CannotRegister:
		partition, _, _ := strings.Cut(strings.TrimPrefix(name, "arn:"), ":")
		return s.problem(
			capacity.InstanceProfile,
			fmt.Sprintf(
				"run `aws iam attach-role-policy --role-name %s --policy-arn arn:%s:iam::aws:policy/AWSPCSComputeNodePolicy`",
				p.Role.Name, partition),
			"role %s of instance profile %s does not allow %s, so that nodes never register",
			p.Role.Name,
			name,
			pcs.Registering,
		)
	}
	return nil
}
