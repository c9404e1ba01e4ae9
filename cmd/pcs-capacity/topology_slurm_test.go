package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
)

// TestLong_Topology: a real slurmctld knows the switches of the topology.conf that topology prints.
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

	lines := run()
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.cluster.Conf()), "topology.conf"), []byte(lines),
		0o644); err != nil {
		t.Fatal(err)
	}

	config.Extra = append(config.Extra, "TopologyPlugin=topology/tree")
	if err := r.cluster.Reload(r.ctx, config); err != nil {
		t.Fatal(err)
	}

	shown, err := r.cluster.Command(r.ctx, "scontrol", "show", "topology")
	for _, line := range regexp.MustCompile(`(?m)^SwitchName=(\S+)`).FindAllStringSubmatch(lines, -1) {
		if err != nil || !strings.Contains(shown, "SwitchName="+line[1]+" Level=") {
			t.Errorf("slurmctld does not know %s (%v):\n%s", line[1], err, shown)
		}
	}

	if !regexp.MustCompile(`Level=0 .*Nodes=gpu-\[1-4\]`).MatchString(shown) {
		t.Errorf("scontrol show topology: %s", shown)
	}
}
