package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// asksFor are commands that make a call; the empty call stands for any.
var asksFor = map[string][]string{
	"":                                        {"list"},
	"DescribeCapacityReservations":            {"list", "cr-0e2000000000000a1"},
	"DescribeCapacityBlockOfferings":          {"offerings", "--instance-type=p5.48xlarge", "--count=4", "--duration=7d"},
	"PurchaseCapacityBlock":                   purchases["purchase"],
	"PurchaseCapacityBlockExtension":          purchases["extend"],
	"DescribeCapacityBlockExtensionOfferings": purchases["extend"],
	"CreateCapacityReservation":               {"reserve", "--probe", "-t", "g6.12xlarge", "-n", "1", "--subnet-ids", "subnet-0e200000000000a01"},
}

// Every code of EC2 that a command can meet is shown, with what to do about it. Those of
// launches are shown by Slurm, those of PCS by setup
// and teardown (TestExceptionsOfPCSComeWithAdvice).
func TestErrorCodesComeWithAdvice(t *testing.T) {
	_, sim := simulatedEC2(t, `payment_delay = "0s"`)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	for _, r := range slices.Concat(ec2.Remedies, awsconfig.General) {
		if slices.Contains(r.Calls, "RunInstances") {
			continue
		}
		if r.Code == "CapacityBlockDescribeLimitExceeded" && r.Says == "" {
			continue // waits for a minute before it is shown: package ec2, TestBackToBackSearches
		}
		calls := r.Calls
		if len(calls) == 0 {
			calls = []string{""}
		}
		for _, call := range calls {
			args, known := asksFor[call]
			if !known {
				t.Errorf("%s of %s: no command is known to meet it", r.Code, call)
				continue
			}
			sim.ClearFaults()
			if _, err := sim.AddFault(awssim.Fault{Service: "ec2", Operation: call, Effect: awssim.FailBefore, Code: r.Code, Message: "EC2 says: " + r.Says + "."}); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			config := filepath.Join(dir, "config.toml")
			if err := os.WriteFile(config, fmt.Appendf(nil, "cluster = \"ml\"\nstate_dir = %q\n[reserve]\nmax_instances = 64\n", dir), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "pcs-capacity", append([]string{"--config", config}, args...)...)
			said, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(said), r.Code) || !strings.Contains(string(said), r.Do) {
				t.Errorf("%s of %s: %v, want %q:\n%s", r.Code, call, err, r.Do, said)
			}
		}
	}
}
