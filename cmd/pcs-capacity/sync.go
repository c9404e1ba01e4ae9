package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/sources"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// SyncCmd is the control loop.
type SyncCmd struct {
	DryRun bool `help:"Show what a pass would change, and why; change nothing, and write nothing."`
	Watch  bool `help:"Keep running: make a pass every [timing] poll, and whenever a block opens, reaches its fence or ends."`
}

func (SyncCmd) Help() string {
	return `Reads the reservations and Slurm, writes what the submit filter reads, places a Slurm
reservation (the fence) over the nodes of each block from the moment when jobs must
end, corrects time limits, and terminates instances of this cluster that belong to no node.
Needs the rights of a Slurm operator.

A fence is removed when its block has ended, or by teardown. The fences of other settings are left
alone, and named.

--dry-run reads what a pass reads and shows what the pass would do.`
}

// Run makes one pass, or one after the other.
func (c *SyncCmd) Run(ctx context.Context, t *terminal.Terminal, g *Globals, cfg *config.Config) error {
	settings := sources.Follower{Path: cfg.Path, Region: g.Region, Profile: g.Profile}

	if c.DryRun && c.Watch {
		return usage("use --dry-run alone")
	}

	if c.Watch {
		return lifecycle.Watch{
			Sources: settings.Sources,
			Say:     func(line string) { t.Say("%s", line) },
			Alive:   notifySystemd,
		}.Run(
			ctx,
		)
	}

	from, err := settings.Sources(ctx, false)
	if err != nil {
		return err
	}

	from.DryRun = c.DryRun
	progress := t.Slow("asking AWS and Slurm")
	snap, report, err := lifecycle.Pass(ctx, from)

	progress.Done()

	if !c.DryRun {
		report.Add(lifecycle.Publish(ctx, from, snap, report)...)
	}

	if t.Format == terminal.Table {
		for _, d := range report.Done {
			t.Print("%s", d)
		}

		if len(report.Done) == 0 && err == nil {
			t.Print("nothing to do")
		}

		for _, p := range report.All() {
			t.Say("%s", p)
		}

		if c.DryRun {
			t.Say("Dry run: nothing was changed.")
		}
	} else if err := t.Show(report, report.Done, ""); err != nil {
		return err
	}

	if err != nil && t.Format == terminal.Table { // the problems have said it all
		return errReported
	}

	return err
}

// NotifyCmd groups the commands for notifications.
type NotifyCmd struct {
	Test NotifyTestCmd `cmd:"" help:"Send a test message."`
}

// NotifyTestCmd delivers one message.
type NotifyTestCmd struct{}

func (NotifyTestCmd) Help() string {
	return `Runs command of [notify] and posts to its webhook, as sync does for a notice. The exit status
is 1 if one of them fails.`
}

func (c *NotifyTestCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *config.Config) error {
	if cfg.Notify.Command == "" && cfg.Notify.Webhook == "" {
		return fmt.Errorf("[notify] of %s has no command and no webhook; add one", cfg.Path)
	}

	host, _ := os.Hostname()

	test := lifecycle.Notice{
		At:      time.Now().UTC().Truncate(time.Second),
		Problem: capacity.Problemf(capacity.TestNotice, capacity.Subject{}, "", "a test of [notify] on host %s", host),
	}
	if err := sources.Target(cfg).Deliver(ctx, test); err != nil {
		return err
	}

	t.Say("Delivered.")

	return nil
}
