package facts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// SlurmMark returns the mark of the self-managed Slurm cluster of this host. If no hook has made the
// cluster's id yet, create makes it; without create the mark is NAME/new, which no cluster has.
func SlurmMark(ctx context.Context, cfg *config.Config, create bool) (string, error) {
	dir := state.Dir(cfg.StateDir)
	if mark, err := dir.Mark(); err == nil {
		return mark, nil
	}

	running, err := slurm.New("").Config(ctx)
	if err != nil {
		return "", fmt.Errorf("asking Slurm for the name of its cluster: %w", err)
	}

	if create {
		if err := dir.Create(); err != nil {
			return "", err
		}

		mark, notKept, err := dir.LearnMark(running.StateSaveLocation, running.ClusterName)
		if notKept != nil {
			slog.Warn("the mark is asked for again", "err", notKept)
		}

		return mark, err
	}

	id, err := state.ClusterID(running.StateSaveLocation, running.ClusterName)
	if errors.Is(err, fs.ErrNotExist) {
		id = noID
		err = nil
	}

	return capacity.ClusterMark(running.ClusterName, id), err
}

// noID stands for the id of a cluster that has none yet.
const noID = "new"

// IsNewMark reports whether a mark is of a cluster without an id.
func IsNewMark(mark string) bool { return strings.HasSuffix(mark, "/"+noID) }
