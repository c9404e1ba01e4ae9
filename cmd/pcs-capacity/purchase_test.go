package main

import (
	"os"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// TestPurchaseTranscripts runs testdata/purchase/*.txtar: blocks and extensions bought,
// refused, lost and found again.
func TestPurchaseTranscripts(t *testing.T) {
	world, err := os.ReadFile(simWorld)
	if err != nil {
		t.Fatal(err)
	}
	runTranscripts(t, "testdata/purchase", func() (*awssim.Scenario, error) { return awssim.ParseScenario(simWorld, world) })
}
