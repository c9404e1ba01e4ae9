package state

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

const markFile = "mark"

// KeptMark keeps the value of our mark as a hook last learned it on the controller, for hooks that find no slurmctld,
// and for a sync on another machine.
func (d Dir) KeptMark() File[string] { return File[string]{d, markFile, "the cluster's mark", true} }

// Mark reads KeptMark. The error wraps fs.ErrNotExist if no hook has kept one.
func (d Dir) Mark() (string, error) {
	mark, err := d.KeptMark().Read()
	if err == nil && mark == "" {
		err = fmt.Errorf("reading the cluster's mark in %s: %w", d, fs.ErrNotExist)
	}

	return mark, err
}

// LearnMark returns the mark of the cluster whose controller this is, by its StateSaveLocation. It makes
// the cluster's id if there is none, and writes the mark down. On another machine it is the mark that is written down.
// notKept says why the mark could not be written down.
func (d Dir) LearnMark(stateSave, clusterName string) (mark string, notKept, err error) {
	id, err := EnsureClusterID(stateSave, clusterName)
	if err != nil {
		// Another machine: what a hook on the controller has written down counts.
		known, unknown := d.Mark()
		if unknown != nil {
			return "", nil, fmt.Errorf("%w; run this on Slurm's controller, as SlurmUser", err)
		}

		return known, nil, nil
	}

	mark = capacity.ClusterMark(clusterName, id)

	return mark, d.KeptMark().Save(mark), nil
}

// Two clusters of self-managed Slurm may have the same ClusterName, which Debian's package and many a tutorial suggest.
// An id in slurmctld's StateSaveLocation distinguishes them: a cluster's controllers share that folder, another cluster
// never does, and without it Slurm itself has forgotten its nodes.

// idFile is the name of the file with a cluster's id, one line.
const idFile = "pcs-capacity-id"

// idBytes is the length of an id, which is written in hex.
const idBytes = 8

// ErrNotSlurms is a folder that is not the StateSaveLocation of a cluster.
var ErrNotSlurms = errors.New("slurmctld does not keep its state in this folder")

// ClusterID returns the id in a cluster's StateSaveLocation. The error wraps ErrNotSlurms if slurmctld has not written
// its cluster's name there, and fs.ErrNotExist if only the id is missing.
func ClusterID(stateSave, clusterName string) (string, error) {
	// Newer versions write NAME|NUMBER. The number is not in older ones, and of few digits.
	written, err := Dir(stateSave).ReadPublic("clustername")
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the cluster's id in %s: %w", stateSave, ErrNotSlurms)
	}

	if err != nil {
		return "", fmt.Errorf("reading the cluster's id: %w", err)
	}

	if name, _, _ := strings.Cut(strings.TrimSpace(string(written)), "|"); name != clusterName {
		return "", fmt.Errorf("reading the cluster's id in %s: %w: it is that of cluster %q",
			stateSave, ErrNotSlurms, name)
	}

	path := filepath.Join(stateSave, idFile)

	text, err := Dir(stateSave).ReadPublic(idFile)
	if err != nil {
		return "", fmt.Errorf("reading the cluster's id: %w", err)
	}

	id := strings.TrimSpace(string(text))
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != idBytes {
		return "", fmt.Errorf(
			"reading the cluster's id: %s does not have %d hex digits; write back those of the tag of its instances, "+
				"or delete it for a new id",
			path, 2*idBytes)
	}

	return id, nil
}

// EnsureClusterID is ClusterID, and makes an id if there is none. Several callers at once all get the same.
func EnsureClusterID(stateSave, clusterName string) (string, error) {
	id, err := ClusterID(stateSave, clusterName)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}

	raw := make([]byte, idBytes)
	rand.Read(raw) // never fails

	text := []byte(hex.EncodeToString(raw) + "\n")

	write := func(in *folder) error { return in.writeOnce(idFile, text, 0o644) }
	if err := inFolder(Dir(stateSave).open, write); err != nil {
		return "", fmt.Errorf("making the cluster's id: %w", err)
	}

	return ClusterID(stateSave, clusterName)
}

// OwnerOf names whose a cluster's Slurm reservations are: those of the settings at a path, whatever their state_dir. id
// has 8 hex digits. A host that takes the place of another has the same settings at the same path, and so the same id.
func OwnerOf(settings string) (id, is string) {
	settings = resolvePath(settings)
	sum := sha256.Sum256([]byte(settings))
	return hex.EncodeToString(sum[:4]), "settings " + settings
}

// resolvePath returns an absolute path without symbolic links, as far as it is there.
func resolvePath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}

	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}

	return path
}

// HookAccess tells whether a power hook, started by Slurm, had credentials of AWS.
type HookAccess struct {
	Without string `json:"without,omitempty"` // why it had none; "" if it had
	// Account is theirs, if they or the metadata of the instance say it. Source is where they were found, in
	// the AWS SDK's words, such as EC2RoleProvider.
	Account string `json:"account,omitempty"`
	Source  string `json:"source,omitempty"`
}

// Hook keeps what the last hook got of AWS; nil if none has run.
func (d Dir) Hook() File[*HookAccess] {
	return File[*HookAccess]{d, "hook.json", "what the last hook got of AWS", true}
}
