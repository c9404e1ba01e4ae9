package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// OfferingsCmd lists Capacity Blocks for sale.
type OfferingsCmd struct {
	InstanceType typeName `required:"" short:"t" help:"Instance type, such as p5.48xlarge, or UltraServer type, such as u-p6e-gb200x72." placeholder:"TYPE"`
	Count        count    `required:"" short:"n" help:"Number of instances, or of UltraServers." placeholder:"N"`
	Duration     span     `required:"" short:"d" help:"How long, such as 7d or 36h."`
	StartAfter   moment   `help:"Earliest start, such as 2026-12-01 or tomorrow." placeholder:"TIME"`
	EndBy        moment   `help:"Latest end, such as 2026-12-01 or tomorrow." placeholder:"TIME"`
	Zone         string   `help:"Only blocks in this zone, such as use2-az1." placeholder:"AZ-ID"`
	MaxPrice     usd      `help:"Highest price for the whole block, in USD." placeholder:"USD"`
	Sort         string   `help:"Earliest start first, lowest price of an instance-hour, or lowest fee of the whole block: ${enum}." enum:"start,price,fee" default:"start"`
	regionFlags
}

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
	aws *ec2.Client,
) error {
	length, err := roundedLength(t, time.Duration(c.Duration))
	if err != nil {
		return err
	}

	progress := t.Slow("searching Capacity Blocks")
	defer progress.Done()

	subnets := inBackground(func() market.Subnets { return readSubnets(ctx, cfg, aws) })

	regions, err := c.choose(ctx, aws)
	if err != nil {
		return err
	}

	query := ec2.OfferingQuery{
		InstanceType: string(c.InstanceType),
		Count:        int(c.Count),
		Duration:     length,
		StartAfter:   c.StartAfter.Time,
		EndBy:        c.EndBy.Time,
	}

	found, err := market.Search{
		EC2:      aws,
		Regions:  regions,
		Zone:     c.Zone,
		MaxPrice: c.MaxPrice.Money,
		Progress: progress,
		Query:    query,
	}.Run(ctx)
	if err != nil {
		return err
	}

	use := subnets()
	market.SortOffers(found.Offers, c.Sort, use)

	none := len(found.Offers) == 0

	var instead error
	if none {
		instead = found.FindLargest(ctx)
	}

	progress.Done()

	if use.Err != nil {
		t.Say("The cluster's subnets could not be read: %s", use.Err)
	}

	if err := t.Show(found, found.Offers, offeringColumns); err != nil {
		return err
	}

	switch {
	case none:
		printNone(t, found, instead)
	case t.Format == terminal.Table:
		printPurchase(t, found.Offers, length, aws.Region())
	}

	warnOfRegions(t, found.Failed)

	if none || len(found.Failed) > 0 {
		return errReported
	}

	return nil
}

// printNone says why nothing is for sale, and what is instead; err is set if that could not be found out.
func printNone(t *terminal.Terminal, found *market.Found, err error) {
	for _, why := range found.WhyNone(t.Time) {
		t.Say("%s", why)
	}

	if err != nil {
		t.Say("The search for alternatives failed: %s", err)
	}

	if o := found.Largest; o != nil {
		t.Say("The largest block for sale has %d, in %s from %s: use --count %[1]d.", market.SoldCount(o.Offering),
			o.Region, t.Time(o.Start))
	}
}

// printPurchase prints the command that buys the best offer: the first that lasts as long as was asked for.
func printPurchase(t *terminal.Terminal, offers []market.Offer, length time.Duration, region string) {
	best, short := market.Best(offers)
	what := "the first"
	switch {
	case short:
		t.Say("No block in the best zones lasts %s.", capacity.FormatDuration(length))

		what += ", which lasts " + best.Lasts()
	case best.ID != offers[0].ID:
		what += " that lasts " + capacity.FormatDuration(length)
	}

	t.Say("To buy %s:\n%s", what, purchaseCommand(best, length, region))
}

