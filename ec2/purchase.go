package ec2

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
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
