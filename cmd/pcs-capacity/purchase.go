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
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// PurchaseCmd buys a block.
type PurchaseCmd struct {
	Offering string `arg:"" help:"Id of the offering, cb-…, as offerings shows it."`

	purchaseFlags `embed:""`
	Platform      string   `help:"Platform of the image that will run. Default: Linux/UNIX."`
	InstanceType  typeName `help:"Same as for offerings." short:"t" placeholder:"TYPE"`
	Count         count    `help:"Same as for offerings." short:"n" placeholder:"N"`
	Duration      span     `help:"Same as for offerings." short:"d"`
	StartAfter    moment   `help:"Earliest start." placeholder:"TIME"`
	EndBy         moment   `help:"Latest end." placeholder:"TIME"`
	Zone          string   `help:"AZ id of the block. The block there from --start-after to --end-by is bought even if its id has changed." placeholder:"AZ-ID"`
	AnyZone       bool     `help:"Buy even if the cluster has no subnet in the block's zone, or if that is unknown."`
}

// purchaseFlags are the flags of the commands that buy.
type purchaseFlags struct {
	ConfirmFee usd  `help:"The fee in USD that you accept. Refused when EC2 now asks for another." placeholder:"USD"`
	Again      bool `help:"Buy once more what was bought before."`
	DryRun     bool `help:"Show what would be bought, ask EC2 whether these credentials may buy it, and buy nothing. EC2 then checks neither stock nor payment."`
	Wait       bool `help:"Follow the payment to its end." default:"true" negatable:""`
	OnlyBuyer  bool `help:"Nobody else buys now: do not wait for EC2 to show other purchases where state_dir is new." env:"PCS_CAPACITY_ONLY_BUYER"`
}

func (PurchaseCmd) Help() string {
	return `A Capacity Block is paid in advance and cannot be cancelled, moved or refunded. The request
is sent once and never repeated. If its answer is lost, or this is killed, run the same
command again: it finds out first whether the block was bought, and goes on from there. EC2
bills within 5 minutes to 12 hours; until then the block is payment-pending. EC2 cannot look
up an offering by its id, so the question is asked again: offerings prints the whole
command.

  pcs-capacity purchase cb-0123456789abcdef0 -t p5.48xlarge -n 4 -d 7d --confirm-fee 31464.00`
}

// check finds mistakes in the arguments before EC2 is asked anything.
func (c *PurchaseCmd) check() error {
	switch {
	case capacity.IsReservationID(c.Offering):
		return usage(
			"%s is a reservation, which is bought already; to extend it, use `pcs-capacity extend %s --duration 7d`",
			c.Offering,
			c.Offering,
		)
	case !capacity.IsOfferingID(c.Offering):
		return usage(
			"%q is not the id of an offering (cb-…); `pcs-capacity offerings` lists what is for sale",
			c.Offering,
		)
	case c.InstanceType == "" || c.Count == 0 || c.Duration == 0:
		return usage(
			"offering %s: EC2 cannot look it up by its id, so add --instance-type, --count and --duration; "+
				"`pcs-capacity offerings` prints the whole command",
			c.Offering,
		)
	}

	return nil
}

func (c *PurchaseCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	if err := c.check(); err != nil {
		return err
	}

	readOverTime(ctx, cfg.Config)

	subnets := inBackground(func() market.Subnets { return readSubnets(ctx, cfg, aws) })
	query := ec2.OfferingQuery{
		InstanceType: string(c.InstanceType),
		Count:        int(c.Count),
		Duration:     time.Duration(c.Duration),
		StartAfter:   c.StartAfter.Time,
		EndBy:        c.EndBy.Time,
	}

	buyer := newBuyer(cfg, aws, c.purchaseFlags)
	buyer.Customer = blockCustomer{customer{t, cfg}, c, subnets}

	return buyer.Purchase(ctx, market.PurchaseOrder{
		OfferingID: c.Offering,
		Query:      query,
		Zone:       c.Zone,
		Platform:   c.Platform,
		Fee:        c.ConfirmFee.Money,
		Again:      c.Again,
		Wait:       c.Wait,
	})
}

