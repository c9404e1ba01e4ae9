package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Search is a question about blocks for sale, asked in one region or several.
type Search struct {
	EC2      *ec2.Client
	Query    ec2.OfferingQuery // Query has a length that EC2 sells
	Regions  []string
	Zone     string         // the AZ id of the only zone to look in; "" for all
	MaxPrice capacity.Money // the highest price of the whole block; zero for no limit
	Progress Progress
}

// Offer is a block for sale.
type Offer struct {
	capacity.Offering
	Seconds    int            `json:"duration_seconds"`
	PerHour    capacity.Money `json:"fee_per_instance_hour"`
	PerGPUHour capacity.Money `json:"fee_per_gpu_hour,omitzero"`
	GPUs       int            `json:"gpus_per_instance,omitempty"` // or Neuron devices; 0 for none or unknown
	ZoneUse
	longer time.Duration // than the search asked for
}

func (s Search) offer(o capacity.Offering, gpus int) Offer {
	return Offer{
		Offering:   o,
		Seconds:    int(o.Duration().Seconds()),
		PerHour:    o.Fee.PerHour(o.Count, o.Duration()),
		PerGPUHour: o.Fee.PerHour(o.Count*gpus, o.Duration()),
		GPUs:       gpus,
		longer:     o.Duration() - s.Query.Duration,
	}
}

// Lasts returns the length of the block.
func (o Offer) Lasts() string { return capacity.FormatDuration(o.Duration()) }

// Marks lists the UltraServers and the difference to the requested length.
func (o Offer) Marks() string {
	var marks []string
	if o.UltraServerType != "" {
		marks = append(marks, fmt.Sprintf("%d x %s", o.UltraServerCount, o.UltraServerType))
	}

	switch {
	case o.longer < 0:
		marks = append(marks, capacity.FormatDuration(-o.longer)+" less than asked")
	case o.longer > 0:
		marks = append(marks, capacity.FormatDuration(o.longer)+" more than asked")
	}

	return strings.Join(marks, ", ")
}

// Best returns the first of sorted offers that lasts as long as asked, in a zone as good as that of the first of all;
// if there is none, the first, which is short.
func Best(offers []Offer) (best Offer, short bool) {
	for _, o := range offers {
		if o.longer >= 0 && o.Rank() == offers[0].Rank() {
			return o, false
		}
	}

	return offers[0], true
}

// Found is the result of a search.
type Found struct {
	Offers  []Offer         `json:"offerings"`      // within the price
	Largest *Offer          `json:"largest"`        // the largest block for sale, by FindLargest
	Failed  []RegionFailure `json:"failed_regions"` // the regions that did not answer

	search  Search
	answers []regionAnswer
}

// regionAnswer is the answer of one region; zero for none.
type regionAnswer struct {
	region string
	found  []capacity.Offering
	types  map[string]ec2.InstanceType
	unsold string // the reason why the type cannot be bought in this region at all; "" if it can
}

// Run asks the regions. It is an error when none answers; the result then has only Failed.
func (s Search) Run(ctx context.Context) (*Found, error) {
	f := &Found{Offers: []Offer{}, search: s}
	s.EC2.OnWait(f.reportWait)

	var err error

	f.answers, f.Failed, err = AskRegions(ctx, s.Progress, s.EC2, s.Regions, f.ask)
	if err != nil {
		return f, err
	}

	for _, a := range f.answers {
		for _, o := range s.affordable(a.found) {
			f.Offers = append(f.Offers, s.offer(o, a.types[o.InstanceType].GPUs))
		}
	}

	return f, nil
}

// ask asks one region: first whether it sells the type at all, since that call is not scarce.
func (f *Found) ask(ctx context.Context, aws *ec2.Client) (regionAnswer, error) {
	q := f.search.Query
	answer := regionAnswer{region: aws.Region()}

	var typesErr error
	if !ec2.IsUltraServer(q.InstanceType) {
		answer.types, typesErr = aws.InstanceTypes(ctx, []string{q.InstanceType})
		if typesErr == nil {
			answer.unsold = whyUnsold(ctx, aws, q.InstanceType, answer.types)
			if answer.unsold != "" {
				return answer, nil
			}
		}
	}

	var err error

	answer.found, err = f.search.offerings(ctx, aws, q)
	switch {
	case ec2.IsNotSold(err):
		answer.unsold = ec2.Code(err) + ": " + ec2.Message(err)
		return answer, nil
	case err != nil:
		return regionAnswer{}, err // the region may sell it
	}

	if ec2.IsUltraServer(q.InstanceType) && len(answer.found) > 0 {
		answer.types, typesErr = aws.InstanceTypes(ctx, []string{answer.found[0].InstanceType})
	}

	if typesErr != nil {
		slog.Warn("prices per GPU are not known", "region", aws.Region(), "error", typesErr)
	}

	return answer, nil
}

