package permissions

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A policy is JSON, and has at most the 6,144 characters that IAM takes, without white space (IAM User Guide, "IAM and
// AWS STS quotas").
func TestPolicies(t *testing.T) {
	for _, role := range Roles {
		text := Policy(role, capacity.AWSPartitionOf("cn-north-1"), "ml")

		var short bytes.Buffer
		if err := json.Compact(&short, []byte(text)); err != nil || short.Len() > 6144 {
			t.Errorf("%s: %v, %d characters", role, err, short.Len())
		}

		if !strings.Contains(text, `"ec2.amazonaws.com", "ec2.amazonaws.com.cn"`) {
			t.Errorf("%s: roles are passed to one service in China: %s", role, text)
		}

		if strings.Contains(text, "arn:aws:") || strings.Contains(text, "CLUSTER") ||
			!strings.Contains(text, `"ml/*"`) {
			t.Errorf("%s: %s", role, text)
		}
	}

	for _, role := range []string{"sync", "admin"} {
		for _, name := range []string{"AWSPCS*", "*/AWSPCS*", "aws-pcs/*", "*/aws-pcs/*"} {
			if text := Policy(role, capacity.AWSPartitionOf("us-east-2"), ""); !strings.Contains(
				text,
				`"arn:aws:iam::*:role/`+name+`"`,
			) ||
				strings.Contains(text, ".cn") {
				t.Errorf("%s may not pass role/%s: %s", role, name, text)
			}
		}
	}

	if !Allows("hooks", "ec2:RunInstances") || Allows("sync", "ec2:PurchaseCapacityBlock") {
		t.Error("the roles are mixed up")
	}
}
