package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The shell that evaluates what `up --detach` prints does not see its exit status: without a lab
// it gets a command that fails, and with set -e it ends there.
func TestDetachWithoutALab(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "env"), []byte("# of a lab that was killed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := (&upCmd{Mode: "ec2", Dir: dir}).detach(&out); err == nil {
		t.Fatal("it started")
	}
	cmd := exec.Command("/bin/sh", "-ec", `eval "$PRINTED"; echo went on`)
	cmd.Env = []string{"PRINTED=" + out.String()}
	if said, err := cmd.CombinedOutput(); err == nil || len(said) > 0 {
		t.Errorf("%v: %s", err, said)
	}
}