// reportWait reports a wait for EC2's request limits: 10 searches, then one in 7 seconds.
func (f *Found) reportWait(w ec2.Wait) {
	after := capacity.FormatDuration(w.For)
	if w.Throttled != "" {
		f.search.Progress.Say("EC2 throttles searches in %s (%s); asking again in %s.", w.Region, w.Throttled, after)
	} else {
		f.search.Progress.Now(fmt.Sprintf("waiting %s for EC2's request limits in %s", after, w.Region))
	}
}

// whyUnsold returns the reason why EC2 sells no block of a type in a region; "" if it does.
func whyUnsold(ctx context.Context, aws *ec2.Client, instanceType string, types map[string]ec2.InstanceType) string {
	about, known := types[instanceType]
	if known && slices.Contains(about.UsageClasses, ec2.BlockUsage) {
		return ""
	}

	why := fmt.Sprintf("EC2 has no instance type %s in %s", instanceType, aws.Region())
	if known {
		why = fmt.Sprintf("EC2 does not sell %s as a Capacity Block in %s", instanceType, aws.Region())
	}

	sold, err := aws.BlockTypes(ctx)
	switch {
	case err != nil:
		return why + "."
	case len(sold) == 0:
		return why + ", nor any other type as a Capacity Block."
	}

	return why + ". Sold there: " + strings.Join(slices.Sorted(maps.Keys(sold)), ", ") + "."
}

// offerings asks one region for what is for sale in the zone.
func (s Search) offerings(ctx context.Context, aws *ec2.Client, q ec2.OfferingQuery) ([]capacity.Offering, error) {
	found, err := aws.Offerings(ctx, q)
	elsewhere := func(o capacity.Offering) bool { return s.Zone != "" && o.AZID != s.Zone }

	return slices.DeleteFunc(found, elsewhere), err
}

// affordable returns the offerings at or under the highest price, in its currency.
func (s Search) affordable(found []capacity.Offering) []capacity.Offering {
	if s.MaxPrice == (capacity.Money{}) {
		return found
	}

	var kept []capacity.Offering
	for _, o := range found {
		if order, err := o.Fee.Compare(s.MaxPrice); err == nil && order <= 0 {
			kept = append(kept, o)
		}
	}

	return kept
}

// Query returns the question.
func (f *Found) Query() ec2.OfferingQuery { return f.search.Query }

// FindLargest finds the largest count that is for sale where the requested one is not, in the region that has most.
// A binary search keeps the calls few: a smaller block is for sale wherever a larger one is.
func (f *Found) FindLargest(ctx context.Context) error {
	var regions []string
	for _, a := range f.answers {
		if a.region != "" && a.unsold == "" {
			regions = append(regions, a.region)
		}
	}

	if len(regions) == 0 {
		return nil
	}

	found, _, err := AskRegions(ctx, f.search.Progress, f.search.EC2, regions, f.largestIn)
	for _, o := range found {
		if o != nil && (f.Largest == nil || SoldCount(*o) > SoldCount(f.Largest.Offering)) {
			largest := f.search.offer(*o, 0)
			f.Largest = &largest
		}
	}

	return err
}

// largestIn returns the earliest offering of the largest count in the client's region.
func (f *Found) largestIn(ctx context.Context, aws *ec2.Client) (*capacity.Offering, error) {
	var largest *capacity.Offering

	q := f.search.Query
	for low, high := 0, q.Count-1; low < high; {
		q.Count = (low + high + 1) / 2

		found, err := f.search.offerings(ctx, aws, q)
		if err != nil {
			return largest, err
		}

		found = f.search.affordable(found)
		if len(found) == 0 {
			high = q.Count - 1
			continue
		}

		first := slices.MinFunc(found, func(a, b capacity.Offering) int { return a.Start.Compare(b.Start) })
		largest = &first
		low = q.Count
	}

	return largest, nil
}

