package check

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// The shapes of launch templates with which PCS launches nothing, or not into the block.
func TestLaunchedByPCS(t *testing.T) {
	const id = "cr-0e2000000000000a1"
	group := pcs.NodeGroup{Name: "gpu-a", PurchaseOption: capacity.CapacityBlock, InstanceTypes: []string{"p5.48xlarge"}, Tags: map[string]string{capacity.TagReservation: id}}
	good := capacity.LaunchTemplate{ReservationID: id, Market: "capacity-block", InstanceType: "p5.48xlarge"}
	for name, c := range map[string]struct {
		change func(*capacity.LaunchTemplate, *pcs.NodeGroup)
		want   string // the codes
	}{
		"good":                        {func(*capacity.LaunchTemplate, *pcs.NodeGroup) {}, ""},
		"the id beside its structure": {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.ReservationID, t.NoTarget = "", true }, "target"},
		"another block":               {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.ReservationID = "cr-1" }, "target"},
		"no market type":              {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.Market = "" }, "market"},
		"no type":                     {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.InstanceType = "" }, "instance-type"},
		"all at once":                 {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { *t = capacity.LaunchTemplate{} }, "target market instance-type"},
		"an ODCR": {func(t *capacity.LaunchTemplate, g *pcs.NodeGroup) {
			t.Market, t.InstanceType, g.PurchaseOption = "", "", capacity.ODCR
		}, ""},
		"an ODCR, bought as a block": {func(_ *capacity.LaunchTemplate, g *pcs.NodeGroup) { g.PurchaseOption = capacity.ODCR }, "market"},
	} {
		t.Run(name, func(t *testing.T) {
			template, g := good, group
			c.change(&template, &g)
			var codes []string
			for _, m := range launchedByPCS(template, g) {
				codes = append(codes, m.Code)
				if !strings.Contains(m.Fix, "--reservation "+id) || !strings.Contains(m.Fix, "node group gpu ") {
					t.Errorf("the fix is %q", m.Fix)
				}
			}
			if got := strings.Join(codes, " "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestLaunchedBySlurm(t *testing.T) {
	group := capacity.GroupSettings{Name: "gpu", PurchaseOption: capacity.ODCR}
	if found := launchedBySlurm(capacity.LaunchTemplate{ImageID: "ami-1", MetadataTags: true}, group); found != nil {
		t.Errorf("%v", found)
	}
	if found := launchedBySlurm(capacity.LaunchTemplate{Market: "spot"}, group); len(found) != 3 {
		t.Errorf("%v", found)
	}
	group.PurchaseOption = capacity.Mixed // each launch says it itself, and that of an ODCR says nothing
	if found := launchedBySlurm(capacity.LaunchTemplate{ImageID: "ami-1", MetadataTags: true, Market: "capacity-block"}, group); len(found) != 1 || found[0].Code != "market" {
		t.Errorf("mixed: %v", found)
	}
}
