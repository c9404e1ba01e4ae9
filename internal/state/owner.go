package state

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
)

// Owner is whose a cluster's Slurm reservations are: settings in a file, with a state_dir.
type Owner struct {
	// ID has 8 hex digits. The two paths make it up, so that a host that takes the place of another has the same.
	ID string

	dir      Dir
	settings string
}

// OwnerOf is the owner with the settings at a path and this state_dir.
func OwnerOf(dir Dir, settings string) Owner {
	o := Owner{dir: dir, settings: settled(settings)}
	folder, _ := filepath.Abs(string(dir)) // it may not be there yet, so that links in its path stay
	sum := sha256.Sum256([]byte(o.settings + "\n" + folder))
	o.ID = hex.EncodeToString(sum[:4])
	return o
}

// settled is an absolute path without symbolic links, as far as it is there.
func settled(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}

// String says who it is.
func (o Owner) String() string {
	return fmt.Sprintf("settings %s, state_dir %s", o.settings, o.dir)
}
