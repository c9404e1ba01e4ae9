package main

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Without accounting Slurm before 24.11 knows no job's account: AllowAccounts keeps every job from
// its partition, and explain says why.
func TestNoAccountIsKnownWithoutAccounting(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsalOn(t, func(c *slurmlab.Config) {
		c.Partitions = append(c.Partitions, slurmlab.Partition{Name: "gpu", Options: "AllowAccounts=nlp"})
	})
	if version, err := (&slurm.Client{}).Version(r.ctx); err != nil || version.AtLeast(24, 11, 0) {
		t.Skipf("%s, %v: AllowAccounts has no effect without accounting", version, err)
	}
	r.sync()
	id := r.submit("-A", "nlp", "-C", "gpu", "-t", "1")
	r.until("Slurm says why it waits", func() bool {
		out, err := r.cluster.Command(r.ctx, "squeue", "--noheader", "--format=%r")
		return err == nil && out != "None"
	})
	r.explains(id, "Job "+id+" can never start as it is: Slurm knows no account of it")
	if j := r.job(id); j.State != "PENDING" {
		t.Errorf("it is %s", j.State)
	}
}
