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
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Search is a question about blocks for sale, asked in one region or several.
type Search struct {
	EC2 *ec2.Client
	// Query has a length that EC2 sells.
	Query   ec2.OfferingQuery
	Regions []string
	// MaxPrice is the highest price of the whole block; zero for no limit.
	MaxPrice capacity.Money
	Progress Progress
}

// Offer is a block for sale.
type Offer struct {
	capacity.Offering
	// GPUs of one instance, or Neuron devices; 0 when the type has none or EC2 did not say.
	GPUs int
}

// Found is the result of a search.
type Found struct {
	// Offers are within the price.
	Offers []Offer
	// Failed are the regions that did not answer.
	Failed []RegionFailure

	search  Search
	answers []regionAnswer
}

// regionAnswer is the answer of one region; zero for none.
type regionAnswer struct {
	region string
	found  []capacity.Offering
	types  map[string]ec2.InstanceType
	// unsold is the reason why the type cannot be bought in this region at all; "" if it can.
	unsold string
}

// Run asks the regions. It is an error when none answers; the result then has only Failed.
func (s Search) Run(ctx context.Context) (*Found, error) {
	f := &Found{search: s}
	s.EC2.OnWait(f.tellWait)
	var err error
	if f.answers, f.Failed, err = AskRegions(ctx, s.Progress, s.EC2, s.Regions, f.ask); err != nil {
		return f, err
	}
	for _, a := range f.answers {
		for _, o := range s.affordable(a.found) {
			f.Offers = append(f.Offers, Offer{o, a.types[o.InstanceType].GPUs})
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
			if answer.unsold = unsold(ctx, aws, q.InstanceType, answer.types); answer.unsold != "" {
				return answer, nil
			}
		}
	}
	var err error
	answer.found, err = aws.Offerings(ctx, q)
	switch {
	case errors.Is(err, ec2.ErrNotSold):
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

// tellWait reports a wait for EC2's request limits: 10 searches, then one in 7 seconds.
func (f *Found) tellWait(w ec2.Wait) {
	after := capacity.FormatDuration(w.For)
	if w.Throttled != "" {
		f.search.Progress.Say("EC2 throttles searches in %s (%s); asking again in %s.", w.Region, w.Throttled, after)
	} else {
		f.search.Progress.Now(fmt.Sprintf("waiting %s for EC2's request limits in %s", after, w.Region))
	}
}

// unsold is the reason why EC2 sells no block of a type in a region; "" if it does.
func unsold(ctx context.Context, aws *ec2.Client, instanceType string, types map[string]ec2.InstanceType) string {
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

// Largest is the largest count that is for sale where the requested one is not, in the region that has
// most; nil if there is none. A binary search keeps the calls few: a smaller block is for sale wherever a
// larger one is.
func (f *Found) Largest(ctx context.Context) (*capacity.Offering, error) {
	var regions []string
	for _, a := range f.answers {
		if a.region != "" && a.unsold == "" {
			regions = append(regions, a.region)
		}
	}
	if len(regions) == 0 {
		return nil, nil
	}
	found, _, err := AskRegions(ctx, f.search.Progress, f.search.EC2, regions, f.largestIn)
	var most *capacity.Offering
	for _, o := range found {
		if o != nil && (most == nil || SoldCount(*o) > SoldCount(*most)) {
			most = o
		}
	}
	return most, err
}

// largestIn is the earliest offering of the largest count in the client's region.
func (f *Found) largestIn(ctx context.Context, aws *ec2.Client) (*capacity.Offering, error) {
	var largest *capacity.Offering
	q := f.search.Query
	for low, high := 0, q.Count-1; low < high; {
		q.Count = (low + high + 1) / 2
		found, err := aws.Offerings(ctx, q)
		if err != nil {
			return largest, err
		}
		if found = f.search.affordable(found); len(found) == 0 {
			high = q.Count - 1
			continue
		}
		first := slices.MinFunc(found, func(a, b capacity.Offering) int { return a.Start.Compare(b.Start) })
		largest, low = &first, q.Count
	}
	return largest, nil
}

// WhyNone lists, a sentence each, why there is no offer; at writes a time.
func (f *Found) WhyNone(at func(time.Time) string) []string {
	var why, asked []string
	var dear []capacity.Offering
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
		return append(why, f.search.tooDear(dear))
	}
	window := ""
	if !q.StartAfter.IsZero() {
		window = " from " + at(q.StartAfter)
	}
	if !q.EndBy.IsZero() {
		window += " until " + at(q.EndBy)
	}
	return append(why, fmt.Sprintf("EC2 has no block of %d x %s for %s for sale in %s%s.", q.Count, q.InstanceType,
		capacity.FormatDuration(q.Duration), strings.Join(asked, ", "), window))
}

// tooDear names the cheapest offering where none is affordable: of the comparable ones or, without
// any, of all.
func (s Search) tooDear(found []capacity.Offering) string {
	least := slices.MinFunc(found, func(a, b capacity.Offering) int {
		return cmp.Or(s.comparable(a)-s.comparable(b), compareFees(a.Fee, b.Fee))
	})
	what := fmt.Sprintf("The cheapest block of %d x %s for about %s costs %s", s.Query.Count, s.Query.InstanceType,
		capacity.FormatDuration(s.Query.Duration), least.Fee)
	if least.Fee.Currency() != s.MaxPrice.Currency() {
		return fmt.Sprintf("%s, which cannot be compared with --max-price %s.", what, s.MaxPrice)
	}
	return fmt.Sprintf("%s, more than --max-price %s.", what, s.MaxPrice.Amount())
}

// comparable is 0 for an offering in the currency of the highest price, else 1.
func (s Search) comparable(o capacity.Offering) int {
	if o.Fee.Currency() == s.MaxPrice.Currency() {
		return 0
	}
	return 1
}

// The orders of SortOffers.
const (
	ByStart = "start"
	ByPrice = "price"
)

// SortOffers puts zones that the cluster can use first, then by the earliest start or the
// lowest price of an instance-hour.
func SortOffers(offers []Offer, by string, subnets Subnets) {
	slices.SortStableFunc(offers, func(a, b Offer) int {
		rank := subnets.In(a.AZID).Rank() - subnets.In(b.AZID).Rank()
		start := a.Start.Compare(b.Start)
		price := compareFees(a.Fee.PerHour(a.Count, a.Duration()), b.Fee.PerHour(b.Count, b.Duration()))
		if by == ByPrice {
			return cmp.Or(rank, price, start)
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
