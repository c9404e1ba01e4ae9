package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

var setupOnHost = []string{"setup", "--reservation", "cr-0e2000000000000a1", "--queue", "gpu", "--node-group", "gpu", "--like", "compute", "--max-nodes", "2"}

// TestRareSetupsOnTwoHosts runs two setups at once that share no state_dir, for two blocks of one node
// group: one works, the other changes nothing and says who works.
func TestRareSetupsOnTwoHosts(t *testing.T) {
	for range roundsSideBySide {
		sim, first, run := queueWorld(t, "gpu-a-[1-2]", "gpu-b-[1-2]")
		second, runToo := queueHost(t, sim, "gpu-a-[1-2]", "gpu-b-[1-2]")
		if _, err := sim.AddFault(awssim.Fault{Operation: "CreateComputeNodeGroup", Effect: awssim.Delay, Latency: awssim.Duration(2 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		var errs [2]error
		both.Go(func() { errs[0] = run(setupOnHost...) })
		next := slices.Clone(setupOnHost)
		next[2] = "cr-0e2000000000000a2"
		both.Go(func() { errs[1] = runToo(next...) })
		both.Wait()
		settings, lost := second, 1
		if errs[0] != nil {
			settings, lost = first, 0
		}
		if errs[1-lost] != nil || errs[lost] == nil || !strings.Contains(errs[lost].Error(), "another host changes the cluster's set-up") {
			t.Fatalf("want one to work, and the other to be kept out:\n%v\n%v", errs[0], errs[1])
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(settings), "conf.d")); err == nil {
			t.Error("the host that was kept out has written settings")
		}
		for call, n := range sim.Calls() {
			if call.Operation == "CreateComputeNodeGroup" && n != 1 {
				t.Errorf("%d calls of CreateComputeNodeGroup", n)
			}
		}
		noChange(t, sim)
	}
}

// changeBy begins a change of the simulated cluster as the host with these settings would, and
// dies.
func changeBy(t *testing.T, sim *awssim.Sim, settings string) ec2.Change {
	t.Helper()
	host, _ := os.Hostname()
	change := ec2.Change{Cluster: sim.PCSClusters()[0].ID, Mark: "ml", Host: host, PID: 4711,
		Owner: state.OwnerOf(state.Dir(filepath.Join(filepath.Dir(settings), "state")), settings).ID}
	if _, err := simClient(t, sim).BeginChange(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	return change
}

func simClient(t *testing.T, sim *awssim.Sim) *ec2.Client {
	t.Helper()
	for _, variable := range append(sim.Env(), "AWS_EC2_METADATA_DISABLED=true") {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	client, err := ec2.New(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// noChange holds that no host changes the simulated cluster.
func noChange(t *testing.T, sim *awssim.Sim) {
	t.Helper()
	if change, found, err := simClient(t, sim).ChangeOf(t.Context(), sim.PCSClusters()[0].ID); found || err != nil {
		t.Errorf("left is %s, %v", change, err)
	}
}

// TestDeadSetupOfThisHost has setup and teardown go on after a run of the same settings that was
// killed, and end what it has left even where nothing else is to do.
func TestDeadSetupOfThisHost(t *testing.T) {
	sim, settings, run := queueWorld(t, "gpu-a-[1-2]")
	for _, args := range [][]string{setupOnHost, setupOnHost, {"teardown", "--queue", "gpu"}, {"teardown", "--queue", "gpu"}} {
		changeBy(t, sim, settings)
		if err := run(args...); err != nil {
			t.Error(err)
		}
		noChange(t, sim)
	}
}

// TestDeadSetupOfAnotherHost has setup and teardown refuse, with the command that ends what another
// host has left; a dry run does without, and check tells of it after an hour.
func TestDeadSetupOfAnotherHost(t *testing.T) {
	sim, _, run := queueWorld(t, "gpu-a-[1-2]")
	change := changeBy(t, sim, filepath.Join(t.TempDir(), "config.toml"))
	if err := run(append(setupOnHost, "--dry-run")...); err != nil {
		t.Error(err)
	}
	command := "aws ec2 delete-launch-template --region us-east-2 --launch-template-name " + change.Template()
	refused := func(args ...string) {
		t.Helper()
		sim.ResetCalls()
		err := run(args...)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process 4711 on host %s, since ", change.Host)) || !strings.Contains(err.Error(), command) {
			t.Errorf("%v: %v", args, err)
		}
		for call := range sim.Calls() {
			if call.Service == "pcs" && !strings.HasPrefix(call.Operation, "Get") && !strings.HasPrefix(call.Operation, "List") {
				t.Errorf("%v called %s", args, call.Operation)
			}
		}
	}
	refused(setupOnHost...)
	aged := func() bool {
		err := run("check")
		return err != nil && strings.Contains(err.Error(), command)
	}
	if aged() {
		t.Error("check tells of a change that has just begun")
	}
	sim.Clock().Advance(61 * time.Minute)
	if !aged() {
		t.Error("check does not tell of a change that has begun an hour ago")
	}
	client := simClient(t, sim)
	if err := client.EndDeadChange(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if err := run(setupOnHost...); err != nil {
		t.Error(err)
	}
	if _, err := client.BeginChange(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if templates, err := client.MadeTemplates(t.Context(), "ml", ""); err != nil || len(templates) != 1 {
		t.Errorf("made are %v, %v", templates, err)
	}
	if err := run(setupOnHost...); err != nil {
		t.Error(err) // there is nothing to do
	}
	refused("teardown", "--queue", "gpu")
}
