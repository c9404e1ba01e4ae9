package main

import (
	"strings"
	"testing"
	"time"
)

// TestLong_R2_WhatStandsInTheWay: limits come down to the fence, whatever else Slurm shows.
func TestLong_R2_WhatStandsInTheWay(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsal(t)
	fence := r.fence("cr-0e2000000000000a1")
	r.sync()
	crosses := r.running(r.submit("-C", "gpu", "-w", "gpu-1", "-t", "60"))
	r.scontrol("update", "jobid="+crosses.Shown, "timelimit=240")

	// A job of a partition that is no more has no limit that Slurm could show.
	r.scontrol("create", "PartitionName=other", "Nodes=static-1")
	orphan, err := r.cluster.Submit(r.ctx, "true", "-p", "other", "-H", "-n1")
	if err != nil {
		t.Fatal(err)
	}
	r.scontrol("reconfigure") // slurm.conf does not have it
	if out, err := r.cluster.Command(r.ctx, "squeue", "--all", "--states=all", "--noheader", "--Format=TimeLimit", "--jobs="+orphan); err != nil || !strings.Contains(out, "NOT_SET") {
		t.Errorf("the limit of a job without a partition: %s%v", out, err)
	}
	r.expect("lower-limit gpu " + crosses.Shown)
	if gap := fence.Sub(r.job(crosses.Shown).End); gap < 0 || gap > 2*time.Minute {
		t.Errorf("the job ends %s before the fence", gap)
	}
}
