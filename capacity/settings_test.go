package capacity

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNodeNames(t *testing.T) {
	var n NodeNames
	if err := n.UnmarshalText([]byte("b[10-11],a1")); err != nil || strings.Join(n, " ") != "a1 b10 b11" {
		t.Errorf("%v, %v", n, err)
	}

	if text, err := n.MarshalText(); err != nil || string(text) != "a1,b[10-11]" {
		t.Errorf("%s, %v", text, err)
	}

	if err := n.UnmarshalText([]byte("a[1-")); err == nil ||
		!strings.Contains(err.Error(), "write it like gpu[001-016]") ||
		len(n) != 3 {
		t.Errorf("%v, %v", n, err)
	}
}

// A node of another partition's settings would take jobs past every check.
func TestAstray(t *testing.T) {
	s := Settings{Partitions: []PartitionSettings{
		{Name: "gpu", Provider: ProviderEC2, Groups: []GroupSettings{{Name: "gpu", MaxNodes: 4}}},
		{Name: "big", Provider: ProviderEC2, Groups: []GroupSettings{{Name: "big", MaxNodes: 4}}},
	}}
	if got := strings.Join(s.StrayNodes("gpu", []string{
		"gpu-1",
		"big-1",
		"cpu-1",
		"big-2",
	}), " "); got != "big-1 big-2" {
		t.Errorf("astray in gpu: %s", got)
	}

	if got := s.StrayNodes("big", []string{"big-1"}); len(got) != 0 {
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
		"no accounts":   {allow: []string{"x"}},
		"no accounting": {want: []string{"nlp"}, codes: []Code{unchecked}, says: "keeps no accounting"},
		"the same": {
			want:       []string{"nlp", "Vision"},
			allow:      []string{"vision", "NLP"},
			accounting: AccountsChecked,
		},
		"twice": {want: []string{"nlp", "NLP"}, allow: []string{"nlp"}, accounting: AccountsChecked},
		"every account": {
			want:       []string{"nlp"},
			accounting: AccountsChecked,
			codes:      []Code{mismatch},
			says:       "Slurm's AllowAccounts is ALL|add AllowAccounts=nlp to its line in slurm.conf",
		},
		"others": {
			want:       []string{"nlp"},
			allow:      []string{"cv", "nlp"},
			accounting: AccountsChecked,
			codes:      []Code{mismatch},
			says:       "Slurm's AllowAccounts is cv,nlp|",
		},
		"on PCS": {
			provider:   ProviderPCS,
			want:       []string{"nlp"},
			accounting: AccountsChecked,
			codes:      []Code{mismatch},
			says:       "add AllowAccounts=nlp to the Slurm settings of the PCS queue",
		},
		"any account": {
			want:       []string{"nlp"},
			allow:      []string{"nlp"},
			accounting: AccountsWritten,
			codes:      []Code{unchecked},
			says:       "any account that a user writes",
		},
		"any account, others": {want: []string{"nlp"}, accounting: AccountsWritten, codes: []Code{mismatch, unchecked}},
	} {
		found := CheckAccounts(Partition{
			Name:          "gpu",
			Provider:      c.provider,
			AllowAccounts: c.want,
		}, c.allow, c.accounting)
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

	if !same ||
		len(found) > 0 &&
			(!strings.Contains(found[0].Sentence+found[0].Fix, sentence) || !strings.Contains(found[0].Fix, fix)) {
		t.Errorf("%s: %v, want %v: %s", name, found, codes, says)
	}
}

// Idle nodes of a block stay up, unless its node group is dynamic; those of all other kinds cost money for nothing.
func TestNodesOfBlocksAloneStayUp(t *testing.T) {
	for _, k := range PurchaseOptions {
		for _, dynamic := range []bool{false, true} {
			if got := (GroupSettings{
				PurchaseOption: k,
				Dynamic:        dynamic,
			}).KeepsNodesUp(); got != (k == CapacityBlock && !dynamic) {
				t.Errorf("%s, dynamic %t: stays up: %t", k, dynamic, got)
			}
		}
	}
}

func TestNamesOfGuards(t *testing.T) {
	for name, want := range map[string]Guard{
		"pcs-capacity-fence-gpu-a.cr-0e2000000000000a1.0123abcd": {
			Kind:  "fence",
			Slot:  "gpu-a",
			Block: "cr-0e2000000000000a1",
			Owner: "0123abcd",
		},
		"pcs-capacity-fence-gpu-a.cr-0e2000000000000a1.0123abcd.2": {
			Kind:   "fence",
			Slot:   "gpu-a",
			Block:  "cr-0e2000000000000a1",
			Owner:  "0123abcd",
			Second: true,
		},
		"pcs-capacity-wait-gpu.none.0123abcd":    {Kind: "wait", Slot: "gpu", Owner: "0123abcd"},
		"pcs-capacity-surplus-a.b.cr-0.0123abcd": {Kind: "surplus", Slot: "a.b", Block: "cr-0", Owner: "0123abcd"},
	} {
		if got, ok := ParseGuard(name); !ok || got != want || got.String() != name {
			t.Errorf("%s: %+v (%t), which is written %s", name, got, ok, got)
		}
	}

	for _, name := range []string{
		"",
		"pcs-capacity-",
		"pcs-capacity-fence",
		"pcs-capacity-fence-",
		"pcs-capacity-other-gpu.cr-0.0123abcd",
		"pcs-capacity-fence-gpu-a",
		"gpu-a-scheduled",
	} {
		if g, ok := ParseGuard(name); ok {
			t.Errorf("%q is taken for %+v", name, g)
		}
	}
}

// A Slurm reservation is ours by its name, its flags and its user together, and fences what its name says.
func TestReservationsOfSlurmThatAreOurs(t *testing.T) {
	const owner = "0badcafe"

	fence := Guard{Kind: GuardFence, Slot: "gpu-a", Block: blockA.ID, Owner: owner}
	made := func(g Guard, change func(*SlurmReservation)) SlurmReservation {
		r := SlurmReservation{
			Name:  g.String(),
			Flags: []string{"MAINT", "IGNORE_JOBS", "SPEC_NODES"},
			Users: []string{"root"},
		}
		if change != nil {
			change(&r)
		}

		return r
	}
	for name, c := range map[string]struct {
		r            SlurmReservation
		ours, fences bool
	}{
		"a fence": {made(fence, nil), true, true},
		"the second": {
			made(Guard{Kind: GuardFence, Slot: "gpu-a", Block: blockA.ID, Owner: owner, Second: true}, nil),
			true,
			true,
		},
		"another block's": {
			made(Guard{Kind: GuardFence, Slot: "gpu-a", Block: blockB.ID, Owner: owner}, nil),
			true,
			false,
		},
		"another slot's": {
			made(Guard{Kind: GuardFence, Slot: "gpu-b", Block: blockA.ID, Owner: owner}, nil),
			true,
			false,
		},
		"of another kind": {
			made(Guard{Kind: GuardWait, Slot: "gpu-a", Block: blockA.ID, Owner: owner}, nil),
			true,
			false,
		},
		"PCS's": {
			made(fence, func(r *SlurmReservation) { r.Name = "pcs-capacity-fence-gpu-scheduled" }),
			false,
			false,
		},
		"another name": {made(fence, func(r *SlurmReservation) { r.Name = "maintenance" }), false, false},
		"without MAINT": {
			made(fence, func(r *SlurmReservation) { r.Flags = []string{"IGNORE_JOBS"} }),
			false,
			false,
		},
		"without IGNORE_JOBS": {
			made(fence, func(r *SlurmReservation) { r.Flags = []string{"MAINT"} }),
			false,
			false,
		},
		"another user's": {
			made(fence, func(r *SlurmReservation) { r.Users = []string{"alice"} }),
			false,
			false,
		},
		"another user's as well": {
			made(fence, func(r *SlurmReservation) { r.Users = []string{"root", "alice"} }),
			false,
			false,
		},
	} {
		if c.r.IsOurs() != c.ours || c.r.IsFenceFor("gpu-a", blockA.ID) != c.fences {
			t.Errorf("%s (%s): ours %t, fences %t", name, c.r.Name, c.r.IsOurs(), c.r.IsFenceFor("gpu-a", blockA.ID))
		}
	}

	second := Guard{Kind: GuardFence, Slot: "gpu-a", Block: blockA.ID, Owner: owner, Second: true}
	if got := second.Key(); got != (Guard{Kind: GuardFence, Slot: "gpu-a", Block: blockA.ID}) {
		t.Errorf("the place of %s is %+v", second, got)
	}
}

// The fence of a job is the earliest one of the slots that have a node of it.
func TestFenceOf(t *testing.T) {
	fenceA := noon.Add(48*time.Hour - 40*time.Minute)
	open := func(s *Snapshot) { // block B, too, and it ends a day after block A
		s.Reservations[1].State, s.Reservations[1].Start, s.Reservations[1].End = StateActive, noon.Add(
			-time.Hour,
		), blockA.End.Add(
			24*time.Hour,
		)
	}
	for name, c := range map[string]struct {
		change    func(*Snapshot)
		partition string
		nodes     []string
		want      time.Time
	}{
		"one slot":  {open, "gpu", []string{"gpu-a-2"}, fenceA},
		"the other": {open, "gpu", []string{"gpu-b-8"}, fenceA.Add(24 * time.Hour)},
		"both, the later first": {
			func(s *Snapshot) { open(s); largerFirst(s) },
			"gpu",
			[]string{"gpu-a-1", "gpu-b-1"},
			fenceA,
		},
		"both, the earlier first": {open, "gpu", []string{"gpu-b-1", "gpu-a-1"}, fenceA},
		"neither":                 {open, "gpu", []string{"cpu-1"}, time.Time{}},
		"another partition":       {open, "cpu", []string{"gpu-a-1"}, time.Time{}},
		"nodes are not known": {
			func(s *Snapshot) { open(s); s.Partitions[0].Groups[0].Slots[0].Nodes = "" },
			"gpu",
			[]string{"gpu-b-1"},
			fenceA,
		},
		"nodes are no hostlist": {
			func(s *Snapshot) { open(s); s.Partitions[0].Groups[0].Slots[0].Nodes = "gpu-a-[1-" },
			"gpu",
			[]string{"gpu-b-1"},
			fenceA,
		},
		"no end": {
			func(s *Snapshot) { s.Reservations[0].Kind, s.Reservations[0].End = ODCR, time.Time{} },
			"gpu",
			[]string{"gpu-a-1"},
			time.Time{},
		},
	} {
		s := twoBlocks()
		if c.change != nil {
			c.change(s)
		}

		if got := s.EarliestFence(c.partition, c.nodes, noon); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The tags of the instances that were given stay as they are.
func TestWithNodes(t *testing.T) {
	launch := map[string]string{TagNodes: "n[1-2]"}

	given := []Instance{
		{Tags: launch},
		{Tags: launch, LaunchIndex: 1},
		{Tags: launch, LaunchIndex: 2},
		{Tags: map[string]string{TagNode: "own"}},
		{},
		{Tags: map[string]string{TagNodes: "bad["}},
	}

	var got []string
	for _, i := range WithNodes(given) {
		got = append(got, i.Tags[TagNode])
	}

	if strings.Join(got, ",") != "n1,n2,,own,," {
		t.Errorf("nodes %q", got)
	}

	if launch[TagNode] != "" {
		t.Errorf("given %v", launch)
	}
}

// What a node does. One that is on its way down, or back, is not powered down: its instance may be there still.
func TestNodeStates(t *testing.T) {
	for state, want := range map[string]struct {
		word              string
		up, off, busy     bool
		out               string
		givenUp, timedOut bool
	}{
		"IDLE":                                     {word: "idle", up: true},
		"MIXED+CLOUD":                              {word: "mixed", up: true, busy: true},
		"ALLOCATED":                                {word: "allocated", up: true, busy: true},
		"IDLE+COMPLETING":                          {word: "idle", up: true, busy: true},
		"IDLE+CLOUD+NOT_RESPONDING":                {word: "not-responding"},
		"IDLE+CLOUD+POWERED_DOWN":                  {word: "powered-down", off: true},
		"IDLE+CLOUD+POWERING_DOWN":                 {word: "powering-down"},
		"IDLE+CLOUD+POWERED_DOWN+POWERING_DOWN":    {word: "powering-down"},
		"IDLE+CLOUD+POWERED_DOWN+POWER_DOWN":       {word: "power-down"},
		"IDLE+CLOUD+POWERED_DOWN+POWER_UP":         {word: "power-up"},
		"ALLOCATED+CLOUD+POWERING_UP":              {word: "powering-up", busy: true},
		"IDLE+DRAIN":                               {word: "drain", out: "drained"},
		"IDLE+FAIL":                                {word: "idle", up: true, out: "failed"},
		"DOWN":                                     {word: "down", out: "down"},
		"DOWN+CLOUD+POWERED_DOWN":                  {word: "powered-down", off: true, givenUp: true, timedOut: true},
		"DOWN+CLOUD+POWERED_DOWN+POWERING_DOWN":    {word: "powering-down"},
		"MIXED+CLOUD+DRAIN+POWER_DOWN+POWERING_UP": {word: "power-down", busy: true}, // let go
		"POWERED_DOWN":                             {word: "powered-down"},           // no flag, and no state of Slurm
		"":                                         {},
	} {
		n := Node{State: state, Reason: "ResumeTimeout reached [slurm@now]"}
		if n.ShortState() != want.word || n.IsUp() != want.up || n.PoweredDown() != want.off || n.IsBusy() != want.busy ||
			n.OutState() != want.out ||
			n.IsGivenUp() != want.givenUp ||
			n.TimedOut() != want.timedOut {
			t.Errorf(
				"%s: %s, up %t, off %t, busy %t, out %q, given up %t, timed out %t",
				state,
				n.ShortState(),
				n.IsUp(),
				n.PoweredDown(),
				n.IsBusy(),
				n.OutState(),
				n.IsGivenUp(),
				n.TimedOut(),
			)
		}
	}

	if n := (Node{State: "DOWN+CLOUD+POWERED_DOWN", Reason: "bad disk"}); n.TimedOut() || !n.IsGivenUp() {
		t.Error("a node that an administrator sent down counts as timed out")
	}
}

func TestGPUs(t *testing.T) {
	for text, want := range map[string]int{
		"":                  0,
		"(null)":            0,
		"gpu:8":             8,
		"gpu:h100:8(S:0-1)": 8,
		"gpu:h100:4(S:0),gpu:a100:2(S:1),shard:16": 6,
		"shard:64":                          0,
		"gpu:a100:1(IDX:0,2),craynetwork:4": 1,
		"gres:gpu:24":                       24,
		"gres/gpu:24":                       24,
		"gres/gpu=4":                        4,
		"gres/gpu:h100=4,gres/shard=2":      4,
		"gpu":                               1,
		"gpu:h100":                          1,
		"gres:gpu:gpu:4":                    4,
		"gres:none":                         0,
		"gpu:0":                             0,
		",,gpu:2,":                          2,
	} {
		if got := CountGPUs(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestAWSPartitionOf(t *testing.T) {
	for region, want := range map[string]string{
		"us-east-2": "aws", "cn-north-1": "aws-cn", "us-gov-east-1": "aws-us-gov", "us-iso-west-1": "aws-iso",
		"us-isob-east-1": "aws-iso-b", "eusc-de-east-1": "aws-eusc", "xx-new-1": "aws", "": "aws",
	} {
		if got := AWSPartitionOf(region); got.Name != want {
			t.Errorf("%s is in %s, want %s", region, got.Name, want)
		}
	}
}

// A hostlist too long for one tag is spread over several, in order.
func TestHostlistInSeveralTags(t *testing.T) {
	for want, tags := range map[string]map[string]string{
		"":          {"Name": "x"},
		"gpu-[1-2]": {TagNodes: "gpu-[1-2]"},
		"gpu-[1-2],gpu-9,other-[1-9,12]": {
			TagNodes:        "gpu-[1-2]",
			TagNodes + "-2": "gpu-9",
			TagNodes + "-3": "other-[1-9,12]",
		},
	} {
		if got := LaunchedNodes(tags); got != want {
			t.Errorf("%v: %q, want %q", tags, got, want)
		}
	}

	want := map[string]string{TagNodes: "a", TagNodes + "-2": "b", TagNodes + "-3": "c"}
	if diff := cmp.Diff(want, NodesTags([]string{"a", "b", "c"})); diff != "" {
		t.Error(diff)
	}
}
