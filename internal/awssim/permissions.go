package awssim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim/iam"
)

// AttachedPolicy is the body of POST /_sim/policy. From then on the calls of the key are allowed what the document
// allows, and no more; callers without a policy may do everything.
type AttachedPolicy struct {
	AccessKey string          `json:"access_key,omitempty"` // default: every one that has no policy of its own
	Document  json.RawMessage `json:"document"`
}

// SetPolicy attaches a policy in the place of the one before. It refuses a document that the simulator could not
// follow to the letter.
func (s *Sim) SetPolicy(p AttachedPolicy) error {
	policy, err := iam.Parse(p.Document)
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	for _, key := range policy.Keys() {
		if !givenKey(key) {
			return fmt.Errorf("policy: the simulator gives no request the condition key %s", key)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policies[p.AccessKey] = policy
	return nil
}

// ClearPolicies lets every caller do everything again.
func (s *Sim) ClearPolicies() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.policies)
	clear(s.asked)
}

// Asked are the actions that policies were asked for since the last ClearPolicies, each
// with whether it was always allowed.
func (s *Sim) Asked() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := map[string]bool{}
	for action, verdict := range s.asked {
		asked[action] = verdict == iam.Allowed
	}
	return asked
}

// Condition keys of the simulator's requests.
const (
	keyRequestTag      = "aws:RequestTag/"
	keyResourceTag     = "aws:ResourceTag/"
	keyEC2ResourceTag  = "ec2:ResourceTag/" // the older name of the same
	keyTagKeys         = "aws:TagKeys"
	keyRegion          = "aws:RequestedRegion"
	keyCreateAction    = "ec2:CreateAction"
	keyInstanceType    = "ec2:InstanceType"
	keyPassedToService = "iam:PassedToService"
)

func givenKey(name string) bool {
	for _, key := range []string{keyRequestTag, keyResourceTag, keyEC2ResourceTag, keyTagKeys, keyRegion, keyCreateAction, keyInstanceType, keyPassedToService} {
		if key = strings.ToLower(key); name == key || strings.HasSuffix(key, "/") && strings.HasPrefix(name, key) {
			return true
		}
	}
	return false
}

// authorize asks the caller's policy for all that a call needs. Called with mu held.
func (s *Sim) authorize(c *call) error {
	policy := s.policyOf(c)
	if policy == nil {
		return nil
	}
	var needs []iam.Request
	switch c.Service { // sts:GetCallerIdentity needs no permission
	case "ec2":
		needs = s.ec2Needs(c)
	case "pcs":
		needs = s.pcsNeeds(c)
	case "iam":
		needs = s.iamNeeds(c)
	case resourceGroups:
		needs = s.groupNeeds(c)
	case "ssm":
		needs = ssmNeeds(c)
	}
	for _, need := range needs {
		need.Keys.Set(keyRegion, c.Region)
		verdict := s.decide(policy, need)
		if verdict != iam.Allowed {
			return s.unauthorized(c, need, verdict)
		}
	}
	return nil
}

// policyOf is the policy of a caller; nil for one who may do everything.
func (s *Sim) policyOf(c *call) *iam.Policy {
	if policy := s.policies[c.AccessKey]; policy != nil {
		return policy
	}
	return s.policies[""]
}

// decide asks a policy, and keeps that it was asked.
func (s *Sim) decide(policy *iam.Policy, need iam.Request) iam.Verdict {
	verdict := policy.Decide(need)
	if before, ok := s.asked[need.Action]; !ok || before == iam.Allowed {
		s.asked[need.Action] = verdict
	}
	return verdict
}

// unauthorized is the refusal in the words of the service (seen in aws/karpenter-provider-aws, issue 7370, and
// kubernetes-sigs/karpenter, issue 2813; PCS says it like every service with AWS JSON).
func (s *Sim) unauthorized(c *call, need iam.Request, verdict iam.Verdict) error {
	message := fmt.Sprintf("User: %s is not authorized to perform: %s", s.caller(), need.Action)
	if need.Resource != "*" {
		message += " on resource: " + need.Resource
	}
	if verdict == iam.Denied {
		message += " with an explicit deny in an identity-based policy"
	} else {
		message += fmt.Sprintf(" because no identity-based policy allows the %s action", need.Action)
	}
	switch c.Service {
	case "pcs", "ssm":
		return apiErrorf("AccessDeniedException", "%s", message)
	case resourceGroups:
		return &APIError{Code: "ForbiddenException", Status: http.StatusForbidden, Message: message}
	case "iam":
		return &APIError{Code: "AccessDenied", Status: http.StatusForbidden, Message: message}
	}
	message = "You are not authorized to perform this operation. " + message
	if need.Resource != "*" {
		message += ". Encoded authorization failure message: " + base64.RawURLEncoding.EncodeToString([]byte(c.requestID))
	}
	return &APIError{Code: "UnauthorizedOperation", Status: http.StatusForbidden, Message: message}
}

// need is a request for an action with the tags that the call gives, if any, and those that the resource has.
func need(action, resource string, given, has map[string]string) iam.Request {
	r := iam.Request{Action: action, Resource: resource, Keys: iam.Keys{}}
	if len(given) > 0 {
		r.Keys.Set(keyTagKeys, slices.Sorted(maps.Keys(given))...)
	}
	for k, v := range given {
		r.Keys.Set(keyRequestTag+k, v)
	}
	for k, v := range has {
		r.Keys.Set(keyResourceTag+k, v)
		r.Keys.Set(keyEC2ResourceTag+k, v)
	}
	return r
}

// passRole is the permission to give instances the role of a profile.
func (s *Sim) passRole(profileARN string) iam.Request {
	p, _ := s.instanceProfile(cutProfile(profileARN))
	r := need("iam:PassRole", s.iamARN("role"+p.RolePath+p.Role), nil, nil)
	r.Keys.Set(keyPassedToService, "ec2."+capacity.AWSPartitionOf(s.homeRegion()).Domain)
	return r
}
