package market

import (
	"errors"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// question asks for instances of the world's type, for a cluster in zone us-east-2a.
func (w *world) question(count int, duration time.Duration) FitQuestion {
	return FitQuestion{EC2: w.aws, Need: capacity.Need{InstanceType: "p5.48xlarge", Count: count, Duration: duration}, Regions: []string{"us-east-2"}, Progress: &w.customer,
		Subnets: func() Subnets { return ReadSubnets(w.Context(), w.aws, []string{subnetA1}, false) },
		Idle:    func([]capacity.Reservation) map[string]int { return nil },
		Timing: capacity.Timing{BootAllowance: capacity.Duration{Duration: 20 * time.Minute}, DrainMargin: capacity.Duration{Duration: 10 * time.Minute},
			ReclaimLead: capacity.Duration{Duration: 30 * time.Minute}}}
}

// What would fit once it is bought: long enough with boot and margin, and where the cluster is.
func TestFitsWhatIsForSale(t *testing.T) {
	w := newWorld(t, nil)
	q := w.question(8, 23*time.Hour)
	a, err := q.Ask(t.Context())
	if err != nil || a.Fits || len(a.Candidates) != 2 || a.Sale == nil || len(a.Sale.Offers) != 2 || a.SaleErr != nil {
		t.Fatalf("%v, %+v", err, a)
	}
	// 23 h, and 60 minutes that no job can use, are a day.
	if a.Length != day || len(a.Offers) != 1 || a.Offers[0].AZID != "use2-az1" || len(a.Failed) != 0 {
		t.Errorf("%+v", a)
	}
	q.Need.Duration += time.Second
	if a, err := q.Ask(t.Context()); err != nil || a.Length != 2*day {
		t.Errorf("a second more: %v, %+v", err, a)
	}
	q.Need.Duration, q.Need.By = 23*time.Hour, opening.Add(time.Hour)
	if a, err := q.Ask(t.Context()); err != nil || len(a.Offers) != 0 || len(a.Sale.Offers) != 2 {
		t.Errorf("too late: %v, %+v", err, a)
	}
	q.Need.By, q.Need.Duration = time.Time{}, 182*day
	if a, err := q.Ask(t.Context()); err != nil || a.SaleErr == nil || a.Sale != nil {
		t.Errorf("longer than any: %v, %+v", err, a)
	}
}

// What cannot be asked is told, and is not shown as nothing.
func TestR8_FitOfWhatIsNotKnown(t *testing.T) {
	w := newWorld(t, nil)
	w.fault(awssim.Fault{Operation: "DescribeCapacityBlockOfferings", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403})
	a, err := w.question(8, day).Ask(t.Context())
	if err != nil || ec2.Code(a.SaleErr) != "UnauthorizedOperation" || len(a.Failed) != 1 || a.Failed[0].Region != "us-east-2" || len(a.Offers) != 0 {
		t.Errorf("%v, %+v", err, a)
	}
	w.sim.ClearFaults()
	w.fault(awssim.Fault{Operation: "DescribeCapacityReservations", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403})
	if a, err := w.question(8, day).Ask(t.Context()); ec2.Code(err) != "UnauthorizedOperation" {
		t.Errorf("%v, %+v", err, a)
	}
}

// Subnets by zone: those of the cluster, and the others of its VPC where they are asked for.
func TestReadSubnets(t *testing.T) {
	w := newWorld(t, nil)
	s := ReadSubnets(t.Context(), w.aws, []string{subnetA1}, true)
	if a, b := s.In("use2-az1"), s.In("use2-az2"); s.Err != nil || len(s.Own) != 1 || len(a.Subnets) != 1 || a.Subnets[0] != subnetA1 || len(a.Neighbours) != 1 || a.Neighbours[0] != subnetA2 || a.Rank() != 0 || b.Rank() != 1 {
		t.Errorf("%+v", s)
	}
	if s := ReadSubnets(t.Context(), w.aws, []string{subnetA1}, false); s.Err != nil || len(s.In("use2-az1").Neighbours) != 0 || s.In("use2-az2").Rank() != 2 {
		t.Errorf("nobody asked for the others: %+v", s)
	}
	if s := ReadSubnets(t.Context(), w.aws, []string{"subnet-0ffffffffffffffff"}, true); ec2.Code(s.Err) != "InvalidSubnetID.NotFound" {
		t.Errorf("one that there is not: %+v", s)
	}
	w.fault(awssim.Fault{Operation: "DescribeSubnets", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403, Skip: 2})
	if s := ReadSubnets(t.Context(), w.aws, []string{subnetA1}, true); s.Err == nil || s.In("use2-az1").Subnets != nil {
		t.Errorf("the others are not known: %+v", s)
	}
	if err := mistake("%w", errDeclined); !errors.Is(err, errDeclined) {
		t.Errorf("%v hides what is wrong", err)
	}
}
