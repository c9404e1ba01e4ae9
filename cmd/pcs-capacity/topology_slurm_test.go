package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestLong_Topology: a real slurmctld knows the switches and the blocks of the topology.conf and the topology.yaml that
// topology prints, and a job whose segment is in one slot starts there.
func TestLong_Topology(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	var config slurmlab.Config

	r := newRehearsalIn(t, rehearsalWorld, rehearsalConfig, func(c *slurmlab.Config) { config = *c })
	run := func(args ...string) string {
		t.Helper()

		out, err := exec.CommandContext(r.ctx, "pcs-capacity", append([]string{
			"--config",
			r.path,
			"topology",
		}, args...)...).
			Output()
		if err != nil {
			t.Fatalf("topology %q: %v: %s", args, err, out)
		}

		return string(out)
	}

	r.sync()

	extra := config.Extra
	load := func(plugin, lines string) (shown string, err error) {
		t.Helper()

		// Slurm ignores topology.conf and TopologyPlugin beside topology.yaml.
		file := "topology.conf"
		if strings.HasPrefix(lines, "- ") {
			file = "topology.yaml"
			plugin = "topology/flat"
		}

		path := filepath.Join(filepath.Dir(r.cluster.Conf()), file)
		if err := os.WriteFile(path, []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}

		config.Extra = append(slices.Clone(extra), "TopologyPlugin="+plugin)
		if err := r.cluster.Reload(r.ctx, config); err != nil {
			t.Fatal(err)
		}

		return r.cluster.Command(r.ctx, "scontrol", "show", "topology")
	}

	tree := func(lines string) {
		t.Helper()

		shown, err := load("topology/tree", lines)
		for _, name := range regexp.MustCompile(`(?:SwitchName=|switch: )(\S+)`).FindAllStringSubmatch(lines, -1) {
			if err != nil || !strings.Contains(shown, "SwitchName="+name[1]+" Level=") {
				t.Errorf("slurmctld does not know %s (%v):\n%s", name[1], err, shown)
			}
		}

		if !regexp.MustCompile(`Level=0 .*Nodes=gpu-\[1-4\]`).MatchString(shown) {
			t.Errorf("scontrol show topology: %s", shown)
		}
	}
	block := func(lines string) {
		t.Helper()

		shown, err := load("topology/block", lines)
		if err != nil || !regexp.MustCompile(`BlockName=gpu .*Nodes=gpu-\[1-4\]`).MatchString(shown) {
			t.Errorf("slurmctld does not know the block (%v):\n%s", err, shown)
		}

		job := r.submit("-C", "gpu", "-N2", "--segment=1", "-t", "10")
		r.running(job)
		r.cancel(job)
	}

	tree(run())

	version, err := (&slurm.Client{}).Version(r.ctx)
	if err != nil {
		t.Fatal(err)
	}

	if !version.AtLeast(24, 11, 0) {
		t.Skipf("Slurm %s has no topology/block with BlockSizes", version)
	}

	block(run("--plugin", "block"))

	if version.AtLeast(25, 5, 0) {
		tree(run("-o", "yaml"))
		block(run("-o", "yaml", "--plugin", "block"))
	}
}
