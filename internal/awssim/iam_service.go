package awssim

import (
	"encoding/xml"
	"net/http"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim/iam"
)

// InstanceProfileScenario is one instance profile of the account.
type InstanceProfileScenario struct {
	Name string `toml:"name"`
	Path string `toml:"path"` // default /
	// Role is what instances become; "": it has none yet. RolePath is its path, default /.
	Role     string `toml:"role"`
	RolePath string `toml:"role_path"`
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

// cutProfile takes the ARN of an instance profile apart.
func cutProfile(arn string) (path, name string) {
	_, full, _ := strings.Cut(arn, ":instance-profile/")
	i := strings.LastIndex(full, "/") + 1
	return "/" + full[:i], full[i:]
}

// iamOperations has the one call with which clients ask which role a profile stands for.
func (s *Sim) iamOperations() map[string]operation {
	return map[string]operation{"GetInstanceProfile": func(c *call) ([]byte, error) {
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

// iamNeeds lists what a call of IAM needs.
func (s *Sim) iamNeeds(c *call) []iam.Request {
	p, _ := s.instanceProfile("/", c.form.Get("InstanceProfileName"))
	return []iam.Request{need("iam:"+c.Operation, s.iamARN("instance-profile"+p.Path+p.Name), nil, nil)}
}
