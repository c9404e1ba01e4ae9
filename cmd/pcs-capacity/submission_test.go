package main

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// sync and status say so as long as Slurm's own AllowAccounts does not hold what
// allow_accounts promises.
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
	const open = "partition gpu: allow_accounts is nlp, but Slurm's AllowAccounts is ALL; add AllowAccounts=nlp to its line in slurm.conf"
	const free = "set AccountingStorageEnforce=associations"
	if got := problems(); !strings.Contains(got, open) || !strings.Contains(got, free) {
		t.Errorf("without a lock: %q", got)
	}
	if out, err := r.cluster.Command(r.ctx, "scontrol", "update", "partitionname=gpu", "allowaccounts=nlp"); err != nil {
		t.Fatal(out)
	}
	if got := problems(); strings.Contains(got, "AllowAccounts") || !strings.Contains(got, free) {
		t.Errorf("with AllowAccounts, and without accounting: %q", got)
	}
	r.cfg.Partitions[0].AllowAccounts = nil
	if got := problems(); got != "" {
		t.Errorf("for everyone: %q", got)
	}
}

// A pass writes the same for slurmctld as for everybody else, with what only Slurm knows.
func TestSlurmctldHasItsOwnSnapshot(t *testing.T) {
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
