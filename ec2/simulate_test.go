package ec2

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// The policies of users and of roles are simulated, with the tags of what the action is on.
func TestSimulation(t *testing.T) {
	sim, c := newSim(t)
	policy := func(condition string) {
		t.Helper()
		if err := sim.SetPolicy(awssim.AttachedPolicy{Document: json.RawMessage(`{"Statement": [{"Effect": "Allow", "Action": "iam:SimulatePrincipalPolicy", "Resource": ["arn:aws:iam::*:role/simulated", "arn:aws:iam::*:user/simulated"]},
			{"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": "arn:aws:ec2:*:*:capacity-reservation/*", "Condition": {"StringEquals": {"aws:ResourceTag/team": "nlp"}}},
			{"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "arn:aws:ec2:us-east-2:111122223333:instance/i-1", "Condition": {"StringLike": {` + condition + `: "*"}}}]}`)}); err != nil {
			t.Fatal(err)
		}
	}
	policy(`"aws:RequestedRegion"`)
	for _, key := range []string{"AKIATEST", "ASIATEST"} {
		c.shared.Config.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: key, SecretAccessKey: "x"}, nil
		})
		s, err := c.Simulation(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range []struct {
			action, resource, team string
			want                   bool
		}{
			{"ec2:RunInstances", "capacity-reservation/cr-1", "nlp", true},
			{"ec2:RunInstances", "capacity-reservation/cr-1", "vision", false},
			{"ec2:RunInstances", "instance/i-1", "nlp", false},
			{"ec2:TerminateInstances", "instance/i-1", "", true},
			{"ec2:TerminateInstances", "instance/i-2", "", false},
		} {
			got, err := s.Allows(t.Context(), one.action, one.resource, map[string]string{"team": one.team})
			if err != nil || got != one.want {
				t.Errorf("%s: %+v: %t, %v", key, one, got, err)
			}
		}
	}
	s, err := c.Simulation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	policy(`"ec2:InstanceType"`)
	if got, err := s.Allows(t.Context(), "ec2:TerminateInstances", "instance/i-1", nil); err == nil || !strings.Contains(err.Error(), "ec2:instancetype") {
		t.Errorf("%t, %v, though it depends on what is not known", got, err)
	}
	s.caller.Resource = "role/path/simulated"
	sim.ClearPolicies()
	if _, err := s.Allows(t.Context(), "ec2:TerminateInstances", "instance/i-1", nil); Code(err) != "NoSuchEntity" {
		t.Error(err)
	}
}

func TestPrincipal(t *testing.T) {
	for caller, want := range map[string]string{
		"arn:aws:iam::111122223333:user/hpc/ann":                              "arn:aws:iam::111122223333:user/hpc/ann",
		"arn:aws-cn:sts::111122223333:assumed-role/nodes/i-0123456789abcdef0": "arn:aws-cn:iam::111122223333:role/nodes",
		"arn:aws:iam::111122223333:root":                                      "",
		"arn:aws:sts::111122223333:federated-user/ann":                        "",
	} {
		a, _ := arn.Parse(caller)
		got, err := principal(a)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%s: %s, %v", caller, got, err)
		}
	}
}
