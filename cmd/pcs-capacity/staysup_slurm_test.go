package main

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestOnlyBlocksStayUp: slurmctld powers idle nodes down that are on demand, and leaves those of
// a block up.
func TestOnlyBlocksStayUp(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDSIMULATED")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	w := newWired(t)
	const demand = `
[[partition.node_group]]
name = "od"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
purchase_option = "on-demand"
max_nodes = 2
launch_template = "lt-0e2000000000000a4"
dynamic = true
`
	w.configure(func(text string) string { return text + demand })
	w.hooks("install", "cli_filter")
	w.hooks("install")
	running, err := (&slurm.Client{}).Config(t.Context())
	if err != nil || !strings.HasSuffix(running.SuspendExcNodes, "gpu-[1-4]") || strings.Contains(running.SuspendExcNodes, "od-") { // the lab has some of its own
		t.Errorf("SuspendExcNodes=%s (%v)", running.SuspendExcNodes, err)
	}
	_, found := w.check()
	told := false
	for _, f := range found {
		told = told || f.Check == "settings" && strings.Contains(f.What, "dynamic = true of node group od has no effect")
	}
	if !told {
		t.Errorf("check does not tell of dynamic: %+v", found)
	}
}
