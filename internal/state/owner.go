package state

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Owner is whose a cluster's Slurm reservations are: settings in a file, with a state_dir.
type Owner struct {
	// ID has 8 hex digits.
	ID string

	dir      Dir
	settings string
	host     string
}

// ownerFile has an owner and the path of its settings, one line.
const ownerFile = "owner"

var ownerLine = regexp.MustCompile(`^([0-9a-f]{8}) (.+)$`)

// OwnerOf is the owner with the settings at a path and this state_dir: the one that is kept
// there for this path, so that it is the same on each host that shares the two; else one that
// host, path and state_dir make up, so that it is the same again when state_dir was lost.
func OwnerOf(dir Dir, settings string) Owner {
	o := Owner{dir: dir, settings: settled(settings)}
	o.host, _ = os.Hostname()
	sum := sha256.Sum256([]byte(strings.Join([]string{o.host, o.settings, settled(string(dir))}, "\n")))
	o.ID = hex.EncodeToString(sum[:4])
	if text, err := dir.ReadPublic(ownerFile); err == nil {
		if line := ownerLine.FindStringSubmatch(strings.TrimSpace(string(text))); line != nil && line[2] == o.settings {
			o.ID = line[1]
		}
	}
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
	return fmt.Sprintf("settings %s, state_dir %s, host %s", o.settings, o.dir, o.host)
}

// Keep writes the owner into state_dir, if another one or none is there.
func (o Owner) Keep() error {
	line := o.ID + " " + o.settings + "\n"
	if text, err := o.dir.ReadPublic(ownerFile); err == nil && string(text) == line {
		return nil
	}
	if err := o.dir.WritePublic(ownerFile, []byte(line)); err != nil {
		return fmt.Errorf("keeping the owner of the Slurm reservations: %w", err)
	}
	return nil
}
