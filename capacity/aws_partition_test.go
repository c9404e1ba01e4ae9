package capacity

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestAWSPartitionOf(t *testing.T) {
	for region, want := range map[string]string{"us-east-2": "aws", "cn-north-1": "aws-cn", "us-gov-east-1": "aws-us-gov", "us-iso-west-1": "aws-iso",
		"us-isob-east-1": "aws-iso-b", "eusc-de-east-1": "aws-eusc", "xx-new-1": "aws", "": "aws"} {
		if got := AWSPartitionOf(region); got.Name != want {
			t.Errorf("%s is in %s, want %s", region, got.Name, want)
		}
	}
}

// The table is that of the SDK which go.mod has, which exports none.
func TestAWSPartitionsOfTheSDK(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-sdk-go-v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(strings.TrimSpace(string(dir)) + "/internal/endpoints/awsrulesfn/partitions.json")
	if err != nil {
		t.Fatal(err)
	}
	var sdk struct {
		Partitions []struct {
			ID, RegionRegex string
			Outputs         struct{ ImplicitGlobalRegion, DNSSuffix string }
		}
	}
	if err := json.Unmarshal(text, &sdk); err != nil {
		t.Fatal(err)
	}
	var want []AWSPartition
	for _, p := range sdk.Partitions {
		want = append(want, AWSPartition{p.ID, p.Outputs.ImplicitGlobalRegion, p.Outputs.DNSSuffix, p.RegionRegex})
	}
	byName := cmpopts.SortSlices(func(a, b AWSPartition) bool { return a.Name < b.Name })
	if diff := cmp.Diff(want, awsPartitions, byName, cmp.AllowUnexported(AWSPartition{})); diff != "" {
		t.Errorf("(-SDK +ours):\n%s", diff)
	}
}
