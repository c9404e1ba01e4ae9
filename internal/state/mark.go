package state

import (
	"fmt"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// markFile has the cluster's mark, one line.
const markFile = "mark"

// Mark is the value of our mark as a hook last learned it on the controller. The error wraps
// fs.ErrNotExist if none has.
func (d Dir) Mark() (string, error) {
	text, err := d.ReadPublic(markFile)
	if err != nil {
		return "", fmt.Errorf("reading the cluster's mark: %w", err)
	}
	mark := strings.TrimSpace(string(text))
	if mark == "" {
		return "", fmt.Errorf("reading the cluster's mark: %s is empty", d.path(markFile))
	}
	return mark, nil
}

// KeepMark writes the mark, if it is new, for hooks that find no slurmctld, and for a sync on
// another machine.
func (d Dir) KeepMark(mark string) error {
	if kept, err := d.Mark(); err == nil && kept == mark {
		return nil
	}
	if err := d.WritePublic(markFile, []byte(mark+"\n")); err != nil {
		return fmt.Errorf("keeping the cluster's mark: %w", err)
	}
	return nil
}

// KnownMark is the mark that hooks have written down, of a cluster of self-managed Slurm. That of an
// older version is none: it does not tell two clusters of one ClusterName apart.
func (d Dir) KnownMark() (string, error) {
	mark, err := d.Mark()
	if err != nil {
		return "", err
	}
	if _, id := capacity.CutClusterMark(mark); id == "" {
		return "", fmt.Errorf("the cluster's mark %q in %s is of an older version; the next power-up writes it anew", mark, d)
	}
	return mark, nil
}

// LearnMark is the mark of the cluster whose controller this is, by its StateSaveLocation: it makes
// the cluster's id if there is none, and writes the mark down. On another machine it is the known mark.
// notKept is why the mark could not be written down.
func (d Dir) LearnMark(stateSave, clusterName string) (mark string, notKept, err error) {
	id, err := EnsureClusterID(stateSave, clusterName)
	if err != nil {
		known, unknown := d.KnownMark()
		if unknown != nil {
			return "", nil, fmt.Errorf("%w; run this on Slurm's controller, as SlurmUser", err)
		}
		return known, nil, nil
	}
	mark = capacity.ClusterMark(clusterName, id)
	return mark, d.KeepMark(mark), nil
}
