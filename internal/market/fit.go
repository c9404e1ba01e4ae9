package market

import (
	"context"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// FitQuestion looks for capacity: first among existing reservations, then among blocks for sale.
type FitQuestion struct {
	EC2     *ec2.Client
	Need    capacity.Need
	Regions []string
	Subnets func() Subnets // read while EC2 is asked; it is called once
	// Idle counts the idle nodes of ours in each of these reservations; it is called once.
	Idle     func([]capacity.Reservation) map[string]int
	Timing   capacity.Timing
	Progress Progress
}

// FitAnswer is the capacity found.
type FitAnswer struct {
	Fits       bool                 `json:"fits"`           // the first candidate has room
	Candidates []capacity.FitResult `json:"candidates"`     // live reservations of the type, best first
	Offers     []Offer              `json:"offerings"`      // would fill the need; only where no candidate does
	Failed     []RegionFailure      `json:"failed_regions"` // the regions that did not answer
	Subnets    Subnets              `json:"-"`
	// Sale is everything for sale, read only if no candidate fits. SaleErr is set if it could not be read.
	Sale    *Found        `json:"-"`
	SaleErr error         `json:"-"`
	Length  time.Duration `json:"-"` // the length of the blocks searched for
}

// Ask asks the regions. It is an error when none answers.
func (q FitQuestion) Ask(ctx context.Context) (FitAnswer, error) {
	reservations, failed, err := AskRegions(ctx, q.Progress, q.EC2, q.Regions, q.reservations)
	if err != nil {
		return FitAnswer{}, err
	}

	a := FitAnswer{Candidates: []capacity.FitResult{}, Offers: []Offer{}, Failed: failed, Subnets: q.Subnets()}
	now := q.EC2.Now().UTC().Truncate(time.Second)
	all := slices.Concat(reservations...)
	for _, f := range capacity.Fit(q.Need, all, a.Subnets.Own, q.Idle(all), q.Timing, now) {
		if f.Reservation.State.IsLive() {
			a.Candidates = append(a.Candidates, f)
		}
	}

	a.Fits = len(a.Candidates) > 0 && a.Candidates[0].Code == capacity.OK
	if !a.Fits {
		q.searchSale(ctx, &a, now)
	}

	return a, nil
}

// reservations asks one region for the reservations of the type, with their failed hosts.
func (q FitQuestion) reservations(ctx context.Context, aws *ec2.Client) ([]capacity.Reservation, error) {
	return aws.FindReservations(ctx, ec2.ReservationQuery{InstanceTypes: []string{q.Need.InstanceType}})
}

// searchSale looks for blocks that fit the need once they are bought.
func (q FitQuestion) searchSale(ctx context.Context, a *FitAnswer, now time.Time) {
	a.Length, a.SaleErr = ec2.BlockLength(q.Need.Duration + overhead(q.Timing))
	if a.SaleErr != nil {
		return
	}

	search := Search{
		EC2:      q.EC2,
		Regions:  q.Regions,
		Progress: q.Progress,
		Query:    ec2.OfferingQuery{InstanceType: q.Need.InstanceType, Count: q.Need.Count, Duration: a.Length},
	}
	a.Sale, a.SaleErr = search.Run(ctx)
	a.Failed = unionOfFailures(a.Failed, a.Sale.Failed)
	if a.SaleErr != nil {
		return
	}

	for _, o := range a.Sale.Offers {
		once := capacity.Fit(q.Need, []capacity.Reservation{o.Reservation(o.ID)}, a.Subnets.Own, nil, q.Timing, now)
		if len(once) == 1 && once[0].Code == capacity.OK {
			a.Offers = append(a.Offers, o)
		}
	}

	SortOffers(a.Offers, ByStart, a.Subnets)
}

// overhead returns the time of a block that no job can use: boot at its start, and the time from the fence to its end.
func overhead(t capacity.Timing) time.Duration {
	return t.BootAllowance.Duration + t.DrainMargin.Duration + t.ReclaimLead.Duration
}
