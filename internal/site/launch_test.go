package site

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

func TestTried(t *testing.T) {
	const key = "'Cost Center' is not a valid tag key"
	for name, c := range map[string]struct {
		tried []ec2.Tried
		err   error
		want  string
	}{
		"nothing was asked": {nil, nil, ""},
		"all is well":       {[]ec2.Tried{{SubnetID: "a"}, {SubnetID: "b"}}, nil, "ok: EC2's dry run would launch a node of gpu into a or b; a dry run says nothing about room\n"},
		"before it opens": {[]ec2.Tried{{SubnetID: "a", Aside: true}}, nil,
			"ok: EC2's dry run would launch a node of gpu into a, tried without the reservation, which takes no launch now; a dry run says nothing about room\n"},
		"one subnet refuses": {[]ec2.Tried{{SubnetID: "a"}, {SubnetID: "b", Verdict: ec2.Refuses, Code: "InvalidSubnetID.NotFound", Says: "no b", Fix: "mend subnet_ids"}}, nil,
			"problem: EC2 would not launch a node of gpu into b: InvalidSubnetID.NotFound: no b; mend subnet_ids\n" +
				"ok: EC2's dry run would launch a node of gpu into a; a dry run says nothing about room\n"},
		"both refuse for one reason": {[]ec2.Tried{{SubnetID: "a", Verdict: ec2.Refuses, Code: "InvalidParameterValue", Says: key}, {SubnetID: "b", Verdict: ec2.Refuses, Code: "InvalidParameterValue", Says: key}}, nil,
			"problem: EC2 would not launch a node of gpu into a: InvalidParameterValue: 'Cost Center' is not a valid tag key; mend what EC2 names in the launch template or in the flags\n"},
		"no answer":   {[]ec2.Tried{{SubnetID: "a", Verdict: ec2.Silent, Says: "oops"}}, nil, "unasked: EC2 did not say whether it would launch a node of gpu: oops\n"},
		"no template": {nil, errors.New("no lt"), "unasked: EC2 did not say whether it would launch a node of gpu: no lt\n"},
		"not allowed": {[]ec2.Tried{{SubnetID: "a", Verdict: ec2.Denied, Says: "ec2:RunInstances"}}, nil,
			"unasked: whether EC2 would launch a node of gpu was not asked: ec2:RunInstances is not allowed here; its key pair, placement group, tags and architecture are unchecked\n"},
	} {
		t.Run(name, func(t *testing.T) {
			a, got := Tried("gpu", c.tried, c.err), ""
			for _, p := range a.Refusals {
				got += p.String() + "\n"
			}
			if a.OK != "" {
				got += "ok: " + a.OK + "\n"
			}
			if a.Unasked != "" {
				got += "unasked: " + a.Unasked + "\n"
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Names and descriptions are those of AWS's images.
func TestDrivers(t *testing.T) {
	h100 := ec2.InstanceType{Name: "p5.48xlarge", GPUs: 8, GPUName: "H100", GPUFiles: "/dev/nvidia"}
	trainium := ec2.InstanceType{Name: "trn2.48xlarge", GPUs: 16, GPUName: "Trainium2", GPUFiles: "/dev/neuron"}
	for says, c := range map[string]struct {
		kind ec2.InstanceType
		fine bool
	}{
		"aws-pcs-ready-dlami-base-ubuntu2404-x86_64-20260522 ":                     {h100, true},
		"deep learning base oss nvidia driver gpu ami (ubuntu 24.04) 20260522 ":    {h100, true},
		"aws-parallelcluster-3.15.1-al2023 dcv-2025, nvidia-580.105.08, cuda-13.0": {h100, true},
		"site-7  drivers nvidia":                                                       {h100, true},
		"aws-pcs-sample_ami-al2023-x86_64-slurm-25.11 ":                                {h100, false},
		"deep learning ami neuron (ubuntu 24.04) 20260501 ":                            {h100, false},
		"al2023-ami-2023.9 amazon linux 2023 ami x86_64 hvm kernel-6.1":                {h100, false},
		"ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260501 canonical": {h100, false},
		"deep learning ami neuron (ubuntu 24.04) ":                                     {trainium, true},
		"deep learning base oss nvidia driver gpu ami ":                                {trainium, false},
		"al2023 cpu": {ec2.InstanceType{Name: "c7i.4xlarge"}, true},
		"al2023":     {ec2.InstanceType{Name: "g4ad.xlarge", GPUs: 1, GPUName: "Radeon Pro V520"}, true}, // no word is known for these
	} {
		s := Launch{Provider: capacity.ProviderPCS, Image: ec2.Image{ID: "ami-1", Says: says}, Type: c.kind}
		if got := drivers(s); (len(got) == 0) != c.fine || len(got) > 0 && Stops(got[0]) {
			t.Errorf("%s on %s: %v", says, c.kind.Name, got)
		}
	}

	s := Launch{Provider: capacity.ProviderPCS, Image: ec2.Image{ID: "ami-1", Name: "al2023", Says: "al2023 "}, Type: h100, Network: Network{Region: "us-east-2"}}
	const tag = "or say so by a tag if it has them: `aws ec2 create-tags --region us-east-2 --resources ami-1 --tags Key=drivers,Value="
	for _, c := range []struct {
		provider capacity.Provider
		kind     ec2.InstanceType
		want     string
	}{
		{capacity.ProviderPCS, h100, "the 8 H100 of p5.48xlarge, and Slurm drains a node that shows fewer GPUs than configured; give another image with --ami, such as PCS's own: " + GPUImage + ", " + tag + "nvidia`"},
		{capacity.ProviderEC2, h100, "the 8 H100 of p5.48xlarge, and Slurm drains a node that shows fewer GPUs than configured; give another image with --ami, " + tag + "nvidia`"},
		{capacity.ProviderPCS, trainium, "the 16 Trainium2 of trn2.48xlarge, and Slurm drains a node that shows fewer GPUs than configured; give another image with --ami, " + tag + "neuron`"},
	} {
		s.Provider, s.Type = c.provider, c.kind
		if diff := cmp.Diff("nothing says that image ami-1 (al2023) has drivers for "+c.want, drivers(s)[0].Text()); diff != "" {
			t.Error(diff)
		}
	}
}

// The shapes of launch templates with which PCS launches nothing, or not into the block.
func TestLaunchedByPCS(t *testing.T) {
	const id = "cr-0e2000000000000a1"
	group := pcs.NodeGroup{Name: "gpu-a", PurchaseOption: capacity.CapacityBlock, InstanceTypes: []string{"p5.48xlarge"}, Tags: map[string]string{capacity.TagReservation: id}}
	good := capacity.LaunchTemplate{ReservationID: id, Market: "capacity-block", InstanceType: "p5.48xlarge"}
	for name, c := range map[string]struct {
		change func(*capacity.LaunchTemplate, *pcs.NodeGroup)
		want   string // the codes
	}{
		"good":                        {func(*capacity.LaunchTemplate, *pcs.NodeGroup) {}, ""},
		"the id beside its structure": {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.ReservationID, t.NoTarget = "", true }, "has a"},
		"another block":               {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.ReservationID = "cr-1" }, "launches into"},
		"no market type":              {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.Market = "" }, "has MarketType"},
		"no type":                     {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.InstanceType = "" }, "has InstanceType"},
		"all at once":                 {func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { *t = capacity.LaunchTemplate{} }, "launches into; has MarketType; has InstanceType"},
		"an ODCR": {func(t *capacity.LaunchTemplate, g *pcs.NodeGroup) {
			t.Market, t.InstanceType, g.PurchaseOption = "", "", capacity.ODCR
		}, ""},
		"an ODCR, bought as a block": {func(_ *capacity.LaunchTemplate, g *pcs.NodeGroup) { g.PurchaseOption = capacity.ODCR }, "has MarketType"},
	} {
		t.Run(name, func(t *testing.T) {
			template, g := good, group
			c.change(&template, &g)
			var lacks []string
			for _, l := range launchedByPCS(template, g) {
				lacks = append(lacks, strings.Join(strings.Fields(l.what)[:2], " "))
				if !strings.Contains(l.fix, "--reservation "+id) || !strings.Contains(l.fix, "node group gpu ") {
					t.Errorf("the fix is %q", l.fix)
				}
			}
			if got := strings.Join(lacks, "; "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestLaunchedBySlurm(t *testing.T) {
	group := capacity.GroupSettings{Name: "gpu", PurchaseOption: capacity.ODCR}
	if found := launchedBySlurm(capacity.LaunchTemplate{ImageID: "ami-1", MetadataTags: true}, group); found != nil {
		t.Errorf("%v", found)
	}
	if found := launchedBySlurm(capacity.LaunchTemplate{Market: "spot"}, group); len(found) != 3 {
		t.Errorf("%v", found)
	}
}

// What nodes are attached to is read and judged; where all of it is right,
// nothing is said, and who may not ask is told so once.
func TestWhatNodesAreAttachedTo(t *testing.T) {
	const subnet, group = "subnet-0e200000000000a01", "sg-0e2000000000000a1"
	none := func(s *awssim.Scenario) { s.Regions[0].VPCs[0].Isolated = true }
	closed := func(s *awssim.Scenario) { s.Regions[0].SecurityGroups[0].Closed = true }
	denied := func(operation, code string) awssim.Fault {
		return awssim.Fault{Operation: operation, Effect: awssim.FailBefore, Code: code, Status: 403, Message: "not authorized to perform"}
	}
	cpu := func(s *awssim.Scenario) {
		s.Regions[0].Images[0].Name, s.Regions[0].Images[0].Description = "al2023", ""
	}
	template := capacity.LaunchTemplate{Name: "ml-gpu", ImageID: "ami-0e200000000000a01", SecurityGroupIDs: []string{group}}
	protected, efa := template, template
	protected.Protected, efa.NetworkInterfaces = true, []capacity.Interface{{Type: "efa"}}
	for name, c := range map[string]struct {
		world    func(*awssim.Scenario)
		fault    awssim.Fault
		provider capacity.Provider
		template capacity.LaunchTemplate
		want     string // of each finding, with its status
	}{
		"right":                        {nil, awssim.Fault{}, capacity.ProviderPCS, template, ""},
		"right, on EC2":                {nil, awssim.Fault{}, capacity.ProviderEC2, template, ""},
		"no way out":                   {none, awssim.Fault{}, capacity.ProviderPCS, template, "fail no-way-out"},
		"no way out of EC2":            {none, awssim.Fault{}, capacity.ProviderEC2, template, ""},
		"closed":                       {closed, awssim.Fault{}, capacity.ProviderEC2, efa, "fail security-group-rule"},
		"a CPU image":                  {cpu, awssim.Fault{}, capacity.ProviderPCS, template, "warn drivers"},
		"protected":                    {nil, awssim.Fault{}, capacity.ProviderEC2, protected, "fail termination-protection"},
		"nobody may ask for routes":    {none, denied("DescribeRouteTables", "UnauthorizedOperation"), capacity.ProviderPCS, template, "warn network"},
		"nobody may ask for endpoints": {none, denied("DescribeVpcEndpoints", "UnauthorizedOperation"), capacity.ProviderPCS, template, "warn network"},
		"nobody may ask for rules":     {closed, denied("DescribeSecurityGroups", "UnauthorizedOperation"), capacity.ProviderPCS, efa, "warn network"},
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
				r.launches(c.provider, name, "p5.48xlarge", "", c.template, []string{subnet}, nil, 2).trial = ec2.Trial{}
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

// A denial names whose permission is missing, as AWS does.
func TestDenialsNameTheCaller(t *testing.T) {
	const action = "ec2:DescribeSubnets"
	old := awssim.Fault{Operation: "DescribeSubnets", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Message: "You are not authorized to perform this operation."}
	named := old
	named.Message = "You are not authorized to perform this operation. User: arn:aws:iam::111122223333:user/ann is not authorized to perform: " + action + " because no identity-based policy allows the action."
	for who, fault := range map[string]awssim.Fault{"arn:aws:iam::111122223333:user/ann": named, "these credentials": old} {
		sim, client := simOf(t, awssim.DefaultScenario())
		if _, err := sim.AddFault(fault); err != nil {
			t.Fatal(err)
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
