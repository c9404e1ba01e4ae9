package wire

import (
	"context"
	"errors"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
)

// OtherOwner is what is in the way of settings on a cluster that belongs to others. A Slurm that
// does not answer is none of its business.
func OtherOwner(ctx context.Context, cfg *config.Config) []capacity.Problem {
	s := SourcesWithoutAWS(cfg, cfg.Region, errors.New("AWS is not asked"))
	reservations, err := NewSlurm(cfg).Reservations(ctx)
	if err != nil {
		return nil
	}
	c := &lifecycle.Cluster{Reservations: reservations}
	if err := lifecycle.OtherOwner(c, s); err != nil {
		return []capacity.Problem{capacity.Problemf(
			capacity.OtherOwner,
			capacity.Subject{},
			"use the settings and the state_dir of the cluster's owner, or run `pcs-capacity sync --take-over` first",
			"%v",
			err,
		)}
	}
	return nil
}
