package capacity

import (
	"fmt"
	"slices"
	"strings"
)

// Accounting is how far Slurm's accounting checks the accounts of jobs.
type Accounting int

// NoAccounting: Slurm keeps no accounts. AccountsWritten: a user may name any account.
// AccountsChecked: a user has only the accounts that Slurm's accounting gives.
const (
	NoAccounting Accounting = iota
	AccountsWritten
	AccountsChecked
)

// Unlocked returns what Slurm lacks to enforce a partition's allow_accounts. allow is Slurm's AllowAccounts, empty
// for every account.
//
// The submit filter on a login node does not know a user's default account, and a node that is already up never
// passes ResumeProgram. Only Slurm's own AllowAccounts locks the partition, so Unlocked checks AllowAccounts.
func Unlocked(p Partition, allow []string, accounting Accounting) []Problem {
	if len(p.AllowAccounts) == 0 {
		return nil
	}
	if accounting == NoAccounting {
		// Without accounting, part_policy_valid_acct of 22.05 knows no account; that of 24.11 lets every job in.
		return []Problem{Problemf(AccountsUnchecked, Subject{},
			"remove allow_accounts and AllowAccounts, or set AccountingStorageType=accounting_storage/slurmdbd and AccountingStorageEnforce=associations",
			"allow_accounts has no use, because Slurm keeps no accounting: with AllowAccounts an older Slurm starts no job at all, a newer one starts every job")}
	}
	var found []Problem
	want := strings.Join(p.AllowAccounts, ",")
	if !slices.Equal(accounts(p.AllowAccounts), accounts(allow)) {
		shown := "ALL"
		if len(allow) > 0 {
			shown = strings.Join(allow, ",")
		}
		where := "to its line in slurm.conf"
		if p.Provider == ProviderPCS {
			where = "to the Slurm settings of the PCS queue"
		}
		found = append(found,
			Problemf(AllowAccounts, Subject{Partition: p.Name}, fmt.Sprintf("add AllowAccounts=%s %s", want, where),
				"partition %s: allow_accounts is %s, but Slurm's AllowAccounts is %s", p.Name, want, shown))
	}
	if accounting == AccountsWritten {
		found = append(found, Problemf(AccountsUnchecked, Subject{}, "set AccountingStorageEnforce=associations",
			"allow_accounts has no effect, because Slurm takes any account that a user writes"))
	}
	return found
}

// UnlockedGroups returns where Slurm does not enforce a partition's allow_groups. allow is Slurm's AllowGroups, empty
// for every group.
func UnlockedGroups(p Partition, allow []string) []Problem {
	sorted := func(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }
	if len(p.AllowGroups) == 0 || slices.Equal(sorted(p.AllowGroups), sorted(allow)) {
		return nil
	}
	shown, want := "ALL", strings.Join(p.AllowGroups, ",")
	if len(allow) > 0 {
		shown = strings.Join(allow, ",")
	}
	return []Problem{
		Problemf(AllowGroups, Subject{Partition: p.Name}, fmt.Sprintf("add AllowGroups=%s to its line in slurm.conf", want),
			"partition %s: allow_groups is %s, but Slurm's AllowGroups is %s", p.Name, want, shown),
	}
}

// accounts sorts and lowercases names: Slurm ignores case in account names.
func accounts(names []string) []string {
	var all []string
	for _, n := range names {
		all = append(all, strings.ToLower(n))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
