package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Which instances belong to no node; they are sorted by their ids.
func TestOrphans(t *testing.T) {
	cluster := &Cluster{
		Nodes: []capacity.Node{
			{Name: "gpu-1", State: "IDLE+CLOUD+POWERED_DOWN", Address: "gpu-1"},
			{Name: "gpu-2", State: "IDLE", Address: "10.0.0.2"},
			{Name: "gpu-3", State: "MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", Address: "gpu-3"}, // no address yet
			{Name: "gpu-5", State: "IDLE+CLOUD+POWERING_DOWN", Address: "10.0.0.5"},
			{Name: "gpu-6", State: "IDLE+CLOUD+POWERED_DOWN+POWERING_UP", Address: "gpu-6"},
			{Name: "gpu-7", State: "IDLE+CLOUD+POWERED_DOWN+POWERING_DOWN", Address: "10.0.0.7"},
		},
		Partitions: []capacity.SlurmPartition{{Name: "gpu", Nodes: []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4"}}},
	}
	instance := func(id, node, address string, change ...func(*capacity.Instance)) capacity.Instance {
		i := capacity.Instance{ID: id, State: "running", PrivateIP: address, ReservationID: "cr-0", Launched: at("-1h"), Tags: map[string]string{capacity.TagNode: node}}
		for _, c := range change {
			c(&i)
		}
		return i
	}
	ended := func(i *capacity.Instance) { i.State = "terminated" }
	young := func(age string) func(*capacity.Instance) {
		return func(i *capacity.Instance) { i.Launched = at("-" + age) }
	}
	down, other, none := "Slurm has powered the node down", "the node is up as another instance", "Slurm has no such node"
	for name, c := range map[string]struct {
		instances []capacity.Instance
		want      map[string]string // why, by instance
	}{
		"its node is up":                      {[]capacity.Instance{instance("i-1", "gpu-2", "10.0.0.2")}, nil},
		"its node is powered down":            {[]capacity.Instance{instance("i-1", "gpu-1", "10.0.0.1")}, map[string]string{"i-1": down}},
		"its node is powered down and hidden": {[]capacity.Instance{instance("i-1", "gpu-4", "10.0.0.4")}, map[string]string{"i-1": down}},
		"Slurm has no such node":              {[]capacity.Instance{instance("i-1", "gpu-9", "10.0.0.9")}, map[string]string{"i-1": none}},
		"up under another instance":           {[]capacity.Instance{instance("i-2", "gpu-2", "10.0.0.9"), instance("i-1", "gpu-2", "10.0.0.2")}, map[string]string{"i-2": other}},
		"up at an address of no instance":     {[]capacity.Instance{instance("i-2", "gpu-2", "10.0.0.9")}, nil},
		"the other has ended":                 {[]capacity.Instance{instance("i-2", "gpu-2", "10.0.0.9"), instance("i-1", "gpu-2", "10.0.0.2", ended)}, nil},
		"it boots":                            {[]capacity.Instance{instance("i-1", "gpu-3", "10.0.0.3"), instance("i-6", "gpu-6", "10.0.0.6")}, nil},
		"it is powered down now":              {[]capacity.Instance{instance("i-1", "gpu-5", "10.0.0.5"), instance("i-7", "gpu-7", "10.0.0.7")}, nil},
		"it has ended":                        {[]capacity.Instance{instance("i-1", "gpu-1", "10.0.0.1", ended)}, nil},
		"it is for no node":                   {[]capacity.Instance{instance("i-1", "", "10.0.0.1")}, nil},
		"too young":                           {[]capacity.Instance{instance("i-1", "gpu-1", "10.0.0.1", young("4m59s"))}, nil},
		"just old enough":                     {[]capacity.Instance{instance("i-1", "gpu-1", "10.0.0.1", young("5m"))}, map[string]string{"i-1": down}},
		"one that is young hides no other":    {[]capacity.Instance{instance("i-3", "gpu-1", "10.0.0.1", young("1m")), instance("i-2", "gpu-9", ""), instance("i-1", "gpu-1", "")}, map[string]string{"i-1": down, "i-2": none}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			last := ""
			for _, o := range orphans(c.instances, cluster, noon) {
				if o.Instance < last || o.Reservation != "cr-0" || !o.Since.Equal(noon) {
					t.Errorf("after %s: %+v", last, o)
				}
				got[o.Instance], last = o.Why, o.Instance
			}
			if diff := cmp.Diff(c.want, got); diff != "" && len(c.want)+len(got) > 0 {
				t.Error(diff)
			}
		})
	}
}
