package setup_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// PCS takes a minute for each thing; the run tells that it waits.
func TestSetupWaits(t *testing.T) {
	w := newAccount(t, func(s *awssim.Scenario) { s.PCSDelay = awssim.Duration(time.Minute) })

	var told []string

	w.setup.Progress = func(what, _, status string) {
		told = append(told, what+" "+status)
		if status == "wait" {
			w.sim.Clock().Advance(time.Minute)
		}
	}
	w.run(w.request(openBlock))

	want := []string{
		"file create",
		"file create",
		"launch template create",
		"compute node group create",
		"compute node group wait",
		"queue create",
		"queue wait",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestSetupRepairsWhatPCSCouldNotUpdate(t *testing.T) {
	w := newAccount(t, nil)
	w.run(w.request(openBlock))
	w.fault(awssim.Fault{
		Operation: "UpdateComputeNodeGroup",
		Effect:    awssim.FailLater,
		Message:   "no luck",
		Count:     1,
	})

	r := w.request(openBlock)
	r.MaxNodes = 6
	if err := w.setup.Apply(t.Context(), w.plan(r)); err == nil ||
		!strings.Contains(err.Error(), "PCS could not update node group gpu-a: InternalError: no luck") {
		t.Errorf("error %v", err)
	}

	p := w.run(r)
	if actions(p) != "nothing update nothing nothing nothing" ||
		detail(p, "status") != "UPDATE_FAILED (InternalError: no luck) → ACTIVE" {
		t.Errorf("%s: %+v", actions(p), p.Steps())
	}

	if g := w.group("gpu-a"); g.Status != pcs.Active || g.Max != 6 {
		t.Errorf("node group %+v", g)
	}
}

func TestPlanWritesNothing(t *testing.T) {
	w := newAccount(t, nil)
	p := w.plan(w.request(openBlock))
	if writes := w.written(); len(writes) > 0 {
		t.Errorf("a plan sends %v", writes)
	}

	if _, err := os.Stat(filepath.Dir(w.configPath())); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a plan writes files: %v", err)
	}

	if len(p.Mismatches()) > 0 || p.Done() ||
		!strings.HasPrefix(strings.Join(p.Texts(capacity.Good), ""), "EC2's dry run would launch a node of gpu-a") {
		t.Errorf("plan %+v", p)
	}

	w.fault(awssim.Fault{Effect: awssim.FailBefore, Operation: "RunInstances", Count: 1, Code: "UnauthorizedOperation"})

	p = w.plan(w.request(openBlock))
	if !strings.Contains(
		strings.Join(p.Texts(capacity.Note), "\n"),
		"whether EC2 would launch a node of gpu-a was not asked",
	) ||
		strings.Join(p.Texts(capacity.Good), "") != "" {
		t.Errorf("without the right to ask: %q, %v", strings.Join(p.Texts(capacity.Good), ""), p.Texts(capacity.Note))
	}
}

// The reservations that have ended leave the file that setup wrote when it is written
// again; the plan says so. An id that EC2 does not describe stays.
func TestEndedReservationsLeaveTheSettings(t *testing.T) {
	w := newAccount(t, nil)
	w.run(w.request(openBlock))
	w.run(w.request(laterBlock))
	bought := w.buyNextWeek()
	file := filepath.Join(filepath.Dir(w.configPath()), "conf.d", "gpu.toml")

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	const unknown = "cr-0fffffffffffffff0"

	more := strings.Replace(string(text), `ids = ["cr-`, `ids = ["`+unknown+`", "`+unpaid+`", "cr-`, 1)
	if err := os.WriteFile(file, []byte(more), 0o644); err != nil {
		t.Fatal(err)
	}

	w.sim.Clock().Advance(6 * 24 * time.Hour)
	third := w.request(bought)
	third.MaxNodes = 2

	p := w.run(third)
	if got := detail(p, "ended, removed"); got != unpaid+", "+openBlock {
		t.Errorf("the plan says %q", got)
	}

	part, _ := w.config().Partition("gpu")
	if ids := part.Groups[0].ReservationIDs; !slices.Equal(ids, []string{unknown, laterBlock, bought}) {
		t.Errorf("left %v", ids)
	}

	if p := w.plan(third); !p.Done() {
		t.Errorf("again: %s", actions(p))
	}
}

// detail is the value of a detail of any step.
func detail(p *setup.Plan, key string) string {
	for _, s := range p.Steps() {
		for _, d := range s.Details {
			if d.Key == key {
				return d.Value
			}
		}
	}

	return ""
}

func TestMismatches(t *testing.T) {
	for name, test := range map[string]struct {
		request func(*setup.Request)
		codes   string
		says    string // part of a message or of what to do
	}{
		"malformed id": {request: func(r *setup.Request) { r.Reservation = "x" }, codes: "reservation-unknown"},
		"unknown image": {
			request: func(r *setup.Request) { r.AMI = "ami-0ffffffffffffffff" },
			codes:   "image",
			says:    "InvalidAMIID.NotFound",
		},
		"unknown subnet": {
			request: func(r *setup.Request) { r.SubnetIDs = []string{"subnet-0ffffffffffffffff"} },
			codes:   "subnet-unknown",
			says:    "use --subnet-ids " + subnetA,
		},
		"unknown cluster, and a reservation that failed": {
			request: func(r *setup.Request) { r.Cluster, r.Reservation = "mp", unpaid },
			codes:   "cluster state",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAccount(t, nil)

			r := w.request(openBlock)
			if test.request != nil {
				test.request(&r)
			}

			p := w.plan(r)
			if got := strings.Join(codes(p), " "); got != test.codes {
				t.Errorf("codes %q, want %q: %v", got, test.codes, p.Mismatches())
			}

			if text := fmt.Sprint(p.Mismatches()); !strings.Contains(text, test.says) {
				t.Errorf("%q is not in %s", test.says, text)
			}

			if err := w.setup.Apply(t.Context(), p); err == nil || !strings.Contains(err.Error(), test.says) ||
				len(w.written()) > 0 {
				t.Errorf("applied: %v", err)
			}
		})
	}
}

