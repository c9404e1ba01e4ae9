package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// What the control loop sees of a node. One that is on its way down, or back, is not powered
// down: its instance may be there still.
func TestNodesOfTheControlLoop(t *testing.T) {
	for name, c := range map[string]struct {
		node slurm.Node
		want lifecycle.Node
	}{
		"up":                {slurm.Node{State: "IDLE"}, lifecycle.Node{State: "idle", Up: true}},
		"busy":              {slurm.Node{State: "MIXED", StateFlags: []string{"CLOUD"}}, lifecycle.Node{State: "mixed", Up: true}},
		"powered down":      {slurm.Node{State: "IDLE", StateFlags: []string{"CLOUD", "POWERED_DOWN"}}, lifecycle.Node{State: "powered-down", PoweredDown: true}},
		"powering down":     {slurm.Node{State: "IDLE", StateFlags: []string{"CLOUD", "POWERING_DOWN"}}, lifecycle.Node{State: "powering-down"}},
		"powering down yet": {slurm.Node{State: "IDLE", StateFlags: []string{"CLOUD", "POWERED_DOWN", "POWERING_DOWN"}}, lifecycle.Node{State: "powering-down"}},
		"told to go down":   {slurm.Node{State: "IDLE", StateFlags: []string{"CLOUD", "POWERED_DOWN", "POWER_DOWN"}}, lifecycle.Node{State: "power-down"}},
		"let go":            {slurm.Node{State: "MIXED", StateFlags: []string{"CLOUD", "DRAIN", "POWER_DOWN", "POWERING_UP"}}, lifecycle.Node{State: "power-down"}},
		"powering up":       {slurm.Node{State: "ALLOCATED", StateFlags: []string{"CLOUD", "POWERING_UP"}}, lifecycle.Node{State: "powering-up"}},
		"drained":           {slurm.Node{State: "IDLE", StateFlags: []string{"DRAIN"}, Reason: "bad cable"}, lifecycle.Node{State: "drain", Out: "drained", Reason: "bad cable"}},
		"failing":           {slurm.Node{State: "IDLE", StateFlags: []string{"FAIL"}}, lifecycle.Node{State: "idle", Up: true, Out: "failed"}},
		"given up":          {slurm.Node{State: "DOWN", StateFlags: []string{"CLOUD", "POWERED_DOWN"}}, lifecycle.Node{State: "powered-down", PoweredDown: true}},
		"dead":              {slurm.Node{State: "DOWN"}, lifecycle.Node{State: "down", Out: "down"}},
	} {
		if diff := cmp.Diff(c.want, lifecycleNode(c.node)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A job that states no limit has the partition's DefaultTime, or without one its MaxTime.
func TestPartitionsOfTheControlLoop(t *testing.T) {
	for _, c := range []struct{ most, usual, want capacity.Limit }{
		{capacity.Minutes(600), capacity.Minutes(60), capacity.Minutes(60)},
		{capacity.Minutes(600), capacity.Limit{}, capacity.Minutes(600)},
		{capacity.NoLimit, capacity.Limit{}, capacity.NoLimit},
		{capacity.NoLimit, capacity.Minutes(60), capacity.Minutes(60)},
	} {
		got, err := lifecyclePartition(slurm.Partition{Name: "gpu", Nodes: "gpu-[1-2]", MaxTime: c.most, DefaultTime: c.usual, QOS: "q", Default: true, AllowAccounts: []string{"a"}, AllowGroups: []string{"g"}})
		want := lifecycle.Partition{Name: "gpu", Nodes: []string{"gpu-1", "gpu-2"}, MaxTime: c.most, DefaultTime: c.want, QOS: "q", Default: true, AllowAccounts: []string{"a"}, AllowGroups: []string{"g"}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
	if _, err := lifecyclePartition(slurm.Partition{Nodes: "gpu-[1"}); err == nil {
		t.Error("a list of nodes that cannot be read is taken")
	}
}
