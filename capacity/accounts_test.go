package capacity

import (
	"strings"
	"testing"
)

// What Slurm lacks to enforce the accounts and groups of a partition.
func TestUnlocked(t *testing.T) {
	const mismatch, unchecked = AllowAccounts, AccountsUnchecked
	for name, c := range map[string]struct {
		provider   Provider
		want       []string // the settings'
		allow      []string // Slurm's
		accounting Accounting
		codes      []Code
		says       string
	}{
		"no accounts":         {allow: []string{"x"}},
		"no accounting":       {want: []string{"nlp"}, codes: []Code{unchecked}, says: "keeps no accounting"},
		"the same":            {want: []string{"nlp", "Vision"}, allow: []string{"vision", "NLP"}, accounting: AccountsChecked},
		"twice":               {want: []string{"nlp", "NLP"}, allow: []string{"nlp"}, accounting: AccountsChecked},
		"every account":       {want: []string{"nlp"}, accounting: AccountsChecked, codes: []Code{mismatch}, says: "Slurm's AllowAccounts is ALL|add AllowAccounts=nlp to its line in slurm.conf"},
		"others":              {want: []string{"nlp"}, allow: []string{"cv", "nlp"}, accounting: AccountsChecked, codes: []Code{mismatch}, says: "Slurm's AllowAccounts is cv,nlp|"},
		"on PCS":              {provider: ProviderPCS, want: []string{"nlp"}, accounting: AccountsChecked, codes: []Code{mismatch}, says: "add AllowAccounts=nlp to the Slurm settings of the PCS queue"},
		"any account":         {want: []string{"nlp"}, allow: []string{"nlp"}, accounting: AccountsWritten, codes: []Code{unchecked}, says: "any account that a user writes"},
		"any account, others": {want: []string{"nlp"}, accounting: AccountsWritten, codes: []Code{mismatch, unchecked}},
	} {
		found := Unlocked(Partition{Name: "gpu", Provider: c.provider, AllowAccounts: c.want}, c.allow, c.accounting)
		compareProblems(t, name, found, c.codes, c.says)
	}
	for name, c := range map[string]struct {
		want, allow []string
		codes       []Code
		says        string
	}{
		"no groups":   {allow: []string{"x"}},
		"the same":    {want: []string{"a", "b", "a"}, allow: []string{"b", "a"}},
		"every group": {want: []string{"a", "b"}, codes: []Code{AllowGroups}, says: "allow_groups is a,b, but Slurm's AllowGroups is ALL|add AllowGroups=a,b"},
		"others":      {want: []string{"a"}, allow: []string{"b", "c"}, codes: []Code{AllowGroups}, says: "AllowGroups is b,c|"},
	} {
		compareProblems(t, name, UnlockedGroups(Partition{Name: "gpu", AllowGroups: c.want}, c.allow), c.codes, c.says)
	}
}

// compareProblems wants problems by their codes, and of the first its sentence and its fix: parts of them, in says.
func compareProblems(t *testing.T, name string, found []Problem, codes []Code, says string) {
	t.Helper()
	sentence, fix, _ := strings.Cut(says, "|")
	same := len(found) == len(codes)
	for i := range found {
		same = same && Code(found[i].Code) == codes[i]
	}
	if !same || len(found) > 0 && (!strings.Contains(found[0].Sentence+found[0].Fix, sentence) || !strings.Contains(found[0].Fix, fix)) {
		t.Errorf("%s: %v, want %v: %s", name, found, codes, says)
	}
}
