package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// OfferingsCmd lists Capacity Blocks for sale.
type OfferingsCmd struct {
	InstanceType string `required:"" short:"t" help:"Instance type, such as p5.48xlarge, or UltraServer type, such as u-p6e-gb200x72."`
	Count        int    `required:"" short:"n" help:"Number of instances, or of UltraServers."`
	length
	StartAfter moment `help:"Earliest start, such as 2026-12-01 or tomorrow." placeholder:"TIME"`
	EndBy      moment `help:"Latest end, such as 2026-12-01 or tomorrow." placeholder:"TIME"`
	MaxPrice   string `help:"Highest price for the whole block, in USD." placeholder:"USD"`
	Sort       string `help:"Earliest start first, or lowest price of an instance-hour: ${enum}." enum:"start,price" default:"start"`
	asking
}

// Help is shown below the flags.
func (OfferingsCmd) Help() string {
	return `EC2 sells 1 to 14 days, then whole weeks to 26; a length is rounded up. Blocks end at 11:30 UTC,
so EC2 also offers some that are a little shorter or longer.
The fee is for the whole block and is charged at once. Zones where the configured cluster has
a subnet come first; a subnet in parentheses is one of its VPC that it does not use yet. Local
Zones are included if the account has opted in.

If nothing is for sale, the exit status is 1, and the command searches for the largest count that is
for sale. EC2 allows 10 searches in a region, then one every 7 seconds.`
}

// Run asks EC2 and shows the answer.
func (c *OfferingsCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig,
	aws *ec2.Client) error {
	if c.Count < 1 {
		return usage("--count=%d: use at least 1", c.Count)
	}
	if err := wholeType(c.InstanceType); err != nil {
		return err
	}
	most, err := dollars("--max-price", c.MaxPrice)
	if err != nil {
		return err
	}
	length, err := roundedLength(t, time.Duration(c.Duration))
	if err != nil {
		return err
	}
	progress := t.Slow("searching Capacity Blocks")
	defer progress.Done()
	subnets := inBackground(func() market.Subnets { return readSubnets(ctx, cfg, aws) })
	regions, err := c.chosen(ctx, aws)
	if err != nil {
		return err
	}
	query := ec2.OfferingQuery{InstanceType: c.InstanceType, Count: c.Count, Duration: length, StartAfter: c.StartAfter.Time, EndBy: c.EndBy.Time}
	found, err := market.Search{EC2: aws, Regions: regions, MaxPrice: most, Progress: progress, Query: query}.Run(ctx)
	if err != nil {
		return err
	}
	use := subnets()
	market.SortOffers(found.Offers, c.Sort, use)
	none := len(found.Offers) == 0
	var largest *capacity.Offering
	var instead error
	if none {
		largest, instead = found.Largest(ctx)
	}
	progress.Done()
	if use.Err != nil {
		t.Say("The cluster's subnets are not known: %s", use.Err)
	}
	if !none || t.Format != terminal.Table {
		doc := offeringsDocument{Offerings: newOfferingRows(found.Offers, length, use), FailedRegions: emptyIfNil(found.Failed)}
		if largest != nil {
			doc.Largest = &newOfferingRows([]market.Offer{{Offering: *largest}}, length, use)[0]
		}
		if err := t.Show(doc, doc.Offerings, offeringColumns); err != nil {
			return err
		}
	}
	if says := shorter(found.Offers, length); says != "" && t.Format == terminal.Table && t.Width > 0 && !t.Wide {
		t.Say("%s", says) // a narrow table has no room for the column
	}
	if none {
		for _, why := range found.WhyNone(t.Time) {
			t.Say("%s", why)
		}
		sayLargest(t, largest, instead)
	} else if t.Format == terminal.Table {
		t.Say("To buy the first:\n%s", purchaseCommand(found.Offers[0], length, aws.Region()))
	}
	warnOfRegions(t, found.Failed)
	if none || len(found.Failed) > 0 {
		return errShown
	}
	return nil
}

