package check

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

func TestTried(t *testing.T) {
	const key = "'Cost Center' is not a valid tag key"
	for name, c := range map[string]struct {
		tried []ec2.TrialResult
		err   error
		want  string
	}{
		"nothing was asked": {nil, nil, ""},
		"all is well": {
			[]ec2.TrialResult{{SubnetID: "a"}, {SubnetID: "b"}},
			nil,
			"ok: EC2's dry run would launch a node of gpu into a or b; a dry run does not check for free capacity\n",
		},
		"before it opens": {
			[]ec2.TrialResult{{SubnetID: "a", NoReservation: true}},
			nil,
			"ok: EC2's dry run would launch a node of gpu into a, tried without the reservation, which accepts no " +
				"launch now; a dry run does not check for free capacity\n",
		},
		"one subnet refuses": {
			[]ec2.TrialResult{
				{SubnetID: "a"},
				{
					SubnetID: "b",
					Verdict:  ec2.Refuses,
					Code:     "InvalidSubnetID.NotFound",
					Message:  "no b",
					Fix:      "fix subnet_ids",
				},
			},
			nil,
			"admin: EC2 would not launch a node of gpu into b: InvalidSubnetID.NotFound: no b; fix subnet_ids\n" +
				"ok: EC2's dry run would launch a node of gpu into a; a dry run does not check for free capacity\n",
		},
		"both refuse for one reason": {
			[]ec2.TrialResult{
				{SubnetID: "a", Verdict: ec2.Refuses, Code: "InvalidParameterValue", Message: key},
				{SubnetID: "b", Verdict: ec2.Refuses, Code: "InvalidParameterValue", Message: key},
			},
			nil,
			"admin: EC2 would not launch a node of gpu into a: InvalidParameterValue: 'Cost Center' is not a valid " +
				"tag key; fix what EC2 reports, in the launch template or in the flags\n",
		},
		"no answer": {
			[]ec2.TrialResult{{SubnetID: "a", Verdict: ec2.Silent, Message: "oops"}},
			nil,
			"note: EC2 did not say whether it would launch a node of gpu: oops\n",
		},
		"no template": {
			nil,
			errors.New("no lt"),
			"note: EC2 did not say whether it would launch a node of gpu: no lt\n",
		},
		"not allowed": {
			[]ec2.TrialResult{{SubnetID: "a", Verdict: ec2.Denied, Message: "ec2:RunInstances"}},
			nil,
			"note: whether EC2 would launch a node of gpu was not asked: ec2:RunInstances is not allowed here; its " +
				"key pair, placement group, tags and architecture are unchecked\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, p := range Trial("gpu", c.tried, c.err) {
				got += string(p.Severity) + ": " + p.Text() + "\n"
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
		"al2023": {
			ec2.InstanceType{Name: "g4ad.xlarge", GPUs: 1, GPUName: "Radeon Pro V520"},
			true,
		}, // no word is known for these
	} {
		s := facts.Launch{Provider: capacity.ProviderPCS, Image: ec2.Image{ID: "ami-1", Keywords: says}, Type: c.kind}
		if got := checkDrivers(s); (len(got) == 0) != c.fine || len(got) > 0 && got[0].Severity != capacity.Note {
			t.Errorf("%s on %s: %v", says, c.kind.Name, got)
		}
	}

	s := facts.Launch{
		Provider: capacity.ProviderPCS,
		Image:    ec2.Image{ID: "ami-1", Name: "al2023", Keywords: "al2023 "},
		Type:     h100,
		Region:   "us-east-2",
	}

	const tag = "or, if it has them, say so with a tag: `aws ec2 create-tags --region us-east-2 --resources ami-1 " +
		"--tags Key=drivers,Value="
	for _, c := range []struct {
		provider capacity.Provider
		kind     ec2.InstanceType
		want     string
	}{
		{
			capacity.ProviderPCS,
			h100,
			"the 8 H100 of p5.48xlarge, and Slurm drains a node that shows fewer GPUs than configured; name another " +
				"image with --ami, such as PCS's own: " + GPUImage + ", " + tag + "nvidia`",
		},
		{
			capacity.ProviderEC2,
			h100,
			"the 8 H100 of p5.48xlarge, and Slurm drains a node that shows fewer GPUs than configured; name another " +
				"image with --ami, " + tag + "nvidia`",
		},
		{
			capacity.ProviderPCS,
			trainium,
			"the 16 Trainium2 of trn2.48xlarge, and Slurm drains a node that shows fewer GPUs than configured; name " +
				"another image with --ami, " + tag + "neuron`",
		},
	} {
		s.Provider, s.Type = c.provider, c.kind
		if diff := cmp.Diff("nothing says that image ami-1 (al2023) has drivers for "+c.want,
			checkDrivers(s)[0].Text()); diff != "" {
			t.Error(diff)
		}
	}
}

// PCS takes only some roles, by names that the profile may not show.
func TestRoleOfNodes(t *testing.T) {
	const path = "arn:aws:iam::111122223333:instance-profile/"
	for profile, warns := range map[string]bool{
		"":                         false,
		path + "AWSPCS-nodes":      false,
		path + "site/AWSPCS-nodes": false,
		path + "aws-pcs/nodes":     false,
		path + "nodes":             true,
		path + "AWSPCS/nodes":      true,
		path + "aws-pcs-2/nodes":   true,
	} {
		for _, provider := range []capacity.Provider{capacity.ProviderPCS, capacity.ProviderEC2} {
			l := facts.Launch{Provider: provider, Template: capacity.LaunchTemplate{InstanceProfile: profile}}
			if got := checkRole(l); (len(got) > 0) != (warns && provider == capacity.ProviderPCS) {
				t.Errorf("%s, %s: %v", provider, profile, got)
			}
		}
	}
}

// The shapes of launch templates with which PCS launches nothing, or not into the block.
func TestLaunchedByPCS(t *testing.T) {
	const id = "cr-0e2000000000000a1"

	group := pcs.NodeGroup{
		Name:           "gpu-a",
		PurchaseOption: capacity.CapacityBlock,
		InstanceTypes:  []string{"p5.48xlarge"},
		Tags:           map[string]string{capacity.TagReservation: id},
	}
	good := capacity.LaunchTemplate{ReservationID: id, Market: "capacity-block", InstanceType: "p5.48xlarge"}
	for name, c := range map[string]struct {
		change func(*capacity.LaunchTemplate, *pcs.NodeGroup)
		want   string // the codes
	}{
		"good": {func(*capacity.LaunchTemplate, *pcs.NodeGroup) {}, ""},
		"the id beside its structure": {
			func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.ReservationID, t.NoTarget = "", true },
			"has a",
		},
		"another block": {
			func(t *capacity.LaunchTemplate, _ *pcs.NodeGroup) { t.ReservationID = "cr-1" },
			"launches into",
		},
		"an ODCR": {func(t *capacity.LaunchTemplate, g *pcs.NodeGroup) {
			t.Market, t.InstanceType, g.PurchaseOption = "", "", capacity.ODCR
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			template, g := good, group
			c.change(&template, &g)

			var lacks []string
			for _, l := range pcsLaunchFaults(template, g) {
				lacks = append(lacks, strings.Join(strings.Fields(l.text)[:2], " "))
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
	if found := slurmLaunchFaults(capacity.LaunchTemplate{
		ImageID:      "ami-1",
		MetadataTags: true,
	}, group, nil); found != nil {
		t.Errorf("%v", found)
	}

	if found := slurmLaunchFaults(capacity.LaunchTemplate{Market: "spot"}, group, nil); len(found) != 2 {
		t.Errorf("%v", found)
	}
}

// What nodes are attached to is read, and judged as it is.
func TestLaunchIsRead(t *testing.T) {
	const group = "sg-0e2000000000000a1"

	none := func(s *awssim.Scenario) { s.Regions[0].VPCs[0].Isolated = true }
	closed := func(s *awssim.Scenario) { s.Regions[0].SecurityGroups[0].Closed = true }
	for name, c := range map[string]struct {
		world                func(*awssim.Scenario)
		denied, want, unread string
	}{
		"right":                        {func(*awssim.Scenario) {}, "", "", ""},
		"no way out":                   {none, "", "no-way-out", ""},
		"closed":                       {closed, "", "security-group-rule", ""},
		"nobody may ask for endpoints": {none, "DescribeVpcEndpoints", "", "ec2:DescribeVpcEndpoints"},
		"nobody may ask for rules":     {closed, "DescribeSecurityGroups", "", "ec2:DescribeSecurityGroups"},
	} {
		t.Run(name, func(t *testing.T) {
			scenario := awssim.DefaultScenario()
			c.world(scenario)
			sim, client := simOf(t, scenario)

			subnets, _, err := client.Subnets(t.Context(), []string{"subnet-0e200000000000a01"})
			if err != nil {
				t.Fatal(err)
			}

			if c.denied != "" {
				if _, err := sim.AddFault(
					awssim.Fault{
						Operation: c.denied,
						Effect:    awssim.FailBefore,
						Code:      "UnauthorizedOperation",
						Status:    403,
						Message:   "not authorized to perform",
					}); err != nil {
					t.Fatal(err)
				}
			}

			l := facts.Launch{
				Provider: capacity.ProviderPCS,
				Template: capacity.LaunchTemplate{
					InstanceType:      "p5.48xlarge",
					ImageID:           "ami-0e200000000000a01",
					SecurityGroupIDs:  []string{group},
					NetworkInterfaces: []capacity.Interface{{Type: "efa"}},
				},
				Nodes:   2,
				Subnets: subnets,
			}
			l.Read(t.Context(), client)

			got := ""
			for _, p := range Launch(l) {
				got = string(p.Code)
			}

			if got != c.want || ec2.DeniedAction(l.NetworkErr) != c.unread || l.ImageErr != nil || l.Type.GPUs == 0 ||
				l.Image.Name == "" {
				t.Errorf("%s, want %s: %+v", got, c.want, l)
			}
		})
	}
}

// lacking is the error of a call that is not allowed.
func lacking(action, caller string) error { return &awsconfig.Denied{Action: action, Caller: caller} }

// What is the same for several groups is said once.
func TestLaunched(t *testing.T) {
	for name, c := range map[string]struct {
		launch facts.Launch
		tried  []ec2.TrialResult
		want   string // of each finding, with its severity
	}{
		"right": {
			facts.Launch{Image: ec2.Image{ID: "ami-1"}},
			[]ec2.TrialResult{{SubnetID: "a"}},
			"ok image; ok launch; ok image; ok launch",
		},
		"refused": {
			facts.Launch{},
			[]ec2.TrialResult{{SubnetID: "a", Verdict: ec2.Refuses, Code: "InvalidKeyPair.NotFound"}},
			"admin launch-refused; admin launch-refused",
		},
		"nobody may ask for routes": {facts.Launch{NetworkErr: lacking("ec2:DescribeRouteTables", "")}, nil, "note " +
			"network"},
		"no answer about routes":    {facts.Launch{NetworkErr: errors.New("oops")}, nil, "admin network"},
		"an image that is not read": {facts.Launch{ImageErr: errors.New("oops")}, nil, "admin launch"},
	} {
		s := facts.Survey{}
		for _, group := range []string{"gpu-a", "gpu-b"} {
			l := c.launch
			l.Provider, l.Group, l.Tried.Value = capacity.ProviderPCS, group, c.tried
			s.Launches = append(s.Launches, &l)
		}

		if got := judged(&s, survey.checkLaunches); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// judged are the severities and checks of what a judgement finds; each but an ok has a fix.
func judged(s *facts.Survey, judge func(survey, *findings)) string {
	var (
		f     findings
		words []string
	)

	judge(survey{s}, &f)

	for _, one := range f.Problems {
		if (one.Fix == "") != (one.Severity == capacity.Good) {
			return "no fix: " + one.Sentence
		}

		if strings.Contains(one.Sentence+one.Fix, "m0s") {
			return "a length of time as Go writes it: " + one.Sentence
		}

		words = append(words, string(one.Severity)+" "+one.About.Check)
	}

	return strings.Join(words, "; ")
}

// A denial names whose permission is missing, as AWS does, once. A read for lack of it is no finding of its own.
func TestPermission(t *testing.T) {
	const action, ann = "ec2:DescribeSubnets", "arn:aws:iam::111122223333:user/ann"

	asked := func(answer error) facts.Survey {
		permissions := map[string]facts.Answer[struct{}]{action: {Err: answer}}
		return facts.Survey{AWSSurvey: facts.AWSSurvey{Permissions: permissions}}
	}

	onEC2 := capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2}}}
	for name, c := range map[string]struct {
		survey facts.Survey
		want   string
	}{
		"all": {
			asked(nil),
			"ok: these credentials allow what sync and the hooks call, as far as dry runs show",
		},
		"one": {
			facts.Survey{
				AWSSurvey: facts.AWSSurvey{
					Permissions: map[string]facts.Answer[struct{}]{
						action:               {Err: lacking(action, ann)},
						"ec2:DescribeImages": {},
					},
					Answers: facts.Answers{Subnets: facts.Answer[[]ec2.Subnet]{Err: lacking(action, "")}},
				},
			},
			"admin: " + action + " is not allowed for " + ann,
		},
		"of nobody": {
			asked(lacking(action, "")),
			"admin: " + action + " is not allowed for these credentials",
		},
		"of PCS": {
			facts.Survey{AWSSurvey: facts.AWSSurvey{ClusterErr: lacking("pcs:GetCluster", "")}},
			"admin: pcs:GetCluster is not allowed for these credentials",
		},
		"a launch": {
			facts.Survey{
				Settings: onEC2,
				AWSSurvey: facts.AWSSurvey{Launches: []*facts.Launch{
					{
						Provider: capacity.ProviderEC2,
						Tried: facts.Answer[[]ec2.TrialResult]{
							Value: []ec2.TrialResult{{Verdict: ec2.Denied, Message: "ec2:RunInstances"}},
						},
					},
				}},
			},
			"admin: ec2:RunInstances is not allowed for these credentials",
		},
		"a launch that PCS makes": {
			facts.Survey{AWSSurvey: facts.AWSSurvey{Launches: []*facts.Launch{
				{
					Provider: capacity.ProviderPCS,
					Tried: facts.Answer[[]ec2.TrialResult]{
						Value: []ec2.TrialResult{{Verdict: ec2.Denied, Message: "ec2:RunInstances"}},
					},
				},
			}}},
			"ok: these credentials allow what sync and the hooks call, as far as dry runs show",
		},
		"not known": {
			asked(errors.New("oops")),
			"note: permissions could not be checked: oops",
		},
	} {
		var f findings

		s := survey{&c.survey}
		s.checkPermissions(&f)
		s.checkReservations(&f)

		if len(f.Problems) != 1 || string(f.Problems[0].Severity)+": "+f.Problems[0].Sentence != c.want {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// What was not read is never said to be missing, and hides nothing that is known without it.
func TestReservations(t *testing.T) {
	g := capacity.GroupSettings{
		Name:           "gpu",
		InstanceType:   "p5.48xlarge",
		PurchaseOption: capacity.CapacityBlock,
		ReservationIDs: []string{"cr-1", "cr-2"},
		SubnetIDs:      []string{"subnet-1"},
		MaxNodes:       1,
		LaunchTemplate: "lt-1",
	}
	one := capacity.Reservation{
		ID:           "cr-1",
		Kind:         capacity.CapacityBlock,
		State:        capacity.StateActive,
		InstanceType: "p5.48xlarge",
		AZID:         "use2-az1",
		Total:        1,
		Platform:     "Linux/UNIX",
		Tenancy:      "default",
		End:          time.Date(2026, 11, 30, 11, 30, 0, 0, time.UTC),
	}
	for name, c := range map[string]struct {
		change func(*facts.Survey)
		want   string
	}{
		"one is unknown": {func(*facts.Survey) {}, "admin reservation; ok reservation"},
		"none is read": {
			func(s *facts.Survey) { s.Reservations.Err, s.Missing = errors.New("oops"), nil },
			"admin reservation",
		},
		"no subnet is read": {
			func(s *facts.Survey) { s.Subnets = facts.Answer[[]ec2.Subnet]{Err: errors.New("oops")} },
			"admin reservation; admin subnet",
		},
		"a subnet is unknown": {
			func(s *facts.Survey) { s.MissingSubnets = []capacity.Missing{{ID: "subnet-2"}} },
			"admin reservation; admin subnet; ok reservation",
		},
		"another zone": {
			func(s *facts.Survey) { s.Subnets.Value[0].AZID = "use2-az2" },
			"admin reservation; admin reservation",
		},
		"ended": {func(s *facts.Survey) { s.Now = one.End }, "admin reservation; note reservation"},
		"no platform": {
			func(s *facts.Survey) { s.Platforms["lt-1"] = facts.Answer[capacity.ImagePlatform]{} },
			"admin reservation; note platform; ok reservation",
		},
		"an image of nowhere": {func(s *facts.Survey) {
			s.Platforms["lt-1"] = facts.Answer[capacity.ImagePlatform]{
				Value: capacity.ImagePlatform{Template: "lt-1:1"},
				Err:   errors.New("no"),
			}
		}, "admin reservation; admin platform; ok reservation"},
		"selected, and unread": {func(s *facts.Survey) {
			s.Selected = map[string]facts.Answer[[]capacity.Reservation]{"gpu": {Err: errors.New("oops")}}
		}, "admin reservation; admin reservation; ok reservation"},
	} {
		s := facts.Survey{
			Settings: capacity.Settings{
				Partitions: []capacity.PartitionSettings{
					{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{g}},
				},
			},
			Site: facts.Site{Now: one.End.Add(-48 * time.Hour)},
			AWSSurvey: facts.AWSSurvey{Answers: facts.Answers{
				Reservations: facts.Answer[[]capacity.Reservation]{Value: []capacity.Reservation{one}},
				Missing:      []capacity.Missing{{ID: "cr-2", Err: errors.New("none")}},
				Subnets: facts.Answer[[]ec2.Subnet]{
					Value: []ec2.Subnet{{Subnet: capacity.Subnet{ID: "subnet-1", AZID: "use2-az1"}}},
				},
				Platforms: map[string]facts.Answer[capacity.ImagePlatform]{
					"lt-1": {Value: capacity.ImagePlatform{Template: "lt-1:1", Platform: "Linux/UNIX"}},
				},
			}},
		}
		c.change(&s)

		if got := judged(&s, survey.checkReservations); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
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
