package facts

import (
	"context"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// OverTime returns the time that Slurm lets jobs run over their limits, by which every fence is earlier: as the last
// pass of sync read it, or, before the first pass, as Slurm answers. The error is for neither.
func OverTime(
	ctx context.Context, s capacity.Settings, dir state.Dir, client *slurm.Client,
) (over capacity.Duration, err error) {
	if last, err := dir.ReadSnapshot(); err == nil {
		return last.Timing.OverTime, nil
	}

	config, err := client.Config(ctx)
	if err != nil {
		return over, err
	}

	partitions, err := client.Partitions(ctx)

	limit := config.OverTime
	if names := s.SlurmNames(); len(names) > 0 {
		limit = capacity.MaxOverTime(partitions, names, config.OverTime)
	}

	over.Duration = limit.Duration()

	return over, err
}
