package lifecycle

import (
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// mayChangeJobs reports whether a job can be too long, or held by us.
func mayChangeJobs(seen Seen) bool {
	return len(fencedNodes(seen)) > 0 || seen.launches() ||
		slices.ContainsFunc(seen.Snap.Reservations, func(r capacity.Reservation) bool { return !r.End.IsZero() })
}

// left returns all jobs that this pass has not taken off their nodes.
func (s Seen) left() []capacity.Job {
	jobs := s.Jobs
	if len(s.Elsewhere) > 0 { // they may be many
		jobs = slices.Concat(jobs, s.Elsewhere)
	}
	return without(jobs, func(j capacity.Job) bool { return s.Off[j.Shown] })
}

// everywhere: Watch looks at the jobs of all partitions in every tenth pass.
const everywhere = 10

// Ours returns the Slurm partitions whose jobs can have our nodes: the partitions of the settings, and others that
// share nodes with them or with slots of the previous settings.
func (c *Cluster) Ours(snap *capacity.Snapshot) []string {
	nodes := map[string]bool{}
	for _, p := range slices.Concat(snap.Partitions, snap.Former) {
		for _, g := range p.Groups {
			for _, s := range g.Slots {
				for _, n := range c.SlotNodes(s.Name) {
					nodes[n] = true
				}
			}
		}
	}
	var names []string
	for _, p := range c.Partitions {
		if _, ours := snap.Partition(p.Name); ours || slices.ContainsFunc(p.Nodes, func(n string) bool { return nodes[n] }) {
			names = append(names, p.Name)
		}
	}
	return names
}

// concerns reports whether a job that cannot have our nodes carries a word of ours in its comment or AdminComment.
func concerns(j capacity.Job) bool {
	wish, wrong := j.Wish()
	return strings.HasPrefix(j.AdminComment, "pcs-capacity: ") || wish.Names() || len(wrong) > 0
}

// without copies the jobs only if one is left out: 10,000 take 4 MB.
func without(jobs []capacity.Job, leaveOut func(capacity.Job) bool) []capacity.Job {
	if !slices.ContainsFunc(jobs, leaveOut) {
		return jobs
	}
	return slices.DeleteFunc(slices.Clone(jobs), leaveOut)
}
