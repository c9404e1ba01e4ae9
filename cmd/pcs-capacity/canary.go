package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/canary"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// CanaryCmd asks a live account what no documentation says.
type CanaryCmd struct {
	NodeGroup string `arg:"" optional:"" help:"Compute node group that setup made for a Capacity Block, such as gpu-a."`
	Change    bool   `help:"Ask too what only a change tells. What is made is small, carries our tag and is removed."`
	Settle    span   `help:"How long a change is left to PCS before a later run looks at it." default:"10m"`

	Free bool `help:"Ask EC2, for cents, what it tells without a block."`
	freeFlags
}

// Help is shown below the flags.
func (CanaryCmd) Help() string {
	return `With --free: asks EC2 what AWS's documentation leaves open and pcs-capacity depends on, without
a block, in a few minutes and for cents. It shows what it will make and cost, and asks first. What
it makes carries a tag of ours and is removed, also by "clean" or the next run if this one is killed.

With a node group, on AWS PCS: asks about a block. One node for one day is enough. Run it before
the block opens, while it is open and after its end: what each run finds out is kept, and
docs/canary.md says what to ask when.

The answers are in a file that can be attached to an issue, and with -o json on stdout. The exit
status is 1 if anything is refuted.

  pcs-capacity canary --free
  pcs-capacity canary gpu-a --change`
}

// canaryRow is one statement.
type canaryRow struct {
	ID       string         `json:"id" col:"STATEMENT"`
	Outcome  canary.Outcome `json:"outcome" col:"OUTCOME"`
	Shown    string         `json:"-" col:"WHAT IT SAYS, AND WHAT WAS SEEN" wrap:"yes"`
	States   string         `json:"states"`
	Evidence string         `json:"evidence"`
}

// Run asks what can be asked now.
func (c *CanaryCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *config.Config, aws *ec2.Client) error {
	switch {
	case c.Free && (c.NodeGroup != "" || c.Change):
		return usage("--free asks without a block; leave out the node group and --change")
	case c.Free:
		return c.free(ctx, t, cfg, aws)
	case c.NodeGroup == "":
		return usage("give --free, or the node group of a block")
	case cfg.Cluster == "":
		return usage("the settings name no PCS cluster; canary asks PCS, and canary --free EC2")
	}
	if c.Change {
		for _, item := range canary.Items {
			if item.Changes != "" {
				t.Say("%s: %s", item.ID, item.Changes)
			}
		}
		if err := t.Confirm("Change this in cluster " + cfg.Cluster + "?"); err != nil {
			return err
		}
	}
	dir := state.Dir(cfg.StateDir)
	unlock, err := dir.Lock(ctx, state.CanaryLock, 0)
	if err != nil {
		return err
	}
	defer unlock()
	var earlier canary.Report
	if err := dir.ReadCanary(c.NodeGroup, &earlier); err != nil {
		return err
	}
	report, err := canary.Canary{
		EC2:     aws,
		PCS:     newPCS(aws),
		Slurm:   slurm.New(cfg.Cluster),
		Cluster: cfg.Cluster,
		Group:   c.NodeGroup,
		Timing:  cfg.Domain().Timing,
		Change:  c.Change,
		Settle:  time.Duration(c.Settle),
	}.Run(ctx, earlier)
	if err != nil {
		return err
	}
	report.Version = newVersionRow().Version
	if err := dir.WriteCanary(c.NodeGroup, report); err != nil {
		return err
	}
	t.Say("Block %s of node group %s, asked %s; kept in %s.", report.Reservation, report.NodeGroup, report.Phase,
		dir.CanaryPath(c.NodeGroup))
	return showAnswers(t, report, report.Answers)
}

// showAnswers shows a report and ends the command.
func showAnswers(t *terminal.Terminal, report any, answers []canary.Answer) error {
	rows := []canaryRow{}
	refuted := false
	for _, a := range answers {
		refuted = refuted || a.Outcome == canary.Refuted
		rows = append(rows, canaryRow{a.ID, a.Outcome, fmt.Sprintf("%s\n%s", a.States, a.Evidence), a.States, a.Evidence})
	}
	if err := t.Show(report, rows); err != nil {
		return err
	}
	if refuted {
		return errShown
	}
	return nil
}
