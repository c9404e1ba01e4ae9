package awssim

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// offerings asks for one day of n p5.48xlarge.
func (w *ec2World) offerings(n int32, days int32) []types.CapacityBlockOffering {
	w.Helper()

	return do(w, w.ec2.DescribeCapacityBlockOfferings,
		&ec2.DescribeCapacityBlockOfferingsInput{
			InstanceType:  aws.String("p5.48xlarge"),
			InstanceCount: aws.Int32(n), CapacityDurationHours: aws.Int32(24 * days),
		}).CapacityBlockOfferings
}

func (w *ec2World) purchase(offering string) (*ec2.PurchaseCapacityBlockOutput, error) {
	return w.ec2.PurchaseCapacityBlock(w.Context(),
		&ec2.PurchaseCapacityBlockInput{
			CapacityBlockOfferingId: aws.String(offering),
			InstancePlatform:        types.CapacityReservationInstancePlatformLinuxUnix,
			TagSpecifications: []types.TagSpecification{{
				ResourceType: types.ResourceTypeCapacityReservation,
				Tags:         []types.Tag{{Key: aws.String("team"), Value: aws.String("nlp")}},
			}},
		})
}

func TestLifeOfABlock(t *testing.T) {
	w := newEC2World(t)
	offer := w.offerings(2, 1)[1] // the first is an instant one
	if got := offer.StartDate.UTC().Format("15:04"); got != "11:30" ||
		offer.EndDate.Sub(*offer.StartDate) != 24*time.Hour {
		t.Fatalf("standard offering from %v to %v, want a day from 11:30", offer.StartDate, offer.EndDate)
	}

	if *offer.UpfrontFee != "1510.27" { // 2 × 24 h × 31.464
		t.Errorf("fee %s", *offer.UpfrontFee)
	}

	bought, err := w.purchase(*offer.CapacityBlockOfferingId)
	if err != nil {
		t.Fatal(err)
	}

	id := *bought.CapacityReservation.CapacityReservationId
	check := func(state types.CapacityReservationState, total, available int32) {
		t.Helper()

		r := w.reservation(id)
		if r.State != state || *r.TotalInstanceCount != total || *r.AvailableInstanceCount != available {
			t.Errorf(
				"state %s, %d of %d available, want %s, %d of %d",
				r.State,
				*r.AvailableInstanceCount,
				*r.TotalInstanceCount,
				state,
				available,
				total,
			)
		}
	}
	check("payment-pending", 0, 0)
	fails(
		t,
		w.ec2.RunInstances,
		run(1, "p5.48xlarge", defSubnetA, intoBlock(id)),
		"InvalidCapacityReservationState.PendingActivation",
	)
	w.sim.Clock().Advance(5 * time.Minute)
	check("scheduled", 0, 0)

	tags := map[string]string{}
	for _, tag := range w.reservation(id).Tags {
		tags[*tag.Key] = *tag.Value
	}

	if tags["team"] != "nlp" || tags[quantityTag] != "2" {
		t.Errorf("tags of the scheduled block: %v", tags)
	}

	fails(
		t,
		w.ec2.RunInstances,
		run(1, "p5.48xlarge", defSubnetA, intoBlock(id)),
		"InvalidCapacityReservationState.PendingActivation",
	)

	w.sim.Clock().Set(*offer.StartDate)
	check("active", 2, 2)

	if n := len(w.reservation(id).Tags); n != 1 {
		t.Errorf("%d tags of the open block, want the user's only", n)
	}

	do(t, w.ec2.RunInstances, run(2, "p5.48xlarge", defSubnetA, intoBlock(id)))
	check("active", 2, 0)

	for _, i := range w.instances() {
		if i.InstanceLifecycle != "capacity-block" || *i.CapacityReservationId != id ||
			*i.CapacityBlockId != *bought.CapacityBlocks[0].CapacityBlockId {
			t.Errorf(
				"instance %s: lifecycle %q, reservation %v, block %v",
				*i.InstanceId,
				i.InstanceLifecycle,
				i.CapacityReservationId,
				i.CapacityBlockId,
			)
		}
	}

	w.sim.Clock().Set(offer.EndDate.Add(-30*time.Minute - time.Second))

	if n := len(w.instances()); n != 2 {
		t.Errorf("%d instances before EC2 reclaims, want 2", n)
	}

	w.sim.Clock().Advance(time.Second)

	if n := len(w.instances()); n != 0 {
		t.Errorf("%d instances once EC2 reclaims, want 0", n)
	}

	w.sim.Clock().Advance(20 * time.Minute) // their places are clean again, but the block is being taken back
	fails(t, w.ec2.RunInstances, run(1, "p5.48xlarge", defSubnetA, intoBlock(id)), "ReservationCapacityExceeded")
	w.sim.Clock().Set(*offer.EndDate)
	check("expired", 0, 0)
	fails(t, w.ec2.RunInstances, run(1, "p5.48xlarge", defSubnetA, intoBlock(id)), "InvalidCapacityReservationState")
}

