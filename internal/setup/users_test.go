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

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
)

// otherQueue asks for another queue and node group, of 4 nodes.
func otherQueue(w *account, reservation string) setup.Request {
	r := w.request(reservation)
	r.Queue, r.NodeGroup = "other", "other"
	return r
}

func (w *account) refusedBecauseUsed(r setup.Request, message, fix string) {
	w.Helper()
	p := w.plan(r)
	if !slices.Equal(codes(p), []string{"reservation-in-use"}) || p.Mismatches[0].Sentence != message || p.Mismatches[0].Fix != fix {
		w.Errorf("%v", p.Mismatches)
	}
}

func TestReservationOfAnotherQueue(t *testing.T) {
	w := newAccount(t, nil)
	first := w.request(openBlock)
	first.MaxNodes = 16
	w.run(first)
	w.refusedBecauseUsed(otherQueue(w, openBlock), "16 of the 16 instances of reservation "+openBlock+" are used already: 16 by compute node group gpu-a of queue gpu",
		"free it first: pcs-capacity teardown --queue gpu --node-group gpu-a")
	// Its own queue finds it there as before.
	if p := w.plan(first); !p.Done() {
		t.Errorf("again: %s, %v", actions(p), p.Mismatches)
	}
	// What is left of it can be used.
	first.MaxNodes = 12
	w.run(first)
	second := otherQueue(w, openBlock)
	second.MaxNodes = 5
	w.refusedBecauseUsed(second, "12 of the 16 instances of reservation "+openBlock+" are used already: 12 by compute node group gpu-a of queue gpu", "give --max-nodes 4 or less")
	second.MaxNodes = 4
	w.run(second)
}

func TestInstancesOfOthersInTheReservation(t *testing.T) {
	for name, test := range map[string]struct {
		tags map[string]string
		who  string
	}{
		"self-managed": {map[string]string{capacity.TagCluster: "linux", capacity.TagPartition: "gpu"}, "partition gpu of cluster linux"},
		"of a PCS":     {map[string]string{"aws:pcs:cluster-id": "pcs_f00000000a", "aws:pcs:compute-node-group-id": "pcs_f00000000b"}, "PCS cluster pcs_f00000000a"},
		"of nobody":    {nil, "instances without a tag of ours or of PCS"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAccount(t, nil)
			for range 13 {
				if _, err := w.sim.Launch(awssim.LaunchRequest{Region: region, MinCount: 1, MaxCount: 1, InstanceType: "p5.48xlarge", ImageID: image, SubnetID: subnetA,
					MarketType: "capacity-block", ReservationID: openBlock, Tags: test.tags}); err != nil {
					t.Fatal(err)
				}
			}
			message := "13 of the 16 instances of reservation " + openBlock + " are used already: 13 by " + test.who
			w.refusedBecauseUsed(w.request(openBlock), message, "give --max-nodes 3 or less")
			w.sharesWhatIsLeft(message)
		})
	}
}

// sharesWhatIsLeft sets up without --max-nodes, of a block of which others have 13 of 16.
func (w *account) sharesWhatIsLeft(message string) {
	w.Helper()
	r := w.request(openBlock)
	r.MaxNodes = 0
	p := w.run(r)
	_, who, _ := strings.Cut(message, ": ")
	want := "13 of the 16 instances of reservation " + openBlock + " are for others (" + who + "), so the nodes are the 3 that are left"
	if g := w.group("gpu-a"); g.Min != 3 || g.Max != 3 || !slices.Contains(p.Warnings, want) {
		w.Errorf("%d to %d nodes, warnings %q", g.Min, g.Max, p.Warnings)
	}
	part, _ := w.config().Partition("gpu")
	if part.Groups[0].MaxNodes != 3 {
		w.Errorf("settings %+v", part)
	}
	if p := w.plan(r); !p.Done() {
		w.Errorf("again: %s", actions(p))
	}
	// Others take more: the nodes that are set up are not ended for that.
	if _, err := w.sim.Launch(awssim.LaunchRequest{Region: region, MinCount: 1, MaxCount: 1, InstanceType: "p5.48xlarge", ImageID: image, SubnetID: subnetA,
		MarketType: "capacity-block", ReservationID: openBlock}); err != nil {
		w.Fatal(err)
	}
	if p := w.plan(r); !slices.Contains(codes(p), "reservation-in-use") {
		w.Errorf("with one instance more of others: %v, %s", p.Mismatches, actions(p))
	}
}

