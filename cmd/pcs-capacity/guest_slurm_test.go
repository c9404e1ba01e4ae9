package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/check"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// asGuest is the settings of check's Slurm for nodes that something else launches.
func asGuest(text string) string {
	return strings.NewReplacer(`provider = "ec2"`, `provider = "none"`, `launch_template = "lt-0e2000000000000a4"`, "dynamic = true", "max_nodes = 4", "max_nodes = 2").Replace(text)
}

// TestGuest: the nodes are powered by a program of the site's. A job gets the limit that the block leaves, runs and
// ends; behind the end of the block nothing starts. All of it without a call to EC2 that writes, and without a change
// of a node.
func TestGuest(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDSIMULATED")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	var theirs, powered string
	w := newWiredOn(t, func(c *slurmlab.Config) {
		theirs, powered = filepath.Join(c.Dir, "their-resume"), filepath.Join(c.Dir, "powered")
		script := fmt.Sprintf("#!/bin/sh\necho \"$1\" >>%s\nexec %s/bin/resume \"$1\"\n", powered, c.Dir)
		if err := os.WriteFile(theirs, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		c.CloudGroups = []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 2, CPUs: 1, Partition: "gpu", AlwaysOn: true}}
		c.ResumeProgram, c.SuspendProgram = theirs, filepath.Join(c.Dir, "bin", "suspend")
	})
	w.configure(asGuest)
	w.hooks("install")
	if !strings.Contains(w.said, "partition gpu has provider none: its lines in slurm.conf, its nodes and their ResumeProgram stay as they are") {
		t.Errorf("hooks install: %s", w.said)
	}
	written, err := os.ReadFile(filepath.Join(w.etc, slurm.IncludeFile))
	if text := strings.TrimSpace(string(written)); err != nil || regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(text, "") != "JobSubmitPlugins=lua" {
		t.Errorf("the settings: %v\n%s", err, text)
	}
	if running, err := (&slurm.Client{}).Config(t.Context()); err != nil || running.ResumeProgram != theirs {
		t.Errorf("%+v, %v", running, err)
	}
	scontrol, err := exec.LookPath("scontrol")
	if err != nil {
		t.Fatal(err)
	}
	asked := filepath.Join(w.dir, "scontrol.log") // by our programs, not by the lab
	w.program("scontrol", fmt.Sprintf(`echo "$@" >>%s; exec %s "$@"`, asked, scontrol))

	w.mustAdmin("sync")
	unlock, err := state.Dir(filepath.Join(w.dir, "state")).Lock(t.Context(), state.WatchLock, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, found := w.check(); slices.ContainsFunc(found, func(f check.Finding) bool { return f.Status == check.Fail }) {
		t.Errorf("check: %+v", found)
	}

	fence := func() capacity.SlurmReservation {
		t.Helper()
		all, err := (&slurm.Client{}).Reservations(t.Context())
		if err != nil || len(all) != 1 || !all[0].Ours() || all[0].Maintenance() {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0]
	}
	done := filepath.Join(w.dir, "done")
	id, err := w.cluster.Submit(t.Context(), "while [ ! -e "+done+" ]; do sleep 0.1; done", "-p", "gpu")
	if err == nil {
		_, err = w.cluster.WaitJob(t.Context(), id, "RUNNING")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.mustAdmin("sync") // before 25.05.3 a job starts with the floor of its limit
	jobs, err := (&slurm.Client{}).Jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].End.After(fence().Start) || jobs[0].End.Before(fence().Start.Add(-12*time.Minute)) {
		t.Errorf("the fence is at %s, the jobs are %+v, %v", fence().Start, jobs, err)
	}
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err = w.cluster.WaitJob(t.Context(), id, "COMPLETED"); err != nil {
		t.Fatal(err)
	}
	if by, err := os.ReadFile(powered); err != nil || !strings.HasPrefix(string(by), "gpu-") {
		t.Errorf("the site's program got %q, %v", by, err)
	}
	for _, command := range [][]string{{"status"}, {"sync", "--dry-run"}, {"report"}, {"explain", "gpu"}, {"explain", "gpu-1"}} {
		w.mustAdmin(command...)
	}
	w.said = ""
	if status := w.admin("setup", "--provider", "none", "--reservation", openBlock, "--queue", "gpu", "--node-group", "gpu"); status != 2 || !strings.Contains(w.said, "there is nothing to set up") {
		t.Errorf("setup: %d: %s", status, w.said)
	}

	w.sim.Clock().Advance(90 * 24 * time.Hour) // the block is over
	w.mustAdmin("sync")
	if end := fence(); !end.Active {
		t.Errorf("behind the end: %+v", end)
	}
	// The filter refuses a job now; the fence alone holds it as well.
	if err := os.WriteFile(filepath.Join(w.etc, "job_submit.lua"), []byte("function slurm_job_submit() return slurm.SUCCESS end\nfunction slurm_job_modify() return slurm.SUCCESS end\nreturn slurm.SUCCESS\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if id, err = w.cluster.Submit(t.Context(), "true", "-p", "gpu", "-t", "1"); err != nil {
		t.Fatal(err)
	}
	for reason := ""; !strings.Contains(reason, "ReqNodeNotAvail") && !strings.Contains(reason, "Reservation"); time.Sleep(100 * time.Millisecond) {
		job, err := w.cluster.Job(t.Context(), id)
		if reason = job["Reason"]; err != nil || job["JobState"] != "PENDING" || t.Context().Err() != nil {
			t.Fatalf("%v, %v", job, err)
		}
	}
	w.mustAdmin("sync")

	w.configure(func(text string) string { before, _, _ := strings.Cut(text, "[[partition]]"); return before })
	w.mustAdmin("teardown", "--provider", "none", "--queue", "gpu")
	if all, err := (&slurm.Client{}).Reservations(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("after teardown: %+v, %v", all, err)
	}
	for call, n := range w.sim.Calls() {
		if !regexp.MustCompile(`^(Describe|List|Get|Simulate)`).MatchString(call.Operation) {
			t.Errorf("%s was called %d times", call.Operation, n)
		}
	}
	if text, err := os.ReadFile(asked); err != nil || strings.Contains(strings.ToLower(string(text)), "nodename=") {
		t.Errorf("%v\n%s", err, text)
	}
}
