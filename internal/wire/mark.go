package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Asked is what a hook learned from slurmctld.
type Asked struct {
	// Mark is the value of our mark: the PCS cluster, else a ClusterMark.
	Mark string
	// ResumeTimeout is the shortest of our partitions; 0 if Slurm could not be asked.
	ResumeTimeout time.Duration
}

// Ask asks slurmctld what a hook needs to know, and keeps the mark for one that finds no
// slurmctld. With a mark that is known without it, it is no error if nobody answers.
func (h *Hook) Ask(ctx context.Context, log *slog.Logger) (Asked, error) {
	controller, err := h.Slurm.Config(ctx)
	if err != nil {
		mark, ok := h.Known()
		if !ok {
			return Asked{}, fmt.Errorf("asking Slurm for the name of its cluster: %w", err)
		}
		return Asked{Mark: mark}, nil
	}
	a := Asked{Mark: h.pcsCluster, ResumeTimeout: controller.ResumeTimeout}
	if a.Mark != "" {
		return a, nil
	}
	if there, err := h.Slurm.Partitions(ctx); err == nil {
		a.ResumeTimeout = controller.ShortestResumeTimeout(there, h.partitions)
	} else {
		log.Warn("asking Slurm for its partitions; taking the ResumeTimeout of slurm.conf", "err", err)
	}
	id, err := state.EnsureClusterID(controller.StateSaveLocation, controller.ClusterName)
	if err != nil {
		// By hand on another machine: hooks on the controller have written it down.
		mark, ok := h.Known()
		if !ok {
			return Asked{}, fmt.Errorf("%w; run this on Slurm's controller, as SlurmUser", err)
		}
		a.Mark = mark
		return a, nil
	}
	a.Mark = capacity.ClusterMark(controller.ClusterName, id)
	if err := h.State.KeepMark(a.Mark); err != nil {
		log.Warn("keeping the cluster's mark for when slurmctld does not answer", "err", err)
	}
	return a, nil
}

// Mark is the value of our mark. Without an earlier hook that has kept it, it asks
// slurmctld until it is answered or ctx ends: a hook that knows no mark can touch nothing.
func (h *Hook) Mark(ctx context.Context, log *slog.Logger) (string, error) {
	if h.pcsCluster != "" {
		return h.pcsCluster, nil
	}
	for {
		a, err := h.Ask(ctx, log)
		if err == nil || ctx.Err() != nil {
			return a.Mark, err
		}
		log.Warn("asked again", "err", err)
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(time.Second):
		}
	}
}

// Known is the mark as the settings have it, or as an earlier hook learned it.
func (h *Hook) Known() (mark string, ok bool) {
	if h.pcsCluster != "" {
		return h.pcsCluster, true
	}
	mark, err := keptMark(h.State)
	return mark, err == nil
}

// keptMark is the mark that hooks have written down. That of an older version is none: it
// does not tell two clusters of one ClusterName apart.
func keptMark(dir state.Dir) (string, error) {
	mark, err := dir.Mark()
	if err != nil {
		return "", err
	}
	if _, id := capacity.CutClusterMark(mark); id == "" {
		return "", fmt.Errorf(
			"the cluster's mark %q in %s is of an older version; the next power-up writes it anew",
			mark,
			dir,
		)
	}
	return mark, nil
}

// SlurmMark is the mark of the cluster of self-managed Slurm that this host is in, as setup and
// teardown need it. Where no hook has made an id yet it is made, or, without create, the
// mark is none of any cluster: NAME/new.
func SlurmMark(ctx context.Context, cfg *config.Config, create bool) (string, error) {
	h := &Hook{State: state.Dir(cfg.StateDir), Slurm: newHookSlurm(cfg)}
	if mark, ok := h.Known(); ok {
		return mark, nil
	}
	if create {
		if err := h.State.Create(); err != nil {
			return "", err
		}
		a, err := h.Ask(ctx, slog.Default())
		return a.Mark, err
	}
	running, err := h.Slurm.Config(ctx)
	if err != nil {
		return "", fmt.Errorf("asking Slurm for the name of its cluster: %w", err)
	}
	id, err := state.ClusterID(running.StateSaveLocation, running.ClusterName)
	if errors.Is(err, fs.ErrNotExist) {
		id, err = "new", nil
	}
	return capacity.ClusterMark(running.ClusterName, id), err
}

// mark is the mark of the cluster, or why it is not known.
//
// sync ends what has this mark, so it takes only what a hook made on the controller: from
// there, or, where it runs elsewhere, from what that hook wrote down.
func (s SyncSlurm) mark(cfg slurm.Config) (string, error) {
	if s.PCSCluster != "" {
		return s.PCSCluster, nil
	}
	kept, keptErr := keptMark(s.State)
	if name, _ := capacity.CutClusterMark(kept); keptErr == nil && name != cfg.ClusterName {
		kept, keptErr = "", fmt.Errorf(
			"the cluster's mark %q in %s is not that of cluster %s",
			kept,
			s.State,
			cfg.ClusterName,
		)
	}
	id, err := state.ClusterID(cfg.StateSaveLocation, cfg.ClusterName)
	mark := capacity.ClusterMark(cfg.ClusterName, id)
	switch {
	case err == nil && keptErr == nil && mark != kept:
		return "", fmt.Errorf(
			"the cluster's mark is %s in %s and %s in %s; run sync on Slurm's controller, and delete %[4]s/mark if it does so already",
			mark,
			cfg.StateSaveLocation,
			kept,
			s.State,
		)
	case err == nil:
		return mark, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("no power-up has made an id in %s yet", cfg.StateSaveLocation)
	case !errors.Is(err, state.ErrNotSlurms) && !errors.Is(err, fs.ErrPermission):
		return "", err
	case keptErr != nil:
		return "", fmt.Errorf("%w; %w; run sync on Slurm's controller as root", err, keptErr)
	}
	return kept, nil
}
