package capacity

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// FenceOf is when jobs on nodes, a hostlist, must be gone: the earliest fence of the partition's slots that contain
// any of the nodes. It is zero if none of these slots has a reservation with an end.
func (s *Snapshot) FenceOf(partition string, nodes []string, now time.Time) time.Time {
	var earliest time.Time
	p, _ := s.Partition(partition)
	for _, g := range p.Groups {
		for _, slot := range g.Slots {
			has, err := hostlist.Expand(slot.Nodes)
			known := err == nil && len(has) > 0
			if known && !slices.ContainsFunc(nodes, func(n string) bool { return slices.Contains(has, n) }) {
				continue
			}
			for _, t := range s.Standing(slot, now).Current {
				if !t.Window.Unbounded() && (earliest.IsZero() || t.Window.Fence.Before(earliest)) {
					earliest = t.Window.Fence
				}
			}
		}
	}
	return earliest
}
