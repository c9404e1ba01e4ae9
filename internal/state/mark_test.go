package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// stateSave is slurmctld's folder of cluster lab.
func stateSave(t *testing.T, clusterName string) string {
	t.Helper()

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "clustername"), []byte(clusterName), 0o600); err != nil {
		t.Fatal(err)
	}

	return dir
}

// Hooks that run at once agree on one id.
func TestClusterIDIsMadeOnce(t *testing.T) {
	for range 50 {
		dir := stateSave(t, "lab\n")
		if _, err := ClusterID(dir, "lab"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal("before one is made:", err)
		}

		ids := make([]string, 8)

		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				var err error
				if ids[i], err = EnsureClusterID(dir, "lab"); err != nil {
					t.Error(err)
				}
			})
		}

		all.Wait()

		for _, id := range ids {
			if id != ids[0] || len(id) != 16 {
				t.Fatalf("ids %q", ids)
			}
		}

		if later, err := ClusterID(dir, "lab"); err != nil || later != ids[0] {
			t.Fatalf("read %q, %v; made %q", later, err, ids[0])
		}

		if files, _ := os.ReadDir(dir); len(files) != 2 {
			t.Fatalf("left behind: %v", files)
		}
	}
}

func TestClusterIDOnlyInSlurmsFolder(t *testing.T) {
	// Newer versions of Slurm write a number behind the name.
	if id, err := EnsureClusterID(stateSave(t, "lab|1745"), "lab"); err != nil || len(id) != 16 {
		t.Errorf("%q, %v", id, err)
	}

	for what, dir := range map[string]string{
		"another cluster's": stateSave(t, "lab2\n"),
		"no slurmctld's":    t.TempDir(),
		"none":              filepath.Join(t.TempDir(), "x"),
	} {
		if id, err := EnsureClusterID(dir, "lab"); !errors.Is(err, ErrNotSlurms) {
			t.Errorf("in a folder that is %s: %q, %v", what, id, err)
		}
	}

	broken := stateSave(t, "lab\n")
	path := filepath.Join(broken, idFile)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}

	if id, err := EnsureClusterID(broken, "lab"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken id: %q, %v", id, err)
	}
}

// The owner is the same for the same settings, by whatever path, and another for others.
func TestOwner(t *testing.T) {
	base := t.TempDir()
	settings, copied := filepath.Join(base, "config.toml"), filepath.Join(base, "copy.toml")
	if err := os.WriteFile(settings, nil, 0o644); err != nil {
		t.Fatal(err)
	}

	link := filepath.Join(base, "link.toml")
	if err := os.Symlink(settings, link); err != nil {
		t.Fatal(err)
	}

	one, _ := OwnerOf(settings)
	if again, _ := OwnerOf(link); again != one || len(one) != 8 {
		t.Errorf("%s, then %s", one, again)
	}

	if id, _ := OwnerOf(copied); id == one {
		t.Errorf("settings %s and %s have the same owner %s", settings, copied, id)
	}
}
