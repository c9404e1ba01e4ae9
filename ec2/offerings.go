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
	"golang.org/x/time/rate"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// OfferingQuery selects among the blocks for sale.
type OfferingQuery struct {
	InstanceType string        // one such as p5.48xlarge, or an UltraServer type such as u-p6e-gb200x72
	Count        int           // the number of instances, or of UltraServers
	Duration     time.Duration // rounded up to a length that EC2 sells
	// StartAfter and EndBy bound the block; zero leaves it open.
	StartAfter, EndBy time.Time
}

const day = 24 * time.Hour

// MaxInstances is the largest block: EC2 User Guide, "Capacity Blocks", Limitations.
const MaxInstances = 64

// IsUltraServer reports whether a type is one of UltraServers, such as u-p6e-gb200x72:
// those have no dot in their name, as instance types have.
func IsUltraServer(name string) bool { return !strings.Contains(name, ".") }

// BlockLengths returns the lengths of blocks that EC2 sells, shortest first: whole days up to 14, then whole weeks up
// to 26 (EC2 API Reference, DescribeCapacityBlockOfferings, CapacityDurationHours).
func BlockLengths() []time.Duration {
	var all []time.Duration
	for d := day; d <= 14*day; d += day {
		all = append(all, d)
	}

	for d := 21 * day; d <= 26*7*day; d += 7 * day {
		all = append(all, d)
	}

	return all
}