// purchaseCommand returns the whole command that buys a block, for somebody in the region own. It names the block
// itself, since EC2 soon shows it under another id.
func purchaseCommand(o market.Offer, asked time.Duration, own string) string {
	command := fmt.Sprintf(
		"  pcs-capacity purchase %s -t %s -n %d -d %s",
		o.ID,
		cmp.Or(o.UltraServerType, o.InstanceType),
		market.SoldCount(o.Offering),
		capacity.FormatDuration(asked),
	)
	if o.Region != own {
		command += " --region " + o.Region
	}

	if o.AZID == "" {
		return command
	}

	return command + fmt.Sprintf(
		" \\\n      --zone %s \\\n      --start-after %s --end-by %s",
		o.AZID,
		o.Start.UTC().Format(time.RFC3339),
		o.End.UTC().Format(time.RFC3339),
	)
}

// roundedLength returns a length that EC2 sells, with a notice where it is another one.
func roundedLength(t *terminal.Terminal, asked time.Duration) (time.Duration, error) {
	length, err := ec2.BlockLength(asked)
	if err != nil {
		return 0, usage("--duration: %w", err)
	}

	if length != asked {
		t.Say("EC2 sells blocks of 1 to 14 days, then of whole weeks: searching for %s instead of %s.",
			capacity.FormatDuration(length), capacity.FormatDuration(asked))
	}

	return length, nil
}

const offeringColumns = "ID: ID; TYPE: InstanceType drop 3; COUNT: Count drop 7; AZ ID: AZID; AZ: AZ drop 4; " +
	"START: Start; " +
	"END: End drop 8; LASTS: Lasts; FEE: Fee; INSTANCE-HOUR: PerHour drop 2; GPU-HOUR: PerGPUHour drop 5; " +
	"SUBNET: SubnetWord; SUBNET ID: SubnetID drop 1; MARKS: Marks drop 6"

// FitCmd reports whether there is capacity for something, or what a queue needs.
type FitCmd struct {
	InstanceType typeName `short:"t" help:"Instance type, such as p5.48xlarge." placeholder:"TYPE"`
	Count        count    `short:"n" help:"Number of instances." placeholder:"N"`
	Duration     span     `short:"d" help:"How long, such as 7d or 36h."`
	By           moment   `help:"When it must be done, such as 2026-12-01 or tomorrow." placeholder:"TIME"`
	Queue        string   `help:"Show what to buy for the jobs of this partition, instead of for a type, count and duration." placeholder:"PARTITION" predictor:"partition"`
	MaxPrice     usd      `help:"Highest price of an extension or a block for the queue, in USD." placeholder:"USD"`
	regionFlags
}

func (FitCmd) Help() string {
	return `Nodes of the configured partitions that Slurm has idle are free, though EC2 counts them as used.

Exit status 0: a reservation fits, blocks before ODCRs. Exit status 1: none does; then what is
missing is shown, and which offerings would fill it. Nodes need time to boot, and a block must
be free of jobs some time before its end, so a block of 7d does not hold work of 7d.

With --queue, the jobs that run or wait in a partition are packed into its reservations. If some
stay undone, or are not done by --by, the choices are shown: nothing, extensions and blocks, the
best first, with what each uses of its nodes' time and until when to buy it. Nothing is bought.

  pcs-capacity fit -t p5.48xlarge -n 4 -d 7d
  pcs-capacity fit --queue gpu --by 2026-12-01`
}

// check finds mistakes in the arguments.
func (c *FitCmd) check() error {
	asked := c.InstanceType != "" || c.Count != 0 || c.Duration != 0
	switch {
	case c.Queue != "" && (asked || c.Regions != nil):
		return usage(
			"--queue finds out what its jobs need: leave out --instance-type, --count, --duration and --regions",
		)
	case c.Queue == "" && (c.InstanceType == "" || c.Count == 0 || c.Duration == 0):
		return usage("give --instance-type, --count and --duration, or --queue")
	case c.Queue == "" && c.MaxPrice != usd{}:
		return usage("--max-price goes with --queue")
	}

	return nil
}

const fitColumns = "ID: ID; KIND: Kind drop 2; AZ ID: AZID; COUNT: Count; FITS: Fits; FROM: Start drop 3; " +
	"ENDS: End drop 1; " +
	"WHY NOT: Message wrap"

