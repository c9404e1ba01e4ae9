package site

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
		"the id beside its structure": {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.ReservationID, t.NoTarget = "", true }, "has a"},
		"another block":               {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.ReservationID = "cr-1" }, "launches into"},
		"no market type":              {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.Market = "" }, "has MarketType"},
		"no type":                     {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.InstanceType = "" }, "has InstanceType"},
		"all at once":                 {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { *t = capacity.LaunchTemplate{} }, "launches into; has MarketType; has InstanceType"},
		"an ODCR": {func(t *capacity.LaunchTemplate, g *pcs.NodeGroup) {
			t.Market, t.InstanceType, g.PurchaseOption = "", "", capacity.ODCR
		}, ""},
		"an ODCR, bought as a block": {func(_ *capacity.LaunchTemplate, g *pcs.NodeGroup) { g.PurchaseOption = capacity.ODCR }, "has MarketType"},
	} {
		t.Run(name, func(t *testing.T) {
			template, g := good, group
			c.change(&template, &g)
			var lacks []string
			for _, l := range launchedByPCS(template, g) {
				lacks = append(lacks, strings.Join(strings.Fields(l.what)[:2], " "))
				if !strings.Contains(l.fix, "--reservation "+id) || !strings.Contains(l.fix, "node group gpu ") {
					t.Errorf("the fix is %q", l.fix)
				}
			}
			if got := strings.Join(lacks, "; "); got != c.want {
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
}
