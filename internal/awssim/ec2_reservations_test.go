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
		InstanceType: aws.String("g6.12xlarge"), InstancePlatform: "Linux/UNIX", InstanceCount: aws.Int32(n),
		AvailabilityZoneId: aws.String("use2-az1"), InstanceMatchCriteria: "targeted",
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
		in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeCapacityReservation,
			Tags: []types.Tag{{Key: aws.String("job"), Value: aws.String("17")}}}}
	})
	made := do(t, w.ec2.CreateCapacityReservation, in).CapacityReservation
	id := *made.CapacityReservationId
	if made.State != "active" || *made.AvailableInstanceCount != 3 || !made.EndDate.Equal(end) || *made.AvailabilityZone != "us-east-2a" {
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
	fails(t, w.ec2.CancelCapacityReservation, &ec2.CancelCapacityReservationInput{CapacityReservationId: id}, "InvalidCapacityReservationState")
	fails(t, w.ec2.CancelCapacityReservation, &ec2.CancelCapacityReservationInput{CapacityReservationId: aws.String(openBlock)}, "UnsupportedOperation")
}

func TestODCRRefusals(t *testing.T) {
	w := newEC2World(t)
	type input = *ec2.CreateCapacityReservationInput
	past := noon.Add(-time.Minute)
	for name, test := range map[string]struct {
		change func(input)
		want   string
	}{
		"no zone":             {func(in input) { in.AvailabilityZoneId = nil }, "MissingParameter"},
		"unknown zone":        {func(in input) { in.AvailabilityZoneId = aws.String("use2-az9") }, "InvalidParameterValue"},
		"zones that disagree": {func(in input) { in.AvailabilityZone = aws.String("us-east-2b") }, "InvalidParameterValue"},
		"unknown type":        {func(in input) { in.InstanceType = aws.String("p9.huge") }, "InvalidParameterValue"},
		"unknown platform":    {func(in input) { in.InstancePlatform = "BeOS" }, "InvalidParameterValue"},
		"none":                {func(in input) { in.InstanceCount = aws.Int32(0) }, "InvalidParameterValue"},
		"limited, no end":     {func(in input) { in.EndDateType = "limited" }, "MissingParameter"},
		"end, not limited":    {func(in input) { in.EndDate = aws.Time(noon.Add(time.Hour)) }, "InvalidParameterCombination"},
		"end in the past":     {func(in input) { in.EndDateType, in.EndDate = "limited", &past }, "InvalidParameterValue"},
		"not in the zone":     {func(in input) { in.AvailabilityZoneId = aws.String("use2-az3") }, "Unsupported"},
		"future-dated":        {func(in input) { in.StartDate = aws.Time(noon.Add(240 * time.Hour)) }, "UnknownParameter"},
	} {
		t.Run(name, func(t *testing.T) { fails(t, w.ec2.CreateCapacityReservation, odcrOf(1, test.change), test.want) })
	}
}

func TestDescribeReservations(t *testing.T) {
	w := newEC2World(t)
	one := func(f ...types.Filter) []types.CapacityReservation {
		return do(t, w.ec2.DescribeCapacityReservations, &ec2.DescribeCapacityReservationsInput{Filters: f}).CapacityReservations
	}
	for _, test := range []struct {
		filter []types.Filter
		want   int
	}{
		{nil, 12}, {filters("state", "active"), 9}, {filters("tag:team", "nlp"), 2}, {filters("tag-key", "team"), 4},
		{filters("instance-type", "p5*"), 4}, {append(filters("state", "active"), filters("instance-type", "p5.48xlarge")...), 2},
		{filters("availability-zone", "us-east-2b"), 3}, {filters("instance-match-criteria", "open"), 1},
	} {
		if got := len(one(test.filter...)); got != test.want {
			t.Errorf("filter %+v: %d reservations, want %d", test.filter, got, test.want)
		}
	}
	// EC2 has no filter for these.
	for _, name := range []string{"reservation-type", "availability-zone-id", "capacity-reservation-id"} {
		fails(t, w.ec2.DescribeCapacityReservations, &ec2.DescribeCapacityReservationsInput{Filters: filters(name, "x")}, "InvalidParameterValue")
	}
	ids := []string{openBlock, "cr-0123456789abcdef0"}
	fails(t, w.ec2.DescribeCapacityReservations, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: ids}, "InvalidCapacityReservationId.NotFound")
	fails(t, w.ec2.DescribeCapacityReservations, &ec2.DescribeCapacityReservationsInput{
		CapacityReservationIds: ids[:1], MaxResults: aws.Int32(10)}, "InvalidParameterCombination")

	seen := map[string]bool{}
	pages := ec2.NewDescribeCapacityReservationsPaginator(w.ec2, &ec2.DescribeCapacityReservationsInput{MaxResults: aws.Int32(5)})
	n := 0
	for ; pages.HasMorePages(); n++ {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.CapacityReservations {
			seen[*r.CapacityReservationId] = true
		}
	}
	if n != 3 || len(seen) != 12 {
		t.Errorf("%d pages show %d reservations, want 3 and 12", n, len(seen))
	}
	if r := w.reservation(openBlock); r.ReservationType != "capacity-block" || r.EndDateType != "limited" || *r.CapacityBlockId == "" {
		t.Errorf("block: %+v", r)
	}
}

func TestRegionsAreApart(t *testing.T) {
	w := newEC2World(t)
	in := &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{openBlock}}
	fails(t, w.region("us-west-2").DescribeCapacityReservations, in, "InvalidCapacityReservationId.NotFound")
	fails(t, w.region("mars-north-1").DescribeCapacityReservations, in, "AuthFailure")
}