// Run asks for reservations, then for what is for sale, and shows the answer.
func (c *FitCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	if err := c.check(); err != nil {
		return err
	}

	if c.Queue != "" {
		return c.fitQueue(ctx, t, cfg, aws)
	}

	readOverTime(ctx, cfg.Config)

	progress := t.Slow("asking for reservations")
	defer progress.Done()

	subnets := inBackground(func() market.Subnets { return readSubnets(ctx, cfg, aws) })
	slurm := inBackground(func() idleNodes { return readIdle(ctx, cfg) })

	regions, err := c.choose(ctx, aws)
	if err != nil {
		return err
	}

	need := capacity.Need{
		InstanceType: string(c.InstanceType),
		Count:        int(c.Count),
		Duration:     time.Duration(c.Duration),
		By:           c.By.Time,
	}

	var own owned

	idle := func(found []capacity.Reservation) map[string]int {
		own = ownedOf(cfg, aws, inRegion(aws.In(cfg.Region).Region(), found), slurm())
		return own.idle
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
		t.Say("The cluster's subnets could not be read, so zones are not compared: %s", answer.Subnets.Err)
	}

	if err := showFit(t, need, answer, own); err != nil {
		return err
	}

	if !answer.Fits {
		printOffers(t, need, aws.Region(), answer)
	}

	warnOfRegions(t, answer.Failed)

	if !answer.Fits {
		return errReported
	}

	return nil
}

// showFit writes the reservations, what is for sale if none fits, and the answer in a sentence.
func showFit(t *terminal.Terminal, need capacity.Need, a market.FitAnswer, own owned) error {
	if err := t.Show(a, a.Candidates, fitColumns); err != nil {
		return err
	}

	if len(a.Offers) > 0 && t.Format == terminal.Table {
		if len(a.Candidates) > 0 {
			fmt.Fprintln(t.Out)
		}

		if err := t.Rows(a.Offers, offeringColumns); err != nil {
			return err
		}
	}

	var all []capacity.Reservation
	for _, c := range a.Candidates {
		all = append(all, c.Reservation)
	}

	what := fmt.Sprintf("%d x %s for %s", need.Count, need.InstanceType, capacity.FormatDuration(need.Duration))
	if !need.By.IsZero() {
		what += " by " + t.Time(need.By)
	}

	if len(a.Candidates) == 0 {
		t.Say("%s: there is no reservation of this type.", what)
		return nil
	}

	best := a.Candidates[0]
	if !a.Fits {
		t.Say("%s: nothing fits. The nearest is %s: %s.", what, best.ID, best.Message)
		own.say(t, false, all...)
		return nil
	}

	t.Say("%s: %s fits, from %s on.", what, best.ID, t.Time(best.Start))

	if need.Count > 1 && !best.Kind.IsBlock() {
		t.Say("It is an ODCR: its instances need not be in one UltraCluster, as those of a block are.")
	}

	return nil
}

// printOffers tells which offering would fill the need.
func printOffers(t *terminal.Terminal, need capacity.Need, own string, a market.FitAnswer) {
	if a.SaleErr != nil {
		t.Say("The search for blocks for sale failed: %s", a.SaleErr)
		return
	}

	if sold, err := ec2.BlockLength(need.Duration); err == nil && sold != a.Length {
		t.Say("Work of %s needs a block of %s: nodes boot first, and jobs must end before the block does.",
			capacity.FormatDuration(need.Duration), capacity.FormatDuration(a.Length))
	}

	switch {
	case len(a.Offers) > 0:
		first := a.Offers[0]
		t.Say("%s would fit, for %s from %s on:\n%s", first.ID, first.Fee,
			t.Time(first.Start), purchaseCommand(first, a.Length, own))
	case len(a.Sale.Offers) > 0:
		q := a.Sale.Query()
		t.Say("None of the blocks for sale would fit: pcs-capacity offerings -t %s -n %d -d %s", q.InstanceType,
			q.Count, capacity.FormatDuration(q.Duration))
	default:
		for _, why := range a.Sale.WhyNone(t.Time) {
			t.Say("%s", why)
		}
	}
}
