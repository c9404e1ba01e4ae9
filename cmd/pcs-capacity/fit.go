package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// FitCmd tells whether there is capacity for something.
type FitCmd struct {
	InstanceType string `required:"" short:"t" help:"Instance type, such as p5.48xlarge."`
	Count        int    `required:"" short:"n" help:"Number of instances."`
	length
	By moment `help:"When it must be done, such as 2026-12-01 or tomorrow." placeholder:"TIME"`
	asking
}

// Help is shown below the flags.
func (FitCmd) Help() string {
	return `Nodes of the configured partitions that Slurm has idle are free, though EC2 counts them as used.

Exit status 0: a reservation fits, blocks before ODCRs. Exit status 1: none does; then what is
missing is shown, and which offerings would fill it. Nodes need time to boot, and a block must
be free of jobs some time before its end, so a block of 7d does not hold work of 7d.`
}

// fitDocument is the JSON form.
type fitDocument struct {
	Fits bool `json:"fits"`
	// Best is the reservation to use; empty when none fits.
	Best string  `json:"best,omitempty"`
	Need fitNeed `json:"need"`
	// Candidates are all reservations of the type that are open or to come, best first.
	Candidates []fitRow `json:"candidates"`
	// Offerings would fill the need; only where nothing fits.
	Offerings     []offeringRow          `json:"offerings"`
	FailedRegions []market.RegionFailure `json:"failed_regions"`
}

type fitNeed struct {
	capacity.Need
	Seconds int `json:"duration_seconds"`
}

// fitRow is one line of the table: a reservation, or an offering that would do.
type fitRow struct {
	ID     string        `json:"id"`
	Kind   capacity.Kind `json:"kind"`
	Region string        `json:"region"`
	AZID   string        `json:"az_id"`
	Count  int           `json:"count"`
	Fits   bool          `json:"fits"`
	// Start is when the work could begin, End when the reservation ends.
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
	// NodesIdle count as free; nil where Slurm does not say, or no partition has it.
	NodesIdle *int `json:"nodes_idle"`
	// Code is ok, or the reason code of docs/submitting-jobs.md.
	Code    capacity.Code `json:"code"`
	Message string        `json:"message,omitempty"`
	// UltraCluster: EC2 places its instances in one UltraCluster.
	UltraCluster bool `json:"ultracluster"`
	// Fee is that of an offering.
	Fee capacity.Money `json:"fee,omitzero"`
}

const fitColumns = "ID: ID; KIND: Kind drop 3; AZ ID: AZID; COUNT: Count; FITS: Fits; FEE: Fee drop 2; FROM: Start drop 4; " +
	"ENDS: End drop 1; WHY NOT: Message wrap"

// Run asks for reservations, then for what is for sale, and shows the answer.
func (c *FitCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	if err := wholeType(c.InstanceType); err != nil {
		return err
	}
	if c.Count < 1 {
		return usage("--count=%d: use at least 1", c.Count)
	}
	progress := t.Slow("asking for reservations")
	defer progress.Done()
	subnets := inBackground(func() market.Subnets { return readSubnets(ctx, cfg, aws) })
	slurm := inBackground(func() idleNodes { return readIdle(ctx, cfg) })
	regions, err := c.chosen(ctx, aws)
	if err != nil {
		return err
	}
	need := capacity.Need{InstanceType: c.InstanceType, Count: c.Count, Duration: time.Duration(c.Duration), By: c.By.Time}
	var own owned
	idle := func(found []capacity.Reservation) map[string]int {
		own = ownedOf(cfg, aws, inRegion(aws.In(cfg.Region).Region(), found), slurm())
		counted := map[string]int{}
		for id, one := range own.byID {
			if one.NodesIdle != nil {
				counted[id] = *one.NodesIdle
			}
		}
		return counted
	}
	answer, err := market.FitQuestion{
		EC2:      aws,
		Need:     need,
		Regions:  regions,
		Subnets:  subnets,
		Idle:     idle,
		Timing:   cfg.Timing.Domain(),
		Progress: progress,
	}.Ask(ctx)
	if err != nil {
		return err
	}
	progress.Done()
	if answer.Subnets.Err != nil {
		t.Say("The cluster's subnets are not known, so zones are not compared: %s", answer.Subnets.Err)
	}
	if err := showFit(t, need, answer, own); err != nil {
		return err
	}
	if !answer.Fits {
		sayWhatIsForSale(t, need, aws.Region(), answer)
	}
	warnOfRegions(t, answer.Failed)
	if !answer.Fits {
		return errShown
	}
	return nil
}