// boughtRow is the result of a purchase or an extension.
type boughtRow struct {
	OfferingID string `json:"offering_id"`
	capacity.Reservation
	Count       int             `json:"count"`
	Payment     string          `json:"payment,omitempty"` // EC2's state of the payment of an extension
	OldEnd      time.Time       `json:"old_end,omitzero"`
	NewEnd      time.Time       `json:"new_end,omitzero"` // Reservation has it once the extension is paid
	Fence       time.Time       `json:"fence"`
	Reclaim     time.Time       `json:"reclaim"`
	Fee         capacity.Amount `json:"fee"` // not known of a block that was bought elsewhere
	Currency    string          `json:"currency,omitempty"`
	PurchasedAt time.Time       `json:"purchased_at,omitzero"`
	BoughtNow   bool            `json:"bought_now"` // false for what an earlier run or another machine bought
}

const (
	purchaseColumns = "RESERVATION: ID; STATE: State; TYPE: InstanceType; COUNT: Count drop 2; AZ: AZ drop 1; " +
		"AZ ID: AZID; " +
		"START: Start; FENCE: Fence drop 3; END: End; FEE: Fee"
	extensionColumns = "RESERVATION: ID; STATUS: Payment; OLD END: OldEnd drop 1; NEW END: NewEnd; NEW FENCE: Fence; " +
		"FEE: Fee"
)

// newBoughtRow takes from the intent what EC2 does not show yet.
func newBoughtRow(cfg *maybeConfig, b market.Result) boughtRow {
	i := b.Intent
	r := b.Reservation
	if r.InstanceType == "" {
		state := r.State
		r = i.Offering.Reservation(r.ID)
		r.State = state
	}

	if r.AZID == "" { // EC2 may leave it out until the block is allocated
		r.AZ = i.Offering.AZ
		r.AZID = i.Offering.AZID
	}

	if b.DryRun {
		r.State = "dry-run"
	}

	row := boughtRow{
		OfferingID:  i.Offering.ID,
		Reservation: r,
		Count:       max(r.Size(), i.Offering.Count),
		OldEnd:      i.OldEnd,
		NewEnd:      i.NewEnd,
		PurchasedAt: i.At,
		BoughtNow:   b.BoughtNow,
		Payment:     b.Extension.State,
		Fee:         capacity.Amount{Money: i.Fee},
		Currency:    i.Fee.Currency(),
	}
	if !i.NewEnd.IsZero() {
		r.End = i.NewEnd
	}

	w := cfg.Timing.Domain().Window(r)

	row.Fence = w.Fence
	row.Reclaim = w.Reclaim

	return row
}

// blockCustomer buys a block at a terminal.
type blockCustomer struct {
	customer
	*PurchaseCmd
	subnets func() market.Subnets
}

// Show says what would be bought, when it can be used, and by whom. The error is for what the cluster could not use.
func (c blockCustomer) Show(p market.Preview) (accepted capacity.Money, err error) {
	t := c.Terminal

	o := p.Offering
	w := c.cfg.Timing.Domain().Window(o.Reservation(""))
	what := fmt.Sprintf("%d x %s", o.Count, o.InstanceType)
	if o.UltraServerType != "" {
		what = fmt.Sprintf("%d x %s (%s)", o.UltraServerCount, o.UltraServerType, what)
	}

	if p.OrderedAs != "" {
		t.Say("EC2 now lists %s as %s; zone, start, end and count are the same.", p.OrderedAs, o.ID)
	}

	t.Say("%s: %s in %s, region %s, account %s", o.ID, what, capacity.FormatZone(o.AZID, o.AZ), o.Region,
		cmp.Or(p.Account, "unknown"))
	t.Say("  start    %s, in %s", t.Time(w.Start), capacity.FormatDuration(max(0, w.Start.Sub(p.Now))))
	t.Say("  fence    %s: no job runs longer", t.Time(w.Fence))
	t.Say("  reclaim  %s: EC2 begins to terminate the instances", t.Time(w.Reclaim))
	t.Say("  end      %s, after %s", t.Time(w.End), capacity.FormatDuration(o.Duration()))

	if asked := time.Duration(c.Duration); o.Duration() < asked {
		t.Say("WARNING: It lasts %s, %s less than --duration %s.", capacity.FormatDuration(o.Duration()),
			capacity.FormatDuration(asked-o.Duration()), capacity.FormatDuration(asked))
	}

	t.Say("  fee      %s", formatFee(o))

	if err := c.checkZone(o); err != nil {
		return accepted, err
	}

	if o.Count > 1 {
		t.Say("Hosts can fail: if a job needs all %d nodes, consider one or two spare ones.", o.Count)
	}

	return c.acceptFee(p)
}

