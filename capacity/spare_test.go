package capacity

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// lends gives the partition of a snapshot a spare one.
func lends(s *Snapshot) {
	s.Partitions[0].AllowAccounts = []string{"nlp"}
	s.Partitions[0].Spare = Spare{Name: "scavenge"}
}

// A job of a spare partition needs no account and goes on after a fence, as if its owner had said so; where Slurm cannot
// requeue it, the owner knows.
func TestAdmitSpare(t *testing.T) {
	const days = 24 * 60

	toFence := Edits{TimeMin: Minutes(32)}

	for name, c := range map[string]struct {
		change func(*Request, *Snapshot)
		edits  Edits
		says   string // the refusal, or a warning; "" for neither
	}{
		"longer than a block": {func(*Request, *Snapshot) {}, toFence, ""},
		"in the lender's partition": {
			func(r *Request, _ *Snapshot) { r.Partitions = []string{"gpu"} }, Edits{}, `account "bio" may not use`,
		},
		"in both": {
			func(r *Request, _ *Snapshot) { r.Partitions = []string{"scavenge", "gpu"} }, Edits{}, `account "bio" may not`,
		},
		"in both, with the account": {
			func(r *Request, _ *Snapshot) { r.Partitions, r.Account = []string{"scavenge", "gpu"}, "nlp" }, toFence, "",
		},
		"it stops at the fence": {
			func(r *Request, _ *Snapshot) { r.Comment = "on_end=stop" }, Edits{}, "the job needs 6-00:00:00",
		},
		"it fits, and has --no-requeue": {
			func(r *Request, _ *Snapshot) { r.TimeLimit, r.Requeue = Minutes(60), RequeueNo },
			Edits{},
			"when jobs of partition gpu need its nodes, Slurm ends this job in partition scavenge and does not requeue " +
				"it: the job has --no-requeue; leave that out",
		},
		"it is one of srun": {
			func(r *Request, _ *Snapshot) { r.TimeLimit, r.Requeue = Minutes(60), RequeueNever },
			Edits{},
			"Slurm requeues jobs of sbatch only",
		},
		"Slurm requeues none unless asked": {
			func(r *Request, s *Snapshot) { r.TimeLimit, r.Requeue, s.NoRequeue = Minutes(60), RequeueUnsaid, true },
			Edits{},
			"JobRequeue=0 in slurm.conf; add --requeue",
		},
		"it names the lender's block": {
			func(r *Request, _ *Snapshot) { r.Comment = "capacity_reservation_id=" + blockA.ID }, toFence, "",
		},
		"before the next block": {
			func(r *Request, s *Snapshot) { r.Begin = noon.Add(60 * time.Hour) }, toFence, "",
		},
		"no block": {
			func(_ *Request, s *Snapshot) { s.Reservations = nil; s.Partitions[0].Groups[0].Slots = nil },
			Edits{},
			"no reservation of partition scavenge is open or scheduled",
		},
		"nothing is launched on demand for it": {
			func(_ *Request, s *Snapshot) { s.Partitions[0].Groups[0].PurchaseOption = OnDemand },
			Edits{},
			"no reservation of partition scavenge is open or scheduled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := Request{Partitions: []string{"scavenge"}, Account: "bio", TimeLimit: Minutes(6 * days)}
			snap := twoBlocks(lends)
			c.change(&req, snap)

			v := Admit(req, snap, noon)

			v.Edits.Constraint = "" // [gpu-a|gpu-b]
			if v.Edits != c.edits {
				t.Errorf("edits %+v, want %+v", v.Edits, c.edits)
			}

			says := strings.Join(append(v.Warnings, v.Sentence), "\n")
			if !strings.Contains(says, c.says) || c.says == "" && v.Refused {
				t.Errorf("says %q, want %q", says, c.says)
			}
		})
	}
}

// Nodes are launched for a spare job into the lender's block, whatever its account.
func TestLaunchSpare(t *testing.T) {
	snap := twoBlocks(lends)
	req := Request{Partitions: []string{"scavenge"}, Account: "bio", TimeLimit: Minutes(60), Nodes: 4}
	for partition, want := range map[string]Code{"scavenge": OK, "gpu": AccountNotAllowed} {
		p, _ := snap.Partition(partition)

		into, v := AdmitLaunch(req, p, "gpu-a", snap, noon)
		if v.Code != want || want == OK && (len(into) != 1 || into[0].ID != blockA.ID) {
			t.Errorf("in %s: %s %v", partition, v.Code, into)
		}
	}
}

