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
)

// TestLong_Topology: a real slurmctld knows the switches and the blocks of the topology.conf that topology prints, and a
// job whose segment is in one slot starts there.
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

		file := filepath.Join(filepath.Dir(r.cluster.Conf()), "topology.conf")
		if err := os.WriteFile(file, []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}

		config.Extra = append(slices.Clone(extra), "TopologyPlugin="+plugin)
		if err := r.cluster.Reload(r.ctx, config); err != nil {
			t.Fatal(err)
		}

		return r.cluster.Command(r.ctx, "scontrol", "show", "topology")
	}

	lines := run()
	shown, err := load("topology/tree", lines)
	for _, line := range regexp.MustCompile(`(?m)^SwitchName=(\S+)`).FindAllStringSubmatch(lines, -1) {
		if err != nil || !strings.Contains(shown, "SwitchName="+line[1]+" Level=") {
			t.Errorf("slurmctld does not know %s (%v):\n%s", line[1], err, shown)
		}
	}

	if !regexp.MustCompile(`Level=0 .*Nodes=gpu-\[1-4\]`).MatchString(shown) {
		t.Errorf("scontrol show topology: %s", shown)
	}

	version, err := r.cluster.Command(r.ctx, "scontrol", "-V")
	if _, number, _ := strings.Cut(version, " "); err != nil || number < "24.11" {
		t.Skipf("%s has no topology/block with BlockSizes: %v", version, err)
	}

	shown, err = load("topology/block", run("--plugin", "block"))
	if err != nil || !regexp.MustCompile(`BlockName=gpu .*Nodes=gpu-\[1-4\]`).MatchString(shown) {
		t.Errorf("slurmctld does not know the block (%v):\n%s", err, shown)
	}

	job := r.submit("-C", "gpu", "-N2", "--segment=1", "-t", "10")
	r.running(job)
}