// The zone's name would match here: the owner of the shared reservation calls
// use2-az1 "us-east-2c". And the message names what would do.
func TestR10_ZonesAreComparedByID(t *testing.T) {
	w := newAccount(t, nil)
	r := w.request(sharedODCR)
	r.MaxNodes, r.SubnetIDs = 2, []string{"subnet-0e200000000000c03"} // in us-east-2c of this account

	p := w.plan(r)
	if !slices.Equal(codes(p), []string{"az"}) || !strings.Contains(p.Mismatches()[0].Sentence, "use2-az1") ||
		!strings.Contains(p.Mismatches()[0].Fix, "--subnet-ids "+subnetA) {
		t.Errorf("mismatches %v", p.Mismatches())
	}

	r.SubnetIDs = nil
	if p := w.plan(r); len(p.Mismatches()) > 0 || !slices.Equal(w.run(r).Mismatches(), nil) {
		t.Errorf("with subnets by id: %v", p.Mismatches())
	}

	if g := w.group("gpu-a"); !slices.Equal(g.SubnetIDs, []string{subnetA}) {
		t.Errorf("subnets %v", g.SubnetIDs)
	}
}

func TestSettingsOfTheAdministrator(t *testing.T) {
	w := newAccount(t, nil)
	head := "# mine\ncluster = \"ml\"\n[[partition]]\nname = \"gpu\"\nprovider = \"pcs\"\n"
	mine := head + "[[partition.node_group]]\nname = \"mine\"\ninstance_type = \"p5.48xlarge\"\nsubnet_ids = [\"" +
		subnetA + "\"]\nmax_nodes = 1\n"
	w.write(mine)

	p := w.plan(w.request(openBlock))
	_, snippet, _ := strings.Cut(fmt.Sprint(p.Mismatches()[0].Fix), "run this again:\n")
	if !slices.Equal(codes(p), []string{"partition-file"}) ||
		!strings.HasPrefix(snippet, "[[partition.node_group]]\nname = \"gpu\"\n") {
		t.Fatalf("own partition: %v", p.Mismatches())
	}

	if w.setup.Apply(t.Context(), p) == nil || len(w.written()) > 0 {
		t.Error("it was applied")
	}
	// What it asks for is what it takes.
	w.write(mine + snippet)
	w.run(w.request(openBlock))

	if text, err := os.ReadFile(w.configPath()); err != nil || string(text) != mine+snippet {
		t.Errorf("the file was changed to %s, %v", text, err)
	}

	if p := w.plan(w.request(openBlock)); !p.Done() {
		t.Errorf("again: %s", actions(p))
	}
}

