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
	if cfg.Metrics.File == "" && cfg.Notify.Command == "" && cfg.Notify.Webhook == "" && cfg.Notify.Heartbeat == "" {
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
		if cfg.Notify.Heartbeat != "" && !report.Failed {
			errs = append(errs, ping(ctx, cfg, queue)...)
		}
		return errs
	}
}

// ping asks the URL of the heartbeat, beside the passes if there is a queue.
func ping(ctx context.Context, cfg *config.Config, queue *notify.Queue) (errs []error) {
	err := error(nil)
	if url, timeout := cfg.Notify.Heartbeat, cfg.Notify.Timeout.Duration; queue != nil {
		err = queue.Ping(url, timeout)
	} else {
		err = notify.Ping(ctx, url, timeout)
	}
	if err != nil {
		errs = append(errs, err)
	}
	return errs
}

// target is where the settings have notices delivered.
func target(cfg *config.Config) notify.Target {
	n := cfg.Notify
	return notify.Target{Command: n.Command, Webhook: n.Webhook, Format: notify.Format(n.Format), Topic: n.Topic, Timeout: n.Timeout.Duration}
}

// TryNotify delivers a notice at once, and asks the URL of the heartbeat.
func TryNotify(ctx context.Context, cfg *config.Config, n Notice) error {
	errs := []error{target(cfg).Deliver(ctx, n)}
	if cfg.Notify.Heartbeat != "" {
		errs = append(errs, ping(ctx, cfg, nil)...)
	}
	return errors.Join(errs...)
}

// deliverer delivers one notice, by the queue if there is one.
func deliverer(ctx context.Context, cfg *config.Config, queue *notify.Queue) func(Notice) error {
	to := target(cfg)
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
