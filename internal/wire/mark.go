package wire

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Asked is what a hook learned from slurmctld.
type Asked struct {
	// Mark is the value of our mark: the PCS cluster, else Slurm's ClusterName.
	Mark string
	// ResumeTimeout is Slurm's; 0 if Slurm could not be asked.
	ResumeTimeout time.Duration
}

// Ask asks slurmctld what a hook needs to know, and keeps the mark for one that finds no
// slurmctld. With a mark that is known without it, it is no error if nobody answers.
func (h *Hook) Ask(ctx context.Context, log *slog.Logger) (Asked, error) {
	controller, err := h.client.Config(ctx)
	if err != nil {
		mark, ok := h.known()
		if !ok {
			return Asked{}, fmt.Errorf("asking Slurm for the name of its cluster: %w", err)
		}
		return Asked{Mark: mark}, nil
	}
	a := Asked{Mark: h.pcsCluster, ResumeTimeout: controller.ResumeTimeout}
	if a.Mark == "" {
		a.Mark = controller.ClusterName
		if err := h.State.KeepMark(a.Mark); err != nil {
			log.Warn("keeping the cluster's name for when slurmctld does not answer", "err", err)
		}
	}
	return a, nil
}

// Mark is the value of our mark without asking slurmctld, if that can be. Else it asks
// until it is answered or ctx ends: a hook that knows no mark can touch nothing.
func (h *Hook) Mark(ctx context.Context, log *slog.Logger) (string, error) {
	if mark, ok := h.known(); ok {
		return mark, nil
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

// known is the mark as the settings have it, or as an earlier hook learned it.
func (h *Hook) known() (mark string, ok bool) {
	if h.pcsCluster != "" {
		return h.pcsCluster, true
	}
	mark, err := h.State.Mark()
	return mark, err == nil
}
