package market

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

// question asks for instances of the world's type, for a cluster in zone us-east-2a.
func (w *world) question(count int, duration time.Duration) FitQuestion {
	return FitQuestion{
		EC2:      w.aws,
		Need:     capacity.Need{InstanceType: "p5.48xlarge", Count: count, Duration: duration},
		Regions:  []string{"us-east-2"},
		Progress: &w.customer,
		Subnets:  func() Subnets { return ReadSubnets(w.Context(), w.aws, []string{subnetA1}, false) },
		Idle:     func([]capacity.Reservation) map[string]int { return nil },
		Timing: capacity.Timing{
			BootAllowance: capacity.Duration{Duration: 20 * time.Minute},
			DrainMargin:   capacity.Duration{Duration: 10 * time.Minute},
			ReclaimLead:   capacity.Duration{Duration: 30 * time.Minute},
		},
	}
}

// Offerings that would fit: long enough with boot and margin, in a zone of the cluster.
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

// A failed query is reported, and is not an empty answer.
func TestR8_FitOfWhatIsNotKnown(t *testing.T) {
	w := newWorld(t, nil)
	w.fault(
		awssim.Fault{
			Operation: "DescribeCapacityBlockOfferings",
			Effect:    awssim.FailBefore,
			Code:      "UnauthorizedOperation",
			Status:    403,
		},
	)

	a, err := w.question(8, day).Ask(t.Context())
	if err != nil || ec2.Code(a.SaleErr) != "UnauthorizedOperation" || len(a.Failed) != 1 ||
		a.Failed[0].Region != "us-east-2" ||
		len(a.Offers) != 0 {
		t.Errorf("%v, %+v", err, a)
	}

	w.sim.ClearFaults()
	w.fault(
		awssim.Fault{
			Operation: "DescribeCapacityReservations",
			Effect:    awssim.FailBefore,
			Code:      "UnauthorizedOperation",
			Status:    403,
		},
	)

	if a, err := w.question(8, day).Ask(t.Context()); ec2.Code(err) != "UnauthorizedOperation" {
		t.Errorf("%v, %+v", err, a)
	}
}

// Subnets by zone: those of the cluster, and the others of its VPC where they are asked for.
func TestReadSubnets(t *testing.T) {
	w := newWorld(t, nil)
	s := ReadSubnets(t.Context(), w.aws, []string{subnetA1}, true)
	if a, b := s.Zone("use2-az1"), s.Zone("use2-az2"); s.Err != nil || len(s.Own) != 1 || len(a.Subnets) != 1 ||
		a.Subnets[0] != subnetA1 ||
		len(a.Neighbours) != 1 ||
		a.Neighbours[0] != subnetA2 ||
		a.Rank() != 0 ||
		b.Rank() != 1 {
		t.Errorf("%+v", s)
	}

	if s := ReadSubnets(t.Context(), w.aws, []string{subnetA1}, false); s.Err != nil ||
		len(s.Zone("use2-az1").Neighbours) != 0 ||
		s.Zone("use2-az2").Rank() != 2 {
		t.Errorf("nobody asked for the others: %+v", s)
	}

	if s := ReadSubnets(t.Context(), w.aws, []string{subnetA1, "subnet-0ffffffffffffffff"}, true); ec2.Code(
		s.Err,
	) != "InvalidSubnetID.NotFound" ||
		s.Own != nil {
		t.Errorf("one that there is not: %+v", s)
	}

	w.fault(
		awssim.Fault{
			Operation: "DescribeSubnets",
			Effect:    awssim.FailBefore,
			Code:      "UnauthorizedOperation",
			Status:    403,
			Skip:      1,
		},
	)

	if s := ReadSubnets(t.Context(), w.aws, []string{subnetA1}, true); s.Err == nil ||
		s.Zone("use2-az1").Subnets != nil {
		t.Errorf("the others are not known: %+v", s)
	}
}

