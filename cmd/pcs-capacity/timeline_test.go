package main

import (
	"context"
	"encoding/csv"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// TestTimelineOfAnExtension: R11, an extension moves the end when it is paid, not when
// it is bought; the timeline shows both, and one whose payment failed.
func TestTimelineOfAnExtension(t *testing.T) {
	const id = "cr-0e2000000000000a1"
	aws, sim := simulatedEC2(t, `payment_delay = "2h"`)
	extend := func() {
		t.Helper()
		offers, err := aws.ExtensionOfferings(t.Context(), id, 24*time.Hour)
		if err != nil || len(offers) != 1 {
			t.Fatalf("extension offerings: %v, %v", offers, err)
		}
		if _, err := aws.PurchaseExtension(t.Context(), offers[0].ID, id); err != nil {
			t.Fatal(err)
		}
	}
	rows := func() []string {
		t.Helper()
		var all []string
		lines, err := csv.NewReader(strings.NewReader(drawTimeline(t, aws, terminal.CSV))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if l[2] == id { // what, state, start, fence, reclaim, end
				all = append(all, strings.Join([]string{l[1], l[4], l[8], l[9], l[10], l[11]}, " "))
			}
		}
		return all
	}
	expect := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, rows()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	const before = "block active 2026-11-18T11:30:00Z 2026-11-25T10:50:00Z 2026-11-25T11:00:00Z 2026-11-25T11:30:00Z"
	const after = "block active 2026-11-18T11:30:00Z 2026-11-26T10:50:00Z 2026-11-26T11:00:00Z 2026-11-26T11:30:00Z"
	expect("before", before)

	extend()
	expect("not paid yet", before, "extension payment-pending 2026-11-25T11:30:00Z   2026-11-26T11:30:00Z")
	picture := drawTimeline(t, aws, terminal.Table)
	if !strings.Contains(picture, "▄╳░░") || !strings.Contains(picture, "extension payment-pending: from Nov 25 11:30 to Nov 26 11:30") {
		t.Error(picture)
	}

	sim.Clock().Advance(3 * time.Hour)
	expect("paid", after, "extension payment-succeeded 2026-11-25T11:30:00Z   2026-11-26T11:30:00Z")
	picture = drawTimeline(t, aws, terminal.Table)
	if !strings.Contains(picture, "█▓▓▄╳") || !strings.Contains(picture, "extended from Nov 25 11:30 to Nov 26 11:30") {
		t.Error(picture)
	}
}

// TestTimelineOfAFailedExtension: what was not paid is told and not drawn.
func TestTimelineOfAFailedExtension(t *testing.T) {
	aws, _ := simulatedEC2(t, `payment_delay = "0s"
fail_payments = true`)
	offers, err := aws.ExtensionOfferings(t.Context(), "cr-0e2000000000000a1", 24*time.Hour)
	if err != nil || len(offers) != 1 {
		t.Fatalf("extension offerings: %v, %v", offers, err)
	}
	if _, err := aws.PurchaseExtension(t.Context(), offers[0].ID, "cr-0e2000000000000a1"); err != nil {
		t.Fatal(err)
	}
	picture := drawTimeline(t, aws, terminal.Table)
	if !strings.Contains(picture, "extension payment-failed: from Nov 25 11:30 to Nov 26 11:30") || strings.Contains(picture, "░░") {
		t.Error(picture)
	}
}

// simulatedEC2 is the account of the transcripts with another payment.
func simulatedEC2(t *testing.T, payment string) (*ec2.Client, *awssim.Sim) {
	t.Helper()
	world, err := os.ReadFile(simWorld)
	if err != nil {
		t.Fatal(err)
	}
	scenario, err := awssim.ParseScenario(simWorld, []byte(strings.Replace(string(world), `payment_delay = "0s"`, payment, 1)))
	if err != nil {
		t.Fatal(err)
	}
	sim, err := awssim.New(scenario, awssim.NewClock(simStart, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	if err := sim.Serve(t.Setenv, "AWS_EC2_METADATA_DISABLED=true"); err != nil {
		t.Fatal(err)
	}
	aws, err := ec2.New(t.Context(), ec2.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return aws, sim
}

// drawTimeline runs the command without settings, in UTC.
func drawTimeline(t *testing.T, aws *ec2.Client, format terminal.Format) string {
	t.Helper()
	t.Setenv("COLUMNS", "80")
	var out, says strings.Builder
	term := &terminal.Terminal{Out: &out, Err: &says, Format: format, UTC: true}
	if err := new(TimelineCmd).Run(context.Background(), term, &maybeConfig{config.Default(), false}, aws); err != nil {
		t.Fatal(err, says.String())
	}
	return out.String()
}
