package slurmlab_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// A Slurm below a prefix comes before the distribution's: the programs of this one are links, whose folder tells.
func TestUsePrefix(t *testing.T) {
	prefix := t.TempDir()
	t.Setenv("PATH", os.Getenv("PATH"))
	if err := slurmlab.UsePrefix(prefix); err == nil || !strings.Contains(err.Error(), "there is no sbin/slurmctld") {
		t.Errorf("an empty folder: %v", err)
	}
	for _, name := range []string{"sbin/slurmctld", "sbin/slurmd", "bin/scontrol"} {
		path := filepath.Join(prefix, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := slurmlab.UsePrefix(prefix); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sbin/slurmctld", "bin/scontrol"} {
		if found, err := exec.LookPath(filepath.Base(name)); err != nil || found != filepath.Join(prefix, name) {
			t.Errorf("%s is %s, %v", name, found, err)
		}
	}
}

// With auth/slurm, as on PCS, there is no munged.
func TestAuthSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Slurm cluster")
	}
	out, err := exec.Command("slurmctld", "-V").Output()
	if words := strings.Fields(string(out)); err != nil || len(words) < 2 || words[1] < "24.05" {
		t.Skipf("auth/slurm came with 24.05: %s, %v", out, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cluster := start(t, slurmlab.Config{Auth: "slurm", CloudGroups: []slurmlab.NodeGroup{{Prefix: "gpu-", Partition: "gpu"}}})
	id, err := cluster.Submit(ctx, "srun hostname", "-p", "gpu")
	if err == nil {
		_, err = cluster.WaitJob(ctx, id, "COMPLETED")
	}
	if err != nil {
		t.Fatal(err)
	}
}
