package lifecycle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func TestUnlockedGroups(t *testing.T) {
	for name, c := range map[string]struct {
		ours, slurms []string
		want         []string
	}{
		"for everyone":    {nil, []string{"nlp"}, nil},
		"the same":        {[]string{"nlp", "law"}, []string{"law", "nlp"}, nil},
		"no lock":         {[]string{"nlp"}, nil, []string{"partition gpu: allow_groups is nlp, but Slurm's AllowGroups is ALL; add AllowGroups=nlp to its line in slurm.conf"}},
		"others too":      {[]string{"nlp"}, []string{"nlp", "law"}, []string{"partition gpu: allow_groups is nlp, but Slurm's AllowGroups is nlp,law; add AllowGroups=nlp to its line in slurm.conf"}},
		"in another case": {[]string{"nlp"}, []string{"NLP"}, []string{"partition gpu: allow_groups is nlp, but Slurm's AllowGroups is NLP; add AllowGroups=nlp to its line in slurm.conf"}},
	} {
		snap := &capacity.Snapshot{Partitions: []capacity.Partition{{Name: "gpu", Provider: capacity.ProviderEC2, AllowGroups: c.ours}}}
		if diff := cmp.Diff(c.want, texts(unlocked(snap, &Cluster{Partitions: []capacity.SlurmPartition{{Name: "gpu", AllowGroups: c.slurms}}}))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestUnlocked(t *testing.T) {
	const free = "allow_accounts has no effect, because Slurm takes any account that a user writes; set AccountingStorageEnforce=associations"
	const useless = "allow_accounts has no use, because Slurm keeps no accounting: with AllowAccounts an older Slurm starts no job at all, a newer one starts every job; remove allow_accounts and AllowAccounts, or set AccountingStorageType=accounting_storage/slurmdbd and AccountingStorageEnforce=associations"
	for name, c := range map[string]struct {
		ours, slurms string
		provider     capacity.Provider
		accounting   capacity.Accounting
		want         []string
	}{
		"for everyone":                  {},
		"the same":                      {"nlp,vision", "vision,NLP", capacity.ProviderEC2, capacity.AccountsChecked, nil},
		"no lock":                       {"nlp", "", capacity.ProviderEC2, capacity.AccountsChecked, []string{"partition gpu: allow_accounts is nlp, but Slurm's AllowAccounts is ALL; add AllowAccounts=nlp to its line in slurm.conf"}},
		"no lock, on PCS":               {"nlp", "", capacity.ProviderPCS, capacity.AccountsChecked, []string{"partition gpu: allow_accounts is nlp, but Slurm's AllowAccounts is ALL; add AllowAccounts=nlp to the Slurm settings of the PCS queue"}},
		"others too":                    {"nlp", "nlp,law", capacity.ProviderEC2, capacity.AccountsChecked, []string{"partition gpu: allow_accounts is nlp, but Slurm's AllowAccounts is nlp,law; add AllowAccounts=nlp to its line in slurm.conf"}},
		"fewer":                         {"nlp,law", "nlp", capacity.ProviderEC2, capacity.AccountsChecked, []string{"partition gpu: allow_accounts is nlp,law, but Slurm's AllowAccounts is nlp; add AllowAccounts=nlp,law to its line in slurm.conf"}},
		"a lock that takes any account": {"nlp", "nlp", capacity.ProviderEC2, capacity.AccountsWritten, []string{free}},
		"no accounting is kept":         {"nlp", "nlp", capacity.ProviderEC2, capacity.NoAccounting, []string{useless}},
		"nor a lock":                    {"nlp", "", capacity.ProviderEC2, capacity.NoAccounting, []string{useless}},
		"Slurm's own, and none of ours": {"", "nlp", capacity.ProviderEC2, capacity.NoAccounting, nil},
	} {
		t.Run(name, func(t *testing.T) {
			list := func(text string) []string { return strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) }
			snap := &capacity.Snapshot{Partitions: []capacity.Partition{
				{Name: "gpu", Provider: c.provider, AllowAccounts: list(c.ours)}, {Name: "not-in-slurm", AllowAccounts: []string{"nlp"}}}}
			got := texts(unlocked(snap, &Cluster{Accounting: c.accounting, Partitions: []capacity.SlurmPartition{{Name: "gpu", AllowAccounts: list(c.slurms)}, {Name: "cpu"}}}))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
