package state

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// Two clusters of self-managed Slurm may have the same ClusterName, which Debian's package and many
// a tutorial suggest. An id in slurmctld's StateSaveLocation distinguishes them: a cluster's
// controllers share that folder, another cluster never does, and without it Slurm itself has
// forgotten its nodes.

// idFile is the name of the file with a cluster's id, one line.
const idFile = "pcs-capacity-id"

// idBytes is the length of an id, which is written in hex.
const idBytes = 8

// ErrNotSlurms is a folder that is not the StateSaveLocation of a cluster.
var ErrNotSlurms = errors.New("slurmctld does not keep its state in this folder")

// ClusterID is the id in a cluster's StateSaveLocation. The error wraps ErrNotSlurms if
// slurmctld has not written its cluster's name there, and fs.ErrNotExist if only the id is
// missing.
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
		return "", fmt.Errorf("reading the cluster's id in %s: %w: it is that of cluster %q", stateSave, ErrNotSlurms, name)
	}
	path := filepath.Join(stateSave, idFile)
	text, err := Dir(stateSave).ReadPublic(idFile)
	if err != nil {
		return "", fmt.Errorf("reading the cluster's id: %w", err)
	}
	id := strings.TrimSpace(string(text))
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != idBytes {
		return "", fmt.Errorf("reading the cluster's id: %s does not have %d hex digits; write back those of the tag of its instances, "+
			"or delete it for a new id", path, 2*idBytes)
	}
	return id, nil
}

// EnsureClusterID is ClusterID, and makes an id if there is none. Several callers at once all get
// the same.
func EnsureClusterID(stateSave, clusterName string) (string, error) {
	id, err := ClusterID(stateSave, clusterName)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	raw := make([]byte, idBytes)
	rand.Read(raw) // never fails
	if err := Dir(stateSave).createOnce(idFile, []byte(hex.EncodeToString(raw)+"\n")); err != nil {
		return "", fmt.Errorf("making the cluster's id: %w", err)
	}
	return ClusterID(stateSave, clusterName)
}
