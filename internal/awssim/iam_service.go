package awssim

import (
	"cmp"
	"slices"
	"strings"
)

// InstanceProfileScenario is one instance profile of the account.
type InstanceProfileScenario struct {
	Name string `toml:"name"`
	Role string `toml:"role"` // "": it has none yet
}

// checkProfile refuses a launch with an instance profile that is not there, or has no role. An account whose scenario
// lists none has every one. The messages are EC2's.
func (s *Sim) checkProfile(p *instanceProfile) error {
	all := s.scenario.InstanceProfiles
	if p == nil || len(all) == 0 {
		return nil
	}
	field, name := "name", p.Name
	if p.Arn != "" {
		field, name = "arn", p.Arn[strings.LastIndex(p.Arn, "/")+1:]
	}
	i := slices.IndexFunc(all, func(one InstanceProfileScenario) bool { return one.Name == name })
	switch {
	case i < 0:
		return apiErrorf("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.%s is invalid. Invalid IAM Instance Profile %[2]s", cmp.Or(p.Arn, p.Name), field)
	case all[i].Role == "":
		return apiErrorf("InvalidParameterValue", "IAM Instance Profile \"%s\" has no associated IAM Roles", s.iamARN("instance-profile/"+name))
	}
	return nil
}
