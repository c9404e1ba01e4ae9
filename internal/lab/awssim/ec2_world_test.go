package awssim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

// Resources of the default scenario in us-east-2.
const (
	defSubnetA   = "subnet-0e200000000000a01"
	defSubnetB   = "subnet-0e200000000000b02"
	defSubnetC   = "subnet-0e200000000000c03"
	defImage     = "ami-0e200000000000a01"
	defARMImage  = "ami-0e200000000000b02"
	defRHELImage = "ami-0e200000000000c03"
	defGroup     = "sg-0e2000000000000a1"
	defTemplate  = "lt-0e2000000000000a2"

	// in us-west-2

	openBlock    = "cr-0e2000000000000a1" // 16 × p5.48xlarge in us-east-2a
	laterBlock   = "cr-0e2000000000000a2"
	endingBlock  = "cr-0e2000000000000b3" // 8 × p4d.24xlarge in us-east-2b, ends tomorrow
	failedBlock  = "cr-0e2000000000000c4"
	pastBlock    = "cr-0e2000000000000b5"
	ultraBlock   = "cr-0e2000000000000c6" // two UltraServers of 4 trn2u.48xlarge in us-east-2c
	gpuODCR      = "cr-0e200000000000a11" // 4 × g6.12xlarge in us-east-2a, targeted
	openODCR     = "cr-0e200000000000c12" // 10 × c7i.4xlarge in us-east-2c, open
	endingODCR   = "cr-0e200000000000b13"
	lendingODCR  = "cr-0e200000000000a14"
	borrowedODCR = "cr-0e200000000000a15"
	sharedODCR   = "cr-0e200000000000a16"
)

// ec2World is a simulator of the default scenario, with a clock that stands still, and the SDK's client.
type ec2World struct {
	*testing.T
	sim      *Sim
	ec2      *ec2.Client
	endpoint string
}

func newEC2World(t *testing.T) *ec2World {
	sim, endpoint := wireSim(t, string(defaultTOML))
	return &ec2World{t, sim, ec2Client(endpoint), endpoint}
}

// setClock moves the clock to a moment of the scenario, such as "+1d 11:30", plus d.
func (w *ec2World) setClock(moment string, d time.Duration) {
	w.Helper()

	var m Moment
	if err := m.UnmarshalText([]byte(moment)); err != nil {
		w.Fatal(err)
	}

	w.sim.Clock().Set(m.At(noon).Add(d))
}

// do calls an operation that must succeed.
func do[In, Out, Options any](
	t testing.TB,
	op func(context.Context, *In, ...func(*Options)) (*Out, error),
	in *In,
) *Out {
	t.Helper()

	out, err := op(t.Context(), in)
	if err != nil {
		t.Fatalf("%T: %v", in, err)
	}

	return out
}

// fails calls an operation that must fail with an error code.
func fails[In, Out, Options any](
	t testing.TB,
	op func(context.Context, *In, ...func(*Options)) (*Out, error),
	in *In,
	want string,
) {
	t.Helper()

	_, err := op(t.Context(), in)
	if got := code(err); got != want {
		t.Errorf("%T: error code %q, want %q (%v)", in, got, want, err)
	}
}

// reservation describes one reservation.
func (w *ec2World) reservation(id string) types.CapacityReservation {
	w.Helper()

	out, err := w.ec2.DescribeCapacityReservations(
		w.Context(),
		&ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{id}},
	)
	if err != nil {
		w.Fatal(err)
	}

	return out.CapacityReservations[0]
}

// instances describes every instance that is not terminated.
func (w *ec2World) instances() []types.Instance {
	w.Helper()

	out, err := w.ec2.DescribeInstances(w.Context(), &ec2.DescribeInstancesInput{
		Filters: []types.Filter{{Name: aws.String("instance-state-name"), Values: []string{"pending", "running"}}},
	})
	if err != nil {
		w.Fatal(err)
	}

	var all []types.Instance
	for _, r := range out.Reservations {
		all = append(all, r.Instances...)
	}

	return all
}

// run is a launch of n instances, all or none.
func run(
	n int32,
	kind types.InstanceType,
	subnet string,
	change ...func(*ec2.RunInstancesInput),
) *ec2.RunInstancesInput {
	in := &ec2.RunInstancesInput{
		MinCount: aws.Int32(n),
		MaxCount: aws.Int32(n), InstanceType: kind, SubnetId: aws.String(subnet), ImageId: aws.String(defImage),
	}
	for _, f := range change {
		f(in)
	}

	return in
}

// into targets a reservation.
func into(id string) func(*ec2.RunInstancesInput) {
	return func(in *ec2.RunInstancesInput) {
		in.CapacityReservationSpecification = &types.CapacityReservationSpecification{
			CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: aws.String(id)},
		}
	}
}

// market sets the market type.
func market(m types.MarketType) func(*ec2.RunInstancesInput) {
	return func(in *ec2.RunInstancesInput) {
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: m}
	}
}

// intoBlock is what a launch into a block needs.
func intoBlock(id string) func(*ec2.RunInstancesInput) {
	return func(in *ec2.RunInstancesInput) {
		into(id)(in)
		market(types.MarketTypeCapacityBlock)(in)
	}
}

// code is EC2's error code, or "" without an error.
func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}

	if err != nil {
		return err.Error()
	}

	return ""
}