// BlockLength rounds a duration up to one that EC2 sells.
func BlockLength(d time.Duration) (time.Duration, error) {
	if d <= 0 {
		return 0, fmt.Errorf("a block of %s is too short; ask for a day or more", d)
	}

	all := BlockLengths()
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
	length, err := BlockLength(q.Duration)
	if err != nil {
		return nil, err
	}

	if q.Count > MaxInstances && !IsUltraServer(q.InstanceType) {
		return nil, fmt.Errorf("a block of %d instances is too large; EC2 sells at most %d in one", q.Count,
			MaxInstances)
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

	if err := c.setWindow(in, q); err != nil {
		return nil, err
	}

	found, err := search(ctx, c, c.scarce.offerings, "capacity blocks in "+c.region,
		c.api.DescribeCapacityBlockOfferings, in,
		func(page *ec2.DescribeCapacityBlockOfferingsOutput) []types.CapacityBlockOffering {
			return page.CapacityBlockOfferings
		})
	if err != nil {
		return nil, err
	}

	all := make([]capacity.Offering, len(found))
	for i, a := range found {
		fee, err := capacity.ParseMoney(aws.ToString(a.UpfrontFee), aws.ToString(a.CurrencyCode))
		if err != nil {
			return nil, fmt.Errorf("offering %s: its fee: %w", aws.ToString(a.CapacityBlockOfferingId), err)
		}

		all[i] = capacity.Offering{
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
		}
	}

	return all, nil
}

// setWindow sets the window of a search. EC2 refuses an earliest start in the past, so one that is over
// is left out. bound comes last, once AWS's time is known.
func (c *Client) setWindow(in *ec2.DescribeCapacityBlockOfferingsInput, q OfferingQuery) error {
	now := c.Now()
	switch {
	case !q.EndBy.IsZero() && !q.EndBy.After(now):
		return fmt.Errorf("no block can end by %s, which is in the past", q.EndBy.Format(time.RFC3339))
	case !q.EndBy.IsZero() && !q.EndBy.After(q.StartAfter):
		return fmt.Errorf("no block starts after %s and ends by %s", q.StartAfter.Format(time.RFC3339),
			q.EndBy.Format(time.RFC3339))
	}
	// A minute covers a slow call.
	if q.StartAfter.After(now.Add(time.Minute)) {
		in.StartDateRange = aws.Time(q.StartAfter)
	}

	if !q.EndBy.IsZero() {
		in.EndDateRange = aws.Time(q.EndBy)
	}

	return nil
}

// EC2 holds each of the four operations around offerings to 10 calls at once and then
// one in 6.7 s, for each account and region: EC2 API Reference, "Request throttling".
const (
	scarceBurst  = 10
	scarceRefill = 20 * time.Second / 3 // 0.15 a second
)

// maxThrottled bounds how often a search is throttled before it gives up: somebody else uses up the account's calls.
const maxThrottled = 10

// scarce holds the calls of one region to what EC2 allows.
type scarce struct {
	offerings, extensionOfferings, purchases, extensions *rate.Limiter
}

func newScarce(refill time.Duration) scarce {
	bucket := func() *rate.Limiter { return rate.NewLimiter(rate.Every(refill), scarceBurst) }
	return scarce{bucket(), bucket(), bucket(), bucket()}
}

// Wait describes a call that waits for EC2's request limits.
type Wait struct {
	Region    string
	For       time.Duration
	Throttled string // EC2's code if EC2 refused the call: others use the account's calls too
}

// OnWait sets the function that is called, from any goroutine, before a call in any region waits
// for EC2's request limits. Set it before the first call.
func (c *Client) OnWait(tell func(Wait)) { c.shared.onWait = tell }

// waitAllowed waits until this process may make one more scarce call.
func (c *Client) waitAllowed(ctx context.Context, l *rate.Limiter) error {
	// A call that waits in line here costs nothing; one that EC2 throttles costs all callers of the account.
	turn := l.Reserve()
	if d := turn.Delay(); d > 0 {
		if err := c.sleep(ctx, Wait{Region: c.region, For: d}); err != nil {
			turn.Cancel()
			return err
		}
	}

	return nil
}

func (c *Client) sleep(ctx context.Context, w Wait) error {
	if tell := c.shared.onWait; tell != nil {
		tell(w)
	}

	select {
	case <-time.After(w.For):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for EC2's request limits in %s: %w", w.Region, ctx.Err())
	}
}

// maxEmptyPages bounds the empty pages in a row that a search reads. Each costs 6.7 s, and EC2 was seen to send 72.
const maxEmptyPages = 5

// search reads the pages of a search, a scarce call that changes nothing: what is searched, and what is on a page. It
// waits where EC2 throttles it, and asks again. After mostEmpty empty pages in a row it stops, and says so.
func search[In, Out, A any](
	ctx context.Context, c *Client, l *rate.Limiter, what string, call call[In, Out], in *In, on func(*Out) []A,
) (all []A, err error) {
	pages := newPager(call, in)
	for empty, refused := 0, 0; pages.HasMorePages(); {
		if err := c.waitAllowed(ctx, l); err != nil {
			return nil, fmt.Errorf("searching %s: %w", what, err)
		}
		// The SDK would retry within a second or so, when the next call is allowed after 6.7 s.
		page, err := pages.NextPage(ctx, withoutRetry(requestLimitExceeded))
		refused++

		// Others use the account's calls too: the same page is asked for again.
		if isTooFast(err) && refused < maxThrottled {
			err = c.sleep(ctx, Wait{Region: c.region, For: c.shared.refill, Throttled: Code(err)})
			if err == nil {
				continue
			}
		}

		if err != nil {
			return nil, fmt.Errorf("searching %s: %w", what, err)
		}

		found := on(page)
		all, refused = append(all, found...), 0
		empty++
		if len(found) > 0 {
			empty = 0
		}

		// EC2 may send many empty pages. The user gets what there is, and a word about the rest.
		if empty == maxEmptyPages && pages.HasMorePages() {
			c.addWithheld(
				fmt.Errorf("EC2 sent %d pages with nothing on them and says that there are more; try again later",
					empty),
				"there may be more "+what,
			)

			break
		}
	}

	return all, nil
}

// sendOnce sends a call a single time. The purchase operations take no ClientToken, and the SDK's standard retryer
// would repeat them after a server error or a cut connection: two blocks, paid in advance (R3).
func sendOnce(o *ec2.Options) {
	o.Retryer = aws.NopRetryer{}
	o.RetryMaxAttempts = 1
}

// Sale chooses between a purchase and its dry run: whatever is not Buy buys nothing.
type Sale string

// The sales.
const (
	Try Sale = "try" // EC2 says whether it would sell; nil means that the caller has the permission for it
	Buy Sale = "buy"
)

func (s Sale) dryRun() *bool {
	if s == Buy {
		return nil
	}
	return aws.Bool(true)
}

// Purchase buys a block; the tags are written on its reservation. It makes exactly one attempt. After an error for
// which Refused is false nobody knows whether the block was bought: look for it by its tags before anything else.
func (c *Client) Purchase(
	ctx context.Context, s Sale, offeringID, platform string, tags map[string]string,
) (capacity.Reservation, error) {
	if err := c.waitAllowed(ctx, c.scarce.purchases); err != nil {
		return capacity.Reservation{}, fmt.Errorf("%w: offering %s: %w", ErrNotSent, offeringID, err)
	}

	out, err := c.api.PurchaseCapacityBlock(
		ctx,
		&ec2.PurchaseCapacityBlockInput{
			DryRun:                  s.dryRun(),
			CapacityBlockOfferingId: aws.String(offeringID),
			InstancePlatform:        types.CapacityReservationInstancePlatform(platform),
			TagSpecifications:       tagged(tags, types.ResourceTypeCapacityReservation),
		},
		sendOnce,
	)
	switch {
	case s != Buy:
		return capacity.Reservation{}, dryRunError(err,
			fmt.Sprintf("trying to purchase offering %s in %s", offeringID, c.region))
	case err != nil:
		return capacity.Reservation{}, fmt.Errorf("purchasing offering %s in %s: %w", offeringID, c.region, err)
	case out.CapacityReservation == nil:
		return capacity.Reservation{}, fmt.Errorf("purchasing offering %s in %s: EC2's answer has no reservation",
			offeringID, c.region)
	}

	// Only the blocks say whether they are parts of an UltraServer.
	r := c.reservation(*out.CapacityReservation)
	for _, block := range out.CapacityBlocks {
		if aws.ToString(block.UltraserverType) != "" {
			r.UltraServer = true
		}
	}

	return r, nil
}

// ExtensionOfferings lists the offers to extend a block by about d, rounded up to a length that EC2 sells. Start and
// End of an offering are those of the extension alone: Start is the block's present end.
func (c *Client) ExtensionOfferings(
	ctx context.Context, reservationID string, d time.Duration,
) ([]capacity.Offering, error) {
	length, err := BlockLength(d)
	if err != nil {
		return nil, err
	}

	in := &ec2.DescribeCapacityBlockExtensionOfferingsInput{
		CapacityReservationId:               aws.String(reservationID),
		CapacityBlockExtensionDurationHours: aws.Int32(int32(length / time.Hour)),
	}

	found, err := search(ctx, c, c.scarce.extensionOfferings, "extensions of "+reservationID,
		c.api.DescribeCapacityBlockExtensionOfferings, in,
		func(page *ec2.DescribeCapacityBlockExtensionOfferingsOutput) []types.CapacityBlockExtensionOffering {
			return page.CapacityBlockExtensionOfferings
		})
	if err != nil {
		return nil, err
	}

	all := make([]capacity.Offering, len(found))
	for i, a := range found {
		fee, err := capacity.ParseMoney(aws.ToString(a.UpfrontFee), aws.ToString(a.CurrencyCode))
		if err != nil {
			return nil, fmt.Errorf("extension offering %s: its fee: %w",
				aws.ToString(a.CapacityBlockExtensionOfferingId), err)
		}

		all[i] = capacity.Offering{
			ID:           aws.ToString(a.CapacityBlockExtensionOfferingId),
			InstanceType: aws.ToString(a.InstanceType),
			Count:        int(aws.ToInt32(a.InstanceCount)),
			Region:       c.region,
			AZ:           aws.ToString(a.AvailabilityZone),
			AZID:         aws.ToString(a.AvailabilityZoneId),
			Start:        aws.ToTime(a.CapacityBlockExtensionStartDate),
			End:          aws.ToTime(a.CapacityBlockExtensionEndDate),
			Fee:          fee,
			Tenancy:      string(a.Tenancy),
		}
	}

	return all, nil
}

// PurchaseExtension buys an extension of a block, in exactly one attempt: see
// Purchase. Extensions carry no tags; after an unknown outcome look into Extensions.
func (c *Client) PurchaseExtension(ctx context.Context, s Sale, offeringID, reservationID string) error {
	if err := c.waitAllowed(ctx, c.scarce.extensions); err != nil {
		return fmt.Errorf("%w: extension %s of %s: %w", ErrNotSent, offeringID, reservationID, err)
	}

	_, err := c.api.PurchaseCapacityBlockExtension(ctx, &ec2.PurchaseCapacityBlockExtensionInput{
		DryRun:                           s.dryRun(),
		CapacityBlockExtensionOfferingId: aws.String(offeringID),
		CapacityReservationId:            aws.String(reservationID),
	}, sendOnce)
	switch {
	case s != Buy:
		return dryRunError(err,
			fmt.Sprintf("trying to purchase extension %s of %s in %s", offeringID, reservationID, c.region))
	case err != nil:
		return fmt.Errorf("purchasing extension %s of %s in %s: %w", offeringID, reservationID, c.region, err)
	}

	return nil
}

// Extensions lists the extensions bought for a block, paid or not.
func (c *Client) Extensions(ctx context.Context, reservationID string) ([]capacity.Extension, error) {
	in := &ec2.DescribeCapacityBlockExtensionHistoryInput{CapacityReservationIds: []string{reservationID}}

	answers, err := listAll(ctx, c, "describing the extensions of "+reservationID,
		c.api.DescribeCapacityBlockExtensionHistory, in,
		func(page *ec2.DescribeCapacityBlockExtensionHistoryOutput) []types.CapacityBlockExtension {
			return page.CapacityBlockExtensions
		})
	if err != nil {
		return nil, err
	}

	var all []capacity.Extension
	for _, a := range answers {
		id := aws.ToString(a.CapacityBlockExtensionOfferingId)

		fee, err := capacity.ParseMoney(aws.ToString(a.UpfrontFee), aws.ToString(a.CurrencyCode))
		if err != nil {
			return nil, fmt.Errorf("extension %s: its fee: %w", id, err)
		}

		all = append(all, capacity.Extension{
			OfferingID: id,
			From:       aws.ToTime(a.CapacityBlockExtensionStartDate),
			To:         aws.ToTime(a.CapacityBlockExtensionEndDate),
			State:      string(a.CapacityBlockExtensionStatus),
			Purchased:  aws.ToTime(a.CapacityBlockExtensionPurchaseDate),
			Fee:        fee,
		})
	}

	return all, nil
}
