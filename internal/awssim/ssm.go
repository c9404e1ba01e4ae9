package awssim

import (
	"encoding/json"
	"strings"
)

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
