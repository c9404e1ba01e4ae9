package lifecycle

import (
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// fences gives each slot the Slurm reservations that it needs now. Without AWS it deletes only duplicates: unknown
// does not mean gone.
func fences(s Seen) (effects []capacity.Effect, problems []capacity.Problem) {
	var want []capacity.SlurmReservation
	to := steering{
		owner: s.Owner,
		keep:  map[string]bool{},
		mayGo: s.mayGo,
		now:   s.SlurmNow(),
	}
	for _, v := range s.slots() {
		nodes := s.Cluster.SlotNodes(v.slot.Name)
		v.owner = s.Owner
		if v.current.ID == "" && v.partition.Provider == capacity.ProviderPCS && s.Cluster.inNone(nodes) {
			nodes = nil // it is about to be deleted: nothing can start there
		}
		if v.unknown || len(nodes) == 0 && v.current.ID != "" {
			to.keep[v.slot.Name] = true
			continue
		}
		v.lost = s.Cluster.lost(v, nodes[:v.launchable(nodes)])
		if closed := v.surplus(nodes); !v.partition.Provider.Launches() && v.current.ID != "" && len(closed) > 0 {
			problems = append(problems, capacity.Problemf(capacity.NodesUnused,
				capacity.Subject{Partition: v.partition.Name, Slot: v.slot.Name, Node: hostlist.Compress(closed)},
				fmt.Sprintf("set max_nodes = %d in the settings to use them", len(nodes)),
				"slot %s has %d nodes, of which max_nodes lets jobs use %d: none starts on %s",
				v.slot.Name, len(nodes), len(nodes)-len(closed), hostlist.Compress(closed)))
		}
		for _, r := range v.wanted(nodes, s.Now) {
			want = append(want, r.ByClock(s.toSlurm()))
		}
	}
	todo, left := to.steps(want, s.Cluster.Reservations)
	problems = append(append(problems, left...), s.keptFences(todo)...)
	for _, g := range todo {
		if g.Do == "delete" && s.NoAWS {
			continue
		}
		g.ToAWS = -s.toSlurm()
		effects = append(effects, g)
	}
	return effects, problems
}
