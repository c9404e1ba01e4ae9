package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// blockSeen is what a pass sees of a slot with one block from 1h to 24h and three nodes, of which
// gpu-1 is up; before is when the last pass was.
func blockSeen(before, now string, was, is capacity.State) Seen {
	snap := func(taken string, state capacity.State) *capacity.Snapshot {
		s := oneSlot(capacity.ProviderEC2, []string{"cr-0"}, block("cr-0", "1h", "24h", state))
		s.TakenAt = at(taken)
		return s
	}
	c := &Cluster{slots: map[string][]string{"gpu": {"gpu-1", "gpu-2", "gpu-3"}},
		Nodes: []capacity.Node{{Name: "gpu-1", State: "IDLE"}, {Name: "gpu-2", State: "IDLE+CLOUD+POWERED_DOWN"}, {Name: "gpu-3", State: "IDLE+CLOUD+POWERED_DOWN"}, {Name: "login", State: "IDLE+CLOUD+POWERED_DOWN"}, {Name: "admin", State: "IDLE"}}}
	return Seen{Old: snap(before, was), Snap: snap(now, is), Cluster: c, Now: at(now)}
}

// sentences are what a pass is to do, each with its code.
func sentences(actions []Action) (all []string) {
	for _, a := range actions {
		all = append(all, a.Code+": "+a.Text)
	}
	return all
}

// Nodes of an open block that are off are powered up, whenever they joined it, and again only after a while.
func TestOpenings(t *testing.T) {
	const scheduled, active = capacity.StateScheduled, capacity.StateActive
	opens := []string{"power-up: power gpu-[2-3] up: cr-0 is open since 2026-11-20 13:00 UTC"}
	poweredUp := func(when string) func(s *Seen) {
		return func(s *Seen) { s.Old.Partitions[0].Groups[0].Slots[0].PoweredUp = at(when) }
	}
	for name, c := range map[string]struct {
		before, now string
		was, is     capacity.State
		but         func(s *Seen)
		want        []string
	}{
		"at its start":                           {"59m", "1h", scheduled, active, nil, opens},
		"before it":                              {"58m", "59m", scheduled, scheduled, nil, nil},
		"EC2 is late":                            {"59m", "1h", scheduled, scheduled, nil, nil},
		"EC2 is early":                           {"58m", "59m", active, active, nil, nil},
		"it has long been open":                  {"4h", "5h", active, active, nil, opens},
		"nothing is known of what was":           {"59m", "1h", active, active, func(s *Seen) { s.Old = nil }, opens},
		"they were powered up just now":          {"1h", "1h1m", active, active, poweredUp("1h"), nil},
		"they were powered up and are off again": {"1h14m", "1h15m", active, active, poweredUp("1h"), opens},
		"the fence is nearer than a boot":        {"23h10m", "23h11m", active, active, func(s *Seen) { s.Snap.Timing.BootAllowance.Duration = 10 * time.Minute }, nil},
		"an administrator has set them DOWN": {"1h", "1h1m", active, active, func(s *Seen) {
			s.Cluster.Nodes[1].State, s.Cluster.Nodes[2].State = "DOWN+CLOUD+POWERED_DOWN", "IDLE+DRAIN+CLOUD+POWERED_DOWN"
		}, nil},
		"PCS keeps up its nodes": {"59m", "1h", scheduled, active, func(s *Seen) { s.Snap.Partitions[0].Provider = capacity.ProviderPCS }, nil},
		"a dynamic node group":   {"59m", "1h", scheduled, active, func(s *Seen) { s.Snap.Partitions[0].Groups[0].Dynamic = true }, nil},
		"an ODCR":                {"59m", "1h", scheduled, active, func(s *Seen) { s.Snap.Reservations[0].Kind = capacity.ODCR }, nil},
		"all nodes are up":       {"59m", "1h", scheduled, active, func(s *Seen) { s.Cluster.Nodes = s.Cluster.Nodes[:1] }, nil},
		"instances for two nodes": {"59m", "1h", scheduled, active, func(s *Seen) { s.Snap.Reservations[0].Total = 2 },
			[]string{"power-up: power gpu-2 up: cr-0 is open since 2026-11-20 13:00 UTC"}},
		"the settings have it no more": {"59m", "1h", scheduled, active, func(s *Seen) {
			s.Snap.Former, s.Snap.Partitions = s.Snap.Partitions, nil
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := blockSeen(c.before, c.now, c.was, c.is)
			if c.but != nil {
				c.but(&s)
			}
			if diff := cmp.Diff(c.want, sentences(openings(s))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Nodes that are up under their fence are powered down, of a block that has ended as well.
func TestEndedBlocks(t *testing.T) {
	down := []string{"power-down: power gpu-1 down: the fence was at 2026-11-21 11:20 UTC"}
	for name, c := range map[string]struct {
		now  string
		is   capacity.State
		but  func(s *Seen)
		want []string
	}{
		"before the fence":    {"23h19m59s", capacity.StateActive, nil, nil},
		"at the fence":        {"23h20m", capacity.StateActive, nil, down},
		"the block has ended": {"25h", capacity.StateExpired, nil, down},
		"PCS does so itself":  {"25h", capacity.StateExpired, func(s *Seen) { s.Snap.Partitions[0].Provider = capacity.ProviderPCS }, nil},
		"no node is up":       {"25h", capacity.StateExpired, func(s *Seen) { s.Cluster.Nodes = s.Cluster.Nodes[1:] }, nil},
		"a slot that never ends": {"25h", capacity.StateActive, func(s *Seen) {
			s.Snap.Reservations[0].End = at("1000h").AddDate(100, 0, 0)
			s.Snap.Reservations[0].Kind = capacity.ODCR
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := blockSeen("1h", c.now, capacity.StateActive, c.is)
			if c.but != nil {
				c.but(&s)
			}
			if diff := cmp.Diff(c.want, sentences(endedBlocks(s))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
