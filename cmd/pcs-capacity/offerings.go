package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/config"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/state"
)

// OfferingsCmd lists Capacity Blocks for sale.
type OfferingsCmd struct {
	InstanceType string    `required:"" short:"t" help:"Instance type, such as p5.48xlarge."`
	Count        int       `required:"" short:"n" help:"Number of instances."`
	Duration     span      `required:"" short:"d" help:"How long, such as 7d or 36h. EC2 sells 1 to 14 days, then whole weeks to 26."`
	StartAfter   time.Time `help:"Earliest start, RFC 3339." placeholder:"TIME"`
	EndBy        time.Time `help:"Latest end, RFC 3339." placeholder:"TIME"`
}

// Help is shown below the flags.
func (OfferingsCmd) Help() string {
	return `Blocks end at 11:30 UTC, so that EC2 also offers some that are a little shorter or longer.
The fee is for the whole block and is charged at once. EC2 allows about one question in 7 seconds.`
}

// offeringRow is one line of the list.
type offeringRow struct {
	ID           string         `json:"id" col:"ID"`
	InstanceType string         `json:"instance_type" col:"TYPE"`
	Count        int            `json:"count" col:"COUNT"`
	Zone         string         `json:"-" col:"ZONE"`
	AZID         string         `json:"az_id"`
	AZ           string         `json:"az"`
	Region       string         `json:"region"`
	Start        time.Time      `json:"start" col:"START"`
	End          time.Time      `json:"end" col:"END"`
	Lasts        string         `json:"-" col:"LASTS"`
	Seconds      int            `json:"duration_seconds"`
	FeeShown     string         `json:"-" col:"FEE"`
	Fee          capacity.Money `json:"fee"`
	Currency     string         `json:"currency"`
	PerHour      string         `json:"fee_per_instance_hour" col:"PER INSTANCE-HOUR"`
	// Subnets of the settings in the offering's zone.
	Subnets []string `json:"subnets" col:"SUBNETS"`
}

// Run asks EC2 and shows the answer.
func (c *OfferingsCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	if c.Count < 1 {
		return usage("--count=%d: use at least 1", c.Count)
	}
	found, err := aws.Offerings(ctx, ec2.OfferingQuery{InstanceType: c.InstanceType, Count: c.Count,
		Duration: time.Duration(c.Duration), StartAfter: c.StartAfter, EndBy: c.EndBy})
	if err != nil {
		return err
	}
	if err := state.Dir(cfg.StateDir).WriteOfferings(state.Offerings{InstanceType: c.InstanceType, Count: c.Count,
		Duration: capacity.Duration{Duration: time.Duration(c.Duration)}, Region: aws.Region(), At: aws.Now(), Found: found}); err != nil {
		slog.Info("the offerings are not remembered, so purchase needs --instance-type, --count and --duration", "error", err)
	}
	subnets, err := subnetsByZone(ctx, aws, cfg.Config)
	if err != nil {
		t.Say("The subnets of the settings are not shown: %s", err)
	}
	rows := []offeringRow{}
	for _, o := range found {
		rows = append(rows, newOfferingRow(o, subnets[o.AZID]))
	}
	if err := t.Rows(rows); err != nil {
		return err
	}
	if len(found) == 0 {
		t.Say("EC2 has no block of %d x %s for %s in %s. Try a smaller --count, another --duration or another --region.",
			c.Count, c.InstanceType, c.Duration, aws.Region())
		return errShown
	}
	return nil
}

func newOfferingRow(o capacity.Offering, subnets []string) offeringRow {
	if subnets == nil {
		subnets = []string{}
	}
	return offeringRow{ID: o.ID, InstanceType: o.InstanceType, Count: o.Count, Zone: zone(o.AZID, o.AZ), AZID: o.AZID, AZ: o.AZ,
		Region: o.Region, Start: o.Start, End: o.End, Lasts: lasts(o.Duration()), Seconds: int(o.Duration().Seconds()),
		FeeShown: o.Fee.String() + " " + o.Currency, Fee: o.Fee, Currency: o.Currency,
		PerHour: o.Fee.Per(float64(o.Count) * o.Duration().Hours()).Rounded(), Subnets: subnets}
}

// subnetsByZone are the subnets that the settings name, by Availability Zone id.
func subnetsByZone(ctx context.Context, aws *ec2.Client, cfg *config.Config) (map[string][]string, error) {
	byZone := map[string][]string{}
	seen := map[string]bool{}
	var ids []string
	for _, p := range cfg.Partitions {
		for _, g := range p.NodeGroups {
			for _, id := range g.SubnetIDs {
				if !seen[id] {
					seen[id] = true
					ids = append(ids, id)
				}
			}
		}
	}
	if len(ids) == 0 {
		return byZone, nil
	}
	subnets, err := aws.Subnets(ctx, ids)
	for _, s := range subnets {
		byZone[s.AZID] = append(byZone[s.AZID], s.ID)
	}
	return byZone, err
}

// zone shows an Availability Zone: the name of this account, and the id that is the
// same for everybody.
func zone(id, name string) string {
	switch {
	case name == "":
		return id
	case id == "":
		return name
	}
	return fmt.Sprintf("%s (%s)", name, id)
}

// lasts shows a length of time in days, hours and minutes.
func lasts(d time.Duration) string {
	d = d.Round(time.Minute)
	var parts []string
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if n := d / unit.size; n > 0 {
			parts = append(parts, strconv.Itoa(int(n))+unit.name)
			d -= n * unit.size
		}
	}
	if len(parts) == 0 {
		return "0m"
	}
	return strings.Join(parts, "")
}

// span is a length of time on the command line: a Go duration that may begin with
// days or weeks, such as 7d, 2w or 1d12h.
type span time.Duration

func (s span) String() string { return lasts(time.Duration(s)) }

// UnmarshalText reads a span; it must be positive.
func (s *span) UnmarshalText(text []byte) error {
	rest := string(text)
	var total time.Duration
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, after, ok := strings.Cut(rest, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return errSpan(string(text))
		}
		total += time.Duration(n) * unit.size
		rest = after
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return errSpan(string(text))
		}
		total += d
	}
	if total <= 0 {
		return errSpan(string(text))
	}
	*s = span(total)
	return nil
}

func errSpan(text string) error {
	return errors.New(strconv.Quote(text) + " is not a length of time; write it like 7d, 36h or 1d12h")
}
