package submit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
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

func TestLong_AccountsInSlurmctld(t *testing.T) {
	t.Parallel()
	s := startPaid(t, "job_submit", "")
	t.Run("default account", func(t *testing.T) { testDefaultAccount(t, s) })
	t.Run("R7 a job is moved", func(t *testing.T) { testMove(t, s) })
	t.Run("R7 the end of a job that runs", func(t *testing.T) { testOnEnd(t, s) })
	t.Run("limits", func(t *testing.T) { testLimits(t, s) })
}

func TestLong_AccountsBehindTheCLIFilter(t *testing.T) {
	t.Parallel()
	s := startPaid(t, "cli_filter", "AllowAccounts=nlp")
	t.Run("limits", func(t *testing.T) { testLimits(t, s) })
	t.Run("default account", func(t *testing.T) { testDefaultAccountBehindTheCLIFilter(t, s) })
}

// A job without -A has its user's default account, in slurmctld as for Slurm itself.
func testDefaultAccount(t *testing.T, s site) {
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
func testDefaultAccountBehindTheCLIFilter(t *testing.T, s site) {
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
func testMove(t *testing.T, s site) {
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

// A job that runs keeps its on_end.
func testOnEnd(t *testing.T, s site) {
	_, id, err := s.submitAs(t, "games", "--partition=big", "--account=nlp", "--wrap=sleep 600", "--comment=on_end=stop")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.cluster.WaitJob(hookstest.Deadline(t), id, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	for text, refused := range map[string]bool{"on_end=requeue": true, "x on_end=stop": false, "x": false} {
		if _, err := s.as(t, "games", "scontrol", "update", "jobid="+id, "comment="+text); (err != nil) != refused {
			t.Errorf("comment %q: %v", text, err)
		}
	}
	if out, err := s.cluster.Command(hookstest.Deadline(t), "scancel", id); err != nil {
		t.Error(out)
	}
}

// A job without --time gets a limit that its account or QOS allows: with the whole window
// of a block it would wait for ever, for a limit that nobody asked for.
func testLimits(t *testing.T, s site) {
	for _, line := range []string{"modify account nlp set maxwall=45", "add qos tiny set maxwall=20", "modify account nlp set qos=normal,tiny"} {
		if out, err := s.cluster.Command(hookstest.Deadline(t), "sacctmgr", append([]string{"--immediate"}, strings.Fields(line)...)...); err != nil {
			t.Fatal(err, out)
		}
	}
	// slurmdbd tells slurmctld, which enforces them, when it comes to it.
	if err := slurmlab.Until(hookstest.Deadline(t), func() bool {
		out, err := s.cluster.Command(t.Context(), "scontrol", "show", "assoc_mgr")
		return err == nil && strings.Contains(out, "MaxWallPJ=45") && strings.Contains(out, "MaxWallPJ=20")
	}); err != nil {
		t.Fatalf("waiting until slurmctld knows the limits: %v", err)
	}
	snap, err := s.state.ReadSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	if snap.Walls, err = (&slurm.Client{Conf: s.cluster.Conf()}).Walls(hookstest.Deadline(t), "lab"); err != nil {
		t.Fatal(err)
	}
	snap.TakenAt = time.Now()
	if err := s.state.WriteSnapshot(snap); err != nil {
		t.Fatal(err)
	}
	s.forget(t)
	for _, c := range []struct {
		args    []string
		minutes int
	}{
		{[]string{"daemon"}, 45}, // its default account is nlp
		{[]string{"games", "--account=nlp"}, 45},
		{[]string{"games", "--account=nlp", "--qos=tiny"}, 20},
	} {
		out, err := s.as(t, c.args[0], "env", append([]string{"USER=" + c.args[0], "sbatch", "--hold", "--output=/dev/null", "--wrap=true", "--partition=big"}, c.args[1:]...)...)
		if err != nil {
			t.Errorf("%q: %v: %s", c.args, err, out)
			continue
		}
		_, id, _ := strings.Cut(out, "Submitted batch job ")
		job := s.job(t, id) // held: Slurm may start it with the least that it takes
		if got := job["TimeLimit"]; got != capacity.FormatMinutes(c.minutes) {
			t.Errorf("%q: TimeLimit=%s, want %d minutes", c.args, got, c.minutes)
		}
		if out, err := s.cluster.Command(hookstest.Deadline(t), "scontrol", "release", id); err != nil {
			t.Fatal(out)
		}
		if job, err := s.cluster.WaitJob(hookstest.Deadline(t), id, "COMPLETED"); err != nil {
			t.Errorf("%q: %v: %v", c.args, err, job)
		}
	}
}
