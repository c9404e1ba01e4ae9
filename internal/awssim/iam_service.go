package awssim

import (
	"strings"
)

// InstanceProfileScenario is one instance profile of the account.
type InstanceProfileScenario struct {
	Name string `toml:"name"`
	Path string `toml:"path"` // default /
	Role string `toml:"role"` // "": it has none yet
}

// instanceProfile finds a profile by its name. An account whose scenario lists none has every one, each with a role of
// the same name.
func (s *Sim) instanceProfile(path, name string) (InstanceProfileScenario, bool) {
	if len(s.scenario.InstanceProfiles) == 0 {
		return InstanceProfileScenario{Name: name, Path: path, Role: name}, true
	}
	for _, p := range s.scenario.InstanceProfiles {
		if p.Name == name {
			if p.Path == "" {
				p.Path = "/"
			}
			return p, true
		}
	}
	return InstanceProfileScenario{}, false
}

// checkProfile refuses a launch with an instance profile that is not there, or has no role. The messages are EC2's.
func (s *Sim) checkProfile(p *instanceProfile) error {
	if p == nil || p.Arn == "" && p.Name == "" {
		return nil
	}
	field, word, value := "name", "name", p.Name
	path, name := "/", p.Name
	if p.Arn != "" {
		field, word, value = "arn", "ARN", p.Arn
		path, name = cutProfile(p.Arn)
	}
	found, ok := s.instanceProfile(path, name)
	switch {
	case !ok:
		return apiErrorf("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.%s is invalid. Invalid IAM Instance Profile %s", value, field, word)
	case found.Role == "":
		return apiErrorf("InvalidParameterValue", "IAM Instance Profile \"%s\" has no associated IAM Roles", s.iamARN("instance-profile"+found.Path+found.Name))
	}
	return nil
}

// cutProfile takes the ARN of an instance profile apart.
func cutProfile(arn string) (path, name string) {
	_, full, _ := strings.Cut(arn, ":instance-profile/")
	i := strings.LastIndex(full, "/") + 1
	return "/" + full[:i], full[i:]
}

// temporary reports whether a call has the credentials of a role, by their prefix (IAM User Guide, "IAM identifiers").
func (c *call) temporary() bool { return strings.HasPrefix(c.AccessKey, "ASIA") }
