package timeline

import (
	"testing"
	"time"
	_ "time/tzdata" // the machine may have no time zones

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// noon is the time of every drawing in these tests: a Friday.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// at is a time before or after noon.
func at(hours float64) time.Time { return noon.Add(time.Duration(hours * float64(time.Hour))) }

var timing = capacity.Timing{DrainMargin: capacity.Duration{Duration: 10 * time.Minute},
	ReclaimLead: capacity.Duration{Duration: 30 * time.Minute}}

// block is a Capacity Block that starts and ends so many hours after noon.
func block(id string, state capacity.State, start, end float64) capacity.Reservation {
	return capacity.Reservation{ID: id, Kind: capacity.CapacityBlock, State: state, InstanceType: "p5.48xlarge", Region: "us-east-2",
		AZ: "us-east-2a", AZID: "use2-az1", Total: 4, Start: at(start), End: at(end)}
}

// lane is a partition with blocks; the gaps are those that package capacity finds.
func lane(partition string, rs ...capacity.Reservation) capacity.Lane {
	snap := &capacity.Snapshot{Timing: timing, Reservations: rs}
	if partition != "" {
		var ids []string
		for _, r := range rs {
			ids = append(ids, r.ID)
		}
		snap.Partitions = []capacity.Partition{{Name: partition, Groups: []capacity.NodeGroup{{Slots: []capacity.Slot{{ReservationIDs: ids}}}}}}
	}
	return capacity.Timeline(snap, nil, at(-7*24), noon)[0]
}

func berlin(t *testing.T) *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// sample has one of everything.
func sample(zone *time.Location) Chart {
	gpu := lane("gpu",
		block("cr-0e2000000000000a1", capacity.StateActive, -48.5, 143.5),
		block("cr-0e2000000000000a2", capacity.StateScheduled, 191.5, 359.5))
	gpu.Blocks[0].Extensions = []capacity.Extension{{From: at(71.5), To: at(143.5), State: capacity.ExtensionPaid}}
	gpu.Blocks[1].Extensions = []capacity.Extension{{From: at(359.5), To: at(383.5), State: capacity.ExtensionPending}}
	odcr := block("cr-0e2000000000000c5", capacity.StateActive, -100, 0)
	odcr.Kind, odcr.End = capacity.ODCR, time.Time{}
	ultra := block("cr-0e2000000000000d6", capacity.StatePaymentPending, 47.5, 215.5)
	ultra.UltraServer, ultra.InstanceType = true, "p6e-gb200.36xlarge"
	loose := lane("", ultra, block("cr-0e2000000000000e7", capacity.StateScheduled, 95.5, 96.2))
	c := Chart{Region: "us-east-2", Now: noon, Zone: zone, Lanes: []capacity.Lane{gpu, lane("batch", odcr), {Partition: "empty"}, loose}}
	c.Fit()
	return c
}