// shorter names the offers that last less than somebody asked for; "" if there are none.
func shorter(offers []market.Offer, asked time.Duration) string {
	var some []string
	for _, o := range offers {
		if less := asked - o.Duration(); less > 0 {
			some = append(some, fmt.Sprintf("%s by %s", o.ID, capacity.FormatDuration(less)))
		}
	}
	if some == nil {
		return ""
	}
	return "Shorter than asked: " + strings.Join(some, ", ") + "."
}

// wholeType refuses the name of a family, such as p5: EC2 sells nothing of that name.
func wholeType(name string) error {
	if strings.Contains(name, ".") || strings.HasPrefix(name, "u-") {
		return nil
	}
	return usage("--instance-type %s: EC2 has no type of that name; give the size too, as in p5.48xlarge", name)
}

// purchaseCommand is the whole command that buys a block, for somebody in the region own. It names the block
// itself, since EC2 soon shows it under another id.
func purchaseCommand(o market.Offer, asked time.Duration, own string) string {
	command := fmt.Sprintf("  pcs-capacity purchase %s -t %s -n %d -d %s", o.ID, cmp.Or(o.UltraServerType, o.InstanceType),
		market.SoldCount(o.Offering), capacity.FormatDuration(asked))
	if o.Region != own {
		command += " --region " + o.Region
	}
	if o.AZID == "" {
		return command
	}
	return command + fmt.Sprintf(" \\\n      --zone %s \\\n      --start-after %s --end-by %s", o.AZID, o.Start.UTC().Format(time.RFC3339), o.End.UTC().Format(time.RFC3339))
}

// sayLargest says which smaller block is for sale; err is why that is not known.
func sayLargest(t *terminal.Terminal, o *capacity.Offering, err error) {
	if err != nil {
		t.Say("What is for sale instead is not known: %s", err)
	}
	if o != nil {
		t.Say("The largest block for sale instead has %d, in %s from %s: ask for --count %[1]d.", market.SoldCount(*o), o.Region,
			t.Time(o.Start))
	}
}

// roundedLength is a length that EC2 sells, with a notice where it is another one.
func roundedLength(t *terminal.Terminal, asked time.Duration) (time.Duration, error) {
	length, err := ec2.Length(asked)
	if err != nil {
		return 0, usage("--duration: %w", err)
	}
	if length != asked {
		t.Say("EC2 sells blocks of 1 to 14 days, then of whole weeks: searching for %s instead of %s.",
			capacity.FormatDuration(length), capacity.FormatDuration(asked))
	}
	return length, nil
}

// offeringsDocument is the JSON form.
type offeringsDocument struct {
	Offerings []offeringRow `json:"offerings"`
	// Largest is the largest block for sale; only where the requested one is not.
	Largest       *offeringRow           `json:"largest"`
	FailedRegions []market.RegionFailure `json:"failed_regions"`
}

// offeringRow is one line of the list.
type offeringRow struct {
	capacity.Offering
	Seconds    int            `json:"duration_seconds"`
	PerHour    capacity.Money `json:"fee_per_instance_hour"`
	PerGPUHour capacity.Money `json:"fee_per_gpu_hour,omitzero"`
	// GPUs of one instance; 0 when the type has none or EC2 did not say.
	GPUs int `json:"gpus_per_instance,omitempty"`
	market.ZoneUse
	longer time.Duration // than was asked for
}

const offeringColumns = "ID: ID; TYPE: InstanceType drop 6; COUNT: Count; AZ ID: AZID; AZ: AZ drop 3; START: Start; END: End; " +
	"LASTS: Lasts drop 4; FEE: Fee; INSTANCE-HOUR: PerHour.Amount right drop 2; GPU-HOUR: GPUHour right drop 5; " +
	"SUBNET: SubnetWord; SUBNET ID: SubnetID drop 1; MARKS: Marks drop 7"

