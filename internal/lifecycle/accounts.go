package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// unlocked names the partitions whose allow_accounts Slurm does not hold to. The submit
// filter sees no default account on a login node, and a node that is up already never
// passes ResumeProgram: the lock is Slurm's own AllowAccounts, and what we check is
// that it is there.
func unlocked(snap *capacity.Snapshot, c *Cluster) []string {
	var problems []string
	asked := false
	for _, p := range snap.Partitions {
		i := slices.IndexFunc(c.Partitions, func(sp Partition) bool { return sp.Name == p.Name })
		if len(p.AllowAccounts) == 0 || i < 0 {
			continue
		}
		asked = true
		has := c.Partitions[i].AllowAccounts
		if slices.Equal(accounts(p.AllowAccounts), accounts(has)) {
			continue
		}
		shown := "ALL"
		if len(has) > 0 {
			shown = strings.Join(has, ",")
		}
		where := "to its line in slurm.conf"
		if p.Provider == capacity.ProviderPCS {
			where = "to the Slurm settings of the PCS queue"
		}
		problems = append(problems, fmt.Sprintf("partition %s: allow_accounts is %s, but Slurm's AllowAccounts is %s; add AllowAccounts=%s %s",
			p.Name, strings.Join(p.AllowAccounts, ","), shown, strings.Join(p.AllowAccounts, ","), where))
	}
	if asked && !c.ChecksAccounts {
		problems = append(problems, "allow_accounts has no effect, because Slurm takes any account that a user writes; set AccountingStorageEnforce=associations")
	}
	return problems
}

// accounts are names in one order; Slurm does not tell capital letters apart.
func accounts(names []string) []string {
	var all []string
	for _, n := range names {
		all = append(all, strings.ToLower(n))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
