package site

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// A denial names whose permission is missing: as AWS does, else by the caller's ARN, else by the source.
func TestDenialsNameTheCaller(t *testing.T) {
	const action = "ec2:DescribeSubnets"
	old := awssim.Fault{Operation: "DescribeSubnets", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Message: "You are not authorized to perform this operation."}
	named := old
	named.Message = "You are not authorized to perform this operation. User: arn:aws:iam::111122223333:user/ann is not authorized to perform: " + action + " because no identity-based policy allows the action."
	noSTS := awssim.Fault{Operation: "GetCallerIdentity", Effect: awssim.FailBefore, Code: "AccessDenied"}
	for who, faults := range map[string][]awssim.Fault{
		"arn:aws:iam::111122223333:user/ann":       {named, noSTS},
		"arn:aws:iam::111122223333:user/simulated": {old},
		"the credentials of EnvConfigCredentials":  {old, noSTS},
	} {
		sim, client := newSim(t)
		for _, f := range faults {
			if _, err := sim.AddFault(f); err != nil {
				t.Fatal(err)
			}
		}
		cfg := config.Default()
		r := run{Sources: Sources{Config: cfg, EC2: client}, settings: capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2}}}}
		r.permissions(t.Context())
		said := 0
		for _, f := range r.Findings {
			if strings.Contains(f.What, action) {
				if said++; !strings.Contains(f.What, action+" is not allowed for "+who) {
					t.Errorf("%s, want %s", f.What, who)
				}
			}
		}
		if said != 1 {
			t.Errorf("%s: %+v", who, r.Findings)
		}
	}
}

// newSim is the simulator's default world, and a client of it.
func newSim(t *testing.T) (*awssim.Sim, *ec2.Client) {
	t.Helper()
	return simOf(t, awssim.DefaultScenario())
}

func simOf(t *testing.T, scenario *awssim.Scenario) (*awssim.Sim, *ec2.Client) {
	t.Helper()
	sim, err := awssim.New(scenario, awssim.NewClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	if err := sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}
	client, err := ec2.New(t.Context(), ec2.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return sim, client
}
