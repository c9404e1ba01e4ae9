package lifecycle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/sources"
)

const platformSettings = `
region = "us-east-2"
state_dir = %q
[[partition]]
name = "gpu"
provider = "ec2"
[[partition.node_group]]
name = "gpu"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
capacity_reservation_ids = ["cr-0e2000000000000a1"]
max_nodes = 4
launch_template = %q
`

// nobodyThere is a slurm.conf whose slurmctld does not run.
const nobodyThere = "ClusterName=lab\nSlurmctldHost=localhost\nSlurmctldPort=1\nAuthType=auth/none\n" +
	"MessageTimeout=1\nNodeName=gpu-1\nPartitionName=gpu Nodes=gpu-1\n"

// A pass finds out what the image runs, holds it against reservations, and writes it down for
// those who submit and launch. What it may not ask once it knows still.
func TestAPassKnowsThePlatform(t *testing.T) {
	const gone = "lt-0e2000000000000b9"

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(nobodyThere), 0o644); err != nil {
		t.Fatal(err)
	}

	scenario := awssim.DefaultScenario()
	home := &scenario.Regions[0]
	home.LaunchTemplates = append(
		home.LaunchTemplates,
		awssim.LaunchTemplateScenario{ID: "lt-0e2000000000000b7", Name: "rhel", Image: "ami-0e200000000000c03"},
		awssim.LaunchTemplateScenario{ID: gone, Name: "gone", Image: "ami-0e200000000000fff"},
	)

	sim, err := awssim.New(scenario, awssim.MachineClock())
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { sim.Close() })

	if err := sim.Serve(t.Setenv, "AWS_EC2_METADATA_DISABLED=true", "SLURM_CONF="+
		filepath.Join(dir, "slurm.conf")); err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(dir, "config.toml")

	pass := func(template string) (capacity.NodeGroup, []string) {
		t.Helper()

		text := fmt.Appendf(nil, platformSettings, filepath.Join(dir, "state"), template)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}

		settings := sources.Follower{Path: path, Region: "us-east-2"}

		from, err := settings.Sources(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}

		_, _, _ = lifecycle.Pass(t.Context(), from) // Slurm is not there

		snap, err := from.State.ReadSnapshot()
		if err != nil {
			t.Fatal(err)
		}

		return snap.Partitions[0].Groups[0], slices.DeleteFunc(
			snap.Texts(capacity.Admin),
			func(p string) bool { return !strings.Contains(p, "platform") && !strings.Contains(p, "runs") },
		)
	}
	if g, problems := pass("ec2-nodes"); g.Platform != capacity.LinuxUNIX || g.PlatformOf != "lt-0e2000000000000a2:1" ||
		len(problems) > 0 {
		t.Errorf("%+v, %q", g, problems)
	}

	if g, problems := pass("rhel:$Latest"); g.Platform != "Red Hat Enterprise Linux" || len(problems) != 1 ||
		!strings.Contains(
			problems[0],
			"cr-0e2000000000000a1 is for platform Linux/UNIX, but the image of node group gpu is for Red Hat "+
				"Enterprise Linux; use an image for Linux/UNIX",
		) {
		t.Errorf("%+v, %q", g, problems)
	}

	if _, err := sim.AddFault(awssim.Denies("ec2:DescribeImages")); err != nil {
		t.Fatal(err)
	}

	if g, problems := pass("rhel"); g.Platform != "Red Hat Enterprise Linux" || len(problems) != 2 ||
		!strings.Contains(problems[0], "ec2:DescribeImages is not allowed") {
		t.Errorf("%+v, %q", g, problems)
	}

	if g, problems := pass("ec2-nodes"); g.Platform != "" || len(problems) != 1 {
		t.Errorf("another template, not allowed: %+v, %q", g, problems)
	}

	sim.ClearFaults()

	if g, problems := pass(gone); g.Platform != "" || len(problems) != 1 ||
		!strings.Contains(problems[0], "InvalidAMIID.NotFound") {
		t.Errorf("%+v, %q", g, problems)
	}
}
