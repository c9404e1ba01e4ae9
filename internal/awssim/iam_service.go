package awssim

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim/iam"
)

// InstanceProfileScenario is one instance profile of the account.
type InstanceProfileScenario struct {
	Name string `toml:"name"`
	Path string `toml:"path"` // default /
	// Role is the role of the instances; "": it has none yet. RolePath is its path, default /.
	Role     string `toml:"role"`
	RolePath string `toml:"role_path"`
	// CannotRegister: no policy of the role allows pcs:RegisterComputeNodeGroupInstance.
	CannotRegister bool `toml:"cannot_register"`
}

// instanceProfile finds a profile by its name. An account whose scenario lists none has every one, each with a role of
// the same name and path.
func (s *Sim) instanceProfile(path, name string) (InstanceProfileScenario, bool) {
	if len(s.scenario.InstanceProfiles) == 0 {
		return InstanceProfileScenario{Name: name, Path: path, Role: name, RolePath: path}, true
	}
	for _, p := range s.scenario.InstanceProfiles {
		if p.Name == name {
			if p.Path == "" {
				p.Path = "/"
			}
			if p.RolePath == "" {
				p.RolePath = "/"
			}
			return p, true
		}
	}
	return InstanceProfileScenario{}, false
}

// registering is the action by which a node joins a PCS cluster, with the role of its instance profile.
const registering = "pcs:RegisterComputeNodeGroupInstance"

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

// profileOfRole finds the profile of a role by the role's ARN.
func (s *Sim) profileOfRole(arn string) (InstanceProfileScenario, bool) {
	_, full, ok := strings.Cut(arn, ":role/")
	if !ok {
		return InstanceProfileScenario{}, false
	}
	i := strings.LastIndex(full, "/") + 1
	if len(s.scenario.InstanceProfiles) == 0 && (strings.HasPrefix(full[i:], "AWSPCS") || strings.HasPrefix(full, "aws-pcs/")) {
		return s.instanceProfile("/"+full[:i], full[i:])
	}
	for _, p := range s.scenario.InstanceProfiles {
		if p, _ = s.instanceProfile(p.Path, p.Name); p.Role == full[i:] && p.RolePath == "/"+full[:i] {
			return p, true
		}
	}
	return InstanceProfileScenario{}, false
}

// cutProfile takes the ARN of an instance profile apart.
func cutProfile(arn string) (path, name string) {
	_, full, _ := strings.Cut(arn, ":instance-profile/")
	i := strings.LastIndex(full, "/") + 1
	return "/" + full[:i], full[i:]
}

// iamOperations are the calls with which clients ask which role a profile stands for, and what their own policies
// allow.
func (s *Sim) iamOperations() map[string]operation {
	return map[string]operation{"SimulatePrincipalPolicy": s.simulatePolicy, "GetInstanceProfile": func(c *call) ([]byte, error) {
		name := c.form.Get("InstanceProfileName")
		p, found := s.instanceProfile("/", name)
		if !found {
			return nil, &APIError{Code: "NoSuchEntity", Status: http.StatusNotFound, Message: "Instance Profile " + name + " cannot be found."}
		}
		type role struct{ Path, RoleName, RoleId, Arn, CreateDate string }
		type profile struct {
			Path, InstanceProfileName, InstanceProfileId, Arn, CreateDate string
			Roles                                                         []role `xml:"Roles>member"`
		}
		made := s.now.UTC().Format(time.RFC3339)
		out := profile{Path: p.Path, InstanceProfileName: p.Name, InstanceProfileId: "AIPASIMULATED", Arn: s.iamARN("instance-profile" + p.Path + p.Name), CreateDate: made}
		if p.Role != "" {
			out.Roles = []role{{p.RolePath, p.Role, "AROASIMULATED", s.iamARN("role" + p.RolePath + p.Role), made}}
		}
		return xml.Marshal(struct {
			XMLName   xml.Name `xml:"https://iam.amazonaws.com/doc/2010-05-08/ GetInstanceProfileResponse"`
			Profile   profile  `xml:"GetInstanceProfileResult>InstanceProfile"`
			RequestID string   `xml:"ResponseMetadata>RequestId"`
		}{Profile: out, RequestID: c.requestID})
	}}
}

