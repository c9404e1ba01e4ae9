package pcs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim/shapes"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Things of the simulator's default scenario, in us-east-2; its cluster is ml, with one
// node group that is not ours, compute.
const (
	openBlock  = "cr-0e2000000000000a1" // 16 × p5.48xlarge in use2-az1
	laterBlock = "cr-0e2000000000000a2" // the same, for the week after
	gpuODCR    = "cr-0e200000000000a11" // 4 × g6.12xlarge in use2-az1
	sharedODCR = "cr-0e200000000000a16" // of another account: 2 × p5.48xlarge in use2-az1
	subnetA    = "subnet-0e200000000000a01"
)

// account is a simulator whose clock stands still, and what talks to it over the wire.
type account struct {
	*testing.T
	sim         *awssim.Sim
	ec2         *ec2.Client
	provisioner pcs.Provisioner
}

func newAccount(t *testing.T) *account {
	t.Helper()
	scenario := awssim.DefaultScenario()
	scenario.PCSDelay = 0
	sim, err := awssim.New(scenario, awssim.NewClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 0))
	if err != nil {
		t.Fatal(err)
	}
	sim.OnResponse(func(service, operation string, status int, body []byte) {
		if service != "pcs" {
			return
		}
		if err := shapes.CheckPCS(operation, status, body); err != nil {
			t.Errorf("%v\nanswer (HTTP %d): %s", err, status, body)
		}
	})
	t.Cleanup(func() { _ = sim.Close() })
	if err := sim.Serve(t.Setenv, "AWS_MAX_ATTEMPTS=1"); err != nil {
		t.Fatal(err)
	}
	a := &account{T: t, sim: sim}
	if a.ec2, err = ec2.New(t.Context(), ec2.Options{}); err != nil {
		t.Fatal(err)
	}
	a.provisioner = pcs.Provisioner{PCS: pcs.From(a.ec2.Shared()), EC2: a.ec2, Poll: time.Millisecond}
	return a
}

// addGroup makes a node group of ours for the open block, with its launch template, as `pcs-capacity setup` does.
func (a *account) addGroup(name string) {
	a.Helper()
	compute := a.group("compute")
	tags := map[string]string{capacity.TagCluster: "ml", capacity.TagReservation: openBlock}
	template, err := a.ec2.EnsureLaunchTemplate(a.Context(), capacity.LaunchTemplateSpec{Name: pcs.TemplateName("ml", name), From: compute.TemplateID, FromVersion: "1",
		ImageID: compute.AMI, InstanceType: "p5.48xlarge", ReservationID: openBlock, Kind: capacity.CapacityBlock, Tags: tags})
	if err != nil {
		a.Fatal(err)
	}
	_, _, err = a.provisioner.EnsureNodeGroup(a.Context(), pcs.NodeGroup{Name: name, ClusterID: compute.ClusterID, PurchaseOption: capacity.CapacityBlock,
		InstanceTypes: []string{"p5.48xlarge"}, SubnetIDs: []string{subnetA}, AMI: compute.AMI, InstanceProfile: compute.InstanceProfile,
		TemplateID: template.ID, TemplateVersion: template.Version, Min: 4, Max: 4, Tags: tags}, true)
	if err != nil {
		a.Fatal(err)
	}
}

func (a *account) group(name string) pcs.NodeGroup {
	a.Helper()
	inv, err := a.provisioner.PCS.Inventory(a.Context(), "ml")
	if err != nil {
		a.Fatal(err)
	}
	g, found := inv.Group(name)
	if !found {
		a.Fatalf("there is no node group %s", name)
	}
	return g
}

// calls counts the calls of an operation; one that ends in * is any that begins so.
func (a *account) calls(operation string) int {
	prefix, any := strings.CutSuffix(operation, "*")
	n := 0
	for key, count := range a.sim.Calls() {
		if key.Operation == operation || any && strings.HasPrefix(key.Operation, prefix) {
			n += count
		}
	}
	return n
}

// writes counts the calls that change something.
func (a *account) writes() int {
	return a.calls("*") - a.calls("Describe*") - a.calls("Get*") - a.calls("List*")
}
