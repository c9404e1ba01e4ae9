package main

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// TestFutureTranscripts runs testdata/future/*.txtar: ODCRs for later, which EC2 has promised.
func TestFutureTranscripts(t *testing.T) {
	moment := func(text string) (m awssim.Moment) {
		if err := m.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return m
	}
	runTranscripts(t, "testdata/future", func() (*awssim.Scenario, error) {
		scenario, err := awssim.LoadScenario(simWorld)
		if err == nil {
			odcr := awssim.ReservationScenario{ID: "cr-00000000000000001", Type: "c7i.4xlarge", Zone: "us-east-2a", Count: 4, Start: moment("+1440h"), Committed: moment("+2160h")}
			assessed, now := odcr, odcr
			assessed.ID, assessed.State, assessed.Committed = "cr-00000000000000002", "assessing", awssim.Moment{}
			now.ID, now.Start, now.Committed = "cr-00000000000000003", awssim.Moment{}, awssim.Moment{}
			scenario.Regions[0].Reservations = []awssim.ReservationScenario{odcr, assessed, now}
		}
		return scenario, err
	})
}
