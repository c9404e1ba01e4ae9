package lifecycle

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/metrics"
)

// observed is a pass over a slot with an open block of 4, one of whose hosts has failed.
func observed() (*capacity.Snapshot, Report) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	snap := &capacity.Snapshot{TakenAt: now.Add(-time.Minute), ClockOffset: capacity.Duration{Duration: 1500 * time.Millisecond},
		Timing: capacity.Timing{DrainMargin: capacity.Duration{Duration: 10 * time.Minute}, ReclaimLead: capacity.Duration{Duration: 30 * time.Minute}},
		Partitions: []capacity.Partition{{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.NodeGroup{{Name: "gpu", MaxNodes: 4,
			Slots: []capacity.Slot{{Name: "gpu", ReservationIDs: []string{"cr-1"}}}}}}},
		Reservations: []capacity.Reservation{{ID: "cr-1", Kind: capacity.CapacityBlock, State: capacity.StateActive, Total: 4, Unhealthy: 1, Start: now.Add(-time.Hour), End: now.Add(24 * time.Hour)}}}
	report := Report{At: now, Cluster: &Cluster{slots: map[string][]string{"gpu": {"gpu-1", "gpu-2", "gpu-3", "gpu-4"}}, Nodes: []capacity.Node{{Name: "gpu-1", State: "MIXED"}, {Name: "gpu-2", State: "IDLE"}, {Name: "gpu-3", State: "IDLE+CLOUD+POWERING_UP"}}},
		Jobs: []capacity.Job{{Partition: "gpu", State: "PENDING"}, {Partition: "cpu,gpu", State: "PENDING"}, {Partition: "gpu", State: "RUNNING"}, {Partition: "cpu", State: "PENDING"}}}
	report.Add(capacity.Problemf(capacity.HostFailed, capacity.Subject{}, "", "one"), capacity.Problemf(capacity.NeverStarts, capacity.Subject{}, "", "two"),
		capacity.Problemf(capacity.NeverStarts, capacity.Subject{}, "", "three"))
	return snap, report
}

// TestMetrics: the values are those of the pass, by Prometheus's own parser.
func TestMetrics(t *testing.T) {
	text := string(metrics.Text(Metrics(observed())))
	for _, line := range []string{
		`pcs_capacity_reservation_fence_timestamp_seconds{partition="gpu",slot="gpu",reservation="cr-1"} 1795260000`,
		`pcs_capacity_reservation_instances{partition="gpu",slot="gpu",reservation="cr-1"} 4`,
		`pcs_capacity_reservation_usable_instances{partition="gpu",slot="gpu",reservation="cr-1"} 3`,
		`pcs_capacity_reservation_open{partition="gpu",slot="gpu",reservation="cr-1"} 1`,
		`pcs_capacity_nodes{partition="gpu",slot="gpu",state="busy"} 1`,
		`pcs_capacity_nodes{partition="gpu",slot="gpu",state="idle"} 1`,
		`pcs_capacity_nodes{partition="gpu",slot="gpu",state="booting"} 1`,
		`pcs_capacity_nodes{partition="gpu",slot="gpu",state="off"} 1`,
		`pcs_capacity_jobs_waiting{partition="gpu"} 2`,
		`pcs_capacity_jobs_running{partition="gpu"} 1`,
		`pcs_capacity_problems 1`,
		`pcs_capacity_problems_by_code{code="host-failed",severity="admin"} 1`,
		`pcs_capacity_problems_by_code{code="never-starts",severity="user"} 2`,
		`pcs_capacity_last_pass_slurm_answered 1`,
		`pcs_capacity_clock_offset_seconds 1.5`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	var parser expfmt.TextParser
	if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
		t.Error(err)
	}
	snap, report := observed()
	report.Cluster, report.Jobs = nil, nil
	if text := string(metrics.Text(Metrics(snap, report))); strings.Contains(text, "pcs_capacity_nodes") || !strings.Contains(text, "pcs_capacity_last_pass_slurm_answered 0") {
		t.Errorf("without Slurm:\n%s", text)
	}
}

// Every metric in the dashboard is one that is written, and every one of them is explained.
func TestDashboardShowsWhatIsWritten(t *testing.T) {
	dashboard, err := os.ReadFile("../../docs/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(dashboard) {
		t.Error("docs/dashboard.json is no JSON")
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, g := range Metrics(observed()) {
		written = append(written, g.Name)
		if !bytes.Contains(page, []byte("`"+strings.TrimPrefix(g.Name, "pcs_capacity_")+"`")) {
			t.Errorf("docs/operations.md does not explain %s", g.Name)
		}
	}
	shown := regexp.MustCompile(`pcs_capacity_\w+`).FindAllString(string(dashboard), -1)
	if len(shown) < 8 {
		t.Errorf("the dashboard shows %q", shown)
	}
	for _, name := range shown {
		if !slices.Contains(written, name) {
			t.Errorf("the dashboard asks for %s, which nobody writes", name)
		}
	}
}

// TestAfter: a pass leaves the file, and tells each thing once.
func TestAfter(t *testing.T) {
	dir := t.TempDir()
	command := filepath.Join(dir, "tell")
	if err := os.WriteFile(command, []byte("#!/bin/sh\ncat >>"+dir+"/said\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	if after(cfg) != nil {
		t.Error("by default there is something to do")
	}
	cfg.StateDir, cfg.Metrics.File, cfg.Notify.Command = filepath.Join(dir, "state"), filepath.Join(dir, "m.prom"), command
	if err := os.Mkdir(cfg.StateDir, 0o755); err != nil {
		t.Fatal(err)
	}
	snap, report := observed()
	for range 2 {
		if errs := after(cfg)(t.Context(), snap, report); len(errs) > 0 {
			t.Error(errs)
		}
	}
	said, err := os.ReadFile(dir + "/said")
	if err != nil || strings.Count(string(said), `"kind":"opened"`) != 1 || strings.Count(string(said), `"kind":"host-failed"`) != 1 {
		t.Errorf("%v: %s", err, said)
	}
	if _, err := os.Stat(cfg.Metrics.File); err != nil {
		t.Error(err)
	}
}
