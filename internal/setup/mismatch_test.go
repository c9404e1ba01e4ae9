package setup_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

func TestMismatches(t *testing.T) {
	one := sharing{T: t}
	ml := func(s *awssim.Scenario) *awssim.ClusterScenario { return &s.Regions[0].Clusters[0] }
	for name, test := range map[string]struct {
		account func(*awssim.Scenario)
		request func(*setup.Request)
		codes   string
		says    string // part of a message or of what to do
	}{
		"nothing":                         {codes: ""},
		"unknown cluster":                 {request: func(r *setup.Request) { r.Cluster = "mp" }, codes: "cluster", says: "use one of ml"},
		"no cluster":                      {request: func(r *setup.Request) { r.Cluster = "" }, codes: "cluster", says: "name it with --cluster: ml"},
		"unknown reservation":             {request: func(r *setup.Request) { r.Reservation = "cr-0ffffffffffffffff" }, codes: "reservation-unknown", says: "InvalidCapacityReservationId.NotFound"},
		"malformed id":                    {request: func(r *setup.Request) { r.Reservation = "x" }, codes: "reservation-unknown"},
		"unknown like":                    {request: func(r *setup.Request) { r.Like = "comput" }, codes: "like", says: "use one of compute"},
		"unknown image":                   {request: func(r *setup.Request) { r.AMI = "ami-0ffffffffffffffff" }, codes: "image", says: "InvalidAMIID.NotFound"},
		"unknown subnet":                  {request: func(r *setup.Request) { r.SubnetIDs = []string{"subnet-0ffffffffffffffff"} }, codes: "subnet-unknown", says: "give --subnet-ids " + subnetA},
		"unknown like, self-managed":      {request: func(r *setup.Request) { *r = one.last.requestOnEC2(openBlock); r.Like = "none" }, codes: "like"},
		"unpaid":                          {request: func(r *setup.Request) { r.Reservation = unpaid }, codes: "state", says: "payment-failed"},
		"over, so that EC2 shows no size": {request: func(r *setup.Request) { r.Reservation = pastBlock }, codes: "expired"},
		"not assessed yet": {account: func(s *awssim.Scenario) { s.Regions[0].Reservations[6].State = "assessing" },
			request: func(r *setup.Request) { r.Reservation = gpuODCR }, codes: "state", says: "is in state assessing"},
		"unknown cluster, and a reservation that failed": {request: func(r *setup.Request) { r.Cluster, r.Reservation = "mp", unpaid }, codes: "cluster state"},
		"unknown reservation, and all that needs none": {
			account: func(s *awssim.Scenario) { ml(s).NodeGroups[0].Max = 30 },
			request: func(r *setup.Request) {
				r.Reservation, r.Like, r.NodeGroup, r.MaxNodes = "cr-0ffffffffffffffff", "comput", "1", 3
			},
			codes: "name reservation-unknown",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := one.account(t)
			if test.account != nil {
				w = newAccount(t, test.account)
			}
			r := w.request(openBlock)
			if test.request != nil {
				test.request(&r)
			}
			p := w.plan(r)
			if got := strings.Join(codes(p), " "); got != test.codes {
				t.Errorf("codes %q, want %q: %v", got, test.codes, p.Mismatches)
			}
			if text := fmt.Sprint(p.Mismatches); !strings.Contains(text, test.says) {
				t.Errorf("%q is not in %s", test.says, text)
			}
			if test.codes == "" {
				return
			}
			var refusal *setup.Refusal
			if err := w.setup.Apply(t.Context(), p); !errors.As(err, &refusal) || len(w.written()) > 0 {
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
	if !slices.Equal(codes(p), []string{"az"}) || !strings.Contains(p.Mismatches[0].Sentence, "use2-az1") || !strings.Contains(p.Mismatches[0].Fix, "--subnet-ids "+subnetA) {
		t.Errorf("mismatches %v", p.Mismatches)
	}
	r.SubnetIDs = nil
	if p := w.plan(r); len(p.Mismatches) > 0 || !slices.Equal(w.run(r).Mismatches, nil) {
		t.Errorf("with subnets by id: %v", p.Mismatches)
	}
	if g := w.group("gpu-a"); !slices.Equal(g.SubnetIDs, []string{subnetA}) {
		t.Errorf("subnets %v", g.SubnetIDs)
	}
}

// Nodes came up between the plan and its application.
func TestApplyLooksForInstancesAgain(t *testing.T) {
	w := newAccount(t, nil)
	w.run(w.request(openBlock))
	r := w.request(openBlock)
	r.MaxNodes = 3
	p := w.plan(r)
	if _, err := w.sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1"); err != nil {
		t.Fatal(err)
	}
	if err := w.setup.Apply(t.Context(), p); !errors.Is(err, pcs.ErrInUse) || w.group("gpu-a").Max != 4 {
		t.Errorf("applied: %v", err)
	}
}

func TestSettingsOfTheAdministrator(t *testing.T) {
	w := newAccount(t, nil)
	head := "# mine\ncluster = \"ml\"\n[[partition]]\nname = \"gpu\"\nprovider = \"pcs\"\n"
	mine := head + "[[partition.node_group]]\nname = \"mine\"\ninstance_type = \"p5.48xlarge\"\nsubnet_ids = [\"" + subnetA + "\"]\nmax_nodes = 1\n"
	w.write(mine)
	p := w.plan(w.request(openBlock))
	if !slices.Equal(codes(p), []string{"partition-file"}) || !strings.HasPrefix(p.Snippet, "[[partition.node_group]]\nname = \"gpu\"\n") {
		t.Fatalf("own partition: %v, snippet %q", p.Mismatches, p.Snippet)
	}
	if w.setup.Apply(t.Context(), p) == nil || len(w.written()) > 0 {
		t.Error("it was applied")
	}
	// What it asks for is what it takes.
	w.write(mine + p.Snippet)
	w.run(w.request(openBlock))
	if text, err := os.ReadFile(w.configPath()); err != nil || string(text) != mine+p.Snippet {
		t.Errorf("the file was changed to %s, %v", text, err)
	}
	if p := w.plan(w.request(openBlock)); !p.Done() {
		t.Errorf("again: %s", actions(p))
	}
}
