package setup

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestOrderOfSetup has each plan of setup as it is carried out: settings before anything that users
// can reach, the queue after its fence.
func TestOrderOfSetup(t *testing.T) {
	const file = "file /etc/pcs-capacity/config.toml\n"
	first := "create " + file + "create file /etc/pcs-capacity/conf.d/gpu.toml\ncreate launch template pcs-capacity-ml-gpu-a\ncreate compute node group gpu-a\n" +
		"create Slurm reservation gpu-a\ncreate queue gpu"
	for name, c := range map[string]struct {
		world func(t *testing.T, w *world)
		seen  func(in *inspection)
		ask   Request
		want  string
	}{
		"the first block": {ask: askFor(now1), want: first},
		"again": {ask: askFor(now1), world: func(t *testing.T, w *world) { w.setUp(t, askFor(now1)) },
			want: "leave " + file[:len(file)-1] + " as it is\nleave file /etc/pcs-capacity/conf.d/gpu.toml as it is\nleave launch template pcs-capacity-ml-gpu-a as it is\n" +
				"leave compute node group gpu-a as it is\nleave Slurm reservation gpu-a as it is\nleave queue gpu as it is"},
		"the next block": {ask: askFor(next1), world: func(t *testing.T, w *world) { w.setUp(t, askFor(now1)) },
			want: "leave " + file[:len(file)-1] + " as it is\nupdate file /etc/pcs-capacity/conf.d/gpu.toml\ncreate launch template pcs-capacity-ml-gpu-b\ncreate compute node group gpu-b\n" +
				"create Slurm reservation gpu-b\nupdate queue gpu"},
		"a fence that is gone": {ask: askFor(now1), world: func(t *testing.T, w *world) { w.setUp(t, askFor(now1)); clear(w.fences) },
			want: "leave " + file[:len(file)-1] + " as it is\nleave file /etc/pcs-capacity/conf.d/gpu.toml as it is\nleave launch template pcs-capacity-ml-gpu-a as it is\n" +
				"leave compute node group gpu-a as it is\ncreate Slurm reservation gpu-a\nleave queue gpu as it is"},
		"fewer nodes": {ask: func() Request { r := askFor(now1); r.MaxNodes = 2; return r }(), world: func(t *testing.T, w *world) { w.setUp(t, askFor(now1)) },
			want: "leave " + file[:len(file)-1] + " as it is\nupdate file /etc/pcs-capacity/conf.d/gpu.toml\nleave launch template pcs-capacity-ml-gpu-a as it is\n" +
				"update compute node group gpu-a\nupdate Slurm reservation gpu-a\nleave queue gpu as it is"},
		"one that PCS could not create": {ask: askFor(now1), world: func(t *testing.T, w *world) {
			w.setUp(t, askFor(now1))
			w.group("gpu-a").Status = pcs.CreateFailed
		}, want: "leave " + file[:len(file)-1] + " as it is\nleave file /etc/pcs-capacity/conf.d/gpu.toml as it is\nleave launch template pcs-capacity-ml-gpu-a as it is\n" +
			"replace compute node group gpu-a\nupdate Slurm reservation gpu-a\nupdate queue gpu"},
		"a reservation without an end": {ask: askFor(now1), seen: func(in *inspection) { in.reservation.End = time.Time{} },
			want: strings.Replace(first, "create Slurm reservation gpu-a\n", "", 1)},
		"where nobody waits for Slurm": {ask: askFor(now1), seen: func(in *inspection) { in.slurm = false }, want: strings.Replace(first, "create Slurm reservation gpu-a\n", "", 1)},
		"sync, which writes no settings": {ask: askFor(now1), seen: func(in *inspection) { in.unattended = true },
			want: first[strings.Index(first, "create launch"):]},
		"self-managed Slurm": {ask: askForOnEC2(now1),
			want: "create launch template pcs-capacity-ml-gpu\ncreate " + file + "create file /etc/pcs-capacity/conf.d/gpu.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if c.world != nil {
				c.world(t, w)
			}
			in := w.see(c.ask)
			if c.seen != nil {
				c.seen(&in)
			}
			p := decide(in)
			if diff := cmp.Diff(c.want, said(p.Actions)); diff != "" || len(p.Mismatches) > 0 {
				t.Errorf("(-want +got):\n%s%v", diff, p.Mismatches)
			}
			if done := !strings.Contains("\n"+c.want, "\ncreate") && !strings.Contains("\n"+c.want, "\nupdate"); p.Done() != done {
				t.Errorf("done: %v", p.Done())
			}
		})
	}
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

