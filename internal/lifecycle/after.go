package lifecycle

import (
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/metrics"
	"github.com/pcs-capacity/pcs-capacity/internal/notify"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// fenceNear is how long before a fence people are told of it.
const fenceNear = time.Hour

// idleAfter is how long nodes of an open block may have no job, successor how long before its fence the last block
// of a slot must have one that follows.
const idleAfter, successor = 30 * time.Minute, 14 * 24 * time.Hour

// tellTime bounds each delivery of a notice.
const tellTime = 10 * time.Second

// after is what the settings want to be done after a pass; nil for nothing.
func after(cfg *config.Config) func(context.Context, *capacity.Snapshot, Report) []error {
	tells := cfg.Notify.Command != "" || cfg.Notify.Webhook != ""
	if cfg.Metrics.File == "" && !tells {
		return nil
	}
	return func(ctx context.Context, snap *capacity.Snapshot, report Report) (errs []error) {
		if tells {
			due := NoticeSettings{FenceNear: fenceNear, IdleAfter: idleAfter, Successor: successor, Lost: capacity.StaleAfter}
			errs = Tell(state.Dir(cfg.StateDir), snap, report, due, func(n Notice) error { return Notify(ctx, cfg, n) })
		}
		if cfg.Metrics.File != "" {
			if err := metrics.Write(cfg.Metrics.File, Metrics(snap, report)); err != nil {
				errs = append(errs, err)
			}
		}
		return errs
	}
}

// Notify delivers a notice where the settings want it.
func Notify(ctx context.Context, cfg *config.Config, n Notice) error {
	return notify.Target{Command: cfg.Notify.Command, Webhook: cfg.Notify.Webhook, Timeout: tellTime}.Deliver(ctx, n)
}
