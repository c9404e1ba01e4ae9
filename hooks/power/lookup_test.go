package power

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

const taggedReservations = `
account = "111122223333"
[[instance_type]]
name = "p5.48xlarge"
vcpus = 192
memory_mib = 2097152
usage_classes = ["capacity-block"]
[[region]]
name = "us-east-2"
zone = [{ name = "us-east-2a", id = "use2-az1" }]
vpc = [{ id = "vpc-0e2000000000000a1", cidr = "10.2.0.0/16" }]
subnet = [{ id = "subnet-0e200000000000a01", vpc = "vpc-0e2000000000000a1", zone = "us-east-2a", cidr = "10.2.1.0/24" }]
capacity = [{ zone = "us-east-2a", type = "p5.48xlarge", count = 64 }]
reservation = [
  { id = "cr-0e2000000000000a1", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 1, start = "-1h", end = "+30h", tags = { team = "nlp1" } },
  { id = "cr-0e2000000000000b2", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 1, start = "-1h", end = "+30h", tags = { team = "nlp*" } },
  { id = "cr-0e2000000000000c3", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 1, start = "-1h", end = "+30h", tags = { team = 'nlp\*' } },
]
`

// TestSelectIsLiteral: the resume hook finds by EC2's filters what Build finds among all
// reservations, wildcards or not.
func TestSelectIsLiteral(t *testing.T) {
	aws := simulatedEC2(t)
	all, err := aws.AllReservations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for team, want := range map[string][]string{
		"nlp*": {"cr-0e2000000000000b2"}, "nlp?": nil, "*": nil, "nlp1": {"cr-0e2000000000000a1"}, `nlp\*`: {"cr-0e2000000000000c3"},
	} {
		group := capacity.GroupSettings{Name: "gpu", SubnetIDs: []string{"subnet-0e200000000000a01"}, Select: &capacity.Select{Tags: map[string]string{"team": team}}}
		s := reading(aws, group)
		fresh := s.fresh(t)
		ids := func(s *capacity.Snapshot) []string { return s.Partitions[0].Groups[0].Slots[0].ReservationIDs }
		if got, same := ids(fresh), ids(capacity.Build(s.settings, capacity.Seen{Reservations: all})); !slices.Equal(got, want) || !slices.Equal(got, same) {
			t.Errorf("team=%s: the hook finds %v, Build among all reservations %v, want %v", team, got, same, want)
		}
	}
}

func reading(aws *ec2.Client, group capacity.GroupSettings) *site {
	return &site{adapters: adapters{ec2Client: aws}, journal: &journal{Logger: slog.New(slog.DiscardHandler)}, settings: capacity.Settings{
		Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{group}}}}}
}

func (s *site) fresh(t *testing.T) *capacity.Snapshot {
	t.Helper()
	seen, err := s.freshFacts(t.Context(), map[string]bool{"gpu": true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return capacity.Build(s.settings, seen)
}

// simulatedEC2 has three blocks, which differ in their tags.
func simulatedEC2(t *testing.T) *ec2.Client {
	t.Helper()
	scenario, err := awssim.ParseScenario("tags", []byte(taggedReservations))
	if err != nil {
		t.Fatal(err)
	}
	sim, err := awssim.New(scenario, awssim.MachineClock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	if err := sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}
	aws, err := ec2.New(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}
	return aws
}

// R8: one bad subnet id does not keep the nodes out of the others.
func TestR8_OneBadSubnetDoesNotHideTheOthers(t *testing.T) {
	const good, bad = "subnet-0e200000000000a01", "subnet-0ffffffffffffffff"
	group := capacity.GroupSettings{Name: "gpu", SubnetIDs: []string{bad, good}}
	fresh := reading(simulatedEC2(t), group).fresh(t)
	if subnets := fresh.Partitions[0].Groups[0].Subnets; len(subnets) != 1 || subnets[0].ID != good || subnets[0].AZID != "use2-az1" {
		t.Errorf("subnets %v", subnets)
	}
}

// Where EC2 does not answer, the nodes can still be taken down: that takes the settings.
func TestFactsWithoutEC2(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	group := capacity.GroupSettings{Name: "gpu", MaxNodes: 8, SubnetIDs: []string{"subnet-0e200000000000a01"}, ReservationIDs: []string{"cr-0e2000000000000a1"}}
	s := reading(simulatedEC2(t), group)
	c := &call{settings: s.settings, cluster: "ml", nodes: []string{"gpu-1"}, jobs: single(1).jobs, shown: []capacity.Node{{Name: "gpu-1", State: "ALLOCATED+CLOUD+POWERING_UP"}}}
	if c.factsErr = c.readFacts(ctx, s, nil); c.factsErr == nil {
		t.Fatal("EC2 answers")
	}
	story(t, `
		record resume failed gpu-1;
		notify 1
		down gpu-1
		comment 1`, func(t *testing.T, w *fake) {
		if err := begun(w, c).resume(w.ctx, nil); err != nil || w.records[0].Partition != "gpu" {
			t.Errorf("%v, %+v", err, w.records)
		}
	})
}