// What EC2 refuses a launch for is found before anything is created: here it is set up
// all the same, and the launch fails with EC2's code.
func TestWhatALaunchIsRefusedFor(t *testing.T) {
	const (
		elsewhere  = "vpc-0e2000000000000ff"
		strange    = "sg-0e2000000000000ff" // in that VPC
		placedODCR = "cr-0e200000000000f01"
		tiny       = "subnet-0e200000000000f01" // 11 addresses
	)

	world := func(s *awssim.Scenario) {
		r := &s.Regions[0]
		r.VPCs = append(r.VPCs, awssim.VPCScenario{ID: elsewhere, CIDR: "10.9.0.0/16"})
		r.SecurityGroups = append(
			r.SecurityGroups,
			awssim.SecurityGroupScenario{ID: strange, Name: "strange", VPC: elsewhere},
		)
		r.Subnets = append(
			r.Subnets,
			awssim.SubnetScenario{ID: tiny, VPC: r.VPCs[0].ID, Zone: "us-east-2a", CIDR: "10.2.9.0/28"},
		)
	}
	for name, test := range map[string]struct {
		world   func(*awssim.Scenario)
		request func(*setup.Request)
		check   string // the code of ours
		launch  string // EC2's, of the launch
		says    string
	}{
		"unknown key pair of --like": {
			world:  func(s *awssim.Scenario) { s.Regions[0].LaunchTemplates[0].KeyName = "nobody" },
			check:  "launch-refused",
			launch: "InvalidKeyPair.NotFound",
			says:   "InvalidKeyPair.NotFound: The key pair 'nobody' does not exist",
		},
		"placement group of another account": {
			world: func(s *awssim.Scenario) {
				s.Regions[0].Reservations = append(s.Regions[0].Reservations, awssim.ReservationScenario{
					ID: placedODCR, Type: "p5.48xlarge", Zone: "us-east-2a",
					Count: 4, Owner: "444455556666", PlacementGroup: "theirs",
				})
			},
			request: func(r *setup.Request) { r.Reservation = placedODCR },
			check:   "launch-refused",
			launch:  "InvalidPlacementGroup.Unknown",
			says:    "InvalidPlacementGroup.Unknown",
		},
		"what only EC2 knows": {
			world:  func(s *awssim.Scenario) { s.Regions[0].LaunchTemplates[0].RootGiB = 7 },
			check:  "launch-refused",
			launch: "InvalidBlockDeviceMapping",
			says: "EC2 would not launch a node of gpu-a into subnet-0e200000000000a01: InvalidBlockDeviceMapping: " +
				"Volume of size 7GB is smaller than snapshot",
		},
		"no address for each node": {
			request: func(r *setup.Request) { r.SubnetIDs, r.MaxNodes, r.EFA = []string{tiny}, 12, capacity.NoEFA },
			check:   "addresses",
			launch:  "InsufficientFreeAddressesInSubnet",
			says:    "has free addresses for 11 nodes, but 12 are wanted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAccount(t, func(s *awssim.Scenario) {
				world(s)

				if test.world != nil {
					test.world(s)
				}
			})

			r := w.request(openBlock)
			if test.request != nil {
				test.request(&r)
			}

			p := w.plan(r)
			if got := strings.Join(codes(p), " "); got != test.check || len(p.Mismatches()) != 1 ||
				!strings.Contains(p.Mismatches()[0].Text(), test.says) {
				t.Errorf("%s: %v", got, p.Mismatches())
			}

			p.Problems = nil
			if err := w.setup.Apply(t.Context(), p); err != nil {
				t.Fatal(err)
			}

			var err error
			for n := 1; n <= r.MaxNodes && err == nil; n++ {
				_, err = w.sim.LaunchForNodeGroup("ml", "gpu-a", fmt.Sprintf("gpu-a-%d", n))
			}

			var refused *awssim.APIError
			if !errors.As(err, &refused) || refused.Code != test.launch {
				t.Errorf("the launch: %v, want %s", err, test.launch)
			}
		})
	}
}

// Who may not ask is told so once, and goes on.
func TestNetworkThatNobodyMayAsk(t *testing.T) {
	for operation, want := range map[string]string{
		"DescribeRouteTables": "whether nodes reach AWS was not checked: ec2:DescribeRouteTables is not allowed",
	} {
		w := newAccount(t, nil)
		w.fault(
			awssim.Fault{Operation: operation, Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403},
		)

		if p := w.plan(w.request(openBlock)); len(p.Mismatches()) > 0 || len(p.Texts(capacity.Note)) != 1 ||
			!strings.HasPrefix(p.Texts(capacity.Note)[0], want) {
			t.Errorf("%s: %v, %v", operation, p.Mismatches(), p.Texts(capacity.Note))
		}
	}
}
