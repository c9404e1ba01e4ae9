package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestHooksEndNoJob: hooks remove, and an install that drops nodes, name the jobs that would
// end and change nothing; nodes that nobody uses go at once.
func TestHooksEndNoJob(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	w := newWired(t)
	w.hooks("install", "cli_filter")
	w.hooks("install")
	if status := w.admin("sync"); status != 0 {
		t.Fatalf("sync: %s", w.said)
	}
	submit := func(args ...string) string {
		t.Helper()
		id, err := w.cluster.Submit(t.Context(), "sleep 600", append([]string{"-p", "gpu", "-t", "30"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	state := func(id string) string {
		t.Helper()
		job, err := w.cluster.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return job["JobState"]
	}
	refused := func(says string, args ...string) {
		t.Helper()
		w.said = ""
		status := w.admin(append(append([]string{"hooks"}, args...), "--filter", filepath.Join(w.bin, "pcs-capacity-filter"))...)
		if status == 0 || !strings.Contains(w.said, says) {
			t.Errorf("hooks %v: %d\n%s", args, status, w.said)
		}
	}
	runs, waits := submit("-w", "gpu-1"), submit("--hold")
	if _, err := w.cluster.WaitJob(t.Context(), runs, "RUNNING"); err != nil {
		t.Fatal(err)
	}

	// The partition of both goes, and the node of neither: slurm.conf has gpu-1 itself.
	refused("jobs have nodes gpu-[2-4] and partition gpu, which go: "+runs+", "+waits, "remove")
	// Nodes without jobs.
	w.configure(func(text string) string { return strings.Replace(text, "max_nodes = 4", "max_nodes = 3", 1) })
	w.hooks("install")
	if !strings.Contains(w.said, "drain nodes gpu-4") || !strings.Contains(w.said, "Jobs go on.") && !strings.Contains(w.said, "Restarted slurmctld.") {
		t.Errorf("hooks install: %s", w.said)
	}
	if a, b := state(runs), state(waits); a != "RUNNING" || b != "PENDING" {
		t.Fatalf("job %s is %s, job %s is %s", runs, a, waits, b)
	}
	// A node that is on its way up for a job.
	boots := submit("-w", "gpu-3")
	if _, err := w.cluster.WaitJob(t.Context(), boots, "CONFIGURING", "RUNNING"); err != nil {
		t.Fatal(err)
	}
	w.configure(func(text string) string { return strings.Replace(text, "max_nodes = 4", "max_nodes = 2", 1) })
	refused("jobs have nodes gpu-3, which go: "+boots+";", "install")
	w.hooks("install", "--force")
	w.hooks("remove", "--force")
	if a, b := state(runs), state(waits); a == "RUNNING" || b == "PENDING" {
		t.Errorf("job %s is %s, job %s is %s after all has gone", runs, a, waits, b)
	}
}
