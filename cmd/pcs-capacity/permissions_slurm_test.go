package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/check"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

const restrictedConfig = `
region = "us-east-2"
cluster = "ml"
state_dir = %[1]q
local_dir = %[1]q
[log]
dir = %[2]q
[reserve]
enabled = true
[[partition]]
name = "own"
provider = "ec2"
[[partition.node_group]]
name = "own"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
select = { group = "open" }
max_nodes = 16
launch_template = "lt-0e2000000000000a3"
[[partition.node_group]]
name = "ultra"
instance_type = "trn1.32xlarge"
subnet_ids = ["subnet-0e200000000000c03"]
select = { tags = { team = "chips" } }
max_nodes = 1
launch_template = "lt-0e2000000000000a4"
[[partition.node_group]]
name = "held"
instance_type = "c7i.4xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
purchase_option = "on-demand"
max_nodes = 20
launch_template = "lt-0e2000000000000a3"
`

// restrictedSlurm is a restricted AWS beside a Slurm that runs. It has fences of blocks
// on nodes of both providers.
type restrictedSlurm struct {
	*restricted
	cluster *slurmlab.Cluster
}

func newRestrictedSlurm(t *testing.T, clock *awssim.Clock) *restrictedSlurm {
	t.Helper()
	r := &restrictedSlurm{restricted: newRestricted(t, clock)}
	dir, err := os.MkdirTemp("", "pcs") // Slurm's sockets need a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	group := func(name, partition string, count int) slurmlab.NodeGroup {
		return slurmlab.NodeGroup{Prefix: name + "-", Count: count, CPUs: 1, GPUs: 8, Features: name, Partition: partition, AlwaysOn: true}
	}
	r.cluster, err = slurmlab.Start(t.Context(), slurmlab.Config{Dir: dir, ResumeTimeout: 5 * time.Minute,
		CloudGroups:   []slurmlab.NodeGroup{group("own", "own", 16), group("ultra", "own", 1), group("held", "own", 20), group("gpu-a", "gpu", 3), group("gpu-b", "gpu", 3)},
		ResumeProgram: "/bin/true", SuspendProgram: "/bin/true", CLIFilterLua: submit.CLIFilter("/no/plan", "/no/state", "/bin/false")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.cluster.Stop() })
	r.slurm = "PATH=" + os.Getenv("PATH")
	r.settings = filepath.Join(filepath.Dir(r.cluster.Conf()), "pcs-capacity", "config.toml")
	if err := os.MkdirAll(filepath.Dir(r.settings), 0o755); err != nil {
		t.Fatal(err)
	}
	r.dir = filepath.Join(dir, "here")
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.settings, fmt.Appendf(nil, restrictedConfig, filepath.Join(r.dir, "state"), filepath.Join(r.dir, "log")), 0o644); err != nil {
		t.Fatal(err)
	}
	r.env = append(r.env, "SLURM_CONF="+r.cluster.Conf())
	t.Setenv("SLURM_CONF", r.cluster.Conf())
	return r
}

func (r *restrictedSlurm) scontrol(args ...string) {
	r.Helper()
	if out, err := r.cluster.Command(r.Context(), "scontrol", args...); err != nil {
		r.Fatal(out, err)
	}
}