// TestOrderOfTeardown has each plan of teardown as it is carried out: no job comes, then settings and
// fences go together, then the queue, the nodes, and what they were made from.
func TestOrderOfTeardown(t *testing.T) {
	both := func(t *testing.T, w *world) { w.setUp(t, askFor(now1)); w.setUp(t, askFor(next1)) }
	all := "drain Slurm nodes gpu-a\ndrain Slurm nodes gpu-b\n" +
		"delete file /etc/pcs-capacity/conf.d/gpu.toml\ndelete Slurm reservation " + fenceOf("gpu-a", now1) + "\ndelete Slurm reservation " + fenceOf("gpu-b", next1) + "\n" +
		"delete queue gpu\ndelete compute node group gpu-a\ndelete compute node group gpu-b\ndelete launch template pcs-capacity-ml-gpu-a\ndelete launch template pcs-capacity-ml-gpu-b"
	for name, c := range map[string]struct {
		world func(t *testing.T, w *world)
		seen  func(in *remains)
		ask   TeardownRequest
		want  string
	}{
		"a queue": {world: both, want: all},
		"a slot": {world: both, ask: TeardownRequest{NodeGroup: "gpu-a"},
			want: "drain Slurm nodes gpu-a\nupdate file /etc/pcs-capacity/conf.d/gpu.toml\ndelete Slurm reservation " + fenceOf("gpu-a", now1) + "\nupdate queue gpu\ndelete compute node group gpu-a\ndelete launch template pcs-capacity-ml-gpu-a"},
		"nothing": {want: ""},
		"without the queue's name on it": {world: func(t *testing.T, w *world) {
			both(t, w)
			delete(w.group("gpu-a").Tags, capacity.TagPartition)
			delete(w.templates["pcs-capacity-ml-gpu-a"].Tags, capacity.TagPartition)
		},
			want: "update compute node group gpu-a\nupdate launch template pcs-capacity-ml-gpu-a\n" + all},
		"where Slurm does not answer": {world: both, seen: func(in *remains) {
			in.slurm = errNoFence
			for i := range in.slots {
				in.slots[i].slurm = SlurmSlot{}
			}
		}, want: "delete file /etc/pcs-capacity/conf.d/gpu.toml\n" + all[strings.Index(all, "delete queue"):]},
		"a file of the administrator's": {world: both, seen: func(in *remains) { in.file.ours = false },
			want: strings.Replace(all, "delete file /etc/pcs-capacity/conf.d/gpu.toml\n", "", 1) + "\n"},
		"self-managed Slurm": {world: func(t *testing.T, w *world) {
			w.setUp(t, askForOnEC2(now1))
			w.instances["i-1"], w.fences["gpu"] = "gpu", now1
		}, ask: TeardownRequest{Provider: capacity.ProviderEC2, Mark: ourMark},
			want: "drain Slurm nodes gpu\ndelete file /etc/pcs-capacity/conf.d/gpu.toml\ndelete Slurm reservation " + fenceOf("gpu", now1) + "\nterminate instances gpu\n\ndelete launch template pcs-capacity-ml-gpu"},
		"self-managed Slurm without instances": {world: func(t *testing.T, w *world) { w.setUp(t, askForOnEC2(now1)) }, ask: TeardownRequest{Provider: capacity.ProviderEC2, Mark: ourMark},
			want: "delete file /etc/pcs-capacity/conf.d/gpu.toml\n\ndelete launch template pcs-capacity-ml-gpu"},
		"self-managed Slurm, nothing": {ask: TeardownRequest{Provider: capacity.ProviderEC2, Mark: ourMark}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if c.world != nil {
				c.world(t, w)
			}
			c.ask.Queue = "gpu"
			in := w.seeRemains(c.ask)
			if c.seen != nil {
				c.seen(&in)
			}
			p := decideTeardown(in)
			if diff := cmp.Diff(c.want, said(p.Actions)); diff != "" || len(p.Mismatches) > 0 || p.Done() != (c.want == "") {
				t.Errorf("done: %v (-want +got):\n%s%v", p.Done(), diff, p.Mismatches)
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
