package awssim

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// odcrOf asks for an ODCR of n g6.12xlarge in us-east-2a, of which EC2 has 8 beside the one of the scenario.
func odcrOf(n int32, change ...func(*ec2.CreateCapacityReservationInput)) *ec2.CreateCapacityReservationInput {
	in := &ec2.CreateCapacityReservationInput{
		InstanceType: aws.String("g6.12xlarge"), InstancePlatform: "Linux/UNIX",
		InstanceCount: aws.Int32(n), AvailabilityZoneId: aws.String("use2-az1"), InstanceMatchCriteria: "targeted",
	}
	for _, f := range change {
		f(in)
	}

	return in
}

func TestLifeOfAnODCR(t *testing.T) {
	w := newEC2World(t)
	end := noon.Add(2 * time.Hour)
	in := odcrOf(3, func(in *ec2.CreateCapacityReservationInput) {
		in.EndDateType, in.EndDate, in.ClientToken = types.EndDateTypeLimited, &end, aws.String("job-17")
		in.TagSpecifications = []types.TagSpecification{{
			ResourceType: types.ResourceTypeCapacityReservation,
			Tags:         []types.Tag{{Key: aws.String("job"), Value: aws.String("17")}},
		}}
	})

	made := do(t, w.ec2.CreateCapacityReservation, in).CapacityReservation
	id := *made.CapacityReservationId
	if made.State != "active" || *made.AvailableInstanceCount != 3 || !made.EndDate.Equal(end) ||
		*made.AvailabilityZone != "us-east-2a" {
		t.Errorf("made %+v", made)
	}

	if again := do(t, w.ec2.CreateCapacityReservation, in).CapacityReservation; *again.CapacityReservationId != id {
		t.Error("one token made two reservations")
	}

	in.InstanceCount = aws.Int32(2)
	fails(t, w.ec2.CreateCapacityReservation, in, "IdempotentParameterMismatch")

	do(t, w.ec2.RunInstances, run(2, "g6.12xlarge", defSubnetA, into(id)))

	if got := *w.reservation(id).AvailableInstanceCount; got != 1 {
		t.Errorf("%d available after a launch of 2 of 3", got)
	}

	w.sim.Clock().Set(end)

	if got := w.reservation(id).State; got != "expired" {
		t.Errorf("state %s after its end", got)
	}
	// Unlike those of a block, its instances go on, on demand.
	left := w.instances()
	if len(left) != 2 || left[0].CapacityReservationId != nil {
		t.Errorf("instances after the end: %+v", left)
	}
}

func TestODCRTakesCapacity(t *testing.T) {
	w := newEC2World(t)
	fails(t, w.ec2.CreateCapacityReservation, odcrOf(9), "InsufficientInstanceCapacity")
	id := do(t, w.ec2.CreateCapacityReservation, odcrOf(8)).CapacityReservation.CapacityReservationId
	fails(t, w.ec2.RunInstances, run(1, "g6.12xlarge", defSubnetA), "InsufficientInstanceCapacity")
	do(t, w.ec2.CancelCapacityReservation, &ec2.CancelCapacityReservationInput{CapacityReservationId: id})

	if r := w.reservation(*id); r.State != "cancelled" || *r.TotalInstanceCount != 0 {
		t.Errorf("after cancelling: %s with %d", r.State, *r.TotalInstanceCount)
	}

	do(t, w.ec2.RunInstances, run(8, "g6.12xlarge", defSubnetA))
	fails(
		t,
		w.ec2.CancelCapacityReservation,
		&ec2.CancelCapacityReservationInput{CapacityReservationId: id},
		"InvalidCapacityReservationState",
	)
	fails(
		t,
		w.ec2.CancelCapacityReservation,
		&ec2.CancelCapacityReservationInput{CapacityReservationId: aws.String(openBlock)},
		"UnsupportedOperation",
	)
}

// A zone is given by its name or by its id, and not by both.
func TestZoneOfAnODCR(t *testing.T) {
	w := newEC2World(t)
	byName := func(name string) func(*ec2.CreateCapacityReservationInput) {
		return func(in *ec2.CreateCapacityReservationInput) {
			in.AvailabilityZone, in.AvailabilityZoneId = aws.String(name), nil
		}
	}

	made := do(t, w.ec2.CreateCapacityReservation, odcrOf(1, byName("us-east-2a"))).CapacityReservation
	if *made.AvailabilityZoneId != "use2-az1" || *made.AvailabilityZone != "us-east-2a" {
		t.Errorf("%+v", made)
	}

	fails(t, w.ec2.CreateCapacityReservation, odcrOf(1, byName("us-east-2z")), "InvalidParameterValue")
	fails(t, w.ec2.CreateCapacityReservation, odcrOf(1, func(in *ec2.CreateCapacityReservationInput) {
		in.AvailabilityZone = aws.String("us-east-2a")
	}), "InvalidParameterCombination")
}
