package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/sources"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// ReserveCmd holds capacity, or asks whether it could be held.
type ReserveCmd struct {
	InstanceType typeName `required:"" short:"t" help:"Instance type, such as p5.48xlarge." placeholder:"TYPE"`
	Count        count    `required:"" short:"n" help:"Number of instances, all in one zone." placeholder:"N"`
	SubnetIDs    []string `required:"" help:"Subnets whose zones are tried, in this order." name:"subnet-ids"`
	Probe        bool     `help:"Release it at once; only show which zone has room."`
	For          span     `help:"Hold it for at most this long, such as 30m or 2h." placeholder:"2h"`
	Platform     string   `help:"Platform of the image that will run." default:"Linux/UNIX"`
}

func (ReserveCmd) Help() string {
	return `Holds capacity with an On-Demand Capacity Reservation (ODCR), which costs as much as running
instances, used or not. It accepts only launches that name it, and ends by itself. [reserve] in
the settings limits how much may be held at once.

With --probe it is released at once. Exit status 0: there was room; 1: there was none.

  pcs-capacity reserve --probe -t p5.48xlarge -n 4 --subnet-ids subnet-0123456789abcdef0
  pcs-capacity reserve -t p5.48xlarge -n 4 --subnet-ids subnet-0123456789abcdef0 --for 2h
  pcs-capacity release cr-0123456789abcdef0`
}

const heldColumns = "SUBNET: SubnetID; AZ ID: AZID; ROOM: Room; RESERVATION: ReservationID; ENDS: End; CODE: Code; " +
	"WHY NOT: Message wrap"

// Run says what it may cost, asks, and holds.
func (c *ReserveCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *config.Config, aws *ec2.Client) error {
	if c.Probe == (c.For != 0) {
		return usage("use --probe to release it at once, or --for TIME to hold it")
	}

	h, err := newHolder(ctx, cfg, aws)
	if err != nil {
		return err
	}

	costs := fmt.Sprintf("%d × %s at the on-demand price", c.Count, c.InstanceType)
	if c.Probe {
		t.Say("A probe is charged for the seconds that it takes: %s.", costs)
	} else {
		t.Say("Held capacity is charged, used or not: %s, for up to %s.", costs,
			capacity.FormatExact(time.Duration(c.For)))

		if err := t.Confirm("Hold it?"); err != nil {
			return err
		}
	}

	answer, err := h.Hold(ctx, market.HoldRequest{
		InstanceType: string(c.InstanceType),
		Platform:     c.Platform,
		Count:        int(c.Count),
		Subnets:      c.SubnetIDs,
		For:          time.Duration(c.For),
		Probe:        c.Probe,
	})
	if err == nil || len(answer.Tries) > 0 { // a question that failed is no empty list (R8)
		err = errors.Join(err, t.Rows(answer.Tries, heldColumns))
	}

	if err != nil {
		return err
	}

	r := answer.Reservation
	switch {
	case r.ID == "":
		t.Say("No zone has room for %d × %s now.", c.Count, c.InstanceType)
		return errReported
	case c.Probe:
		t.Say("%s has room for %d × %s; it was held for %s and released.", r.AZID, c.Count, c.InstanceType,
			capacity.FormatExact(answer.Held.Round(time.Second)))
	default:
		t.Say("%s holds %d × %s in %s until %s. Release it when you no longer need it:\n  pcs-capacity release %s",
			r.ID, c.Count, c.InstanceType, r.AZID, t.Time(r.End), r.ID)
	}

	return nil
}

// ReleaseCmd gives back what is held.
type ReleaseCmd struct {
	Reservations []string `arg:"" optional:"" name:"reservation" help:"Reservations to release (cr-…)."`
	Unused       bool     `help:"Release everything that no job needs."`
}

func (ReleaseCmd) Help() string {
	return `Cancels On-Demand Capacity Reservations that pcs-capacity holds for this cluster, and no
others. Instances that run there go on, on demand.

With --unused it cancels what a killed hook or command still holds: reservations whose job has
started or ended, whose probe is over, or whose end has passed. What people hold with reserve
stays until its end, unless the command was killed before it could print the id. sync does the
same in each pass. Exit status 1: something could not be released.`
}

func (c *ReleaseCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *config.Config, aws *ec2.Client,
	pcsClient *pcs.Client,
) error {
	if c.Unused != (len(c.Reservations) == 0) {
		return usage("name reservations, or use --unused")
	}

	if c.Unused {
		return c.releaseUnused(ctx, t, cfg, aws, pcsClient)
	}

	h, err := newHolder(ctx, cfg, aws)
	if err != nil {
		return err
	}

	for _, id := range c.Reservations {
		r, err := h.Release(ctx, id)
		if err != nil {
			return err
		}

		t.Say("%s is released: %d × %s in %s, held for %s.", id, r.Total, r.InstanceType, r.AZID,
			capacity.FormatExact(aws.Now().Sub(r.Created).Round(time.Second)))
	}

	return nil
}

const unusedColumns = "ID: ID; TYPE: InstanceType; AZ ID: AZID; COUNT: Total; FREE: Available drop 2; " +
	"ENDS: End drop 1; WHY: Why wrap; " +
	"RELEASED: Released; ERROR: Error wrap"

func (c *ReleaseCmd) releaseUnused(ctx context.Context, t *terminal.Terminal, cfg *config.Config, aws *ec2.Client,
	pcsClient *pcs.Client,
) error {
	found, err := lifecycle.Clean(ctx, sources.New(cfg, aws, pcsClient))
	if err == nil || len(found) > 0 {
		err = errors.Join(err, t.Rows(found, unusedColumns))
	}

	if err != nil {
		return err
	}

	for _, n := range found {
		if !n.Released {
			t.Say("%s", n)

			err = errReported
		}
	}

	if len(found) == 0 {
		t.Say("Nothing to release.")
	}

	return err
}

// newHolder returns a holder for the cluster of the settings.
func newHolder(ctx context.Context, cfg *config.Config, aws *ec2.Client) (market.Holder, error) {
	mark, err := clusterMark(ctx, cfg, true)
	if err != nil {
		return market.Holder{}, err
	}

	return market.Holder{EC2: aws, State: state.Dir(cfg.StateDir), Limits: cfg.Reserve, Cluster: mark}, nil
}

// clusterMark returns the mark of the settings' cluster.
func clusterMark(ctx context.Context, cfg *config.Config, create bool) (string, error) {
	if cfg.Cluster != "" {
		return cfg.Cluster, nil
	}
	return facts.SlurmMark(ctx, cfg, create)
}