func TestPurchaseIsNotIdempotent(t *testing.T) {
	w := newEC2World(t)
	offer := *w.offerings(32, 1)[0].CapacityBlockOfferingId
	for range 2 {
		if _, err := w.purchase(offer); err != nil {
			t.Fatal(err)
		}
	}

	ledger := w.sim.Ledger()
	if len(ledger) != 2 || ledger[0].ReservationID == ledger[1].ReservationID || ledger[0].OfferingID != offer ||
		ledger[0].Fee == "" {
		t.Errorf("ledger %+v, want two purchases of %s", ledger, offer)
	}

	_, err := w.purchase(offer) // the stock is 64
	if got := code(err); got != "InvalidCapacityBlockOfferingIdExpired" {
		t.Errorf("third purchase: %v", err)
	}

	_, err = w.purchase("cb-0123456789abcdef0")
	if got := code(err); got != "InvalidCapacityBlockOfferingIdNotFound" {
		t.Errorf("unknown offering: %v", err)
	}

	_, err = w.purchase("offer")
	if got := code(err); got != "InvalidCapacityBlockOfferingIdMalformed" {
		t.Errorf("malformed offering: %v", err)
	}

	w.sim.Clock().Advance(26 * time.Hour)

	_, err = w.purchase(offer)
	if got := code(err); got != "InvalidCapacityBlockOfferingIdExpired" {
		t.Errorf("offering whose start has passed: %v", err)
	}
}

func TestUltraServers(t *testing.T) {
	w := newEC2World(t)
	offers := do(t, w.ec2.DescribeCapacityBlockOfferings, &ec2.DescribeCapacityBlockOfferingsInput{
		UltraserverType: aws.String(
			"u-trn2u-x64",
		), UltraserverCount: aws.Int32(2), CapacityDurationHours: aws.Int32(24),
	}).CapacityBlockOfferings
	if len(offers) != 1 || *offers[0].InstanceCount != 8 || *offers[0].UltraserverCount != 2 {
		t.Fatalf("offerings %+v, want one of 2 UltraServers with 8 instances", offers)
	}

	bought, err := w.purchase(*offers[0].CapacityBlockOfferingId)
	if err != nil {
		t.Fatal(err)
	}

	if len(bought.CapacityBlocks) != 2 {
		t.Errorf("%d blocks, want one for each UltraServer", len(bought.CapacityBlocks))
	}

	do(t, w.ec2.RunInstances, run(8, "trn2u.48xlarge", defSubnetC, intoBlock(ultraBlock)))

	in := map[string]int{}
	for _, i := range w.instances() {
		in[*i.CapacityBlockId]++
	}

	for id, n := range in {
		if n != 4 {
			t.Errorf("UltraServer %s has %d instances, want 4", id, n)
		}
	}

	w.setClock("+6d 11:30", -time.Hour-time.Second)

	if n := len(w.instances()); n != 8 {
		t.Errorf("%d instances 61 minutes before the end, want 8", n)
	}

	w.sim.Clock().Advance(time.Second)

	if n := len(w.instances()); n != 0 {
		t.Errorf("%d instances an hour before the end, want 0", n)
	}
}

func (w *ec2World) extensionOffering(id string, days int32) string {
	w.Helper()

	offers := do(w, w.ec2.DescribeCapacityBlockExtensionOfferings, &ec2.DescribeCapacityBlockExtensionOfferingsInput{
		CapacityReservationId: aws.String(
			id,
		), CapacityBlockExtensionDurationHours: aws.Int32(24 * days),
	}).CapacityBlockExtensionOfferings
	if len(offers) != 1 {
		w.Fatalf("%d extension offerings of %s, want 1", len(offers), id)
	}

	return *offers[0].CapacityBlockExtensionOfferingId
}

func extend(id, offering string) *ec2.PurchaseCapacityBlockExtensionInput {
	return &ec2.PurchaseCapacityBlockExtensionInput{
		CapacityReservationId:            aws.String(id),
		CapacityBlockExtensionOfferingId: aws.String(offering),
	}
}

// An extension moves the end when it is paid, and the instances live on past the old one.
func TestExtension(t *testing.T) {
	w := newEC2World(t)
	do(t, w.ec2.RunInstances, run(2, "p4d.24xlarge", defSubnetB, intoBlock(endingBlock)))

	oldEnd := *w.reservation(endingBlock).EndDate
	offering := w.extensionOffering(endingBlock, 2)
	bought := do(t, w.ec2.PurchaseCapacityBlockExtension, extend(endingBlock, offering)).CapacityBlockExtensions[0]
	if bought.CapacityBlockExtensionStatus != "payment-pending" || !w.reservation(endingBlock).EndDate.Equal(oldEnd) {
		t.Errorf("bought %+v, end %v", bought, w.reservation(endingBlock).EndDate)
	}

	fails(t, w.ec2.PurchaseCapacityBlockExtension, extend(endingBlock, offering), "InvalidCapacityReservationState")
	w.sim.Clock().Advance(5 * time.Minute)

	if end := w.reservation(endingBlock).EndDate; !end.Equal(oldEnd.Add(48 * time.Hour)) {
		t.Errorf("end %v after payment, want 48 h after %v", end, oldEnd)
	}

	w.sim.Clock().Set(oldEnd)

	if n := len(w.instances()); n != 2 {
		t.Errorf("%d instances at the old end, want 2", n)
	}

	w.sim.Clock().Set(oldEnd.Add(48*time.Hour - 30*time.Minute))

	if n := len(w.instances()); n != 0 {
		t.Errorf("%d instances when the new end is near, want 0", n)
	}

	history := do(
		t,
		w.ec2.DescribeCapacityBlockExtensionHistory,
		&ec2.DescribeCapacityBlockExtensionHistoryInput{},
	).CapacityBlockExtensions
	if len(history) != 1 || history[0].CapacityBlockExtensionStatus != "payment-succeeded" {
		t.Errorf("history %+v", history)
	}

	if ledger := w.sim.Ledger(); len(ledger) != 1 || ledger[0].Kind != "extension" ||
		ledger[0].ReservationID != endingBlock {
		t.Errorf("ledger %+v", ledger)
	}

	fails(
		t,
		w.ec2.PurchaseCapacityBlockExtension,
		extend(endingBlock, offering),
		"InvalidCapacityReservationState",
	) // under an hour left
}
