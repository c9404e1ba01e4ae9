package slurmlab_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// A Slurm under a prefix comes before the distribution's; here its programs are links.
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
