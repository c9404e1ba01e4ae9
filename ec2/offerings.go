package ec2

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// OfferingQuery is what to look for among the blocks for sale.
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

// BlockHours rounds a duration up to one that EC2 sells, in hours: whole days up to
// 14, then whole weeks up to 26 (EC2 API Reference, DescribeCapacityBlockOfferings,
// CapacityDurationHours).
func BlockHours(d time.Duration) (int32, error) {
	if d <= 0 {
		return 0, fmt.Errorf("a block of %s is too short; ask for a day or more", d)
	}
	step := day
	if d > 14*day {
		step = 7 * day
	}
	d = (d + step - 1) / step * step
	if d > 26*7*day {
		return 0, fmt.Errorf("a block of %d days is too long; EC2 sells at most 182", d/day)
	}
	return int32(d / time.Hour), nil
}

// Offerings asks what is for sale. It waits when more searches are made than EC2
// allows (10, then one in 6.7 s). EC2's answers are near the asked duration, shorter
// or longer, since all blocks end at the same time of the day: compare Start and End.
func (c *Client) Offerings(ctx context.Context, q OfferingQuery) ([]capacity.Offering, error) {
	hours, err := BlockHours(q.Duration)
	if err != nil {
		return nil, err
	}
	in := &ec2.DescribeCapacityBlockOfferingsInput{
		CapacityDurationHours: aws.Int32(hours),
		StartDateRange:        timeOrNil(q.StartAfter),
		EndDateRange:          timeOrNil(q.EndBy),
	}
	// Instance types have a dot in their name, UltraServer types have none.
	if strings.Contains(q.InstanceType, ".") {
		in.InstanceType, in.InstanceCount = aws.String(q.InstanceType), aws.Int32(int32(q.Count))
	} else {
		in.UltraserverType, in.UltraserverCount = aws.String(q.InstanceType), aws.Int32(int32(q.Count))
	}
	zones, err := c.Zones(ctx)
	if err != nil {
		return nil, err
	}
	var all []capacity.Offering
	for pages := ec2.NewDescribeCapacityBlockOfferingsPaginator(c.api, in); pages.HasMorePages(); {
		if err := c.searches.Wait(ctx); err != nil {
			return nil, fmt.Errorf("waiting to search capacity blocks in %s: %w", c.region, err)
		}
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("searching capacity blocks in %s: %w", c.region, err)
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

func (c *Client) offering(a types.CapacityBlockOffering, zones map[string]string) (capacity.Offering, error) {
	fee, err := capacity.ParseMoney(aws.ToString(a.UpfrontFee))
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
		Currency:         aws.ToString(a.CurrencyCode),
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
