package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// openTest fails where one of its nodes has a file in a folder.
const openTest = `#!/bin/sh -u
[ "$PCS_CAPACITY_RESERVATION" = cr-0e2000000000000a1 ] || exit 2
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
	[ -e "%[1]s/$node" ] && { echo "GPU 3 of $node has fallen off the bus"; exit 1; }
done
exit 0
`

// testedRehearsal has a block of some nodes that opens in a moment, and a test that these nodes fail.
func testedRehearsal(t *testing.T, nodes int, bad []string) (r *rehearsal, badFolder string) {
	t.Helper()

	// Nobody but root may write what leads to a test.
	dir, err := os.MkdirTemp("", "pcs-test")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { os.RemoveAll(dir) })

	test := filepath.Join(dir, "test.sh")
	if err := os.WriteFile(test, fmt.Appendf(nil, openTest, dir), 0o644); err != nil {
		t.Fatal(err)
	}

	for _, node := range bad {
		if err := os.WriteFile(filepath.Join(dir, node), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	world := strings.Replace(rehearsalWorld, `count = 4, start = "-1h", end = "+3h"`,
		fmt.Sprintf(`count = %d, start = "+8s", end = "+3h"`, nodes), 1)
	settings := strings.NewReplacer(
		`boot_allowance = "0s"`, `boot_allowance = "2m"`,
		"name = \"gpu\"\ndynamic = true\n", fmt.Sprintf("name = \"gpu\"\nopen_test = %q\n", test),
		"max_nodes = 4\n", fmt.Sprintf("max_nodes = %d\n", nodes),
	).Replace(rehearsalConfig)

	return newRehearsalIn(t, world, settings, func(c *slurmlab.Config) { c.CloudGroups[0].Count = nodes }), dir
}

// TestLong_OpenTest: a test finds two bad nodes of a block that opens. Both are launched again; one is good then and
// the other one drained. No job runs on a node before it has passed.
func TestLong_OpenTest(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	r, folder := testedRehearsal(t, 8, []string{"gpu-3", "gpu-6"})
	r.sync()

	id := r.submit("-C", "gpu", "-N", "7", "-t", "5")

	relaunched := false
	r.until("the block is open", func() bool {
		did := strings.Join(r.sync(), "; ")
		if strings.Contains(did, "replace-node") && !relaunched {
			relaunched = true

			os.Remove(filepath.Join(folder, "gpu-3"))
		}

		return strings.Contains(did, "delete-wait gpu")
	})

	job := r.running(id)
	if slices.Contains(job.Nodes, "gpu-6") || !relaunched {
		t.Errorf("the job runs on %v", job.Nodes)
	}

	nodes, err := (&slurm.Client{}).Nodes(r.ctx, "gpu-6")
	if err != nil || len(nodes) != 1 || nodes[0].OutState() != "drained" ||
		!strings.HasPrefix(nodes[0].Reason, "open_test: GPU 3 of gpu-6 has fallen off the bus (exit status 1)") {
		t.Errorf("the bad node is %+v, %v", nodes, err)
	}

	tests, err := state.Dir(r.cfg.StateDir).NodeTests().Read()
	if err != nil {
		t.Fatal(err)
	}

	hasPassed := func(node string) bool {
		return slices.ContainsFunc(tests["gpu"].Runs, func(run capacity.TestRun) bool {
			return run.Result == capacity.TestPassed && slices.Contains(run.Nodes, node) && run.At.Before(job.Start)
		})
	}

	for _, node := range job.Nodes {
		if !hasPassed(node) {
			t.Errorf("the job runs on %s, which has not passed before", node)
		}
	}
}