// Another entry of the settings has it: nodes that Slurm's own hooks launch.
func TestReservationOfAnotherEntryOfTheSettings(t *testing.T) {
	for name, chosen := range map[string]string{
		"by id":  `capacity_reservation_ids = ["` + openBlock + `"]`,
		"by tag": `select = { tags = { team = "nlp" } }`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newAccount(t, nil)
			if err := os.MkdirAll(filepath.Dir(w.configPath()), 0o755); err != nil {
				t.Fatal(err)
			}
			text := "cluster = \"ml\"\n[[partition]]\nname = \"own\"\nprovider = \"ec2\"\n[[partition.node_group]]\nname = \"own\"\ninstance_type = \"p5.48xlarge\"\n" +
				"subnet_ids = [\"" + subnetA + "\"]\nmax_nodes = 14\nlaunch_template = \"x\"\n" + chosen + "\n"
			if err := os.WriteFile(w.configPath(), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			message := "14 of the 16 instances of reservation " + openBlock + ` are used already: 14 by partition "own" of ` + w.configPath()
			w.refusedBecauseUsed(w.request(openBlock), message, "give --max-nodes 2 or less")
			// Its running nodes are not counted once more.
			for range 3 {
				if _, err := w.sim.Launch(awssim.LaunchRequest{Region: region, MinCount: 1, MaxCount: 1, InstanceType: "p5.48xlarge", ImageID: image, SubnetID: subnetA,
					MarketType: "capacity-block", ReservationID: openBlock, Tags: map[string]string{capacity.TagCluster: "ml", capacity.TagPartition: "own"}}); err != nil {
					t.Fatal(err)
				}
			}
			w.refusedBecauseUsed(w.request(openBlock), message, "give --max-nodes 2 or less")
		})
	}
}

// The places of instances that ended minutes ago are not free yet.
func TestInstancesThatAreNotSeen(t *testing.T) {
	const odcr = "cr-0e200000000000a14" // 8
	w := newAccount(t, func(s *awssim.Scenario) { s.CleanupDelay = awssim.Duration(time.Hour) })
	ended, err := w.sim.Launch(awssim.LaunchRequest{Region: region, MinCount: 3, MaxCount: 3, InstanceType: "c7i.4xlarge", ImageID: image, SubnetID: subnetA, ReservationID: odcr})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range ended {
		if err := w.sim.Terminate(region, []string{i.ID}, "Client.UserInitiatedShutdown"); err != nil {
			t.Fatal(err)
		}
	}
	w.sim.Clock().Advance(10 * time.Minute)
	if p := w.plan(w.request(odcr)); len(p.Mismatches) > 0 || len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], "3 instances of reservation "+odcr+" are taken by what this account does not see") {
		t.Errorf("warnings %v, mismatches %v", p.Warnings, p.Mismatches)
	}
}

// What the slot itself runs is nobody else's, and has its addresses already; a host that
// has failed is nobody's.
func TestOwnInstancesAreNotInTheWay(t *testing.T) {
	const tiny = "subnet-0e200000000000f01" // 11 addresses
	w := newAccount(t, func(s *awssim.Scenario) {
		s.Regions[0].Subnets = append(s.Regions[0].Subnets, awssim.SubnetScenario{ID: tiny, VPC: s.Regions[0].VPCs[0].ID, Zone: "us-east-2a", CIDR: "10.2.9.0/28"})
	})
	r := w.request(openBlock)
	r.MaxNodes, r.SubnetIDs, r.EFA = 11, []string{tiny}, capacity.NoEFA
	w.run(r)
	failed, err := w.sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.sim.FailHost(region, failed.ID), w.sim.Terminate(region, []string{failed.ID}, "Server.InternalError")); err != nil {
		t.Fatal(err)
	}
	w.sim.Clock().Advance(time.Hour)
	for n := range 11 {
		if _, err := w.sim.LaunchForNodeGroup("ml", "gpu-a", fmt.Sprintf("gpu-a-%d", n+1)); err != nil {
			t.Fatal(err)
		}
	}
	if p := w.plan(r); !p.Done() || len(p.Warnings) != 1 {
		t.Errorf("%s, %v, %v", actions(p), p.Mismatches, p.Warnings)
	}
	r.MaxNodes = 12
	if p := w.plan(r); !slices.Equal(codes(p), []string{"addresses"}) {
		t.Errorf("a twelfth: %v", p.Mismatches)
	}
}
