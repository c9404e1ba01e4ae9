package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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
