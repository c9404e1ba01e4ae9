package setup

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// said are the texts of steps, in their order.
func said(steps Steps) string {
	var all []string
	for _, s := range steps {
		all = append(all, s.Text)
	}
	return strings.Join(all, "\n")
}

// TestStepsCarryTheirData: what is applied is in the steps, and ids that are not known yet are
// those of what was made before.
func TestStepsCarryTheirData(t *testing.T) {
	w := newWorld()
	ask := askFor(now1)
	ask.AllowAccounts, ask.MaxNodes, ask.Dynamic = []string{"nlp"}, 3, true
	p := decide(w.see(ask))
	if err := w.carryOut(p.Actions, -1, func(Step) {}); err != nil {
		t.Fatal(err)
	}
	g, q, lt := w.group("gpu-a"), w.queue("gpu"), w.templates["pcs-capacity-ml-gpu-a"]
	part, _ := w.partition()
	tags := map[string]string{capacity.TagCluster: ourMark, capacity.TagReservation: now1, capacity.TagPartition: "gpu"}
	want := pcs.NodeGroup{ID: g.ID, ARN: g.ARN, Name: "gpu-a", ClusterID: "pcs_ml", Status: pcs.Active, PurchaseOption: capacity.CapacityBlock, InstanceTypes: []string{"p5.48xlarge"}, SubnetIDs: []string{subnet},
		AMI: "ami-1", InstanceProfile: "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes", TemplateID: lt.ID, TemplateVersion: "1", Max: 3, Tags: tags, SlurmSettings: g.SlurmSettings}
	if diff := cmp.Diff(want, *g); diff != "" || len(g.SlurmSettings) > 0 {
		t.Errorf("node group (-want +got):\n%s", diff)
	}
	if !slices.Equal(q.GroupIDs, []string{g.ID}) || q.SlurmSettings[lock] != "nlp" || q.Tags[capacity.TagCluster] != ourMark || lt.ReservationID != now1 || lt.Tags[capacity.TagReservation] != now1 {
		t.Errorf("queue %+v, launch template %+v", q, lt)
	}
	settings := capacity.GroupSettings{Name: "gpu", InstanceType: "p5.48xlarge", SubnetIDs: []string{subnet}, PurchaseOption: capacity.CapacityBlock, ReservationIDs: []string{now1}, MaxNodes: 3, Dynamic: true}
	if diff := cmp.Diff([]capacity.GroupSettings{settings}, part.Groups); diff != "" || !slices.Equal(part.AllowAccounts, []string{"nlp"}) || w.config.Cluster != ourMark || w.config.Region != "us-east-2" {
		t.Errorf("settings %+v (-want +got):\n%s", w.config, diff)
	}
	for _, step := range p.Actions {
		if about := (capacity.Subject{Partition: "gpu", Slot: "gpu-a", Reservation: now1}); step.About != about || !strings.HasPrefix(step.Text, "create ") || !strings.HasPrefix(step.Code, "create-") {
			t.Errorf("%s about %+v: %s", step.Code, step.About, step.Text)
		}
	}
	if w.fences["gpu-a"] != now1 {
		t.Errorf("fences %v", w.fences)
	}
	text, err := json.Marshal(p)
	if err != nil || !strings.Contains(string(text), `"steps":[{"what":"file","name":"/etc/pcs-capacity/config.toml","action":"create","details":[{"key":"region","value":"us-east-2"}`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestSetupIsKilledAnywhere ends setup after each of its steps, in each of several worlds: never is
// a node group in the queue without settings and fence, and the same command goes on from there to
// the same end.
func TestSetupIsKilledAnywhere(t *testing.T) {
	bigger := askFor(now1)
	bigger.MaxNodes = 2
	for name, c := range map[string]struct {
		before []Request
		fail   bool
		ask    Request
	}{
		"first block": {ask: askFor(now1)}, "next block": {before: []Request{askFor(now1)}, ask: askFor(next1)},
		"another size": {before: []Request{askFor(now1)}, ask: bigger}, "could not be created": {before: []Request{askFor(now1)}, fail: true, ask: askFor(now1)},
		"self-managed": {ask: askForOnEC2(now1)}, "self-managed, next": {before: []Request{askForOnEC2(now1)}, ask: askForOnEC2(next1)},
	} {
		t.Run(name, func(t *testing.T) {
			begin := newWorld()
			for _, r := range c.before {
				begin.setUp(t, r)
			}
			if c.fail {
				begin.group("gpu-a").Status = pcs.CreateFailed
				begin.queue("gpu").GroupIDs = nil // PCS deletes nothing that is in a queue
			}
			n := len(decide(begin.see(c.ask)).Actions)
			for most := range n + 1 {
				w := begin.clone()
				safe := func(e Step) {
					t.Helper()
					if what := w.unsafe(); what != "" {
						t.Errorf("killed after %d: after %q, %s", most, e.Text, what)
					}
				}
				first := decide(w.see(c.ask))
				if err := w.carryOut(first.Actions, most, safe); err != nil && err != errKilled { //nolint:errorlint // ours
					t.Fatal(err)
				}
				again := decide(w.see(c.ask))
				if len(again.Mismatches) > 0 {
					t.Fatalf("killed after %d: %v", most, again.Mismatches)
				}
				if err := w.carryOut(again.Actions, -1, safe); err != nil {
					t.Errorf("killed after %d: %v", most, err)
				}
				if p := decide(w.see(c.ask)); !p.Done() {
					t.Errorf("killed after %d, there is more to do:\n%s", most, said(p.Actions))
				}
			}
		})
	}
}

// TestTeardownIsKilledAnywhere ends teardown after each of its steps: nothing is left in the queue
// without its fence, and the same command goes on from there until nothing is left.
func TestTeardownIsKilledAnywhere(t *testing.T) {
	ec2Ask := TeardownRequest{Provider: capacity.ProviderEC2, Mark: ourMark, Queue: "gpu"}
	for name, ask := range map[string]TeardownRequest{"a queue": {Queue: "gpu"}, "a slot": {Queue: "gpu", NodeGroup: "gpu-a"}, "self-managed": ec2Ask} {
		begin := newWorld()
		if ask.Provider == capacity.ProviderEC2 {
			begin.setUp(t, askForOnEC2(now1))
			begin.instances["i-1"], begin.fences["gpu"] = "gpu", now1
		} else {
			begin.setUp(t, askFor(now1))
			begin.setUp(t, askFor(next1))
			tags := map[string]string{capacity.TagCluster: ourMark, capacity.TagReservation: now1} // of an older release
			begin.group("gpu-a").Tags = tags
		}
		n := len(decideTeardown(begin.seeRemains(ask)).Actions)
		for most := range n + 1 {
			w := begin.clone()
			drained := func(e Step) {
				if is := e.What == WhatFile || e.What == WhatFence; is && !w.drained["gpu-a"] && !w.drained["gpu"] {
					t.Errorf("%s: the fence goes before jobs are kept off", name)
				}
			}
			if err := w.carryOut(decideTeardown(w.seeRemains(ask)).Actions, most, drained); err != nil && err != errKilled { //nolint:errorlint // ours
				t.Fatal(name, err)
			}
			if err := w.carryOut(decideTeardown(w.seeRemains(ask)).Actions, -1, func(Step) {}); err != nil {
				t.Errorf("%s, killed after %d: %v", name, most, err)
			}
			if p := decideTeardown(w.seeRemains(ask)); !p.Done() {
				t.Errorf("%s, killed after %d, there is more to do:\n%s%v", name, most, said(p.Actions), p.Mismatches)
			}
			part, found := w.partition()
			if left := len(w.groups) + len(w.templates) + len(w.fences) + len(w.queues); ask.NodeGroup == "" && (left != 2 || found || len(w.instances) > 0) ||
				ask.NodeGroup != "" && (left != 6 || !slices.Equal(groupOf(part, "gpu").ReservationIDs, []string{next1}) || w.unsafe() != "") {
				t.Errorf("%s, killed after %d: left are %d things, %s", name, most, left, w.unsafe())
			}
		}
	}
}

// TestDecisionsArePure decides twice from one value: both times the same, and the value is as it was.
func TestDecisionsArePure(t *testing.T) {
	w := newWorld()
	w.setUp(t, askFor(now1))
	in := w.see(askFor(next1))
	in.problems, in.warnings = append(make([]capacity.Problem, 0, 8), capacity.Problem{Code: "x"}), append(make([]string, 0, 8), "x")
	in.reservation.State, in.request.Queue = capacity.StateExpired, "7"
	before := fmt.Sprintf("%+v", in)
	if one, two := decide(in), decide(in); !reflect.DeepEqual(one.Actions.Shown(), two.Actions.Shown()) || !reflect.DeepEqual(one.Mismatches, two.Mismatches) || len(one.Mismatches) < 3 {
		t.Errorf("setup: %+v\n%+v", one, two)
	}
	if after := fmt.Sprintf("%+v", in); after != before || in.problems[:2][1].Code != "" {
		t.Errorf("setup changed what it was given:\n%s\n%s", before, after)
	}
	for _, ask := range []TeardownRequest{{Queue: "gpu"}, {Queue: "gpu", NodeGroup: "gpu-a"}} {
		seen := w.seeRemains(ask)
		seen.slots[0].slurm.Jobs = []string{"12"}
		seen.problems = append(make([]capacity.Problem, 0, 8), capacity.Problem{Code: "x"})
		before := fmt.Sprintf("%+v", seen)
		if one, two := decideTeardown(seen), decideTeardown(seen); !reflect.DeepEqual(one.Actions.Shown(), two.Actions.Shown()) || !reflect.DeepEqual(one.Mismatches, two.Mismatches) || len(one.Mismatches) != 2 {
			t.Errorf("teardown: %+v\n%+v", one, two)
		}
		if after := fmt.Sprintf("%+v", seen); after != before || seen.problems[:2][1].Code != "" {
			t.Errorf("teardown changed what it was given:\n%s\n%s", before, after)
		}
	}
}
