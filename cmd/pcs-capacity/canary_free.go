package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/canary"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// freeFlags are the flags of canary --free.
type freeFlags struct {
	SubnetID     string `name:"subnet-id" help:"Subnet of the instance. Default: the first of the PCS cluster or of the settings."`
	InstanceType string `help:"Type of the instance." default:"t3.micro"`
	BlockType    string `help:"Type of the blocks that are asked about." default:"p5.48xlarge"`
	Image        string `help:"Image of Linux/UNIX for the instance. Default: the newest Amazon Linux 2023."`
}

// freeName names the file of the answers; a node group of setup ends in a slot.
const freeName = "free"

// free says what will be made and what it costs, asks, and has EC2 asked.
func (c *CanaryCmd) free(ctx context.Context, t *terminal.Terminal, cfg *config.Config, aws *ec2.Client) error {
	mark, err := clusterMark(ctx, cfg, true)
	if err != nil {
		return err
	}
	subnet, err := c.subnet(ctx, cfg, aws)
	if err != nil {
		return err
	}
	run := newFree(aws, mark)
	run.InstanceType, run.BlockType, run.ImageID, run.Subnet = c.InstanceType, c.BlockType, c.Image, subnet
	if run.ImageID == "" {
		run.ImageID = canary.SmallImage
	}
	t.Say("In %s, subnet %s, with the tag %s=%s. What is made is removed at the end:", aws.Region(), subnet, capacity.TagCluster, run.Mark)
	for _, q := range canary.Questions {
		if q.Costs != "" {
			t.Say("  %s: %s", q.ID, q.Costs)
		}
	}
	t.Say("All else are reads and dry runs, which cost nothing; no block is bought.\nIt takes 3 to 20 minutes, and costs %s.", c.most(cfg))
	if err := t.Confirm("Ask EC2?"); err != nil {
		return err
	}
	dir := state.Dir(cfg.StateDir)
	unlock, err := dir.Lock(ctx, state.CanaryLock, 0)
	if err != nil {
		return err
	}
	defer unlock()
	run.Doing = func(step canary.Step) { t.Say("%s …", step) }
	report, err := run.Run(ctx)
	if len(report.Answers) == 0 {
		return err
	}
	if len(report.Removed) > 0 {
		t.Say("Removed the leftovers of an earlier run: %s.", strings.Join(report.Removed, " "))
	}
	for i, id := range report.Removed {
		report.Removed[i] = canary.Redact(id)
	}
	report.Version = newVersionRow().Version
	if err := errors.Join(err, dir.WriteCanary(freeName, report)); err != nil {
		return errors.Join(showAnswers(t, report, report.Answers), err)
	}
	t.Say("Nothing is left. The answers are in %s; look at it, and attach it to an issue.", dir.CanaryPath(freeName))
	return showAnswers(t, report, report.Answers)
}

func newFree(aws *ec2.Client, mark string) *canary.Free {
	return &canary.Free{EC2: aws, Mark: canary.Mark(mark), Wait: func(ctx context.Context, d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
}

// clusterMark is the mark of the settings' cluster.
func clusterMark(ctx context.Context, cfg *config.Config, create bool) (string, error) {
	if cfg.Cluster != "" {
		return cfg.Cluster, nil
	}
	return setup.SlurmMark(ctx, cfg, create)
}

// subnet is where the instance is launched.
func (c *CanaryCmd) subnet(ctx context.Context, cfg *config.Config, aws *ec2.Client) (string, error) {
	ids := subnetIDs(cfg)
	switch {
	case c.SubnetID != "":
		return c.SubnetID, nil
	case cfg.Cluster != "":
		cluster, err := newPCS(aws).Cluster(ctx, cfg.Cluster)
		if err != nil {
			return "", err
		}
		ids = cluster.SubnetIDs
	}
	if len(ids) == 0 {
		return "", usage("the settings name no subnet; give --subnet-id")
	}
	return ids[0], nil
}

// smallPrice is above the price of canary.SmallType in every region, with its volume, in an hour.
const smallPrice = "0.02"

// most is the most that a run costs.
func (c *CanaryCmd) most(cfg *config.Config) string {
	limits := cfg.Reserve.Domain()
	price, known := limits.Prices[c.InstanceType]
	if !known && c.InstanceType == canary.SmallType {
		price, _ = capacity.ParseMoney(smallPrice, "USD")
	} else if !known {
		return fmt.Sprintf("at most %s of one %s on demand, whose price is not in the settings", capacity.FormatExact(canary.Most), c.InstanceType)
	}
	return fmt.Sprintf("at most %s, also where it is killed", price.For(canary.Most))
}