// fences is when they begin, by name without "pcs-capacity-". What closes the node of the
// failed host is made anew when the failure is known again.
func (r *restrictedSlurm) fences() map[string]time.Time {
	r.Helper()
	all, err := (&slurm.Client{}).Reservations(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	ours := map[string]time.Time{}
	for _, one := range all {
		if name, found := strings.CutPrefix(capacity.PlainName(one.Name), "pcs-capacity-"); found && strings.HasPrefix(name, "fence-") {
			ours[name] = one.Start
		}
	}
	return ours
}

// unfence deletes a fence.
func (r *restrictedSlurm) unfence(name string) {
	r.Helper()
	all, err := (&slurm.Client{}).Reservations(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	for _, one := range all {
		if capacity.PlainName(one.Name) == "pcs-capacity-"+name {
			r.scontrol("delete", "reservationname="+one.Name)
		}
	}
}

// TestLong_Permissions is TestPermissions for the programs that work with Slurm. What
// is missing never deletes or moves a fence, and keeps none from being placed.
func TestLong_Permissions(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	clock := awssim.MachineClock()
	clock.Advance(-11 * time.Minute)
	r := newRestrictedSlurm(t, clock)
	aws, _ := r.clients()
	launch := func(node string) string {
		r.Helper()
		r.sim.ClearPolicies()
		all, err := aws.Launch(r.Context(), capacity.Launch{ClientToken: fmt.Sprint(node, time.Now()), LaunchTemplate: "lt-0e2000000000000a2", InstanceType: "c7i.4xlarge",
			SubnetID: "subnet-0e200000000000a01", Kind: capacity.OnDemand, Count: 1, Tags: map[string]string{capacity.TagCluster: "ml", capacity.TagNodes: node}})
		if err != nil {
			r.Fatal(err)
		}
		return all[0].ID
	}
	launch("own-99") // for a node that Slurm does not have
	// A host of the block fails.
	failed, err := aws.Launch(r.Context(), capacity.Launch{ClientToken: "f", LaunchTemplate: "lt-0e2000000000000a2", InstanceType: "p5.48xlarge",
		SubnetID: "subnet-0e200000000000a01", ReservationID: openBlock, Kind: capacity.CapacityBlock, Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.sim.FailHost("us-east-2", failed[0].ID); err != nil {
		t.Fatal(err)
	}
	r.mustAdmin(setupArgs(nextBlock, "--max-nodes", "3")...)
	clock.Advance(10 * time.Minute)
	r.mustAdmin("sync")
	clock.Advance(time.Minute) // now it may be ended

	for _, part := range []struct {
		name string
		test func(*restrictedSlurm)
	}{
		{"check", (*restrictedSlurm).checkWithoutEach},
		{"sync", (*restrictedSlurm).syncWithoutEach},
		{"status", (*restrictedSlurm).statusWithoutEach},
		{"resume", (*restrictedSlurm).resumeWithoutEach},
		{"resume, reserve", (*restrictedSlurm).holdWithoutEach},
		{"suspend", func(r *restrictedSlurm) { r.suspendWithoutEach(launch) }},
	} {
		t.Run(part.name, func(t *testing.T) {
			one := *r.restricted
			one.T = t
			part.test(&restrictedSlurm{&one, r.cluster})
		})
	}
}

// compare holds what a program did without an action against the documentation.
func (r *restrictedSlurm) compare(p permissions.Program, without string, effect permissions.Effect) {
	r.Helper()
	for _, a := range permissions.Actions {
		if a.Name == without && a.Effect(p) != effect {
			r.Errorf("without %s: %d, documented is: %d", without, effect, a.Effect(p))
		}
	}
	if without == "" && effect != permissions.Unused {
		r.Errorf("with all permissions: %s", r.said)
	}
}

// checkWithoutEach takes findings for the outcome: the hooks are not installed here, so
// that the exit status is 1 in any case.
func (r *restrictedSlurm) checkWithoutEach() {
	for _, action := range append([]string{""}, permissions.Of(permissions.Check)...) {
		r.policy(only(permissions.Check, action))
		if action == "" {
			r.policy(r.printed(permissions.Admin))
			r.said = ""
		}
		r.admin("-o", "json", "check")
		var doc checkDocument
		if err := json.Unmarshal([]byte(r.said), &doc); err != nil {
			r.Fatalf("%v: %s", err, r.said)
		}
		failed := false
		for _, f := range doc.Findings {
			switch {
			case f.Status == check.OK:
			case strings.Contains(f.What, action+" is not allowed") && action != "":
				failed = failed || f.Status == check.Fail
			case slices.Contains([]string{"credentials", "clock", "cluster", "permission", "reservation", "subnet", "launch-template", "node-group"}, f.Check):
				r.Errorf("without %q: %+v", action, f)
			}
		}
		r.compare(permissions.Check, action, r.judge(action, failed))
	}
}

func (r *restrictedSlurm) syncWithoutEach() {
	const terminate, cancel, lost = "ec2:TerminateInstances", "ec2:CancelCapacityReservation", "fence-ultra"
	without := func(action string) {
		r.policy(only(permissions.Sync, action))
		r.admin("sync")
		r.compare(permissions.Sync, action, r.judge(action, false))
	}
	without(terminate) // the others end the orphan
	r.sim.ClearPolicies()
	aws, _ := r.clients()
	if _, err := aws.Hold(r.Context(), capacity.HoldOrder{ClientToken: "t", InstanceType: "c7i.4xlarge", AZID: "use2-az1", Platform: "Linux/UNIX", Count: 1, End: aws.Now().Add(time.Hour),
		Tags: map[string]string{capacity.TagCluster: "ml", capacity.TagHold: "jobs 999/0"}}); err != nil {
		r.Fatal(err)
	}
	without(cancel) // the others give it back
	without("")
	r.policy(r.printed(permissions.Loop))
	r.admin("sync")
	r.compare(permissions.Sync, "", r.judge("", false))
	want := r.fences()
	for _, name := range []string{"fence-own", lost, "fence-gpu-a"} {
		if _, ok := want[name]; !ok || len(want) != 3 {
			r.Fatalf("reservations %v: the test proves nothing", want)
		}
	}
	snapshot := filepath.Join(r.dir, "state", "snapshot.json")
	good, err := os.ReadFile(snapshot)
	if err != nil {
		r.Fatal(err)
	}
	const fresh = "without a snapshot"
	check := func(action, when string) {
		r.Helper()
		now := r.fences()
		for name, start := range want {
			// EC2 does not show here what it shows of every UltraServer, so that nothing tells
			// it from another block.
			if name == lost && action == "ec2:DescribeCapacityBlocks" && when == fresh {
				start = start.Add(30 * time.Minute)
			}
			if at, ok := now[name]; !ok || !near(at, start) || len(now) != len(want) {
				r.Errorf("without %s, %s: reservations %v, want %v", action, when, now, want)
			}
		}
	}
	for _, action := range permissions.Of(permissions.Sync) {
		if action == terminate || action == cancel {
			continue
		}
		// One that is missing is placed again.
		r.unfence(lost)
		if err := os.WriteFile(snapshot, good, 0o644); err != nil {
			r.Fatal(err)
		}
		without(action)
		check(action, "with the last snapshot")
		if now, err := os.ReadFile(snapshot); err != nil || !strings.Contains(string(now), `"unhealthy": 1`) {
			r.Errorf("without %s the failed host is forgotten: %v", action, err)
		}
		if err := os.Remove(snapshot); err != nil {
			r.Fatal(err)
		}
		r.policy(only(permissions.Sync, action))
		r.admin("sync")
		check(action, fresh)
	}
	if err := os.WriteFile(snapshot, good, 0o644); err != nil {
		r.Fatal(err)
	}
}

func (r *restrictedSlurm) statusWithoutEach() {
	for _, action := range append([]string{""}, permissions.Of(permissions.Status)...) {
		r.policy(only(permissions.Status, action))
		r.admin("status")
		r.compare(permissions.Status, action, r.judge(action, false))
		for _, slot := range []string{"own", "ultra", "gpu-a"} {
			if !strings.Contains(r.said, "  "+slot+"  ") {
				r.Errorf("without %q, slot %s is not shown:\n%s", action, slot, r.said)
			}
		}
	}
}

// runs counts the instances that run for a node.
func (r *restrictedSlurm) runs(node string) (n int) {
	for _, i := range r.sim.Instances("us-east-2") {
		if capacity.LaunchedNodes(i.Tags) == node && i.State != "shutting-down" && i.State != "terminated" {
			n++
		}
	}
	return n
}

// hooksPolicy is the one that is printed for hooks if nothing is missing.
func (r *restrictedSlurm) hooksPolicy(p permissions.Program, without string) []byte {
	switch {
	case without != "":
		return only(p, without)
	case p == permissions.Holding:
		return r.printed(permissions.HooksReserve)
	}
	return r.printed(permissions.Hooks)
}

func (r *restrictedSlurm) holdWithoutEach() {
	// Without it hooks ask what images run.
	if err := os.Remove(filepath.Join(r.dir, "state", "snapshot.json")); err != nil {
		r.Fatal(err)
	}
	for i, action := range append([]string{""}, permissions.Of(permissions.Holding)...) {
		node := fmt.Sprintf("held-%d", i+1)
		if _, err := r.cluster.Submit(r.Context(), "sleep 600", "-p", "own", "-w", node, "--comment=capacity=reserve"); err != nil {
			r.Fatal(err)
		}
		if _, err := r.cluster.WaitNode(r.Context(), node, func(s string) bool { return strings.Contains(s, "POWERING_UP") }); err != nil {
			r.Fatal(err)
		}
		r.policy(r.hooksPolicy(permissions.Holding, action))
		r.hook("resume", node)
		held := slices.ContainsFunc(r.sim.Reservations("us-east-2"), func(u awssim.ReservationUse) bool {
			return u.Tags[capacity.TagNodes] == node && u.Closed.IsZero()
		})
		r.compare(permissions.Holding, action, r.judge(action, r.runs(node) != 1 || held))
	}
}

func (r *restrictedSlurm) resumeWithoutEach() {
	r.scontrol("update", "nodename=own-[1-16]", "state=POWER_UP")
	if _, err := r.cluster.WaitNode(r.Context(), "own-16", func(s string) bool { return strings.Contains(s, "POWERING_UP") }); err != nil {
		r.Fatal(err)
	}
	for i, action := range append([]string{""}, permissions.Of(permissions.Resume)...) {
		node := fmt.Sprintf("own-%d", i+1)
		r.policy(r.hooksPolicy(permissions.Resume, action))
		r.hook("resume", node)
		r.compare(permissions.Resume, action, r.judge(action, r.runs(node) != 1))
	}
}

func (r *restrictedSlurm) suspendWithoutEach(launch func(node string) string) {
	for i, action := range append([]string{""}, permissions.Of(permissions.Suspend)...) {
		node := fmt.Sprintf("gpu-b-%d", i+1)
		launch(node)
		r.policy(r.hooksPolicy(permissions.Suspend, action))
		r.hook("suspend", node)
		r.compare(permissions.Suspend, action, r.judge(action, r.runs(node) != 0))
	}
}