// WhyNone lists, a sentence each, why there is no offer; at writes a time.
func (f *Found) WhyNone(at func(time.Time) string) []string {
	var (
		why, asked []string
		dear       []capacity.Offering
	)
	for _, a := range f.answers {
		switch {
		case a.unsold != "":
			why = append(why, a.unsold)
		case a.region != "":
			asked = append(asked, a.region)
			dear = append(dear, a.found...)
		}
	}

	q := f.search.Query
	switch {
	case len(asked) == 0:
		return why
	case len(dear) > 0:
		return append(why, f.search.describeCheapest(dear))
	}

	window := ""
	if f.search.Zone != "" {
		window = ", zone " + f.search.Zone + ","
	}

	if !q.StartAfter.IsZero() {
		window += " from " + at(q.StartAfter)
	}

	if !q.EndBy.IsZero() {
		window += " until " + at(q.EndBy)
	}

	return append(why, fmt.Sprintf("EC2 has no block of %d x %s for %s for sale in %s%s.", q.Count, q.InstanceType,
		capacity.FormatDuration(q.Duration), strings.Join(asked, ", "), window))
}

// describeCheapest names the cheapest offering where none is affordable.
func (s Search) describeCheapest(found []capacity.Offering) string {
	least := slices.MinFunc(found, func(a, b capacity.Offering) int { return compareFees(a.Fee, b.Fee) })
	what := fmt.Sprintf("The cheapest block of %d x %s for about %s costs %s", s.Query.Count, s.Query.InstanceType,
		capacity.FormatDuration(s.Query.Duration), least.Fee)
	if least.Fee.Currency() != s.MaxPrice.Currency() {
		return fmt.Sprintf("%s, which cannot be compared with --max-price %s.", what, s.MaxPrice)
	}

	return fmt.Sprintf("%s, more than --max-price %s.", what, s.MaxPrice.Amount())
}

// The orders of SortOffers.
const (
	ByStart = "start"
	ByPrice = "price" // of an instance-hour
	ByFee   = "fee"   // of the whole block
)

// SortOffers adds the cluster's subnets to the offers, and puts zones that it can use first, then those that come
// first in the order.
func SortOffers(offers []Offer, by string, subnets Subnets) {
	for i := range offers {
		offers[i].ZoneUse = subnets.Zone(offers[i].AZID)
	}

	slices.SortStableFunc(offers, func(a, b Offer) int {
		rank := a.Rank() - b.Rank()
		start := a.Start.Compare(b.Start)
		price := compareFees(a.PerHour, b.PerHour)
		switch by {
		case ByPrice:
			return cmp.Or(rank, price, start)
		case ByFee:
			return cmp.Or(rank, compareFees(a.Fee, b.Fee), start)
		}

		return cmp.Or(rank, start, price)
	})
}

// compareFees orders fees of one currency by amount, and else by currency.
func compareFees(a, b capacity.Money) int {
	if order, err := a.Compare(b); err == nil {
		return order
	}
	return strings.Compare(a.Currency(), b.Currency())
}

// RegionFailure is a region that did not answer, and why.
type RegionFailure struct {
	Region  string `json:"region"`
	Code    string `json:"code,omitempty"` // EC2's, verbatim; "" without an answer
	Message string `json:"message"`
}

// Reason returns the code with the message.
func (f RegionFailure) Reason() string {
	if f.Code == "" {
		return f.Message
	}
	return f.Code + ": " + f.Message
}

// ChooseRegions returns the regions to ask: the given ones, for "all" every region of the account,
// for none the client's own.
func ChooseRegions(ctx context.Context, aws *ec2.Client, given []string) ([]string, error) {
	switch {
	case len(given) == 0:
		return []string{aws.Region()}, nil
	case slices.Contains(given, "all"):
		return aws.Regions(ctx)
	}

	given = slices.Clone(given)
	slices.Sort(given)

	return slices.Compact(given), nil
}

// atOnce bounds the regions asked at the same time. More answers would fill memory while the machine decodes them.
const atOnce = 8

