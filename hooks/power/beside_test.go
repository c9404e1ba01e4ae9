package power

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// What is launched for a job whose other nodes are up is launched beside them.
func TestBesideNeighbors(t *testing.T) {
	at := func(azID, instanceType string) target {
		return target{azID: azID, instanceType: instanceType, hold: true}
	}
	up := func(node, azID, instanceType string) neighbor {
		return neighbor{node, "gpu", azID, instanceType}
	}
	everywhere := []target{at("az1", wanted), at("az2", wanted), at("az1", second), at("az2", second)}
	foreign := up("cpu-1", "az2", "c7i.large")
	foreign.group = "cpu"
	for name, c := range map[string]struct {
		near    []neighbor
		targets []target // everywhere, if nil
		want    []target
		code    capacity.Code
		says    string
	}{
		"nothing is up":       {want: everywhere},
		"one is up":           {near: []neighbor{up("gpu-1", "az2", second)}, want: []target{at("az2", second)}},
		"two in one place":    {near: []neighbor{up("gpu-1", "az1", wanted), up("gpu-2", "az1", wanted)}, want: []target{at("az1", wanted)}},
		"of another group":    {near: []neighbor{foreign}, want: []target{at("az2", wanted), at("az2", second)}},
		"of both groups":      {near: []neighbor{foreign, up("gpu-1", "az2", second)}, want: []target{at("az2", second)}},
		"two zones":           {near: []neighbor{up("gpu-1", "az1", wanted), up("gpu-3", "az2", wanted), up("gpu-2", "az1", wanted)}, code: capacity.SeveralPlaces, says: "gpu-[1-2] as p5.48xlarge in az1, gpu-3 as p5.48xlarge in az2; nodes that no other job uses are powered down"},
		"two types":           {near: []neighbor{up("gpu-1", "az1", wanted), up("gpu-2", "az1", second)}, code: capacity.SeveralPlaces, says: "gpu-2 as p5e.48xlarge in az1"},
		"groups in two zones": {near: []neighbor{foreign, up("gpu-1", "az1", second)}, code: capacity.SeveralPlaces, says: "cpu-1 as c7i.large in az2"},
		"a zone of no target": {near: []neighbor{up("gpu-1", "az3", wanted)}, code: capacity.NoPlaceBeside, says: "gpu-1 as p5.48xlarge in az3, and the rest cannot be launched there"},
		"a type of no target": {near: []neighbor{up("gpu-1", "az1", second)}, targets: everywhere[:2], code: capacity.NoPlaceBeside},
		"EC2 does not say":    {near: []neighbor{up("gpu-1", "az1", wanted), up("gpu-2", "", "")}, code: capacity.PlaceUnknown, says: "gpu-2 is up, or about to be, and nobody knows in which zone"},
	} {
		targets := c.targets
		if targets == nil {
			targets = everywhere
		}
		got, err := besideNeighbors(targets, "gpu", c.near)
		if (err != nil) != (c.code != "") || err != nil && (err.Code != string(c.code) || !strings.Contains(err.Message, c.says) || !slices.Equal(err.LetGo, nodesOf(c.near))) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(target{})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// holdingSnapshot is a slot on demand in two zones, for whose jobs capacity is held.
func holdingSnapshot() *capacity.Snapshot {
	snap := onDemand()
	snap.Partitions[0].Groups[0].Reserve = capacity.ReservePerJob
	return snap
}

// Of the nodes of a job those count that are not launched now, wherever their instances say
// they are; jobs for which nothing is held may be anywhere.
func TestPartsBesideNeighbors(t *testing.T) {
	job := nlp(1, "gpu-1", "gpu-2", "gpu-3")
	g := group{nodes: []string{"gpu-2", "gpu-3"}, jobs: []capacity.Job{job}}
	for name, c := range map[string]struct {
		snap *capacity.Snapshot
		live capacity.Instance
		want string
	}{
		"held":              {holdingSnapshot(), capacity.Instance{Type: wanted, SubnetID: subnet2}, "az2"},
		"not held":          {onDemand(), capacity.Instance{Type: wanted, SubnetID: subnet2}, "az1 az2"},
		"of another subnet": {holdingSnapshot(), capacity.Instance{Type: wanted, SubnetID: "subnet-0fffffffffffffff0"}, string(capacity.PlaceUnknown)},
		"of another type":   {holdingSnapshot(), capacity.Instance{Type: second, SubnetID: subnet2}, string(capacity.NoPlaceBeside)},
	} {
		u := newFacts(c.snap)
		u.live["gpu-1"] = []capacity.Instance{c.live}
		u.live["gpu-2"] = []capacity.Instance{{Type: wanted, SubnetID: subnet1}} // an older launch
		parts, err := u.parts(g)
		var got string
		if err != nil {
			got = err.Code
		} else {
			var zones []string
			for _, t := range parts[0].targets {
				if !slices.Contains(zones, t.azID) {
					zones = append(zones, t.azID)
				}
			}
			got = strings.Join(zones, " ")
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s: %v", name, got, c.want, err)
		}
	}
}

// Nodes that other jobs have are kept.
func TestLetGo(t *testing.T) {
	waits := nlp(1, "gpu-1", "gpu-2")
	over := nlp(3, "gpu-1")
	over.State = "COMPLETED"
	jobs := []capacity.Job{waits, nlp(2, "gpu-2"), over}
	down := letGo([]string{"gpu-1", "gpu-2"}, jobs, []capacity.Job{waits})
	if len(down) != 1 || !slices.Equal(down[0].(PowerDown).Nodes, []string{"gpu-1"}) {
		t.Error(down)
	}
	if down := letGo([]string{"gpu-1"}, nil, []capacity.Job{waits}); down != nil {
		t.Errorf("nobody knows the jobs: %+v", down)
	}
}