// formatFee returns the fee of a block or an extension.
func formatFee(o capacity.Offering) string {
	return fmt.Sprintf("%s for all of it, charged at once; %s an instance-hour", o.Fee,
		o.Fee.PerHour(o.Count, o.Duration()).Amount())
}

// checkZone says whether the cluster can run nodes in the zone of an offering (R10). If it cannot, or that is not known,
// it is an error without --any-zone.
func (c blockCustomer) checkZone(o capacity.Offering) error {
	where := capacity.FormatZone(o.AZID, o.AZ)

	subnets := c.subnets()
	use := subnets.Zone(o.AZID)
	wrong := usage(
		"the cluster has no subnet in %s, where this block would be; it has %s. Only a subnet in the block's "+
			"own zone can run its nodes: %s",
		where,
		capacity.FormatSubnets(subnets.Own),
		remedy(use),
	)
	switch {
	case subnets.Err != nil:
		wrong = fmt.Errorf("could not determine whether the cluster can use %s: %w", where, subnets.Err)
	case len(subnets.Own) == 0:
		c.Say("  cluster  not compared: the settings name no cluster and no subnet")
		return nil
	case len(use.Subnets) > 0:
		usedBy := ""
		if p, g, found := market.GroupFor(c.cfg.Config, o.InstanceType, use.Subnets); found {
			usedBy = fmt.Sprintf(", used by node group %s of partition %s", g.Name, p.Name)
		}

		c.Say("  cluster  has %s in this zone%s", strings.Join(use.Subnets, ", "), usedBy)

		return nil
	}

	if !c.AnyZone && !c.DryRun {
		return fmt.Errorf("offering %s: %w; nothing was bought. Add --any-zone to buy it anyway", o.ID, wrong)
	}

	c.Say("WARNING: %s.", wrong)

	if !c.AnyZone {
		c.Say("WARNING: the purchase needs --any-zone.")
	}

	return nil
}

func remedy(use market.ZoneUse) string {
	if len(use.Neighbours) > 0 {
		return fmt.Sprintf(
			"give %s, which is in its VPC, to `pcs-capacity setup --subnet-ids`, or take another offering",
			use.Neighbours[0],
		)
	}

	return "create one before you buy, or take another offering"
}

// Report shows what was bought and says what comes next.
func (c blockCustomer) Report(p market.Result) error {
	if !p.DryRun || c.Format != terminal.Table {
		if err := c.Rows([]boughtRow{newBoughtRow(c.cfg, p)}, purchaseColumns); err != nil {
			return err
		}
	}

	r := p.Reservation
	if r.InstanceType == "" { // EC2 does not show it
		r = p.Intent.Offering.Reservation(p.Intent.Reservation)
	}

	switch {
	case p.DryRun:
		r.ID = "cr-…"
		c.Say("Dry run: these credentials may buy it; EC2 checked nothing else, and nothing was bought. After the "+
			"purchase, go on with:\n%s", market.NextStep(c.cfg.Config, c.subnets(), r))
	case r.State != capacity.StateExpired:
		c.Say("Next:\n%s", market.NextStep(c.cfg.Config, c.subnets(), r))
	}

	return nil
}

// customer has what buying a block and extending one have in common at a terminal.
type customer struct {
	*terminal.Terminal
	cfg *maybeConfig
}

// Start begins the report on work that may take long.
func (c customer) Start(what string) market.Progress { return c.Terminal.Start(what) }

// acceptFee has the fee typed, if nobody has accepted it yet; --yes is not enough.
func (c customer) acceptFee(p market.Preview) (accepted capacity.Money, err error) {
	if !p.Ask {
		return accepted, nil
	}

	o := p.Offering
	fee := o.Fee.Amount()
	remedy := "pass --confirm-fee " + fee
	if o.Fee.Currency() != capacity.USD {
		fee = o.Fee.String()
		remedy = "it is " + fee + ", and --confirm-fee takes USD only, so run this at a terminal"
	}

	if !c.CanAsk {
		return accepted, usage("offering %s: fee not confirmed; %s", o.ID, remedy)
	}

	return o.Fee, c.Type(fmt.Sprintf("This cannot be undone. Type the fee (%s) to buy", fee), fee)
}

func newBuyer(cfg *maybeConfig, aws *ec2.Client, flags purchaseFlags) *market.Buyer {
	dir := state.Dir(cfg.StateDir)
	buyer := &market.Buyer{
		EC2:      aws,
		In:       func(region string) market.World { return aws.In(region) },
		StateDir: dir,
		Cluster:  cfg.Cluster,
		DryRun:   flags.DryRun,
	}

	switch {
	case flags.OnlyBuyer:
		buyer.Recorded = market.Lag
	case !flags.DryRun:
		buyer.Recorded, _ = dir.Age() // if it cannot be made, nothing is bought
	}

	return buyer
}