// The next step names the first node group that can take the block, and never another one.
func TestNextStep(t *testing.T) {
	group := func(name string, change func(*capacity.GroupSettings)) capacity.GroupSettings {
		g := capacity.GroupSettings{
			Name:           name,
			InstanceType:   "p5.48xlarge",
			PurchaseOption: capacity.CapacityBlock,
			SubnetIDs:      []string{"subnet-9", "subnet-1"},
		}
		if change != nil {
			change(&g)
		}

		return g
	}
	others := []capacity.GroupSettings{
		group("type", func(g *capacity.GroupSettings) { g.InstanceType = "p4d.24xlarge" }),
		group("option", func(g *capacity.GroupSettings) { g.PurchaseOption = capacity.OnDemand }),
		group("zone", func(g *capacity.GroupSettings) { g.SubnetIDs = []string{"subnet-2"} }),
	}

	selects := group(
		"gpu",
		func(g *capacity.GroupSettings) { g.Select = &capacity.Select{Tags: map[string]string{"team": "nlp"}} },
	)
	subnets := Subnets{byZone: map[string][]string{"use2-az1": {"subnet-1"}, "use2-az2": {"subnet-2"}}}
	r := capacity.Reservation{ID: "cr-1", InstanceType: "p5.48xlarge", AZID: "use2-az1", AZ: "us-east-2a"}
	for name, c := range map[string]struct {
		cluster  string
		provider capacity.Provider
		groups   []capacity.GroupSettings
		want     string
	}{
		"by id": {
			"",
			capacity.ProviderEC2,
			append(others, group("gpu", nil), group("second", nil)),
			"  add \"cr-1\" to capacity_reservation_ids of node_group \"gpu\" of partition \"big\" (/p.toml), then " +
				"run\n  pcs-capacity sync",
		},
		"by tags": {
			"",
			capacity.ProviderEC2,
			append(others, selects),
			"  give cr-1 the tags that node_group \"gpu\" of partition \"big\" selects (/p.toml), then run\n  " +
				"pcs-capacity sync",
		},
		"no group": {
			"",
			capacity.ProviderEC2,
			others,
			"  add \"cr-1\" to a [[partition.node_group]] of p5.48xlarge in us-east-2a (use2-az1) (/c.toml), then " +
				"run\n  pcs-capacity sync",
		},
		"no group, two clusters": {
			"ml",
			capacity.ProviderEC2,
			others,
			"  pcs-capacity setup --reservation cr-1 --queue QUEUE",
		},
		"PCS": {
			"ml",
			capacity.ProviderPCS,
			[]capacity.GroupSettings{group("gpu", nil)},
			"  pcs-capacity setup --reservation cr-1 --queue big --node-group gpu",
		},
		"PCS by tags": {
			"ml",
			capacity.ProviderPCS,
			[]capacity.GroupSettings{selects},
			"  pcs-capacity setup --reservation cr-1 --queue big --node-group gpu",
		},
		"PCS, no group": {"ml", capacity.ProviderPCS, others, "  pcs-capacity setup --reservation cr-1 --queue QUEUE"},
	} {
		cfg := &config.Config{
			Cluster: c.cluster,
			Path:    "/c.toml",
			Partitions: []capacity.PartitionSettings{
				{Name: "big", Provider: c.provider, Groups: c.groups, File: "/p.toml"},
			},
		}
		if got := NextStep(cfg, subnets, r); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}

	if got, want := NextStep(&config.Config{}, subnets,
		r), "  pcs-capacity setup --reservation cr-1 --queue QUEUE"; got != want {
		t.Errorf("without settings:\n%s\nwant\n%s", got, want)
	}
}

func TestSubnetID(t *testing.T) {
	for want, use := range map[string]ZoneUse{
		"subnet-1, …": {Subnets: []string{"subnet-1", "subnet-2"}, Neighbours: []string{}},
		"subnet-1":    {Subnets: []string{"subnet-1"}, Neighbours: []string{"subnet-3"}},
		"(subnet-3)":  {Subnets: []string{}, Neighbours: []string{"subnet-3"}},
		"":            {Subnets: []string{}, Neighbours: []string{}},
		"?":           {},
	} {
		if got := use.SubnetID(); got != want {
			t.Errorf("%+v is shown as %q, want %q", use, got, want)
		}
	}
}
