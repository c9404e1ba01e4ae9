package lifecycle

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// An open block that is taken out of the settings keeps its fence, which is said, and no more
// jobs are admitted to it; on PCS too, where its compute node group still holds it.
func TestAnOpenBlockIsTakenOutOfTheSettings(t *testing.T) {
	const open, next = "cr-0", "cr-1"
	nodes := []string{"gpu-a-1", "gpu-a-2"}
	for name, c := range map[string]struct {
		ids     []string
		refused bool
		problem bool
		slot    string // where jobs are sent
	}{
		"named":           {[]string{open}, false, false, ""},
		"an empty list":   {nil, true, true, ""},
		"another instead": {[]string{next}, false, true, "gpu-b"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := capacity.Settings{Timing: oneSlot("pcs", nil).Timing, Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderPCS,
				Groups: []capacity.GroupSettings{{Name: "gpu", PurchaseOption: capacity.CapacityBlock, ReservationIDs: c.ids, MaxNodes: 2}}}}}
			sized := func(r capacity.Reservation) capacity.Reservation { r.Total = 2; return r }
			snap := capacity.Build(settings, capacity.Seen{Held: map[string]string{"gpu-a": open}, Now: noon, Reservations: []capacity.Reservation{
				sized(block(open, "-1h", "24h", capacity.StateActive)), sized(block(next, "-1h", "48h", capacity.StateActive))}})
			for i, feature := range []string{"gpu-a", "gpu-b"} {
				snap.Partitions[0].Groups[0].Slots[i].Feature = feature
			}
			snap.TakenAt, snap.Submit = noon, capacity.Submit{Strict: true, StaleAfter: capacity.Duration{Duration: 1e12}}
			v := capacity.Admit(capacity.Request{Partitions: []string{"gpu"}, TimeLimit: capacity.Minutes(30)}, snap, noon)
			if v.Refused != c.refused || v.Edits.Constraint != c.slot {
				t.Errorf("a job: %+v", v)
			}
			slot := views(snap, noon)[0]
			slot.owner = me
			fences := slot.wanted(nodes, noon)
			if len(fences) == 0 || !fences[0].Fences("gpu-a", open) {
				t.Fatalf("wanted: %+v", fences)
			}
			p := passOf(Sources{}, Seen{Snap: snap, Now: noon, Cluster: &Cluster{Reservations: fences}})
			snap.Add(unnamedBlocks(p.seen)...)
			if said := strings.Join(snap.Problems, "\n"); strings.Contains(said, "the settings no longer name reservation cr-0 for slot gpu-a; its fence stays") != c.problem {
				t.Errorf("said: %q", said)
			}
		})
	}
}
