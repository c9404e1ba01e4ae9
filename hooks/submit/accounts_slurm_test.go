package submit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// startPaid starts a site with an accounting daemon and partition big, which is ours, is
// for account nlp, and whose only node is up already, so that no ResumeProgram ever sees
// its jobs. User games has the accounts vision (by default) and nlp, user daemon has
// nlp, root has root and nlp.
func startPaid(t *testing.T, shim, options string) site {
	t.Helper()
	s := startSite(t, shim, func(cfg *slurmlab.Config) {
		cfg.Accounting, cfg.Extra = true, []string{"AccountingStorageEnforce=limits"}
		cfg.Partitions = []slurmlab.Partition{{Name: "big", Groups: []string{"static-"}, Options: options}}
	})
	if err := os.Chmod(filepath.Dir(s.cluster.Dir()), 0o755); err != nil { // another user may enter
		t.Fatal(err)
	}
	for _, line := range []string{
		"add account nlp,vision",
		"add user games account=vision defaultaccount=vision", "add user games account=nlp",
		"add user daemon account=nlp", "add user root account=nlp",
	} {
		if out, err := s.cluster.Command(hookstest.Deadline(t), "sacctmgr", append([]string{"--immediate"}, strings.Fields(line)...)...); err != nil {
			t.Fatal(err, out)
		}
	}
	snap := hookstest.Snapshot(time.Now())
	big := snap.Partitions[0]
	big.Name, big.AllowAccounts = "big", []string{"nlp"}
	snap.Partitions = append(snap.Partitions, big)
	if err := s.state.WriteSnapshot(snap); err != nil {
		t.Fatal(err)
	}
	s.forget(t)
	return s
}

// as runs one of Slurm's commands as a user without rights.
func (s site) as(t *testing.T, user, name string, args ...string) (out string, err error) {
	t.Helper()
	return s.cluster.Command(hookstest.Deadline(t), "setpriv", append([]string{"--reuid=" + user, "--clear-groups", name}, args...)...)
}

// submitAs submits a job that is not held.
func (s site) submitAs(t *testing.T, user string, args ...string) (out, id string, err error) {
	t.Helper()
	out, err = s.as(t, user, "sbatch", append([]string{"--output=/dev/null", "--time=10", "--wrap=true"}, args...)...)
	_, id, _ = strings.Cut(out, "Submitted batch job ")
	return out, id, err
}

// A job without -A has its user's default account, in slurmctld as for Slurm itself.
func TestDefaultAccount(t *testing.T) {
	t.Parallel()
	s := startPaid(t, "job_submit", "")
	out, _, err := s.submitAs(t, "games", "--partition=big")
	if err == nil || !strings.Contains(out, `pcs-capacity: account "vision" may not use the reservations of partition big; allowed: nlp`) {
		t.Errorf("default account that is not allowed: %v: %s", err, out)
	}
	for _, job := range [][]string{{"daemon", "--partition=big"}, {"games", "--partition=big", "--account=nlp"}} {
		out, id, err := s.submitAs(t, job[0], job[1:]...)
		if err != nil || strings.Contains(out, "pcs-capacity") {
			t.Errorf("%q: %v: %s", job, err, out)
			continue
		}
		if done, err := s.cluster.WaitJob(hookstest.Deadline(t), id, "COMPLETED"); err != nil || done["Account"] != "nlp" {
			t.Errorf("%q: %v: %v", job, err, done)
		}
	}
}

// Where nobody of ours sees the default account, Slurm's own AllowAccounts does: the job
// of the wrong one never starts, that of the right one does, beside it on the same node.
func TestDefaultAccountBehindTheCLIFilter(t *testing.T) {
	t.Parallel()
	s := startPaid(t, "cli_filter", "AllowAccounts=nlp")
	submit := func(args ...string) string {
		t.Helper()
		id, err := s.cluster.Submit(hookstest.Deadline(t), "true", append([]string{"--time=10", "--partition=big"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	wrong := submit() // root's default account is root
	if _, err := s.cluster.WaitJob(hookstest.Deadline(t), submit("--account=nlp"), "COMPLETED"); err != nil {
		t.Error(err)
	}
	if job := s.job(t, wrong); job["JobState"] != "PENDING" || job["Account"] != "root" {
		t.Errorf("the job of an account that is not allowed: %v", job)
	}
	if out, err := s.cluster.Submit(hookstest.Deadline(t), "true", "--time=10", "--partition=big", "--account=root"); err == nil || !strings.Contains(err.Error(), `account "root" may not use`) {
		t.Errorf("an account that is written down is told at once: %v: %s", err, out)
	}
	if _, err := s.cluster.Command(hookstest.Deadline(t), "sacctmgr", "--immediate", "modify", "user", "root", "set", "defaultaccount=nlp"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.cluster.WaitJob(hookstest.Deadline(t), submit(), "COMPLETED"); err != nil {
		t.Errorf("the job of a default account that is allowed: %v", err)
	}
}

// A change after submission is judged like a submission: a job that waits elsewhere gets
// no node of ours that is up already.
func TestR7_JobIsMoved(t *testing.T) {
	t.Parallel()
	s := startPaid(t, "job_submit", "")
	_, id, err := s.submitAs(t, "games", "--hold", "--partition=static")
	if err != nil {
		t.Fatal(err)
	}
	update := func(changes ...string) (string, error) {
		t.Helper()
		return s.as(t, "games", "scontrol", append([]string{"update", "jobid=" + id}, changes...)...)
	}
	for _, changes := range [][]string{
		{"partition=big"},
		{"partition=big", "account=vision"},
		{"partition=static,big"},
		{"partition=static,big", "comment=capacity_reservation_id=mine"},
		{"comment=capacity_reservation_id=" + hookstest.OtherID},
	} {
		if out, err := update(changes...); err == nil {
			t.Errorf("%q is let through: %s", changes, out)
		}
	}
	if out, err := update("partition=big"); err == nil || !strings.Contains(out, "Invalid account") {
		t.Errorf("does not say what is wrong: %v: %s", err, out)
	}
	if job := s.job(t, id); job["Partition"] != "static" || job["Account"] != "vision" || strings.Contains(job["Comment"], "capacity") {
		t.Errorf("changed: %v", job)
	}
	for _, changes := range [][]string{
		{"comment=run=3", "timelimit=5"},
		{"partition=big", "account=nlp"}, // as it could have been submitted
		{"comment=capacity_reservation_id=" + hookstest.BlockID},
	} {
		if out, err := update(changes...); err != nil {
			t.Errorf("%q: %s", changes, out)
		}
	}
	if out, err := update("account=vision"); err == nil {
		t.Errorf("the account of a job in partition big is changed: %s", out)
	}
	if out, err := s.as(t, "games", "scontrol", "release", id); err != nil {
		t.Fatal(out)
	}
	if job, err := s.cluster.WaitJob(hookstest.Deadline(t), id, "COMPLETED"); err != nil || job["Account"] != "nlp" {
		t.Errorf("%v: %v", err, job)
	}
	_, id, err = s.submitAs(t, "games", "--hold", "--partition=static")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.cluster.Command(hookstest.Deadline(t), "scontrol", "update", "jobid="+id, "partition=big"); err != nil {
		t.Errorf("root may do everything: %s", out)
	}
}
