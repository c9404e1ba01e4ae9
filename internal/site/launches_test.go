package site

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// What nodes are attached to, and what their instance profile allows, is read and judged; where all of it is right,
// nothing is said, and who may not ask is told so once.
func TestWhatNodesAreAttachedTo(t *testing.T) {
	const vpc, subnet, group, arn = "vpc-0e2000000000000a1", "subnet-0e200000000000a01", "sg-0e2000000000000a1", "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes"
	none := func(s *awssim.Scenario) {
		s.Regions[0].RouteTables = []awssim.RouteTableScenario{{ID: "rtb-0e2000000000000a1", VPC: vpc, Main: true}}
	}
	closed := func(s *awssim.Scenario) {
		s.Regions[0].SecurityGroups[0].Rules = []awssim.RuleScenario{{Out: true, Peer: "0.0.0.0/0"}}
	}
	denied := func(operation, code string) awssim.Fault {
		return awssim.Fault{Operation: operation, Effect: awssim.FailBefore, Code: code, Status: 403, Message: "not authorized to perform"}
	}
	cpu := func(s *awssim.Scenario) {
		s.Regions[0].Images[0].Name, s.Regions[0].Images[0].Description = "al2023", ""
	}
	template := capacity.LaunchTemplate{Name: "ml-gpu", ImageID: "ami-0e200000000000a01", SecurityGroupIDs: []string{group}, InstanceProfile: arn}
	protected, nope := template, template
	protected.Protected, nope.InstanceProfile = true, "nope"
	for name, c := range map[string]struct {
		world    func(*awssim.Scenario)
		fault    awssim.Fault
		provider capacity.Provider
		template capacity.LaunchTemplate
		want     string // of each finding, with its status
	}{
		"right":             {nil, awssim.Fault{}, capacity.ProviderPCS, template, ""},
		"right, on EC2":     {nil, awssim.Fault{}, capacity.ProviderEC2, template, ""},
		"no way out":        {none, awssim.Fault{}, capacity.ProviderPCS, template, "fail no-way-out"},
		"no way out of EC2": {none, awssim.Fault{}, capacity.ProviderEC2, template, ""},
		"closed":            {closed, awssim.Fault{}, capacity.ProviderEC2, template, "fail security-group-rule"},
		"a CPU image":       {cpu, awssim.Fault{}, capacity.ProviderPCS, template, "warn drivers"},
		"protected":         {nil, awssim.Fault{}, capacity.ProviderEC2, protected, "fail termination-protection"},
		"no such profile": {func(s *awssim.Scenario) {
			s.InstanceProfiles = []awssim.InstanceProfileScenario{{Name: "x", Role: "x"}}
		}, awssim.Fault{}, capacity.ProviderPCS, nope,
			"fail instance-profile"},
		"a role that may not register": {func(s *awssim.Scenario) {
			s.InstanceProfiles = []awssim.InstanceProfileScenario{{Name: "AWSPCS-nodes", Role: "AWSPCS-role", CannotRegister: true}}
		}, awssim.Fault{}, capacity.ProviderPCS, template, "fail instance-profile"},
		"nobody may ask for routes":    {none, denied("DescribeRouteTables", "UnauthorizedOperation"), capacity.ProviderPCS, template, "warn network"},
		"nobody may ask for endpoints": {none, denied("DescribeVpcEndpoints", "UnauthorizedOperation"), capacity.ProviderPCS, template, "warn network"},
		"nobody may ask for rules":     {closed, denied("DescribeSecurityGroups", "UnauthorizedOperation"), capacity.ProviderPCS, template, "warn network"},
		"nobody may ask IAM":           {nil, denied("SimulatePrincipalPolicy", "AccessDenied"), capacity.ProviderPCS, template, "warn instance-profile"},
	} {
		t.Run(name, func(t *testing.T) {
			scenario := awssim.DefaultScenario()
			if c.world != nil {
				c.world(scenario)
			}
			sim, client := simOf(t, scenario)
			if c.fault.Operation != "" {
				if _, err := sim.AddFault(c.fault); err != nil {
					t.Fatal(err)
				}
			}
			aws := pcs.From(client.Shared())
			cluster, err := aws.Cluster(t.Context(), "ml")
			if err != nil {
				t.Fatal(err)
			}
			r := run{Sources: Sources{Config: config.Default(), EC2: client, PCS: aws}, Site: Site{Inventory: pcs.Inventory{Cluster: cluster}}}
			for _, name := range []string{"gpu-a", "gpu-b"} { // what both lack is named for both, but for permissions
				r.nodes(c.provider, name, "p5.48xlarge", "", c.template, []string{subnet}, nil, 1).trial = ec2.Trial{}
			}
			r.judgeLaunches(t.Context())
			var got []string
			r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.Status == OK })
			for _, f := range r.Findings {
				if f.Fix == "" {
					t.Errorf("no fix: %s", f.What)
				}
				got = append(got, string(f.Status)+" "+f.Check)
			}
			slices.Sort(got)
			if got := strings.Join(slices.Compact(got), "; "); got != c.want || c.fault.Operation != "" && len(r.Findings) != 1 {
				t.Errorf("%s, want %s: %+v", got, c.want, r.Findings)
			}
		})
	}
}

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

// A suspended cluster does not become ACTIVE by waiting.
func TestClusterThatIsNotActive(t *testing.T) {
	for status, fix := range map[string]string{
		"ACTIVE":        "",
		"UPDATING":      "run this again once it is ACTIVE",
		"RESUMING":      "run this again once it is ACTIVE",
		"SUSPENDING":    "move it to a newer Slurm",
		"SUSPENDED":     "move it to a newer Slurm",
		"UPDATE_FAILED": "mend what the update failed on",
		"DELETE_FAILED": "name another cluster",
	} {
		t.Run(status, func(t *testing.T) {
			scenario := awssim.DefaultScenario()
			scenario.Regions[0].Clusters[0].Status = status
			_, client := simOf(t, scenario)
			r := run{Sources: Sources{Config: &config.Config{Cluster: "ml"}, EC2: client, PCS: pcs.From(client.Shared())}}
			r.pcsCluster(t.Context())
			if len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].Fix, fix) || (fix == "") != (r.Findings[0].Fix == "") || !strings.Contains(r.Findings[0].What, "cluster ml is "+status) {
				t.Errorf("said %+v, want the advice %q", r.Findings, fix)
			}
			if r.Cluster.Name != "ml" {
				t.Errorf("the cluster is not known to the checks after this one: %v", r.Cluster)
			}
		})
	}
}