// newOfferingRows shows offers to somebody who asked for a length.
func newOfferingRows(offers []market.Offer, asked time.Duration, subnets market.Subnets) []offeringRow {
	rows := []offeringRow{}
	for _, o := range offers {
		rows = append(rows, offeringRow{o.Offering, int(o.Duration().Seconds()), o.Fee.PerHour(o.Count, o.Duration()),
			o.Fee.PerHour(o.Count*o.GPUs, o.Duration()), o.GPUs, subnets.In(o.AZID), o.Duration() - asked})
	}
	return rows
}

// Lasts is its length.
func (r offeringRow) Lasts() string { return capacity.FormatDuration(r.Duration()) }

// GPUHour is the price of an hour of a GPU; "" where there is none.
func (r offeringRow) GPUHour() string {
	if r.GPUs == 0 {
		return ""
	}
	return r.PerGPUHour.Amount()
}

// Marks are what a table says beside the columns.
func (r offeringRow) Marks() string {
	var marks []string
	if r.UltraServerType != "" {
		marks = append(marks, fmt.Sprintf("%d x %s", r.UltraServerCount, r.UltraServerType))
	}
	switch {
	case r.longer < 0:
		marks = append(marks, capacity.FormatDuration(-r.longer)+" shorter")
	case r.longer > 0:
		marks = append(marks, capacity.FormatDuration(r.longer)+" longer")
	}
	return strings.Join(marks, ", ")
}

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
	Fits bool    `json:"fits"`
	Best string  `json:"best,omitempty"` // the reservation to use; empty when none fits
	Need fitNeed `json:"need"`
	// Candidates are all reservations of the type that are open or to come, best first.
	Candidates    []fitRow               `json:"candidates"`
	Offerings     []offeringRow          `json:"offerings"` // Offerings would fill the need; only where nothing fits
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
	NodesIdle    *int           `json:"nodes_idle"`
	Code         capacity.Code  `json:"code"` // ok, or the reason code of docs/submitting-jobs.md
	Message      string         `json:"message,omitempty"`
	UltraCluster bool           `json:"ultracluster"` // EC2 places its instances in one UltraCluster
	Fee          capacity.Money `json:"fee,omitzero"` // that of an offering
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
	answer, err := market.FitQuestion{EC2: aws, Need: need, Regions: regions, Subnets: subnets, Idle: idle, Timing: cfg.Timing.Domain(), Progress: progress}.Ask(ctx)
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

// showFit writes the table and the answer in a sentence.
func showFit(t *terminal.Terminal, need capacity.Need, a market.FitAnswer, own owned) error {
	doc := fitDocument{Fits: a.Fits, Need: fitNeed{need, int(need.Duration.Seconds())}, Candidates: []fitRow{},
		Offerings: newOfferingRows(a.Offers, a.Length, a.Subnets), FailedRegions: emptyIfNil(a.Failed)}
	var all []capacity.Reservation
	for _, c := range a.Candidates {
		r := c.Reservation
		all = append(all, r)
		doc.Candidates = append(doc.Candidates, fitRow{ID: r.ID, Kind: r.Kind, Region: r.Region, AZID: r.AZID, Count: r.Size(), Fits: c.Code == capacity.OK,
			UltraCluster: r.Kind.Bought(), Start: c.Start, End: r.End, NodesIdle: own.of(r.ID).NodesIdle, Code: c.Code, Message: c.Message})
	}
	if doc.Fits {
		doc.Best = doc.Candidates[0].ID
	}
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
			t.Say("It is an ODCR: its instances need not be in one UltraCluster, as those of a block are.")
		}
	case len(doc.Candidates) > 0:
		best := doc.Candidates[0]
		t.Say("%s: nothing fits. Nearest is %s: %s.", what, best.ID, best.Message)
	default:
		t.Say("%s: there is no reservation of this type.", what)
	}
	if !doc.Fits {
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
