package awssim

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// InstanceProfileScenario is one instance profile of the account.
type InstanceProfileScenario struct {
	Name string `toml:"name"`
	Path string `toml:"path"` // default /
	// Role is the role of the instances; "": it has none yet. RolePath is its path, default /.
	Role           string `toml:"role"`
	RolePath       string `toml:"role_path"`
	CannotRegister bool   `toml:"cannot_register"` // no policy of the role allows pcs:RegisterComputeNodeGroupInstance
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

// cutProfile takes the ARN of an instance profile apart.
func cutProfile(arn string) (path, name string) {
	_, full, _ := strings.Cut(arn, ":instance-profile/")
	i := strings.LastIndex(full, "/") + 1
	return "/" + full[:i], full[i:]
}

// iamOperations are the calls with which clients ask which role a profile stands for, and what it may do.
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

// temporary reports whether a call has the credentials of a role, by their prefix (IAM User Guide, "IAM identifiers").
func (c *call) temporary() bool { return strings.HasPrefix(c.AccessKey, "ASIA") }

// simulatePolicy knows whether a node with the role of a profile can register, and nothing else.
func (s *Sim) simulatePolicy(c *call) ([]byte, error) {
	source, decision := c.form.Get("PolicySourceArn"), "allowed"
	role := source[strings.LastIndex(source, "/")+1:]
	if slices.ContainsFunc(s.scenario.InstanceProfiles, func(p InstanceProfileScenario) bool { return p.Role == role && p.CannotRegister }) {
		decision = "implicitDeny"
	}
	type specific struct{ EvalResourceName, EvalResourceDecision string }
	type evaluation struct {
		EvalActionName, EvalResourceName, EvalDecision string
		Specific                                       []specific `xml:"ResourceSpecificResults>member"`
	}
	one := evaluation{c.form.Get("ActionNames.member.1"), "*", decision, nil}
	for i := 1; c.form.Has(fmt.Sprint("ResourceArns.member.", i)); i++ {
		one.Specific = append(one.Specific, specific{c.form.Get(fmt.Sprint("ResourceArns.member.", i)), decision})
	}
	return xml.Marshal(struct {
		XMLName   xml.Name     `xml:"https://iam.amazonaws.com/doc/2010-05-08/ SimulatePrincipalPolicyResponse"`
		Results   []evaluation `xml:"SimulatePrincipalPolicyResult>EvaluationResults>member"`
		RequestID string       `xml:"ResponseMetadata>RequestId"`
	}{Results: []evaluation{one}, RequestID: c.requestID})
}

// AWS Systems Manager, as far as public parameters name images.

// ssmTarget is the prefix of X-Amz-Target in its requests.
const ssmTarget = "AmazonSSM."

func (s *Sim) ssmOperations() map[string]operation {
	return map[string]operation{"GetParameter": func(c *call) ([]byte, error) {
		in := parameterRequest(c)
		image := c.region.image("resolve:ssm:" + in.Name)
		switch {
		case strings.Contains(strings.TrimSpace(in.Name), " ") || in.Name == "":
			return nil, apiErrorf("ValidationException", "Parameter name: can't be prefixed with \"ssm\" (case-insensitive) and must not contain spaces")
		case image == nil:
			return nil, apiErrorf("ParameterNotFound", "") // AWS sends no message
		}
		return json.Marshal(map[string]any{"Parameter": map[string]any{
			"ARN": parameterARN(c.Region, in.Name), "DataType": "aws:ec2:image", "LastModifiedDate": s.now.Unix(), "Name": in.Name, "Type": "String",
			"Value": image.ID, "Version": 1,
		}})
	}}
}

func parameterRequest(c *call) (in struct{ Name string }) {
	_ = json.Unmarshal(c.Body, &in) // one without a name is refused
	return in
}

// parameterARN is of a public parameter, which is in no account.
func parameterARN(region, name string) string {
	return "arn:aws:ssm:" + region + "::parameter/" + strings.TrimPrefix(name, "/")
}

// Publish lets a public parameter name another image of the region from now on.
func (s *Sim) Publish(region, parameter, image string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.regions[region]
	for i := range r.images {
		switch one := &r.images[i]; {
		case one.ID == image:
			one.Parameter = parameter
		case one.Parameter == parameter:
			one.Parameter = ""
		}
	}
}
