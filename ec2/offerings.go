package ec2

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// OfferingQuery selects among the blocks for sale.
type OfferingQuery struct {
	// InstanceType is one such as p5.48xlarge, or an UltraServer type such as
	// u-p6e-gb200x72.
	InstanceType string
	// Count is the number of instances, or of UltraServers.
	Count int
	// Duration is rounded up to a length that EC2 sells.
	Duration time.Duration
	// StartAfter and EndBy bound the block; zero leaves it open.
	StartAfter, EndBy time.Time
}

const day = 24 * time.Hour

// mostInstances is the largest block: EC2 User Guide, "Capacity Blocks", Limitations.
const mostInstances = 64

// IsUltraServer reports whether a type is one of UltraServers, such as u-p6e-gb200x72:
// those have no dot in their name, as instance types have.
func IsUltraServer(name string) bool { return !strings.Contains(name, ".") }

// Lengths are the lengths of blocks that EC2 sells, shortest first: whole days up to 14,
// then whole weeks up to 26 (EC2 API Reference, DescribeCapacityBlockOfferings,
// CapacityDurationHours).
func Lengths() []time.Duration {
	var all []time.Duration
	for d := day; d <= 14*day; d += day {
		all = append(all, d)
	}
	for d := 21 * day; d <= 26*7*day; d += 7 * day {
		all = append(all, d)
	}
	return all
}

// Length rounds a duration up to one that EC2 sells.
func Length(d time.Duration) (time.Duration, error) {
	if d <= 0 {
		return 0, fmt.Errorf("a block of %s is too short; ask for a day or more", d)
	}
	all := Lengths()
	i, _ := slices.BinarySearch(all, d)
	if i == len(all) {
		return 0, fmt.Errorf("a block of %d days is too long; EC2 sells at most %d", (d+day-1)/day, all[len(all)-1]/day)
	}
	return all[i], nil
}

// Offerings lists the blocks for sale. It waits when searches exceed EC2's limits (10, then one in
// 6.7 s), and when EC2 throttles it. Answers may be shorter or longer than the asked duration,
// since all blocks end at the same time of day: compare Start and End.
func (c *Client) Offerings(ctx context.Context, q OfferingQuery) ([]capacity.Offering, error) {
	length, err := Length(q.Duration)
	if err != nil {
		return nil, err
	}
	if q.Count > mostInstances && !IsUltraServer(q.InstanceType) {
		return nil, fmt.Errorf("a block of %d instances is too large; EC2 sells at most %d in one", q.Count, mostInstances)
	}
	in := &ec2.DescribeCapacityBlockOfferingsInput{CapacityDurationHours: aws.Int32(int32(length / time.Hour))}
	if IsUltraServer(q.InstanceType) {
		in.UltraserverType, in.UltraserverCount = aws.String(q.InstanceType), aws.Int32(int32(q.Count))
	} else {
		in.InstanceType, in.InstanceCount = aws.String(q.InstanceType), aws.Int32(int32(q.Count))
	}
	zones, err := c.Zones(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.bound(in, q); err != nil {
		return nil, err
	}
	var all []capacity.Offering
	for page, err := range searchPages(ctx, c, c.scarce.offerings, "capacity blocks in "+c.region, paged(c.api.DescribeCapacityBlockOfferings, in),
		func(o *ec2.DescribeCapacityBlockOfferingsOutput) int { return len(o.CapacityBlockOfferings) }) {
		if err != nil {
			return nil, err
		}
		for _, a := range page.CapacityBlockOfferings {
			o, err := c.offering(a, zones)
			if err != nil {
				return nil, err
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// bound sets the window of a search. EC2 refuses an earliest start in the past, so one that is over
// is left out. bound comes last, once AWS's time is known.
func (c *Client) bound(in *ec2.DescribeCapacityBlockOfferingsInput, q OfferingQuery) error {
	now := c.Now()
	switch {
	case !q.EndBy.IsZero() && !q.EndBy.After(now):
		return fmt.Errorf("no block can end by %s, which is over", q.EndBy.Format(time.RFC3339))
	case !q.EndBy.IsZero() && !q.EndBy.After(q.StartAfter):
		return fmt.Errorf("no block starts after %s and ends by %s", q.StartAfter.Format(time.RFC3339), q.EndBy.Format(time.RFC3339))
	}
	// A minute covers a slow call.
	if q.StartAfter.After(now.Add(time.Minute)) {
		in.StartDateRange = aws.Time(q.StartAfter)
	}
	in.EndDateRange = timeOrNil(q.EndBy)
	return nil
}

func (c *Client) offering(a types.CapacityBlockOffering, zones map[string]string) (capacity.Offering, error) {
	fee, err := capacity.ParseMoney(aws.ToString(a.UpfrontFee), aws.ToString(a.CurrencyCode))
	if err != nil {
		return capacity.Offering{}, fmt.Errorf("offering %s: its fee: %w", aws.ToString(a.CapacityBlockOfferingId), err)
	}
	return capacity.Offering{
		ID:               aws.ToString(a.CapacityBlockOfferingId),
		InstanceType:     aws.ToString(a.InstanceType),
		Count:            int(aws.ToInt32(a.InstanceCount)),
		Region:           c.region,
		AZ:               aws.ToString(a.AvailabilityZone),
		AZID:             zones[aws.ToString(a.AvailabilityZone)],
		Start:            aws.ToTime(a.StartDate),
		End:              aws.ToTime(a.EndDate),
		Fee:              fee,
		Tenancy:          string(a.Tenancy),
		UltraServerType:  aws.ToString(a.UltraserverType),
		UltraServerCount: int(aws.ToInt32(a.UltraserverCount)),
	}, nil
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