// AskRegions asks regions at the same time and returns their answers, in the order of the regions.
// A region that fails leaves the zero value and a RegionFailure; it is an error only when all fail.
func AskRegions[T any](ctx context.Context, progress Progress, aws *ec2.Client, regions []string,
	ask func(context.Context, *ec2.Client) (T, error),
) ([]T, []RegionFailure, error) {
	answers := make([]T, len(regions))
	errs := make([]error, len(regions))

	var group errgroup.Group
	group.SetLimit(atOnce)

	var answered atomic.Int32

	noun := "regions"
	if len(regions) == 1 {
		noun = "region"
	}

	progress.Now(fmt.Sprintf("asking %d %s", len(regions), noun))

	for i, region := range regions {
		group.Go(func() error {
			answers[i], errs[i] = ask(ctx, aws.In(region))

			progress.Now(fmt.Sprintf("asked %d of %d %s", answered.Add(1), len(regions), noun))
			return nil
		})
	}

	_ = group.Wait() // the errors are in errs

	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, nil, ctx.Err()
	}

	failed := []RegionFailure{}
	for i, err := range errs {
		if err != nil {
			failed = append(failed, newRegionFailure(regions[i], err))
		}
	}

	switch len(failed) {
	case 0:
		return answers, failed, nil
	case 1:
		if len(regions) == 1 {
			return nil, failed, errs[0]
		}
	case len(regions):
		return nil, failed, fmt.Errorf("none of the %d regions could be asked:\n%w", len(regions), errors.Join(errs...))
	}

	return answers, failed, nil
}

// newRegionFailure has EC2's message with its remedy or, without an answer of EC2, the other error.
func newRegionFailure(region string, err error) RegionFailure {
	f := RegionFailure{region, ec2.Code(err), firstLine(err)}
	if f.Code != "" {
		f.Message = ec2.Message(err)
	}

	return f
}

// unionOfFailures adds the regions of more that are not in failed yet.
func unionOfFailures(failed, more []RegionFailure) []RegionFailure {
	for _, m := range more {
		if !slices.ContainsFunc(failed, func(f RegionFailure) bool { return f.Region == m.Region }) {
			failed = append(failed, m)
		}
	}

	return failed
}

// Subnets are the subnets for a cluster's nodes.
type Subnets struct {
	Own []capacity.Subnet // the subnets that the cluster uses
	// byZone and nearByZone are ids by Availability Zone id (R10): own ones, and others of
	// the same VPCs, which the cluster could use.
	byZone, nearByZone map[string][]string
	Err                error // set if they are unknown
}

// ReadSubnets describes the subnets of a cluster in the client's region and, on request, the other
// subnets of their VPCs. An error is in the answer.
func ReadSubnets(ctx context.Context, aws *ec2.Client, ids []string, neighbours bool) Subnets {
	own, missing, err := aws.Subnets(ctx, ids)
	if err == nil && len(missing) > 0 {
		err = missing[0].Err
	}

	if err != nil {
		return Subnets{Err: err}
	}

	s := Subnets{Own: ec2.PlainSubnets(own), byZone: map[string][]string{}, nearByZone: map[string][]string{}}
	isOwn := map[string]bool{}

	var vpcs []string
	for _, n := range own {
		isOwn[n.ID], vpcs = true, append(vpcs, n.VPC)
		s.byZone[n.AZID] = append(s.byZone[n.AZID], n.ID)
	}

	if !neighbours || len(vpcs) == 0 {
		return s
	}

	near, err := aws.VPCSubnets(ctx, vpcs...)
	s.Err = err
	for _, n := range near {
		if !isOwn[n.ID] {
			s.nearByZone[n.AZID] = append(s.nearByZone[n.AZID], n.ID)
		}
	}

	return s
}

// ZoneUse holds a cluster's subnets in one zone; its lists are nil if they are unknown.
type ZoneUse struct {
	Subnets    []string `json:"subnets"`
	Neighbours []string `json:"neighbour_subnets"` // those of the cluster's VPC that it does not use yet, and setup --subnet-ids takes
	NoCluster  bool     `json:"-"`                 // the settings name no subnet to compare with
}

// SubnetWord says in a table whether the cluster can run nodes in the zone; nothing where the settings name no subnet.
func (u ZoneUse) SubnetWord() string {
	switch {
	case u.NoCluster:
		return ""
	case u.Subnets == nil:
		return "?"
	case len(u.Subnets) > 0:
		return "yes"
	case len(u.Neighbours) > 0:
		return "in VPC"
	}

	return "no"
}

