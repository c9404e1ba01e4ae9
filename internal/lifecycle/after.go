package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/metrics"
	"github.com/pcs-capacity/pcs-capacity/internal/notify"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// fenceNear is how long before a fence people are told of it.
const fenceNear = time.Hour

// tellTime bounds all deliveries of a `sync` that makes one pass and ends.
const tellTime = time.Minute

// after is what the settings want to be done after a pass; nil for nothing. With a queue it waits
// for no delivery; without one it does, for a minute in all.
func after(cfg *config.Config, queue *notify.Queue) func(context.Context, *capacity.Snapshot, Report) []error {
	if cfg.Metrics.File == "" && cfg.Notify.Command == "" && cfg.Notify.Webhook == "" {
		return nil
	}
	return func(ctx context.Context, snap *capacity.Snapshot, report Report) (errs []error) {
		if cfg.Notify.Command != "" || cfg.Notify.Webhook != "" {
			due := NoticeSettings{
				FenceNear: fenceNear,
				IdleAfter: cfg.Notify.IdleAfter.Duration,
				Successor: cfg.Notify.Successor.Duration,
				Lost:      cfg.Submit.StaleAfter.Duration,
			}
			ctx, cancel := context.WithTimeout(ctx, tellTime)
			defer cancel()
			errs = Tell(state.Dir(cfg.StateDir), snap, report, due, deliverer(ctx, cfg, queue))
		}
		if cfg.Metrics.File != "" {
			if err := metrics.Write(cfg.Metrics.File, Metrics(snap, report)); err != nil {
				errs = append(errs, err)
			}
		}
		return errs
	}
}

// deliverer delivers one notice, by the queue if there is one.
func deliverer(ctx context.Context, cfg *config.Config, queue *notify.Queue) func(Notice) error {
	to := notify.Target{Command: cfg.Notify.Command, Webhook: cfg.Notify.Webhook, Timeout: cfg.Notify.Timeout.Duration}
	return func(n Notice) error {
		switch {
		case queue != nil:
			err := queue.Add(to, cfg.StateDir+" "+n.Key(), n, func() error { return Told(state.Dir(cfg.StateDir), n) })
			if errors.Is(err, notify.ErrUnderWay) {
				err = ErrUnderWay
			}
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("not tried: the deliveries before it took %s; the next `sync` tries", capacity.FormatDuration(tellTime))
		}
		return to.Deliver(ctx, n)
	}
}
