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
		if strings.Contains(text, "arn:aws:") || strings.Contains(text, "CLUSTER") || !strings.Contains(text, `"ml/*"`) {
			t.Errorf("%s: %s", role, text)
		}
	}
	if !Allows("hooks", "ec2:RunInstances") || Allows("sync", "ec2:PurchaseCapacityBlock") {
		t.Error("the roles are mixed up")
	}
}