// simulatePolicy answers by the policy of the caller; of the role of a profile, the simulator knows whether a node can
// register, and nothing else. As IAM documents it, a
// decision is given for each resource, and every key that the policy reads but the request lacks is listed, whether it
// matters or not (IAM API Reference, "SimulatePrincipalPolicy"). The role of temporary credentials goes by its own ARN.
func (s *Sim) simulatePolicy(c *call) ([]byte, error) {
	source := c.form.Get("PolicySourceArn")
	ofNodes, isRole := s.profileOfRole(source)
	switch {
	case !strings.Contains(source, ":iam:"):
		return nil, &APIError{Code: "InvalidInput", Status: http.StatusBadRequest, Message: "Invalid Entity Arn: " + source + " does not clearly define entity type and name."}
	case source != s.principalOf(c) && !isRole:
		return nil, &APIError{Code: "NoSuchEntity", Status: http.StatusNotFound, Message: "The entity " + source + " cannot be found."}
	}
	members := func(name string) (all []string) {
		for i := 1; c.form.Has(fmt.Sprint(name, ".member.", i)); i++ {
			all = append(all, c.form.Get(fmt.Sprint(name, ".member.", i)))
		}
		return all
	}
	keys := iam.Keys{}
	for i := 1; c.form.Has(fmt.Sprint("ContextEntries.member.", i, ".ContextKeyName")); i++ {
		entry := fmt.Sprint("ContextEntries.member.", i)
		keys.Set(c.form.Get(entry+".ContextKeyName"), members(entry+".ContextKeyValues")...)
	}
	policy := s.policyOf(c)
	if source != s.principalOf(c) {
		policy = nil
	}
	var missing []string
	if policy != nil {
		missing = slices.DeleteFunc(policy.Keys(), func(key string) bool { return keys[key] != nil })
	}
	type specific struct {
		EvalResourceName, EvalResourceDecision string
		Missing                                []string `xml:"MissingContextValues>member"`
	}
	type evaluation struct {
		EvalActionName, EvalResourceName, EvalDecision string
		Specific                                       []specific `xml:"ResourceSpecificResults>member"`
	}
	type result struct {
		IsTruncated bool
		Evaluations []evaluation `xml:"EvaluationResults>member"`
	}
	var out result
	for _, action := range members("ActionNames") {
		one := evaluation{action, "*", "allowed", nil}
		if source != s.principalOf(c) && (action != registering || ofNodes.CannotRegister) {
			one.EvalDecision = "implicitDeny"
		}
		for _, resource := range members("ResourceArns") {
			decision := one.EvalDecision
			if policy != nil {
				decision = map[iam.Verdict]string{iam.NotAllowed: "implicitDeny", iam.Allowed: "allowed", iam.Denied: "explicitDeny"}[s.decide(policy, iam.Request{Action: action, Resource: resource, Keys: keys})]
			}
			if decision != "allowed" {
				one.EvalDecision = decision
			}
			one.Specific = append(one.Specific, specific{resource, decision, missing})
		}
		out.Evaluations = append(out.Evaluations, one)
	}
	return xml.Marshal(struct {
		XMLName   xml.Name `xml:"https://iam.amazonaws.com/doc/2010-05-08/ SimulatePrincipalPolicyResponse"`
		Result    result   `xml:"SimulatePrincipalPolicyResult"`
		RequestID string   `xml:"ResponseMetadata>RequestId"`
	}{Result: out, RequestID: c.requestID})
}

// temporary reports whether a call has the credentials of a role, by their prefix (IAM User Guide, "IAM identifiers").
func (c *call) temporary() bool { return strings.HasPrefix(c.AccessKey, "ASIA") }

// principalOf is the user or role whose policies are the caller's.
func (s *Sim) principalOf(c *call) string {
	if c.temporary() {
		return s.iamARN("role/simulated")
	}
	return s.caller()
}

// iamNeeds lists what a call of IAM needs.
func (s *Sim) iamNeeds(c *call) []iam.Request {
	if c.Operation == "SimulatePrincipalPolicy" {
		return []iam.Request{need("iam:"+c.Operation, c.form.Get("PolicySourceArn"), nil, nil)}
	}
	p, _ := s.instanceProfile("/", c.form.Get("InstanceProfileName"))
	return []iam.Request{need("iam:"+c.Operation, s.iamARN("instance-profile"+p.Path+p.Name), nil, nil)}
}
