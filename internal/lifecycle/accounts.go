package lifecycle

import (
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// unlocked names the partitions whose allow_accounts or allow_groups Slurm does not enforce.
func unlocked(snap *capacity.Snapshot, c *Cluster) []capacity.Problem {
	var problems, last []capacity.Problem
	for _, p := range snap.Partitions {
		i := slices.IndexFunc(c.Partitions, func(sp capacity.SlurmPartition) bool { return sp.Name == p.Name })
		if i < 0 {
			continue
		}
		problems = append(problems, capacity.UnlockedGroups(p, c.Partitions[i].AllowGroups)...)
		for _, m := range capacity.Unlocked(p, c.Partitions[i].AllowAccounts, c.Accounting) {
			if m.Code == capacity.AccountsUnchecked { // true of the whole cluster, so reported once
				last = []capacity.Problem{m}
			} else {
				problems = append(problems, m)
			}
		}
	}
	return append(problems, last...)
}
