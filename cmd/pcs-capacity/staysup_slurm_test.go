package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestOnlyBlocksStayUp: slurmctld powers idle nodes down that are in an ODCR, or on demand, and leaves those of
// a block up.
func TestOnlyBlocksStayUp(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	w := newWiredOn(t, func(c *slurmlab.Config) {
		plainSlurm(c)
		onDemand := c.CloudGroups[0]
		onDemand.Prefix = "od-"
		c.CloudGroups = append(c.CloudGroups, onDemand)
	})
	const demand = `
[[partition.node_group]]
name = "od"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
purchase_option = "odcr"
capacity_reservation_ids = ["cr-0e20000000000aa01"]
max_nodes = 2
launch_template = "lt-0e2000000000000a4"
dynamic = true
`
	w.configure(func(text string) string { return text + demand })
	w.hooks("install")
	running, err := (&slurm.Client{}).Config(t.Context())
	// the lab has some of its own
	if err != nil || !strings.HasSuffix(running.SuspendExcNodes, "gpu-[1-4]") || strings.Contains(running.SuspendExcNodes, "od-") {
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

	w.onThisMachine()
	for _, node := range []string{"gpu-1", "od-1"} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		id, err := w.cluster.Submit(ctx, "true", "-p", "gpu", "-w", node, "-t", "5")
		if err == nil {
			_, err = w.cluster.WaitJob(ctx, id, "COMPLETED")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.wait("the node of the ODCR is powered down", func() bool { return strings.Contains(w.node("od-1"), "POWERING_DOWN") })
	if state := w.node("gpu-1"); state != "IDLE+CLOUD" { // idle for longer
		t.Errorf("the block's node is %s", state)
	}
}

// TestSecondSetupStaysDynamic: what a second setup is not given stays as it is in the settings,
// and in slurmctld.
func TestSecondSetupStaysDynamic(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	w := newWiredOn(t, plainSlurm)
	w.configure(func(text string) string { text, _, _ = strings.Cut(text, "[[partition]]"); return text })
	setup := func(more ...string) {
		t.Helper()
		w.said = ""
		if status := w.admin(append(setupEC2(), more...)...); status != 0 {
			t.Fatalf("setup %q: %d\n%s", more, status, w.said)
		}
		w.hooks("install")
		running, err := (&slurm.Client{}).Config(t.Context())
		settings, readErr := os.ReadFile(filepath.Join(filepath.Dir(w.settings), "conf.d", "gpu.toml"))
		if err != nil || readErr != nil || strings.Contains(running.SuspendExcNodes, "gpu-") || !strings.Contains(string(settings), "dynamic = true") {
			t.Errorf("after setup %q: SuspendExcNodes=%s (%v), %s (%v)", more, running.SuspendExcNodes, err, settings, readErr)
		}
	}
	setup("--dynamic")
	setup("--max-nodes", "2")
	if strings.Contains(w.said, "dynamic") {
		t.Errorf("the plan of the second shows a change: %s", w.said)
	}
}
