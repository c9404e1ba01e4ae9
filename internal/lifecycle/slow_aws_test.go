package lifecycle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
)

const (
	nobodyThere  = "ClusterName=lab\nSlurmctldHost=localhost\nSlurmctldPort=1\nAuthType=auth/none\nMessageTimeout=1\nNodeName=gpu-1\nPartitionName=gpu Nodes=gpu-1\n"
	slowSettings = `
region = "us-east-2"
cluster = "ml"
state_dir = %q
[[partition]]
name = "gpu"
provider = "pcs"
`
	slowGroup = `
[[partition.node_group]]
name = "group%d"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
select = { tags = { team = "team%[1]d" } }
max_nodes = 4
`
)

// An AWS that answers each question, none so slowly that it is given up, holds a pass for
// the time for all questions together. What was known is kept, and it is said.
func TestRareAPassOfASlowAWS(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(nobodyThere), 0o644); err != nil {
		t.Fatal(err)
	}
	sim, err := awssim.New(awssim.DefaultScenario(), awssim.MachineClock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	if err := sim.Serve(t.Setenv, "AWS_EC2_METADATA_DISABLED=true", "SLURM_CONF="+filepath.Join(dir, "slurm.conf")); err != nil {
		t.Fatal(err)
	}
	// One question for each group, and those for subnets, node groups and reservations.
	const groups = 40
	text := fmt.Sprintf(slowSettings, filepath.Join(dir, "state"))
	for i := range groups {
		text += fmt.Sprintf(slowGroup, i)
	}
	text = strings.Replace(text, `select = { tags = { team = "team0" } }`, `capacity_reservation_ids = ["cr-0e2000000000000a1"]`, 1)
	path := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	pass := func() (*capacity.Snapshot, lifecycle.Report) {
		t.Helper()
		settings := lifecycle.Follower{Path: path, Region: "us-east-2"}
		sources, err := settings.Sources(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		snap, report, _ := lifecycle.Pass(t.Context(), sources) // Slurm is not there
		return snap, report
	}
	before, report := pass()
	if report.NoAWS || before.TakenAt.IsZero() {
		t.Fatalf("%+v", report)
	}

	const answer, all = time.Second, 3 * time.Second
	if _, err := sim.AddFault(awssim.Fault{Effect: awssim.Delay, Latency: awssim.Duration(answer)}); err != nil {
		t.Fatal(err)
	}
	lifecycle.ShortenAnswers(t, all)
	snap, report := pass()
	if _, known := snap.Reservation("cr-0e2000000000000a1"); !known || !snap.TakenAt.Equal(before.TakenAt) {
		t.Errorf("what was known is gone, or passes for new: %+v", report)
	}
	if said := strings.Join(snap.Problems, "\n"); strings.Count(said, "what was known before is kept") != 1 || !strings.Contains(said, "AWS cannot be reached") {
		t.Errorf("said:\n%s", said)
	}
}
