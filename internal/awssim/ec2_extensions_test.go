package awssim

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (w *ec2World) extensionOffering(id string, days int32) string {
	w.Helper()
	offers := do(w, w.ec2.DescribeCapacityBlockExtensionOfferings, &ec2.DescribeCapacityBlockExtensionOfferingsInput{
		CapacityReservationId: aws.String(id), CapacityBlockExtensionDurationHours: aws.Int32(24 * days)}).CapacityBlockExtensionOfferings
	if len(offers) != 1 {
		w.Fatalf("%d extension offerings of %s, want 1", len(offers), id)
	}
	return *offers[0].CapacityBlockExtensionOfferingId
}

func extend(id, offering string) *ec2.PurchaseCapacityBlockExtensionInput {
	return &ec2.PurchaseCapacityBlockExtensionInput{CapacityReservationId: aws.String(id), CapacityBlockExtensionOfferingId: aws.String(offering)}
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
	history := do(t, w.ec2.DescribeCapacityBlockExtensionHistory, &ec2.DescribeCapacityBlockExtensionHistoryInput{}).CapacityBlockExtensions
	if len(history) != 1 || history[0].CapacityBlockExtensionStatus != "payment-succeeded" {
		t.Errorf("history %+v", history)
	}
	if ledger := w.sim.Ledger(); len(ledger) != 1 || ledger[0].Kind != "extension" || ledger[0].ReservationID != endingBlock {
		t.Errorf("ledger %+v", ledger)
	}
	fails(t, w.ec2.PurchaseCapacityBlockExtension, extend(endingBlock, offering), "InvalidCapacityReservationState") // under an hour left
}

func TestExtensionThatIsNotPaid(t *testing.T) {
	w := newEC2World(t)
	w.sim.FailPayments(true)
	end := *w.reservation(openBlock).EndDate
	do(t, w.ec2.PurchaseCapacityBlockExtension, extend(openBlock, w.extensionOffering(openBlock, 1)))
	w.sim.Clock().Advance(time.Hour)
	if got := w.reservation(openBlock).EndDate; !got.Equal(end) {
		t.Errorf("end %v, want the old %v", got, end)
	}
	history := do(t, w.ec2.DescribeCapacityBlockExtensionHistory, &ec2.DescribeCapacityBlockExtensionHistoryInput{
		CapacityReservationIds: []string{openBlock}, Filters: []types.Filter{{Name: aws.String("capacity-block-extension-status"), Values: []string{"payment-failed"}}}}).CapacityBlockExtensions
	if len(history) != 1 {
		t.Errorf("history %+v, want the failed payment", history)
	}
}

func TestExtensionRefusals(t *testing.T) {
	w := newEC2World(t)
	ask := func(id string, hours int32) *ec2.DescribeCapacityBlockExtensionOfferingsInput {
		return &ec2.DescribeCapacityBlockExtensionOfferingsInput{CapacityReservationId: aws.String(id), CapacityBlockExtensionDurationHours: aws.Int32(hours)}
	}
	fails(t, w.ec2.DescribeCapacityBlockExtensionOfferings, ask(gpuODCR, 24), "InvalidParameterValue")
	fails(t, w.ec2.DescribeCapacityBlockExtensionOfferings, ask(openBlock, 25), "InvalidParameterValue")
	fails(t, w.ec2.DescribeCapacityBlockExtensionOfferings, ask(pastBlock, 24), "InvalidCapacityReservationState")
	if n := len(do(t, w.ec2.DescribeCapacityBlockExtensionOfferings, ask(openBlock, 182*24)).CapacityBlockExtensionOfferings); n != 0 {
		t.Errorf("%d extensions beyond 182 days in all", n)
	}
	offering := w.extensionOffering(openBlock, 1)
	fails(t, w.ec2.PurchaseCapacityBlockExtension, extend(endingBlock, offering), "InvalidCapacityBlockExtensionOfferingIdNotFound")
}
