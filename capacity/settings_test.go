package capacity

import (
	"slices"
	"strings"
	"testing"
)

// What the settings say of all their partitions.
func TestSettingsOfAllPartitions(t *testing.T) {
	s := Settings{Partitions: []PartitionSettings{
		{Name: "pcs", Provider: ProviderPCS, Groups: []GroupSettings{{Name: "p", LaunchTemplate: "lt-pcs"}}},
		{Name: "gpu", Provider: ProviderEC2, RollOver: true, Groups: []GroupSettings{{Name: "a", LaunchTemplate: "lt-1"}, {Name: "b"},
			{Name: "c", LaunchTemplate: "lt-1", Select: &Select{Tags: map[string]string{"team": "x"}}}, {Name: "d", LaunchTemplate: "lt-2"}}},
	}}
	for partition, want := range map[string]bool{"": true, "gpu": true, "pcs": false, "none": false} {
		if got := s.RollsOver(partition); got != want {
			t.Errorf("%q rolls over: %t", partition, got)
		}
	}
	if (Settings{Partitions: s.Partitions[:1]}).RollsOver("") {
		t.Error("rolls over without the setting")
	}
	if got := strings.Join(s.LaunchTemplates(), " "); got != "lt-1 lt-2" {
		t.Errorf("launch templates %s", got)
	}
}

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

func TestPlaceOf(t *testing.T) {
	settings := Settings{Partitions: []PartitionSettings{
		{Name: "one", Provider: ProviderEC2, Groups: []GroupSettings{{Name: "gpu"}, {Name: "gpu-big"}}},
		{Name: "three", Provider: ProviderEC2, Groups: []GroupSettings{{Name: "listed", Nodes: []string{"gpu001", "gpu002"}}, {Name: "plain"}}},
		{Name: "two", Provider: ProviderPCS, Groups: []GroupSettings{{Name: "h100"}}},
	}}
	for node, want := range map[string]string{
		"gpu-1": "one gpu gpu", "gpu-big-12": "one gpu-big gpu-big", "h100-a-3": "two h100 h100-a", "h100-b-1": "two h100 h100-b",
		"gpu001": "three listed listed", "gpu003": "", "listed-1": "", "plain-1": "three plain plain",
		"gpu": "", "gpu-": "", "gpu-x": "", "gpu-1x": "", "gpux-1": "", "h100-1": "", "h100-c-1": "", "": "", "-1": "",
	} {
		got := ""
		if p, g, slot, ok := settings.PlaceOf(node); ok {
			got = p.Name + " " + g.Name + " " + slot
		}
		if got != want {
			t.Errorf("%s: %q, want %q", node, got, want)
		}
	}
}

func TestProviders(t *testing.T) {
	for _, c := range []struct {
		of                                  Provider
		known, launches, configures, guests bool
	}{
		{ProviderEC2, true, true, false, false},
		{ProviderPCS, true, false, true, false},
		{ProviderNone, true, false, false, true},
		{"", false, false, false, false},
		{"gcp", false, false, false, false},
	} {
		if c.of.Known() != c.known || c.of.Launches() != c.launches || c.of.Configures() != c.configures || c.of.Guest() != c.guests {
			t.Errorf("%q: known %t, launches %t, configures %t, guest %t", c.of, c.of.Known(), c.of.Launches(), c.of.Configures(), c.of.Guest())
		}
		r := SlurmReservation{Name: "pcs-capacity-fence-gpu", Users: []string{"root"}, Flags: append(c.of.GuardFlags(), "SPEC_NODES")}
		if !r.Ours() || r.Maintenance() == c.guests {
			t.Errorf("%q: %+v", c.of, r)
		}
	}
	plain := SlurmReservation{Name: "pcs-capacity-fence-gpu", Users: []string{"root"}, Flags: []string{"IGNORE_JOBS", "SPEC_NODES"}}
	if plain.Ours() {
		t.Errorf("%+v", plain)
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

// What AWS documents of a family is in one table, and of a new one it says that it is new.
func TestFamilies(t *testing.T) {
	for instanceType, want := range map[string][2]bool{"p5.48xlarge": {false, true}, "p6-b300.48xlarge": {false, true}, "trn2.48xlarge": {false, true}, "trn2u.48xlarge": {true, true},
		"p6e-gb200.36xlarge": {true, true}, "p7.48xlarge": {false, false}, "": {false, false}} {
		if only, known := OnlyInUltraServers(instanceType); only != want[0] || known != want[1] {
			t.Errorf("%s: only in UltraServers %t, known %t", instanceType, only, known)
		}
	}
	if got := FamiliesOfPCS(); !slices.Equal(got, []string{"p6-b300", "p6-b200", "p5en", "p5e", "p5", "p4d"}) {
		t.Errorf("of PCS: %s", got)
	}
}

// What each kind is to EC2 and PCS; a kind that is new to this table is noticed.
func TestKinds(t *testing.T) {
	for _, k := range PurchaseOptions {
		got := []any{k.Bought(), k.Reserved(), k.Market(), k.PCSPurchaseOption()}
		want, known := map[Kind][]any{
			CapacityBlock: {true, true, "capacity-block", "CAPACITY_BLOCK"},
			ODCR:          {false, true, "", "ONDEMAND"},
			OnDemand:      {false, false, "", "ONDEMAND"},
		}[k]
		for i := range want {
			known = known && got[i] == want[i]
		}
		if !known {
			t.Errorf("%s: %v, want %v", k, got, want)
		}
	}
	for _, k := range PurchaseOptions {
		if option := k.PCSPurchaseOption(); option != "" && KindOfPCS(option).PCSPurchaseOption() != option {
			t.Errorf("%s of PCS, the option of %s, is read as %s", option, k, KindOfPCS(option))
		}
	}
	for option, want := range map[string]Kind{"CAPACITY_BLOCK": CapacityBlock, "INTERRUPTIBLE_CAPACITY_RESERVATION": "INTERRUPTIBLE_CAPACITY_RESERVATION",
		"ONDEMAND": OnDemand, "": OnDemand, "SPOT": "SPOT"} {
		if got := KindOfPCS(option); got != want {
			t.Errorf("%s of PCS: %s, want %s", option, got, want)
		}
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
