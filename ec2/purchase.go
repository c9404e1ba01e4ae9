package ec2

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// once sends a call a single time. The purchase operations take no ClientToken, and the SDK's
// standard retryer would repeat them after a server error or a cut connection: two blocks, paid in
// advance (R3).
func once(o *ec2.Options) {
	o.Retryer = aws.NopRetryer{}
	o.RetryMaxAttempts = 1
}

// Purchase buys a block; the tags are written on its reservation. It makes exactly
// one attempt. After an error for which Refused is false nobody knows whether the
// block was bought: look for it by its tags before anything else.
func (c *Client) Purchase(ctx context.Context, offeringID, platform string, tags map[string]string) (capacity.Reservation, error) {
	if err := c.allowed(ctx, c.scarce.purchases); err != nil {
		return capacity.Reservation{}, fmt.Errorf("%w: offering %s: %w", ErrNotSent, offeringID, err)
	}
	out, err := c.api.PurchaseCapacityBlock(ctx, purchaseInput(offeringID, platform, tags), once)
	if err != nil {
		return capacity.Reservation{}, fmt.Errorf("purchasing offering %s in %s: %w", offeringID, c.region, err)
	}
	if out.CapacityReservation == nil {
		return capacity.Reservation{}, fmt.Errorf("purchasing offering %s in %s: EC2's answer names no reservation", offeringID, c.region)
	}
	r := c.reservation(*out.CapacityReservation)
	for _, block := range out.CapacityBlocks {
		if aws.ToString(block.UltraserverType) != "" {
			r.UltraServer = true
		}
	}
	return r, nil
}

func purchaseInput(offeringID, platform string, tags map[string]string) *ec2.PurchaseCapacityBlockInput {
	return &ec2.PurchaseCapacityBlockInput{
		CapacityBlockOfferingId: aws.String(offeringID),
		InstancePlatform:        types.CapacityReservationInstancePlatform(platform),
		TagSpecifications:       tagged(tags, types.ResourceTypeCapacityReservation),
	}
}

// TryPurchase asks EC2 whether it would take the purchase, and buys nothing: nil means
// that the caller has the permission for it.
func (c *Client) TryPurchase(ctx context.Context, offeringID, platform string, tags map[string]string) error {
	if err := c.allowed(ctx, c.scarce.purchases); err != nil {
		return fmt.Errorf("%w: offering %s: %w", ErrNotSent, offeringID, err)
	}
	in := purchaseInput(offeringID, platform, tags)
	in.DryRun = aws.Bool(true)
	_, err := c.api.PurchaseCapacityBlock(ctx, in, once)
	return tried(err, fmt.Sprintf("trying to purchase offering %s in %s", offeringID, c.region))
}

// ExtensionOfferings lists the offers to extend a block by about d, rounded up to a length that EC2
// sells. Start and End of an offering are those of the extension alone: Start is the block's
// present end.
func (c *Client) ExtensionOfferings(ctx context.Context, reservationID string, d time.Duration) ([]capacity.Offering, error) {
	length, err := Length(d)
	if err != nil {
		return nil, err
	}
	var all []capacity.Offering
	in := &ec2.DescribeCapacityBlockExtensionOfferingsInput{
		CapacityReservationId:               aws.String(reservationID),
		CapacityBlockExtensionDurationHours: aws.Int32(int32(length / time.Hour)),
	}
	for page, err := range searchPages(ctx, c, c.scarce.extensionOfferings, "extensions of "+reservationID, paged(c.api.DescribeCapacityBlockExtensionOfferings, in),
		func(o *ec2.DescribeCapacityBlockExtensionOfferingsOutput) int {
			return len(o.CapacityBlockExtensionOfferings)
		}) {
		if err != nil {
			return nil, err
		}
		for _, a := range page.CapacityBlockExtensionOfferings {
			fee, err := capacity.ParseMoney(aws.ToString(a.UpfrontFee), aws.ToString(a.CurrencyCode))
			if err != nil {
				return nil, fmt.Errorf("extension offering %s: its fee: %w", aws.ToString(a.CapacityBlockExtensionOfferingId), err)
			}
			all = append(all, capacity.Offering{
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
			})
		}
	}
	return all, nil
}

// PurchaseExtension buys an extension of a block, in exactly one attempt: see
// Purchase. Extensions carry no tags; after an unknown outcome look into Extensions.
func (c *Client) PurchaseExtension(ctx context.Context, offeringID, reservationID string) ([]capacity.Extension, error) {
	if err := c.allowed(ctx, c.scarce.extensions); err != nil {
		return nil, fmt.Errorf("%w: extension %s of %s: %w", ErrNotSent, offeringID, reservationID, err)
	}
	out, err := c.api.PurchaseCapacityBlockExtension(ctx, extensionInput(offeringID, reservationID), once)
	if err != nil {
		return nil, fmt.Errorf("purchasing extension %s of %s in %s: %w", offeringID, reservationID, c.region, err)
	}
	return extensions(out.CapacityBlockExtensions)
}

func extensionInput(offeringID, reservationID string) *ec2.PurchaseCapacityBlockExtensionInput {
	return &ec2.PurchaseCapacityBlockExtensionInput{
		CapacityBlockExtensionOfferingId: aws.String(offeringID),
		CapacityReservationId:            aws.String(reservationID),
	}
}

// TryPurchaseExtension is to PurchaseExtension what TryPurchase is to Purchase.
func (c *Client) TryPurchaseExtension(ctx context.Context, offeringID, reservationID string) error {
	if err := c.allowed(ctx, c.scarce.extensions); err != nil {
		return fmt.Errorf("%w: extension %s of %s: %w", ErrNotSent, offeringID, reservationID, err)
	}
	in := extensionInput(offeringID, reservationID)
	in.DryRun = aws.Bool(true)
	_, err := c.api.PurchaseCapacityBlockExtension(ctx, in, once)
	return tried(err, fmt.Sprintf("trying to purchase extension %s of %s in %s", offeringID, reservationID, c.region))
}

// Extensions lists the extensions bought for a block, paid or not.
func (c *Client) Extensions(ctx context.Context, reservationID string) ([]capacity.Extension, error) {
	var all []capacity.Extension
	in := &ec2.DescribeCapacityBlockExtensionHistoryInput{CapacityReservationIds: []string{reservationID}}
	for page, err := range awsconfig.Pages(ctx, paged(c.api.DescribeCapacityBlockExtensionHistory, in)) {
		if err != nil {
			return nil, fmt.Errorf("describing the extensions of %s in %s: %w", reservationID, c.region, err)
		}
		some, err := extensions(page.CapacityBlockExtensions)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func extensions(answers []types.CapacityBlockExtension) ([]capacity.Extension, error) {
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
