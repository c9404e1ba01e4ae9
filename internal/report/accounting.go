package report

import (
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Accounted returns what Slurm's accounting has of a time, which is AWS's, as the samples of sync are.
// offset is AWS's time minus Slurm's. Without a database the error is [slurm.ErrNoAccounting].
func Accounted(ctx context.Context, s *slurm.Client, from, until time.Time, offset time.Duration) ([]state.Run, error) {
	runs, err := s.Runs(ctx, from.Add(-offset), until.Add(-offset))
	if err != nil {
		return nil, err
	}
	all := make([]state.Run, 0, len(runs))
	for _, r := range runs {
		one := state.Run{Job: r.Job, User: r.User, Account: r.Account, Partition: r.Partition, Nodes: r.Nodes,
			Start: r.Start.Add(offset).Truncate(time.Second), State: r.State}
		if !r.End.IsZero() {
			one.End = r.End.Add(offset).Truncate(time.Second)
		}
		all = append(all, one)
	}
	return all, nil
}
