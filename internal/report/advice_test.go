package report

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// What is bought next is concluded from what was measured, and not from too little of it.
func TestAdvise(t *testing.T) {
	const hour = 60
	// A block of 4 nodes of a day, of which jobs can use 23 hours and 20 minutes.
	block := func(waits bool) *state.Paid {
		return paid(func(p *state.Paid) {
			p.Size, p.Waits, p.Fence, p.End, p.Nodes = 4, waits, at(24*hour-40), at(24*hour), map[string]string{"up": "gpu-[1-4]"}
		})
	}
	week := func() *state.Paid {
		p := block(false)
		p.Fence, p.End = at(168*hour-40), at(168*hour)
		return p
	}
	one := map[string]state.Run{"7.0": ran("7", "gpu-1", 0, 0, "")}
	all := map[string]state.Run{"7.0": ran("7", "gpu-[1-4]", 0, 0, "")}
	// watched are samples of a block, of which sync saw the minutes between two times.
	watched := func(p *state.Paid, runs map[string]state.Run, from, to float64) []state.Sample {
		return append([]state.Sample{line(from, p, runs)}, beats(from+5, to)...)
	}
	later := capacity.Reservation{ID: "cr-0bbbbbbbbbbbbbbb2", State: capacity.StateScheduled, Total: 4, Start: at(24 * hour), End: at(48 * hour)}
	for name, c := range map[string]struct {
		samples []state.Sample
		until   float64 // minutes
		follows bool
		says    string
		count   string // of the command; "" for no command
	}{
		"half a minute":                  {watched(block(false), one, 0, 0), 0.5, false, "too early to say how much is needed: " + id + " was measured for 30s, of 20h at least", ""},
		"a minute less than it takes":    {watched(block(false), one, 0, 1195), 1199, false, "was measured for 19h59m, of 20h at least", ""},
		"as much as it takes":            {watched(block(false), one, 0, 1195), 1200, false, "in 20 of the 20 hours measured no more than 1 of its 4 nodes had jobs", "1"},
		"what is measured, not the hour": {watched(week(), all, 0, 5), 30 * hour, false, "too little is known", ""},
		// The 4 hours in which sync was dead are not quiet ones: in all others every node had a job.
		"sync was dead":            {append(watched(block(false), all, 0, 600), watched(block(false), all, 14*hour, 24*hour-5)...), 24 * hour, false, "was measured for 19h", ""},
		"behind the fence":         {watched(block(false), one, 0, 24*hour-5), 24 * hour, false, "in 24 of the 24 hours measured no more than 1 of its 4", "1"},
		"all nodes, and jobs wait": {watched(block(true), all, 0, 24*hour-5), 24 * hour, false, "jobs waited for 100% of the 23h20m measured while every node had one", "8"},
		"all nodes":                {watched(block(false), all, 0, 24*hour-5), 24 * hour, false, "4 of its 4 nodes had jobs in the busiest of the 24 hours measured", "4"},
		"no job":                   {watched(block(false), nil, 0, 24*hour-5), 24 * hour, false, "no job ran in 24 of the 24 hours measured: ask who still needs it", ""},
		"another one follows":      {watched(block(false), one, 0, 24*hour-5), 24 * hour, true, "nothing; " + later.ID + " follows with 4 nodes", ""},
		"more than what follows":   {watched(block(true), all, 0, 24*hour-5), 24 * hour, true, "4 nodes beside the 4 of " + later.ID, "4"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Make(Input{Samples: c.samples, Until: at(c.until), Expand: hostlist.Expand})
			if err != nil {
				t.Fatal(err)
			}
			snap := &capacity.Snapshot{Partitions: []capacity.Partition{{Name: "gpu", Groups: []capacity.NodeGroup{{Slots: []capacity.Slot{{ReservationIDs: []string{id}}}}}}},
				Reservations: []capacity.Reservation{{ID: id, State: capacity.StateActive, Total: 4, Start: noon}}}
			if c.follows {
				snap.Reservations = append(snap.Reservations, later)
				slot := &snap.Partitions[0].Groups[0].Slots[0]
				slot.ReservationIDs = append(slot.ReservationIDs, later.ID)
			}
			got := r.Advise(snap, at(c.until))
			if len(got) != 1 || !strings.HasPrefix(got[0].Says, "gpu: ") || !strings.Contains(got[0].Says, c.says) {
				t.Fatalf("%+v, want %q", got, c.says)
			}
			count := ""
			if _, rest, found := strings.Cut(got[0].Command, "--count "); found {
				count, _, _ = strings.Cut(rest, " ")
			}
			if count != c.count {
				t.Errorf("%s\n%s, want a count of %q", got[0].Says, got[0].Command, c.count)
			}
		})
	}
}

// An hour that was seen in part counts by that part.
func TestBusyHours(t *testing.T) {
	samples := append([]state.Sample{line(0, paid(nil), map[string]state.Run{"7.0": ran("7", "gpu-[1-2]", 0, 0, "")})}, beats(5, 35)...)
	r, err := Make(Input{Samples: samples, Until: at(600), Expand: hostlist.Expand})
	if err != nil {
		t.Fatal(err)
	}
	if one := r.Reservations[0]; one.Busy != 2 || one.Within != 1 || one.Hours != 1 || one.Measured != 44*time.Minute {
		t.Errorf("busy %d, within %d of %d, measured %s", one.Busy, one.Within, one.Hours, one.Measured)
	}
}
