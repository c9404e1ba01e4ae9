package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// Jobs wait in a partition, not in a slot: they are counted once.
func TestWaitingJobsAreShownOnce(t *testing.T) {
	waiting := 7

	rows := []statusRow{
		{Partition: "gpu", Slot: "gpu-a", Pending: &waiting},
		{Partition: "gpu", Slot: "gpu-b", Pending: &waiting, another: true},
		{Partition: "big", Slot: "big"}, // Slurm did not answer
	}

	var out strings.Builder
	if err := (&terminal.Terminal{Out: &out, Err: &out}).Rows(rows, "SLOT: Slot; PENDING: Waiting"); err != nil {
		t.Fatal(err)
	}

	if got, want := strings.Fields(out.String()), []string{
		"SLOT",
		"PENDING",
		"gpu-a",
		"7",
		"gpu-b",
		"-",
		"big",
		"-",
	}; !slices.Equal(
		got,
		want,
	) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A slot for whose jobs capacity is held says so; without anything held it is on demand.
func TestStatusOfHeldSlots(t *testing.T) {
	snap := explainWorld(t)
	p := &snap.Partitions[0]
	p.Provider = capacity.ProviderPCS
	p.Groups[0].PurchaseOption = capacity.OnDemand
	p.Groups[0].Reserve = capacity.ReservePerJob
	p.Groups[0].Slots[0].ReservationIDs = nil

	for held, want := range map[*capacity.Holding]string{
		nil: "",
		{AZID: "use2-az1", Count: 2, Free: 1, Jobs: []string{"7"}}: "2 × p5.48xlarge held in use2-az1 for job 7, " +
			"1 not launched yet",
		{
			AZID:   "use2-az1",
			Count:  3,
			Jobs:   []string{"7", "8_[1,3]"},
			Paused: map[string]time.Time{"9": simStart},
		}: "3 × p5.48xlarge held in use2-az1 for jobs 7, 8_[1,3], 0 not launched yet; " +
			"paused for job 9, which Slurm did not start",
	} {
		p.Groups[0].Slots[0].Holding = held

		row := look{snap: snap, now: simStart}.document().Partitions[0]
		if row.State != "on-demand" || row.Event() != "" || row.held != want || row.Holding != held {
			t.Errorf("%+v, want %q", row, want)
		}
	}
}

// What a signal has cut short is said in a word; what was said of it stays, each line once.
func TestErrorLines(t *testing.T) {
	canceled := fmt.Errorf("asking us-east-2: %w", context.Canceled)
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"an error":           {errors.New("oops"), []string{"oops"}},
		"a signal":           {context.Canceled, []string{"interrupted"}},
		"a signal, twice":    {errors.Join(context.Canceled, context.Canceled), []string{"interrupted"}},
		"a call that it cut": {errors.Join(canceled, canceled), []string{"asking us-east-2", "interrupted"}},
		"a signal, and an error": {
			errors.Join(canceled, errors.New("oops")),
			[]string{"asking us-east-2", "oops", "interrupted"},
		},
	} {
		if got := errorLines(c.err); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
