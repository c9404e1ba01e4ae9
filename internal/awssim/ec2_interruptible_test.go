package awssim

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestInterruptibleReservation(t *testing.T) {
	w := newEC2World(t)
	launch := run(3, "c7i.4xlarge", defSubnetA, into(borrowedODCR), market(types.MarketTypeInterruptibleCapacityReservation))
	do(t, w.ec2.RunInstances, launch)
	if i := w.instances()[0]; i.InstanceLifecycle != "interruptible-capacity-reservation" {
		t.Errorf("lifecycle %q", i.InstanceLifecycle)
	}
	source := w.reservation(lendingODCR)
	if *source.AvailableInstanceCount != 5 || *source.InterruptibleCapacityAllocation.InterruptibleCapacityReservationId != borrowedODCR {
		t.Errorf("source: %d available, lends %+v", *source.AvailableInstanceCount, source.InterruptibleCapacityAllocation)
	}
	if r := w.reservation(borrowedODCR); !*r.Interruptible || *r.InterruptionInfo.SourceCapacityReservationId != lendingODCR {
		t.Errorf("interruptible reservation: %+v", r)
	}
	events := make(chan InstanceEvent, 9)
	w.sim.OnInstance(func(e InstanceEvent) { events <- e })
	do(t, w.ec2.UpdateInterruptibleCapacityReservationAllocation, &ec2.UpdateInterruptibleCapacityReservationAllocationInput{
		CapacityReservationId: aws.String(lendingODCR), TargetInstanceCount: aws.Int32(1)})
	if n := len(w.instances()); n != 3 {
		t.Errorf("%d instances before the notice is over, want 3", n)
	}
	for range 2 {
		if e := <-events; e.Kind != Interrupted || e.Instance.ReservationID != borrowedODCR {
			t.Errorf("%+v", e)
		}
	}
	fails(t, w.ec2.RunInstances, run(1, "c7i.4xlarge", defSubnetA, into(borrowedODCR), market(types.MarketTypeInterruptibleCapacityReservation)), "ReservationCapacityExceeded")
	w.sim.Clock().Advance(2 * time.Minute)
	if n := len(w.instances()); n != 1 {
		t.Errorf("%d instances after the reclaim, want 1", n)
	}
	if got := *w.reservation(lendingODCR).AvailableInstanceCount; got != 7 {
		t.Errorf("source has %d available, want 7", got)
	}

	made := do(t, w.ec2.CreateInterruptibleCapacityReservationAllocation, &ec2.CreateInterruptibleCapacityReservationAllocationInput{
		CapacityReservationId: aws.String(gpuODCR), InstanceCount: aws.Int32(4)})
	if made.Status != "active" || *made.TargetInstanceCount != 4 {
		t.Errorf("allocation %+v", made)
	}
	fails(t, w.ec2.RunInstances, run(1, "g6.12xlarge", defSubnetA, into(gpuODCR)), "ReservationCapacityExceeded")
	fails(t, w.ec2.CreateInterruptibleCapacityReservationAllocation, &ec2.CreateInterruptibleCapacityReservationAllocationInput{
		CapacityReservationId: aws.String(endingODCR), InstanceCount: aws.Int32(1)}, "InvalidCapacityReservationState")
}
