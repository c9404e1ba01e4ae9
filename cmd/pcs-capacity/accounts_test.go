package main

import (
	"strings"
	"testing"
)

// sync and status say so as long as Slurm's own AllowAccounts does not hold what
// allow_accounts promises.
func TestAllowAccountsIsVerified(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Slurm cluster")
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
