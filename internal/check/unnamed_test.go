package check

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// What setup made and no settings name any more is named, each with what removes it.
func TestUnnamed(t *testing.T) {
	of := func(name, queue string) pcs.NodeGroup {
		tags := map[string]string{capacity.TagCluster: "ml", capacity.TagReservation: "cr-1"}
		if queue != "" {
			tags[capacity.TagPartition] = queue
		}
		return pcs.NodeGroup{ID: "pcs_" + name, Name: name, Status: pcs.Active, Tags: tags}
	}
	but := func(g pcs.NodeGroup, change func(*pcs.NodeGroup)) pcs.NodeGroup { change(&g); return g }
	settings := func(provider capacity.Provider, queue string, groups ...string) capacity.Settings {
		p := capacity.PartitionSettings{Name: queue, Provider: provider}
		for _, name := range groups {
			p.Groups = append(p.Groups, capacity.GroupSettings{Name: name})
		}
		return capacity.Settings{Partitions: []capacity.PartitionSettings{p}}
	}
	gpu := settings(capacity.ProviderPCS, "gpu", "gpu")
	for name, test := range map[string]struct {
		groups   []pcs.NodeGroup
		settings capacity.Settings
		want     []string // of each finding the name, and the end of the fix
	}{
		"both slots are named":           {[]pcs.NodeGroup{of("gpu-a", "gpu"), of("gpu-b", "gpu")}, gpu, nil},
		"named in another partition":     {[]pcs.NodeGroup{of("gpu-a", "old")}, gpu, nil},
		"no tag of ours":                 {[]pcs.NodeGroup{{Name: "compute", Status: pcs.Active}}, gpu, nil},
		"the tag of another cluster":     {[]pcs.NodeGroup{but(of("big-a", "big"), func(g *pcs.NodeGroup) { g.Tags[capacity.TagCluster] = "other" })}, gpu, nil},
		"it is being deleted":            {[]pcs.NodeGroup{but(of("big-a", "big"), func(g *pcs.NodeGroup) { g.Status = pcs.Deleting })}, gpu, nil},
		"setup failed in it":             {[]pcs.NodeGroup{but(of("big-a", "big"), func(g *pcs.NodeGroup) { g.Status = pcs.CreateFailed })}, gpu, []string{"big-a", "teardown --queue big`"}},
		"no settings at all":             {[]pcs.NodeGroup{of("gpu-a", "gpu")}, capacity.Settings{}, []string{"gpu-a", "teardown --queue gpu`"}},
		"a partition is lost":            {[]pcs.NodeGroup{of("gpu-a", "gpu"), of("big-a", "big"), of("big-b", "big")}, gpu, []string{"big-a", "teardown --queue big`", "big-b", "teardown --queue big`"}},
		"a node group is lost":           {[]pcs.NodeGroup{of("gpu-a", "gpu"), of("big-b", "gpu")}, gpu, []string{"big-b", "teardown --queue gpu --node-group big-b`"}},
		"its queue has one that is kept": {[]pcs.NodeGroup{of("gpu-a", "old"), of("big-a", "old")}, gpu, []string{"big-a", "teardown --queue old --node-group big-a`"}},
		"not the name of a slot":         {[]pcs.NodeGroup{of("gpu", "gpu")}, gpu, []string{"gpu", "identifier pcs_1 --compute-node-group-identifier pcs_gpu`"}},
		"made for no queue":              {[]pcs.NodeGroup{of("big-a", "")}, gpu, []string{"big-a", "--compute-node-group-identifier pcs_big-a`"}},
		"its partition is not on PCS":    {[]pcs.NodeGroup{of("gpu-a", "gpu")}, settings(capacity.ProviderEC2, "gpu", "gpu"), []string{"gpu-a", "--compute-node-group-identifier pcs_gpu-a`"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := unnamed(pcs.Inventory{Cluster: pcs.Cluster{ID: "pcs_1", Name: "ml"}, Groups: test.groups}, test.settings)
			if len(found)*2 != len(test.want) {
				t.Fatalf("%d findings: %v", len(found), found)
			}
			for i, m := range found {
				group, fix := test.want[2*i], test.want[2*i+1]
				if !strings.HasPrefix(m.Message+",", "compute node group "+group+" ") && !strings.HasPrefix(m.Message, "compute node group "+group+",") {
					t.Errorf("%q is not about %s", m.Message, group)
				}
				if !strings.HasSuffix(m.Fix, fix) {
					t.Errorf("the fix is %q, want …%s", m.Fix, fix)
				}
			}
		})
	}
}
