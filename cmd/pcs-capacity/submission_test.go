package main

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// sync and status say that Slurm does not hold to what allow_accounts promises.
func TestAllowAccountsIsVerified(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsal(t)
	r.cfg.Partitions[0].AllowAccounts = []string{"nlp"}
	problems := func() string {
		t.Helper()
		report, err := onePass(r.ctx, r.cfg, r.aws, nil)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(report.Problems, "\n")
	}
	const useless = "allow_accounts has no use, because Slurm keeps no accounting"
	if got := problems(); !strings.Contains(got, useless) || strings.Contains(got, "add AllowAccounts") {
		t.Errorf("without accounting: %q", got)
	}
	r.cfg.Partitions[0].AllowAccounts = nil
	if got := problems(); got != "" {
		t.Errorf("for everyone: %q", got)
	}
}

// A pass writes the same for slurmctld as for everybody else, with what only Slurm knows.
func TestOwnSnapshotOfSlurmctld(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsal(t)
	r.sync()
	shared, err := state.Dir(r.cfg.StateDir).ReadSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	local, err := state.Dir(r.cfg.LocalDir).ReadSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	if !local.TakenAt.Equal(shared.TakenAt) || len(local.Partitions) != 1 {
		t.Errorf("local %+v, shared %+v", local, shared)
	}
	if g := local.Partitions[0].Groups[0]; g.GPUs != 8 || g.Slots[0].Nodes != "gpu-[1-4]" {
		t.Errorf("node group: %+v", g)
	}
}
