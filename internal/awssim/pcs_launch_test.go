package awssim

import (
	"errors"
	"testing"
	"time"
)

func TestLaunchForNodeGroup(t *testing.T) {
	w := newPCSWorld(t)
	g := w.group(w.blockGroup("gpu-a"))
	w.queue("gpu", g)
	launched, err := w.sim.LaunchForNodeGroup("hpc", "gpu-a", "gpu-a-1")
	must(t, launched, err)
	if launched.ReservationID != activeBlock || launched.SubnetID != subnetA || launched.Lifecycle != "capacity-block" ||
		launched.Type != "p5.48xlarge" || launched.Tags[tagGroupID] != *g.Id || launched.Tags[tagClusterID] == "" {
		t.Errorf("launched %+v", launched)
	}
	for _, node := range []string{"gpu-a-1", "gpu-a-5", "gpu-a-0", "gpu-b-1", "gpu-a-x"} {
		if _, err := w.sim.LaunchForNodeGroup("hpc", *g.Id, node); err == nil {
			t.Errorf("%s was launched", node)
		}
	}
	if _, err := w.sim.LaunchForNodeGroup("hpc", "gpu-b", "gpu-b-1"); err == nil {
		t.Error("a node of an unknown group was launched")
	}

	if err := w.sim.TerminateNode("hpc", "gpu-a", "gpu-a-1"); err != nil {
		t.Fatal(err)
	}
	if nodes := w.view("gpu-a").Instances; len(nodes) != 0 {
		t.Errorf("nodes %v after the termination", nodes)
	}
	// Its place in the block is being cleaned, so only three more fit.
	for _, node := range []string{"gpu-a-1", "gpu-a-2", "gpu-a-3"} {
		if _, err := w.sim.LaunchForNodeGroup("hpc", "gpu-a", node); err != nil {
			t.Fatal(err)
		}
	}
	var api *APIError
	if _, err := w.sim.LaunchForNodeGroup("hpc", "gpu-a", "gpu-a-4"); !errors.As(err, &api) || api.Code != "ReservationCapacityExceeded" {
		t.Errorf("fifth place of four: %v", err)
	}
	// EC2 takes the instances back 30 minutes before the end at 11:30.
	w.sim.Clock().Set(time.Date(2026, 12, 2, 11, 1, 0, 0, time.UTC))
	if g := w.view("gpu-a"); len(g.Instances) != 0 {
		t.Errorf("nodes %v after EC2 reclaimed the block", g.Instances)
	}
}

func TestLaunchBeforeTheBlockOpens(t *testing.T) {
	w := newPCSWorld(t)
	in := w.blockGroup("gpu-a")
	in.CustomLaunchTemplate = w.template("capacity-block", futureBlock, "p5.48xlarge")
	w.group(in)
	view := w.view("gpu-a")
	opens := time.Date(2026, 12, 2, 11, 30, 0, 0, time.UTC)
	if view.ReservationID != futureBlock || view.ReservationState != "scheduled" || !view.Start.Equal(opens) || view.VCPUs != 192 || view.GPUs != 8 {
		t.Errorf("view %+v", view)
	}
	var api *APIError
	if _, err := w.sim.LaunchForNodeGroup("hpc", "gpu-a", "gpu-a-1"); !errors.As(err, &api) || api.Code != "InvalidCapacityReservationState.PendingActivation" {
		t.Errorf("before it opens: %v", err)
	}
	w.sim.Clock().Set(opens)
	if state := w.view("gpu-a").ReservationState; state != "active" {
		t.Errorf("state %s at the start", state)
	}
	if _, err := w.sim.LaunchForNodeGroup("hpc", "gpu-a", "gpu-a-1"); err != nil {
		t.Error(err)
	}
}

// view is the node group as listeners see it.
func (w *pcsWorld) view(name string) PCSNodeGroup {
	w.Helper()
	for _, cl := range w.sim.PCSClusters() {
		for _, g := range cl.NodeGroups {
			if g.Name == name {
				return g
			}
		}
	}
	w.Fatalf("no node group %s", name)
	return PCSNodeGroup{}
}
