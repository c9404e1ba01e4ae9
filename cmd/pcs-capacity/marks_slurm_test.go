package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// A job that Slurm has started with its --time-min gets the limit back that a pass has seen before the start; one that
// is fitted, by its --time-min of min_time and a minute, is raised to the fence whenever it is seen.
func TestLong_CutLimitsAreRaised(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	r := newRehearsal(t)
	if version, err := (&slurm.Client{}).Version(r.ctx); err != nil || !version.TimeMinCollapses() {
		t.Skip("this Slurm starts no job with its --time-min: nothing is raised", err)
	}

	submit := func(node, least string, more ...string) string {
		t.Helper()
		return r.submit(append([]string{"-C", "gpu", "-w", node, "-t", "240", "--time-min=" + least}, more...)...)
	}
	stated, fitted := submit("gpu-1", "1", "--hold"), submit("gpu-4", "2", "--hold")
	ran := r.running(submit("gpu-3", "1")).Shown
	r.sync() // sees two that wait, and one that runs

	for _, id := range []string{stated, fitted} {
		r.scontrol("release", id)
		r.running(id)
	}

	did := r.sync()
	slices.Sort(did)

	if got, want := strings.Join(did, " "), "raise-limit gpu "+stated+" raise-limit gpu "+fitted; got != want {
		t.Errorf("the pass did %q, want %q", got, want)
	}

	if unseen := r.job(ran).TimeLimit; unseen.Minutes != 1 {
		t.Errorf("one that no pass has seen wait has %s", unseen)
	}

	r.scontrol("update", "jobid="+fitted, "comment=mine")
	r.expect()
	r.cancel(ran)
	unseen := r.running(submit("gpu-3", "2"))
	r.expect("raise-limit gpu " + unseen.Shown)
}