// SubnetID names the subnets: neighbours are in parentheses.
func (u ZoneUse) SubnetID() string {
	first := func(ids []string) string {
		if len(ids) > 1 {
			return ids[0] + ", …"
		}
		return ids[0]
	}
	switch {
	case u.Subnets == nil:
		return "?"
	case len(u.Subnets) > 0:
		return first(u.Subnets)
	case len(u.Neighbours) > 0:
		return "(" + first(u.Neighbours) + ")"
	}

	return ""
}

// Zone returns the cluster's subnets in a zone. They are unknown until EC2 shows the zone, which can
// take until a block opens.
func (s Subnets) Zone(azID string) ZoneUse {
	if s.Err != nil || azID == "" {
		return ZoneUse{}
	}

	return ZoneUse{
		Subnets:    append([]string{}, s.byZone[azID]...),
		Neighbours: append([]string{}, s.nearByZone[azID]...),
		NoCluster:  len(s.Own) == 0,
	}
}

// Rank sorts zones: with a subnet, with a neighbour, without.
func (u ZoneUse) Rank() int {
	switch {
	case len(u.Subnets) > 0:
		return 0
	case len(u.Neighbours) > 0:
		return 1
	}

	return 2
}

// sameBlock reports whether two offerings are of one block, whatever their ids and fees:
// the ids of offerings expire soon, and EC2 then shows the block under another one.
func sameBlock(a, b capacity.Offering) bool {
	return a.Region == b.Region && a.AZID == b.AZID && soldType(a) == soldType(b) && SoldCount(a) == SoldCount(b) &&
		!a.Start.IsZero() && a.Start.Equal(b.Start) && a.End.Equal(b.End)
}

// soldType returns the type by which EC2 sells a block: of its UltraServers, else of its instances.
func soldType(o capacity.Offering) string { return cmp.Or(o.UltraServerType, o.InstanceType) }

// SoldCount returns the number of UltraServers of a block, else of its instances.
func SoldCount(o capacity.Offering) int { return cmp.Or(o.UltraServerCount, o.Count) }

// findOffering asks EC2 anew, for today's fee. If EC2 no longer has the id, another offering of the
// same block stands for it: of several, one with the same fee, else the cheapest.
func findOffering(ctx context.Context, aws World, q ec2.OfferingQuery, id string,
	known capacity.Offering,
) (capacity.Offering, error) {
	found, err := aws.Offerings(ctx, q)
	if err != nil {
		return capacity.Offering{}, err
	}

	o, there := pickOffering(found, id, known)
	if !there {
		return o, fmt.Errorf(
			"offering %s: EC2 no longer has it for sale in %s; run `pcs-capacity offerings` again, and use the whole "+
				"command that it prints",
			id,
			aws.Region(),
		)
	}

	return o, nil
}

// pickOffering returns findOffering's choice among the offerings.
func pickOffering(found []capacity.Offering, id string, known capacity.Offering) (capacity.Offering, bool) {
	if i := slices.IndexFunc(found, func(o capacity.Offering) bool { return o.ID == id }); i >= 0 {
		return found[i], true
	}

	same := slices.DeleteFunc(found, func(o capacity.Offering) bool { return !sameBlock(o, known) })
	if len(same) == 0 {
		return capacity.Offering{}, false
	}

	if i := slices.IndexFunc(same, func(o capacity.Offering) bool { return o.Fee == known.Fee }); i >= 0 {
		return same[i], true
	}

	return slices.MinFunc(same, func(x, y capacity.Offering) int { return compareFees(x.Fee, y.Fee) }), true
}

// findConfirmed finds an offering once more after somebody has typed its fee: its id may have expired
// meanwhile. The typed fee accepts that very fee.
func (d *deal) findConfirmed(ctx context.Context, q ec2.OfferingQuery,
	typed capacity.Offering,
) (capacity.Offering, error) {
	now, err := findOffering(ctx, d.EC2, q, typed.ID, typed)
	switch {
	case err != nil:
		return now, fmt.Errorf("%w; nothing was bought", err)
	case now.Fee != typed.Fee:
		return now, fmt.Errorf("offering %s: its fee is %s now, not the %s that you typed; nothing was bought", now.ID,
			now.Fee, typed.Fee)
	case now.ID != typed.ID:
		d.Customer.Say("EC2 has %s under the id %s now, for the same fee.", typed.ID, now.ID)
	}

	return now, nil
}
