package lifecycle

import (
	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// relaunched reports nodes that boot in maintenance under an active fence while their block is still open: nothing of
// ours launches there, and no job can ask for it. Once may be a repair; it is a note at first.
func relaunched(s Seen) (problems []capacity.Problem) {
	for _, v := range s.slots() {
		if v.current.ID == "" || v.window.Unbounded() || v.window.Fence.After(s.Now) || !v.window.Reclaim.After(s.Now) {
			continue
		}
		var boot []string
		for _, r := range s.Cluster.Reservations {
			if r.Active && r.Maintenance() && r.Fences(v.slot.Name, v.current.ID) {
				boot = append(boot, s.Cluster.those(r.Nodes, capacity.Node.Boots)...)
			}
		}
		if len(boot) == 0 {
			continue
		}
		p := capacity.Problemf(capacity.FenceActedOn,
			capacity.Subject{Partition: v.partition.Name, Slot: v.slot.Name, Reservation: v.current.ID},
			"see what launches them; with provider = \"none\" fences are without maintenance, which some launchers act on",
			"nodes %s boot under the fence of slot %s, where nothing may start: something takes nodes in maintenance down and launches them anew, and jobs that run there end",
			hostlist.Compress(boot), v.slot.Name)
		p.Severity = capacity.Note
		if s.Old != nil {
			for _, before := range s.Old.All() {
				if before.Code == p.Code && before.About == p.About {
					p.Severity = capacity.Admin
				}
			}
		}
		problems = append(problems, p)
	}
	return problems
}
