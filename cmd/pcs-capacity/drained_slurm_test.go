package main

import (
	"slices"
	"strings"
	"testing"
)

// TestDrainedNodesAreTold: status names the nodes of an open block that are drained, with
// Slurm's reason, and explain tells it to a job that waits for them.
func TestDrainedNodesAreTold(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsal(t)
	r.sync()
	r.scontrol("update", "nodename=long-1", "state=drain", "reason=bad cable")
	job := r.submit("-C", "long", "-t", "5")
	r.sync()
	const said = "cr-0e2000000000000b2 is open and paid, and no job gets nodes long-1 drained (bad cable); "
	if problems := r.document().Problems; !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, said) }) {
		t.Errorf("status: %q", problems)
	}
	r.explains(job, "Job "+job+" fits into cr-0e2000000000000b2, which is open, but too few of its nodes get jobs: long-1 drained (bad cable).")
	r.scontrol("update", "nodename=long-1", "state=resume")
	r.sync()
	if problems := r.document().Problems; slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, said) }) {
		t.Errorf("status after resume: %q", problems)
	}
	r.cancel(job)
}
