package awssim

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

const dayLong = 24 * time.Hour

// futureOf is an order that EC2 takes: 4 × 48 vCPUs in ten days, for two weeks.
func futureOf(change func(*ec2.CreateCapacityReservationInput)) *ec2.CreateCapacityReservationInput {
	in := odcrOf(4)
	in.InstanceMatchCriteria, in.DeliveryPreference = "targeted", "incremental"
	in.StartDate, in.CommitmentDuration = aws.Time(noon.Add(10*dayLong)), aws.Int64(14*24*3600)
	if change != nil {
		change(in)
	}
	return in
}

func TestFutureRefusals(t *testing.T) {
	w := newEC2World(t)
	type input = *ec2.CreateCapacityReservationInput
	for name, test := range map[string]struct {
		change func(input)
		want   string
	}{
		"no commitment":   {func(in input) { in.CommitmentDuration = nil }, "MissingParameter"},
		"no start":        {func(in input) { in.StartDate = nil }, "MissingParameter"},
		"no preference":   {func(in input) { in.DeliveryPreference = "" }, "MissingParameter"},
		"preference":      {func(in input) { in.DeliveryPreference = "fixed" }, "InvalidParameterValue"},
		"open":            {func(in input) { in.InstanceMatchCriteria = "open" }, "InvalidParameterCombination"},
		"too soon":        {func(in input) { in.StartDate = aws.Time(noon.Add(5*dayLong - time.Minute)) }, "InvalidParameterValue"},
		"too late":        {func(in input) { in.StartDate = aws.Time(noon.Add(120*dayLong + time.Minute)) }, "InvalidParameterValue"},
		"too short":       {func(in input) { in.CommitmentDuration = aws.Int64(14*24*3600 - 1) }, "InvalidParameterValue"},
		"too long":        {func(in input) { in.CommitmentDuration = aws.Int64(200000001) }, "InvalidParameterValue"},
		"too few vCPUs":   {func(in input) { in.InstanceType, in.InstanceCount = aws.String("c7i.4xlarge"), aws.Int32(1) }, "InvalidParameterValue"},
		"another family":  {func(in input) { in.InstanceType = aws.String("p5.48xlarge") }, "InvalidParameterValue"},
		"end within it":   {func(in input) { in.EndDateType, in.EndDate = "limited", aws.Time(noon.Add(24*dayLong)) }, "InvalidParameterValue"},
		"not in the zone": {func(in input) { in.AvailabilityZoneId = aws.String("use2-az3") }, "Unsupported"},
	} {
		t.Run(name, func(t *testing.T) { fails(t, w.ec2.CreateCapacityReservation, futureOf(test.change), test.want) })
	}
	if n := len(w.sim.Ledger()); n != 0 {
		t.Errorf("%d in the ledger", n)
	}
}

// A future-dated ODCR is assessed, then scheduled or unsupported; it opens at its start, and
// cannot be cancelled as long as it is committed to.
func TestFutureODCR(t *testing.T) {
	w := newEC2World(t)
	order := func(count int32) *string {
		return do(t, w.ec2.CreateCapacityReservation, futureOf(func(in *ec2.CreateCapacityReservationInput) {
			in.InstanceCount = aws.Int32(count)
		})).CapacityReservation.CapacityReservationId
	}
	cancel := func(id *string) *ec2.CancelCapacityReservationInput {
		return &ec2.CancelCapacityReservationInput{CapacityReservationId: id}
	}
	w.sim.scenario.AssessDelay = Duration(dayLong)
	kept, tooMany, dropped := order(4), order(500), order(1)
	state := func(id *string, want string) {
		t.Helper()
		if got := w.reservation(*id).State; string(got) != want {
			t.Errorf("%s is %s, want %s", *id, got, want)
		}
	}
	state(kept, "assessing")
	do(t, w.ec2.CancelCapacityReservation, cancel(dropped))
	w.sim.Clock().Advance(dayLong)
	state(kept, "scheduled")
	state(tooMany, "unsupported")
	state(dropped, "cancelled")
	w.sim.Clock().Set(noon.Add(10 * dayLong))
	state(kept, "active")
	fails(t, w.ec2.CancelCapacityReservation, cancel(kept), "InvalidCapacityReservationState")
	if r := w.reservation(*kept); *r.CommitmentInfo.CommittedInstanceCount != 4 || !r.CommitmentInfo.CommitmentEndDate.Equal(noon.Add(24*dayLong)) {
		t.Errorf("%+v", r.CommitmentInfo)
	}
	w.sim.Clock().Set(noon.Add(24 * dayLong))
	do(t, w.ec2.CancelCapacityReservation, cancel(kept))
	if n := len(w.sim.Ledger()); n != 3 {
		t.Errorf("%d in the ledger", n)
	}
}
