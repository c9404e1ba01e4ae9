package awssim

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim/shapes"
)

// The record of shapes holds the operations that the simulator answers. What is missing
// is added to ec2Operations in shapes/shapegen, which then has to run again.
func TestEveryOperationIsRecorded(t *testing.T) {
	sim, _ := wireSim(t, string(defaultTOML))
	for service, operations := range map[string]map[string]operation{"ec2": sim.ec2, "pcs": sim.pcs} {
		if diff := cmp.Diff(shapes.Operations(service), slices.Sorted(maps.Keys(operations))); diff != "" {
			t.Errorf("%s: -recorded +answered:\n%s", service, diff)
		}
	}
}
