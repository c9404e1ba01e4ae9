package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// FitCmd tells whether there is capacity for something.
type FitCmd struct {
	InstanceType string    `required:"" short:"t" help:"Instance type, such as p5.48xlarge."`
	Count        int       `required:"" short:"n" help:"Number of instances."`
	Duration     span      `required:"" short:"d" help:"How long the work takes, such as 7d or 36h."`
	By           time.Time `help:"When it must be done, RFC 3339." placeholder:"TIME"`
	Regions      []string  `help:"Regions to ask, or all." placeholder:"REGION"`
	NoCache      bool      `help:"Ask EC2 for offerings even if the same was asked less than a minute ago."`
}

// Help is shown below the flags.
func (FitCmd) Help() string {
	return `Exit status 0: a reservation fits, blocks before ODCRs. Exit status 1: none does; then what is
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
	Offerings     []offeringRow   `json:"offerings"`
	FailedRegions []regionFailure `json:"failed_regions"`
}

type fitNeed struct {
	capacity.Need
	Seconds int `json:"duration_seconds"`
}

// fitRow is one line of the table: a reservation, or an offering that would do.
type fitRow struct {
	ID       string `json:"id" col:"ID"`
	Kind     string `json:"kind" col:"KIND"`
	Region   string `json:"region"`
	Zone     string `json:"-" col:"ZONE"`
	AZID     string `json:"az_id"`
	Count    int    `json:"count" col:"COUNT"`
	Fits     bool   `json:"fits" col:"FITS"`
	FeeShown string `json:"-" col:"FEE"`
	// Start is when the work could begin, End when the reservation ends.
	Start time.Time `json:"start,omitzero" col:"FROM"`
	End   time.Time `json:"end,omitzero" col:"ENDS"`
	// Code is ok, or the reason code of docs/submitting-jobs.md.
	Code    capacity.Code `json:"code"`
	Message string        `json:"message,omitempty" col:"WHY NOT"`
}

// Run holds the need against what there is, then against what is for sale.
func (c *FitCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	if c.Count < 1 {
		return usage("--count=%d: use at least 1", c.Count)
	}
	progress := t.Slow("asking for reservations")
	defer progress.Done()
	subnets := inBackground(func() clusterSubnets { return readClusterSubnets(ctx, g, cfg, aws) })
	regions, err := chooseRegions(ctx, aws, c.Regions)
	if err != nil {
		return err
	}
	answers, failed, err := askRegions(ctx, progress, aws, regions, c.ask)
	if err != nil {
		return err
	}
	f := fitting{need: capacity.Need{InstanceType: c.InstanceType, Count: c.Count, Duration: time.Duration(c.Duration), By: c.By},
		subnets: <-subnets, timing: cfg.Timing.Domain(), now: aws.Now().UTC().Truncate(time.Second)}
	doc := f.document(slices.Concat(answers...))
	var sale filling
	if !doc.Fits {
		sale = f.search(ctx, progress, aws, cfg, regions, c.NoCache)
		doc.Offerings = sale.rows
		failed = unionOfFailures(failed, sale.failed)
	}
	doc.FailedRegions = emptyIfNil(failed)
	progress.Done()
	if f.subnets.err != nil {
		t.Say("The cluster's subnets are not known, so zones are not compared: %s", f.subnets.err)
	}
	if err := f.show(t, doc); err != nil {
		return err
	}
	if !doc.Fits {
		sale.say(t)
	}
	warnOfRegions(t, failed)
	if !doc.Fits {
		return errShown
	}
	return nil
}

// ask asks one region for the reservations of the type, with the hosts that have failed.
func (c *FitCmd) ask(ctx context.Context, aws *ec2.Client) ([]capacity.Reservation, error) {
	found, err := aws.List(ctx, ec2.ReservationQuery{InstanceTypes: []string{c.InstanceType}})
	if err != nil {
		return nil, err
	}
	return found, aws.InspectBlocks(ctx, found)
}

// fitting is a need and what decides whether something fits it.
type fitting struct {
	need    capacity.Need
	subnets clusterSubnets
	timing  capacity.Timing
	now     time.Time
}

func (f fitting) held(against []capacity.Reservation) []capacity.Fitting {
	return capacity.Fit(f.need, against, f.subnets.own, f.timing, f.now)
}

func (f fitting) document(all []capacity.Reservation) fitDocument {
	doc := fitDocument{Need: fitNeed{f.need, int(f.need.Duration.Seconds())}, Candidates: []fitRow{}, Offerings: []offeringRow{}}
	for _, held := range f.held(all) {
		r := held.Reservation
		if !r.State.Live() {
			continue
		}
		doc.Candidates = append(doc.Candidates, fitRow{ID: r.ID, Kind: string(r.Kind), Region: r.Region, Zone: r.AZID, AZID: r.AZID,
			Count: r.Size(), Fits: held.Code == capacity.OK, Start: held.Start, End: r.End, Code: held.Code, Message: held.Message})
	}
	if len(doc.Candidates) > 0 && doc.Candidates[0].Fits {
		doc.Fits, doc.Best = true, doc.Candidates[0].ID
	}
	return doc
}

// show writes the table and the answer in a sentence.
func (f fitting) show(t *terminal.Terminal, doc fitDocument) error {
	rows := slices.Clone(doc.Candidates)
	for _, o := range doc.Offerings {
		rows = append(rows, fitRow{ID: o.ID, Kind: "offering", Region: o.Region, Zone: o.Zone, AZID: o.AZID, Count: o.Count, Fits: true,
			FeeShown: o.FeeShown, Start: o.Start, End: o.End, Code: capacity.OK})
	}
	if len(rows) > 0 || t.Format != terminal.Table {
		if err := t.Show(doc, rows); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("%d x %s for %s", f.need.Count, f.need.InstanceType, capacity.FormatDuration(f.need.Duration))
	if !f.need.By.IsZero() {
		what += " by " + t.Time(f.need.By)
	}
	switch {
	case doc.Fits:
		best := doc.Candidates[0]
		t.Say("%s: %s fits, from %s on.", what, best.ID, t.Time(best.Start))
	case len(doc.Candidates) > 0:
		best := doc.Candidates[0]
		t.Say("%s: nothing fits. Nearest is %s: %s.", what, best.ID, best.Message)
	default:
		t.Say("%s: there is no reservation of this type.", what)
	}
	return nil
}
