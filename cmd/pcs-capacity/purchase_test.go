package main

import (
	"os"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// TestPurchaseTranscripts runs testdata/purchase/*.txtar: blocks and extensions bought,
// refused, lost and found again.
func TestPurchaseTranscripts(t *testing.T) {
	t.Parallel()
	world, err := os.ReadFile(simWorld)
	if err != nil {
		t.Fatal(err)
	}
	runTranscripts(t, "testdata/purchase", func() (*awssim.Scenario, error) { return awssim.ParseScenario(simWorld, world) })
}

// TestExpiringOfferingTranscripts runs testdata/expiring/*.txtar: every search shows the
// blocks for sale under other ids, and an id that was shown is good for a minute.
func TestExpiringOfferingTranscripts(t *testing.T) {
	world, err := os.ReadFile(simWorld)
	if err != nil {
		t.Fatal(err)
	}
	runTranscripts(t, "testdata/expiring", func() (*awssim.Scenario, error) {
		scenario, err := awssim.ParseScenario(simWorld, world)
		if err == nil {
			scenario.NewOfferingIDs, scenario.OfferingIDsLast = true, awssim.Duration(time.Minute)
		}
		return scenario, err
	})
}
