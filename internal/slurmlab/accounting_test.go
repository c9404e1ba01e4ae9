package slurmlab_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// Accounts are real: a user has those that sacctmgr gave, the default one without -A,
// and none else; what ran is in the database.
func TestAccounting(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "acct") // where another user may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cluster := start(t, slurmlab.Config{
		Dir:        dir,
		Accounting: true,
		Partitions: []slurmlab.Partition{{Name: "paid", Groups: []string{"static-"}, Options: "AllowAccounts=nlp"}},
	})
	run := func(name string, args ...string) (string, error) {
		t.Helper()
		return cluster.Command(deadline(t), name, args...)
	}
	asGames := func(args ...string) (string, error) {
		t.Helper()
		return run("setpriv", append([]string{"--reuid=games", "--clear-groups", "sbatch", "--parsable", "--output=/dev/null", "--wrap=true"}, args...)...)
	}
	if out, err := asGames(); err == nil || !strings.Contains(out, "Invalid account") {
		t.Fatalf("a user without an account: %v %s", err, out)
	}
	for _, line := range []string{
		"add account nlp,vision description=x organization=y",
		"add user games account=vision defaultaccount=vision",
		"add user games account=nlp",
	} {
		if out, err := run("sacctmgr", append([]string{"--immediate"}, strings.Fields(line)...)...); err != nil {
			t.Fatal(err, out)
		}
	}
	id, err := asGames()
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); time.Sleep(time.Second) {
		id, err = asGames() // slurmdbd may tell slurmctld of a user after sacctmgr has ended
	}
	if err != nil {
		t.Fatal(err)
	}
	if job := waitJob(t, cluster, id, "COMPLETED"); job["Account"] != "vision" {
		t.Errorf("without -A the job runs under account %q", job["Account"])
	}
	// Without EnforcePartLimits, Slurm takes the job and never starts it.
	waiting, err := asGames("--partition=paid")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := asGames("--account=root"); err == nil {
		t.Errorf("takes an account that the user does not have: %s", out)
	}
	if id, err = asGames("--partition=paid", "--account=nlp"); err != nil {
		t.Fatal(err)
	}
	waitJob(t, cluster, id, "COMPLETED")
	if job, err := cluster.Job(deadline(t), waiting); err != nil || job["JobState"] != "PENDING" || job["Account"] != "vision" {
		t.Errorf("AllowAccounts=nlp and a job of account vision: %v %v", err, job)
	}
	for end := time.Now().Add(time.Minute); ; {
		out, err := run("sacct", "--noheader", "--parsable2", "--allocations", "--jobs="+id, "--format=account,state")
		if err != nil {
			t.Fatal(err)
		}
		if out == "nlp|COMPLETED" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("sacct says %q of job %s", out, id)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