// ExtendCmd extends a block.
type ExtendCmd struct {
	Reservation   string `arg:"" predictor:"reservation" help:"Block to extend, cr-…."`
	Duration      span   `help:"By how much, such as 7d. EC2 sells 1 to 14 days, then whole weeks; it is rounded up." required:"" short:"d"`
	purchaseFlags `embed:""`
}

func (ExtendCmd) Help() string {
	return `An extension begins when the block ends, so its instances keep running. It is paid in advance
and cannot be cancelled. EC2 sells it from 56 days until one hour before the end; a block lasts
at most 182 days in all. The end moves when it is paid; if the payment fails, the old end
stays. The request is sent once: if its answer is lost, or this is killed, run the same
command again. The same length again within a day buys nothing without --again.

  pcs-capacity extend cr-0123456789abcdef0 --duration 7d --confirm-fee 31464.00`
}

func (c *ExtendCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	if !capacity.IsReservationID(c.Reservation) {
		return usage("%q is not the id of a reservation (cr-…); `pcs-capacity list --blocks` lists them",
			c.Reservation)
	}

	readOverTime(ctx, cfg.Config)

	length, err := roundedLength(t, time.Duration(c.Duration))
	if err != nil {
		return err
	}

	buyer := newBuyer(cfg, aws, c.purchaseFlags)
	buyer.Customer = extensionCustomer{customer{t, cfg}}

	return buyer.Extend(ctx, market.ExtensionOrder{
		ReservationID: c.Reservation,
		Length:        length,
		Fee:           c.ConfirmFee.Money,
		Again:         c.Again,
		Wait:          c.Wait,
	})
}

// extensionCustomer extends a block at a terminal.
type extensionCustomer struct{ customer }

// Show says what would be bought, and how the ends move.
func (c extensionCustomer) Show(p market.Preview) (accepted capacity.Money, err error) {
	t := c.Terminal
	r := p.Extended
	o := p.Offering
	extended := r
	extended.End = o.End
	before := c.cfg.Timing.Domain().Window(r)
	after := c.cfg.Timing.Domain().Window(extended)

	t.Say(
		"%s: %d x %s in %s, region %s, account %s, %s",
		r.ID,
		r.Size(),
		r.InstanceType,
		capacity.FormatZone(r.AZID, r.AZ),
		r.Region,
		cmp.Or(p.Account, "unknown"),
		r.State,
	)

	for _, e := range p.History {
		t.Say("  before   extended to %s at %s, for %s: %s", t.Time(e.To), t.Time(e.Purchased), e.Fee, e.State)
	}

	t.Say("  fence    %s, from %s: no job runs longer", t.Time(after.Fence), t.Time(before.Fence))
	t.Say(
		"  reclaim  %s, from %s: EC2 begins to terminate the instances",
		t.Time(after.Reclaim),
		t.Time(before.Reclaim),
	)
	t.Say("  end      %s, from %s: %s more", t.Time(after.End), t.Time(before.End),
		capacity.FormatDuration(o.End.Sub(r.End)))

	if o.Start.Equal(r.End) {
		t.Say("  gap      none: it begins where the block ends, and instances keep running")
	} else {
		t.Say("WARNING: the extension begins at %s, but the block ends at %s.", t.Time(o.Start), t.Time(r.End))
	}

	t.Say("  fee      %s", formatFee(o))

	return c.acceptFee(p)
}

// Report shows what was bought and says what comes next.
func (c extensionCustomer) Report(x market.Result) error {
	row := newBoughtRow(c.cfg, x)
	if !x.DryRun || c.Format != terminal.Table {
		if err := c.Rows([]boughtRow{row}, extensionColumns); err != nil {
			return err
		}
	}

	switch {
	case x.DryRun:
		c.Say("Dry run: these credentials may buy it; EC2 checked nothing else, and nothing was bought.")
	case x.Extension.State == capacity.ExtensionPaid:
		c.Say("The end has moved. `pcs-capacity sync` moves the fence to %s; a running sync --watch does so by itself.",
			c.Time(row.Fence))
	default:
		c.Say("The end moves when the extension is paid; `pcs-capacity sync` then moves the fence to %s.",
			c.Time(row.Fence))
	}

	return nil
}
