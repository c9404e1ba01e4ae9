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

// The shell evaluates a file of the lab's folder: another user's is refused, and so is another user's link.
func TestFolderOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	theirs := filepath.Join(t.TempDir(), "theirs")
	link := filepath.Join(t.TempDir(), "link")
	for _, err := range []error{os.Mkdir(theirs, 0o777), os.Chown(theirs, 65534, 65534), os.Symlink(t.TempDir(), link), os.Lchown(link, 65534, 65534)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{theirs, link} {
		if err := ownFolder(dir); err == nil || !strings.Contains(err.Error(), "belongs to another user; choose another --dir") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := ownFolder(filepath.Join(t.TempDir(), "new")); err != nil {
		t.Error(err)
	}
}