func newFitDocument(need capacity.Need, a market.FitAnswer, own owned) fitDocument {
	doc := fitDocument{Fits: a.Fits, Need: fitNeed{need, int(need.Duration.Seconds())}, Candidates: []fitRow{},
		Offerings: newOfferingRows(a.Offers, a.Length, a.Subnets), FailedRegions: emptyIfNil(a.Failed)}
	for _, c := range a.Candidates {
		r := c.Reservation
		doc.Candidates = append(doc.Candidates, fitRow{ID: r.ID, Kind: r.Kind, Region: r.Region, AZID: r.AZID,
			Count: r.Size(), UltraCluster: r.Kind.Bought(), Fits: c.Code == capacity.OK, Start: c.Start, End: r.End, NodesIdle: own.of(r.ID).NodesIdle, Code: c.Code, Message: c.Message})
	}
	if doc.Fits {
		doc.Best = doc.Candidates[0].ID
	}
	return doc
}

// showFit writes the table and the answer in a sentence.
func showFit(t *terminal.Terminal, need capacity.Need, a market.FitAnswer, own owned) error {
	doc := newFitDocument(need, a, own)
	rows := append([]fitRow{}, doc.Candidates...)
	for _, o := range doc.Offerings {
		rows = append(rows, fitRow{ID: o.ID, Kind: "offering", Region: o.Region, AZID: o.AZID, Count: o.Count, UltraCluster: true, Fits: true,
			Fee: o.Fee, Start: o.Start, End: o.End, Code: capacity.OK})
	}
	if len(rows) > 0 || t.Format != terminal.Table {
		if err := t.Show(doc, rows, fitColumns); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("%d x %s for %s", need.Count, need.InstanceType, capacity.FormatDuration(need.Duration))
	if !need.By.IsZero() {
		what += " by " + t.Time(need.By)
	}
	switch {
	case doc.Fits:
		best := doc.Candidates[0]
		t.Say("%s: %s fits, from %s on.", what, best.ID, t.Time(best.Start))
		if need.Count > 1 && !best.UltraCluster {
			t.Say("It is an ODCR: its instances need not be in one UltraCluster, as those of a block are. `pcs-capacity topology` shows how near they are.")
		}
	case len(doc.Candidates) > 0:
		best := doc.Candidates[0]
		t.Say("%s: nothing fits. Nearest is %s: %s.", what, best.ID, best.Message)
	default:
		t.Say("%s: there is no reservation of this type.", what)
	}
	if !doc.Fits {
		var all []capacity.Reservation
		for _, c := range a.Candidates {
			all = append(all, c.Reservation)
		}
		own.say(t, false, all...)
	}
	return nil
}

// sayWhatIsForSale tells which offering would fill the need.
func sayWhatIsForSale(t *terminal.Terminal, need capacity.Need, own string, a market.FitAnswer) {
	if a.SaleErr != nil {
		t.Say("What is for sale is not known: %s", a.SaleErr)
		return
	}
	if sold, err := ec2.Length(need.Duration); err == nil && sold != a.Length {
		t.Say("Work of %s needs a block of %s: nodes boot first, and jobs must end before the block does.",
			capacity.FormatDuration(need.Duration), capacity.FormatDuration(a.Length))
	}
	switch {
	case len(a.Offers) > 0:
		first := a.Offers[0]
		t.Say("%s would fill it, for %s from %s on:\n%s", first.ID, first.Fee,
			t.Time(first.Start), purchaseCommand(first, a.Length, own))
	case len(a.Sale.Offers) > 0:
		q := a.Sale.Query()
		t.Say("None of the blocks for sale would fill it: pcs-capacity offerings -t %s -n %d -d %s", q.InstanceType,
			q.Count, capacity.FormatDuration(q.Duration))
	default:
		for _, why := range a.Sale.WhyNone(t.Time) {
			t.Say("%s", why)
		}
	}
}
