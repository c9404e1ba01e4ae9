package ec2

import (
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

func TestGroupMembers(t *testing.T) {
	scenario := awssim.DefaultScenario()
	scenario.PageSize = 2
	i := slices.IndexFunc(scenario.Regions, func(r awssim.RegionScenario) bool { return r.Name == homeRegion })
	scenario.Regions[i].ResourceGroups = []awssim.ResourceGroupScenario{{Name: "gpus", Reservations: []string{openBlock, gpuODCR, borrowed, sharedODCR}, Joining: []string{laterBlock}}, {Name: "empty"}}
	_, c, _ := simOf(t, scenario)
	for _, group := range []string{"gpus", "arn:aws:resource-groups:us-east-2:111122223333:group/gpus"} {
		if ids, err := c.GroupMembers(t.Context(), group); err != nil || !slices.Equal(ids, []string{openBlock, gpuODCR, borrowed, sharedODCR}) {
			t.Errorf("%s: %v, %v", group, ids, err)
		}
	}
	if ids, err := c.GroupMembers(t.Context(), "empty"); err != nil || len(ids) != 0 {
		t.Errorf("empty: %v, %v", ids, err)
	}
	_, err := c.GroupMembers(t.Context(), "none")
	if Code(err) != "NotFoundException" || !strings.Contains(Advice(err), "check group in select of the node_group") {
		t.Errorf("none: %v; %s", err, Advice(err))
	}
}
