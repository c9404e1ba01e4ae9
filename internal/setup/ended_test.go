package setup_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/setup"
)

// The reservations that have ended leave the file that setup wrote when it is written
// again; the plan says so. An id that EC2 does not describe stays.
func TestEndedReservationsLeaveTheSettings(t *testing.T) {
	w := newAccount(t, nil)
	w.run(w.request(openBlock))
	w.run(w.request(laterBlock))
	bought := w.buyNextWeek()
	file := filepath.Join(filepath.Dir(w.configPath()), "conf.d", "gpu.toml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const unknown = "cr-0fffffffffffffff0"
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), `ids = ["cr-`, `ids = ["`+unknown+`", "`+unpaid+`", "cr-`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	w.sim.Clock().Advance(6 * 24 * time.Hour)
	third := w.request(bought)
	third.MaxNodes = 2
	p := w.run(third)
	if got := detail(p, "ended, removed"); got != unpaid+", "+openBlock {
		t.Errorf("the plan says %q", got)
	}
	part, _ := w.config().Partition("gpu")
	if ids := part.Groups[0].ReservationIDs; !slices.Equal(ids, []string{unknown, laterBlock, bought}) {
		t.Errorf("left %v", ids)
	}
	if p := w.plan(third); !p.Done() {
		t.Errorf("again: %s", actions(p))
	}

	// A block that ends later leaves at the next run, whatever that is for.
	w.sim.Clock().Advance(24 * time.Hour * 6)
	odcr := w.request(gpuODCR)
	odcr.Queue, odcr.NodeGroup = "other", "other"
	w.run(odcr)
	if part, _ := w.config().Partition("gpu"); len(part.Groups[0].ReservationIDs) != 3 {
		t.Errorf("another partition's file was written: %+v", part)
	}
}

// detail is the value of a detail of any step.
func detail(p *setup.Plan, key string) string {
	for _, s := range p.Steps() {
		for _, d := range s.Details {
			if d.Key == key {
				return d.Value
			}
		}
	}
	return ""
}
