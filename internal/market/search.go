package market

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

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

// Found is the result of a search.
type Found struct {
	Offers  []Offer         `json:"offerings"`      // within the price
	Largest *Offer          `json:"largest"`        // the largest block for sale, by FindLargest
	Failed  []RegionFailure `json:"failed_regions"` // the regions that did not answer

	search  Search
	answers []regionAnswer
}

// Query returns the question.
func (f *Found) Query() ec2.OfferingQuery { return f.search.Query }

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