// A spare partition has no slots of its own: each counts once.
func TestSpareHasNoSlots(t *testing.T) {
	with, without := twoBlocks(lends), twoBlocks()
	if got, want := len(with.SlotStates(noon)), len(without.SlotStates(noon)); got != want {
		t.Errorf("%d slots, want %d", got, want)
	}

	if got := with.EarliestFence("scavenge", []string{"gpu-a-1"}, noon); got.IsZero() ||
		!got.Equal(with.EarliestFence("gpu", []string{"gpu-a-1"}, noon)) {
		t.Errorf("its fence is at %s", got)
	}

	s := Settings{Partitions: []PartitionSettings{{Name: "gpu", Spare: "scavenge"}, {Name: "cpu"}}}
	if got := s.SlurmNames(); !slices.Equal(got, []string{"gpu", "scavenge", "cpu"}) {
		t.Errorf("names %q", got)
	}
}

// Each setting that keeps the lender from its nodes is named.
func TestCheckSpare(t *testing.T) {
	for name, c := range map[string]struct {
		change func(lender, spare *SlurmPartition, p *Preemption)
		want   string // what one problem says; "" for none
	}{
		"as it should be": {func(_, _ *SlurmPartition, _ *Preemption) {}, ""},
		"a higher tier than most": {
			func(lender, spare *SlurmPartition, _ *Preemption) { lender.PriorityTier, spare.PriorityTier = 9, 1 }, "",
		},
		"Slurm cancels elsewhere": {func(_, _ *SlurmPartition, p *Preemption) { p.Mode = "CANCEL" }, ""},
		"no preemption":           {func(_, _ *SlurmPartition, p *Preemption) { p.Type = "" }, "PreemptType is none"},
		"by QOS":                  {func(_, _ *SlurmPartition, p *Preemption) { p.Type = "qos" }, "PreemptType is preempt/qos"},
		"the same tier":           {func(_, spare *SlurmPartition, _ *Preemption) { spare.PriorityTier = 1 }, "below 1 for scavenge"},
		"jobs are cancelled":      {func(_, spare *SlurmPartition, _ *Preemption) { spare.PreemptMode = "CANCEL" }, "PreemptMode is CANCEL"},
		"jobs are safe":           {func(_, spare *SlurmPartition, _ *Preemption) { spare.PreemptMode = "OFF" }, "PreemptMode is OFF"},
		"time to save": {
			func(_, spare *SlurmPartition, _ *Preemption) { spare.GraceTime = time.Minute }, "",
		},
		"time to save, on an old Slurm": {
			func(_, spare *SlurmPartition, p *Preemption) { spare.GraceTime, p.NoGraceTime = time.Minute, true },
			"set GraceTime=0",
		},
		"an old Slurm": {func(_, _ *SlurmPartition, p *Preemption) { p.NoGraceTime = true }, ""},
		"by priority": {
			func(_, _ *SlurmPartition, p *Preemption) { p.Mode = "PRIORITY,REQUEUE" }, "PreemptMode has PRIORITY",
		},
		"by priority in the lender's": {
			func(lender, _ *SlurmPartition, _ *Preemption) { lender.PreemptMode = "PRIORITY,REQUEUE" },
			"PreemptMode has PRIORITY",
		},
	} {
		lender := SlurmPartition{Name: "gpu", PriorityTier: 1, PreemptMode: "REQUEUE"}
		spare := SlurmPartition{Name: "scavenge", PreemptMode: "REQUEUE"}
		p := Preemption{Type: ByPartition, Mode: "REQUEUE"}
		c.change(&lender, &spare, &p)

		found := CheckSpare(lender, spare, p)
		if c.want == "" && len(found) > 0 ||
			c.want != "" && (len(found) != 1 || !strings.Contains(found[0].Text(), c.want)) {
			t.Errorf("%s: %+v, want %q", name, found, c.want)
		}
	}
}
