package capacity

import (
	"strings"
	"testing"
)

func TestNodeNames(t *testing.T) {
	var n NodeNames
	if err := n.UnmarshalText([]byte("b[10-11],a1")); err != nil || strings.Join(n, " ") != "a1 b10 b11" {
		t.Errorf("%v, %v", n, err)
	}
	if text, err := n.MarshalText(); err != nil || string(text) != "a1,b[10-11]" {
		t.Errorf("%s, %v", text, err)
	}
	if err := n.UnmarshalText([]byte("a[1-")); err == nil || !strings.Contains(err.Error(), "write it like gpu[001-016]") || len(n) != 3 {
		t.Errorf("%v, %v", n, err)
	}
}

// A node of another partition's settings would take jobs past every check.
func TestAstray(t *testing.T) {
	s := Settings{Partitions: []PartitionSettings{
		{Name: "gpu", Provider: ProviderEC2, Groups: []GroupSettings{{Name: "gpu", MaxNodes: 4}}},
		{Name: "big", Provider: ProviderEC2, Groups: []GroupSettings{{Name: "big", MaxNodes: 4}}}}}
	if got := strings.Join(s.Astray("gpu", []string{"gpu-1", "big-1", "cpu-1", "big-2"}), " "); got != "big-1 big-2" {
		t.Errorf("astray in gpu: %s", got)
	}
	if got := s.Astray("big", []string{"big-1"}); len(got) != 0 {
		t.Errorf("astray in big: %s", got)
	}
}

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

// Idle nodes of a block stay up, unless its node group is dynamic; those of all other kinds cost money for nothing.
func TestNodesOfBlocksAloneStayUp(t *testing.T) {
	for _, k := range PurchaseOptions {
		for _, dynamic := range []bool{false, true} {
			if got := (GroupSettings{PurchaseOption: k, Dynamic: dynamic}).StaysUp(); got != (k == CapacityBlock && !dynamic) {
				t.Errorf("%s, dynamic %t: stays up: %t", k, dynamic, got)
			}
		}
	}
}
