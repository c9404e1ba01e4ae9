package main

import (
	"fmt"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// TestR4_CleanTranscripts runs testdata/clean/*.txtar: ten probes that were never given back,
// and four ODCRs of others and of people that look like them, on pages of two.
func TestR4_CleanTranscripts(t *testing.T) {
	runTranscripts(t, "testdata/clean", func() (*awssim.Scenario, error) {
		scenario, err := awssim.LoadScenario(simWorld)
		if err != nil {
			return nil, err
		}
		var end awssim.Moment
		if err := end.UnmarshalText([]byte("+1h")); err != nil {
			return nil, err
		}
		all := make([]awssim.ReservationScenario, 14)
		for n := range all {
			tags := map[string]string{capacity.TagCluster: "ml", capacity.TagHold: capacity.HoldProbe}
			switch n {
			case 3:
				tags[capacity.TagCluster] = "other"
			case 5:
				delete(tags, capacity.TagHold)
			case 7:
				delete(tags, capacity.TagCluster)
			case 9:
				tags[capacity.TagHold] = capacity.HoldByHand
			}
			all[n] = awssim.ReservationScenario{ID: fmt.Sprintf("cr-%017d", n), Type: "c7i.4xlarge", Zone: "us-east-2a", Count: 2, End: end, Tags: tags}
		}
		scenario.PageSize, scenario.Regions[0].Reservations = 2, all
		return scenario, nil
	})
}
