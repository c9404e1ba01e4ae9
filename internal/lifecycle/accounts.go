package lifecycle

import (
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// unlocked names the partitions whose allow_accounts or allow_groups Slurm does not hold to.
func unlocked(snap *capacity.Snapshot, c *Cluster) []string {
	var problems, last []string
	for _, p := range snap.Partitions {
		i := slices.IndexFunc(c.Partitions, func(sp Partition) bool { return sp.Name == p.Name })
		if i < 0 {
			continue
		}
		for _, m := range capacity.UnlockedGroups(p, c.Partitions[i].AllowGroups) {
			problems = append(problems, m.String())
		}
		for _, m := range capacity.Unlocked(p, c.Partitions[i].AllowAccounts, c.Accounting) {
			if m.Code == capacity.AccountsUnchecked { // of the cluster, so said once
				last = []string{m.String()}
				continue
			}
			problems = append(problems, m.String())
		}
	}
	return append(problems, last...)
}
