package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/internal/wire"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// SyncCmd is the control loop.
type SyncCmd struct {
	Watch bool `help:"Stay, and make a pass at each [timing] poll and whenever a block opens, meets its fence or ends."`
}

// Help is shown below the flags.
func (SyncCmd) Help() string {
	return `Reads the reservations and Slurm, writes what the submission filter reads, places a Slurm
reservation (the fence) over the nodes of each block from the moment when jobs must be
gone, and corrects time limits of running jobs. Needs rights of a Slurm operator.`
}

// Run makes one pass, or one after the other.
func (c *SyncCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *config.Config, aws *ec2.Client, pcsClient *pcs.Client) error {
	if c.Watch {
		return watch(ctx, t, cfg, aws, pcsClient)
	}
	report, err := onePass(ctx, cfg, aws, pcsClient)
	if t.Format == terminal.Table {
		for _, d := range report.Done {
			fmt.Fprintln(t.Out, d)
		}
		if len(report.Done) == 0 && err == nil {
			fmt.Fprintln(t.Out, "nothing to do")
		}
		for _, p := range report.Problems {
			t.Say("problem: %s", p)
		}
	} else if err := t.Show(report, report.Done); err != nil {
		return err
	}
	if err != nil {
		if t.Format == terminal.Table { // the problems have said it all
			return errShown
		}
		return err
	}
	return nil
}

func onePass(ctx context.Context, cfg *config.Config, aws *ec2.Client, pcsClient *pcs.Client) (lifecycle.Report, error) {
	_, report, err := lifecycle.Pass(ctx, wire.Sources(cfg, aws, pcsClient))
	return report, err
}

// watch makes passes until it is told to stop. A failed pass is made again; what is
// in the way is said once, until it changes.
func watch(ctx context.Context, t *terminal.Terminal, cfg *config.Config, aws *ec2.Client, pcsClient *pcs.Client) error {
	sources := wire.Sources(cfg, aws, pcsClient)
	var said []string
	for {
		snap, report, err := lifecycle.Pass(ctx, sources)
		if ctx.Err() != nil {
			return nil
		}
		for _, d := range report.Done {
			t.Say("%s", d)
		}
		for _, p := range report.Problems {
			if !slices.Contains(said, p) {
				t.Say("problem: %s", p)
			}
		}
		if len(said) > 0 && len(report.Problems) == 0 && err == nil {
			t.Say("no problem is left")
		}
		said = report.Problems
		wait := cfg.Timing.Poll.Duration
		now := aws.Now()
		if at, ok := lifecycle.NextBoundary(snap, now); ok {
			// A second later, so that EC2 has moved on as well.
			wait = min(wait, at.Sub(now)+time.Second)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
