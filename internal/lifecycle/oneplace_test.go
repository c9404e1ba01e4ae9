package lifecycle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// What is let go of: NODE@SUBNET:TYPE in, hostlists out.
func TestElsewhere(t *testing.T) {
	subnets := []capacity.Subnet{{ID: "a", AZID: "az1"}, {ID: "b", AZID: "az2"}, {ID: "b2", AZID: "az2"}}
	group := func(name string, subnets ...capacity.Subnet) capacity.NodeGroup {
		return capacity.NodeGroup{Name: name, InstanceType: "p5", OtherTypes: []string{"p5e"}, Reserve: capacity.ReservePerJob,
			Subnets: subnets, Slots: []capacity.Slot{{Name: name}}}
	}
	for name, c := range map[string]struct {
		nodes, want string
		change      func(*capacity.Snapshot)
		node        capacity.Node // what gpu-1 is otherwise
	}{
		"none":                      {},
		"one place":                 {nodes: "gpu-1@b:p5 gpu-2@b2:p5"},
		"the smaller zone":          {nodes: "gpu-1@a:p5 gpu-2@b:p5 gpu-3@b2:p5", want: "gpu-1"},
		"as many":                   {nodes: "gpu-1@b:p5 gpu-2@a:p5", want: "gpu-1"},
		"the smaller type":          {nodes: "gpu-1@a:p5 gpu-2@a:p5e gpu-3@a:p5e", want: "gpu-1"},
		"types of the zone":         {nodes: "gpu-1@a:p5 gpu-2@a:p5 gpu-3@a:p5e gpu-4@b:p5e gpu-5@b:p5e", want: "gpu-3 gpu-[4-5]"},
		"one that boots":            {nodes: "gpu-1@a:p5 gpu-2@b:p5 gpu-3@b:p5", node: capacity.Node{State: nodeBoots}, want: "gpu-1"},
		"one that goes":             {nodes: "gpu-1@a:p5 gpu-2@b:p5 gpu-3@b:p5", node: capacity.Node{State: "MIXED+CLOUD+POWER_DOWN"}},
		"one that is drained":       {nodes: "gpu-1@a:p5 gpu-2@b:p5 gpu-3@b:p5", node: capacity.Node{State: "IDLE+CLOUD+DRAIN"}},
		"another instance":          {nodes: "gpu-1@a:p5 gpu-2@b:p5 gpu-3@b:p5", node: capacity.Node{State: nodeIdle, Address: "192.0.2.1"}},
		"a subnet of nobody's":      {nodes: "gpu-1@z:p5 gpu-2@b:p5"},
		"groups share a zone":       {nodes: "gpu-1@a:p5 cpu-1@b:p5e cpu-2@b:p5e", want: "gpu-1"},
		"each group its type":       {nodes: "gpu-1@b:p5 cpu-1@b:p5e cpu-2@b:p5e"},
		"groups without common one": {nodes: "gpu-1@a:p5 gpu-2@b:p5 cpu-1@a:p5 cpu-2@a:p5", want: "gpu-2", change: func(s *capacity.Snapshot) { s.Partitions[0].Groups[1].Subnets = subnets[:1] }},
		"groups apart": {nodes: "gpu-1@b:p5 cpu-1@a:p5 cpu-2@a:p5", change: func(s *capacity.Snapshot) {
			s.Partitions[0].Groups[0].Subnets, s.Partitions[0].Groups[1].Subnets = subnets[1:], subnets[:1]
		}},
		"nothing held": {nodes: "gpu-1@a:p5 gpu-2@b:p5", change: func(s *capacity.Snapshot) { s.Partitions[0].Groups[0].Reserve = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &Cluster{slots: map[string][]string{}}
			var instances []capacity.Instance
			for i, word := range strings.Fields(c.nodes) {
				node, where, _ := strings.Cut(word, "@")
				subnet, kind, _ := strings.Cut(where, ":")
				n := capacity.Node{State: nodeIdle}
				if i == 0 && c.node.State != "" {
					n = c.node
				}
				ip := fmt.Sprintf("10.0.0.%d", i)
				if n.Name = node; n.Address == "" {
					n.Address = ip
				}
				slot, _, _ := strings.Cut(node, "-")
				cluster.Nodes = append(cluster.Nodes, n)
				cluster.slots[slot] = append(cluster.slots[slot], node)
				instances = append(instances, capacity.Instance{PrivateIP: ip, SubnetID: subnet, Type: kind, State: "running", Tags: map[string]string{capacity.TagNode: node}},
					capacity.Instance{PrivateIP: ip, SubnetID: "a", Type: kind, State: "terminated", Tags: map[string]string{capacity.TagNode: node}})
			}
			snap := &capacity.Snapshot{Partitions: []capacity.Partition{{Name: "gpu", Groups: []capacity.NodeGroup{group("gpu", subnets...), group("cpu", subnets...)}}}}
			if c.change != nil {
				c.change(snap)
			}
			var got []string
			for _, e := range elsewhere(Seen{Snap: snap, Cluster: cluster, Instances: instances}) {
				got = append(got, e.About().Node)
			}
			if diff := cmp.Diff(strings.Fields(c.want), got); diff != "" && len(got)+len(c.want) > 0 {
				t.Error(diff)
			}
		})
	}
}
