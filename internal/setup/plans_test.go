package setup

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// TestPlansInFull compares plans of setup and teardown, each with every detail, problem and warning, with
// testdata/plans.txt. A step that stands there in full before has no details again. UPDATE_TRANSCRIPTS=1 writes
// the file: read what has changed.
func TestPlansInFull(t *testing.T) {
	var out strings.Builder
	written := map[string]bool{}
	say := func(name string, done bool, steps Steps, problems []capacity.Problem, more ...[]string) {
		fmt.Fprintf(&out, "== %s\n", name)
		for _, s := range steps.Shown() {
			step := fmt.Sprintf("%s %s %s\n", s.Verb, s.What, s.Name)
			full := step
			for _, d := range s.Details {
				full += fmt.Sprintf("  %s: %s\n", d.Key, d.Value)
			}
			if written[full] {
				full = strings.TrimSuffix(step, "\n") + ", as above\n"
			}
			written[full] = true
			out.WriteString(full)
		}
		for _, p := range problems {
			fmt.Fprintf(&out, "! %s %s: %s (%s)\n", p.Code, p.About.Partition, p.Sentence, p.Fix)
		}
		for _, w := range more {
			for _, one := range w {
				fmt.Fprintf(&out, "* %s\n", one)
			}
		}
		if done {
			out.WriteString("nothing is left to do\n")
		}
		out.WriteString("\n")
	}
	ask := func(r Request, change func(*Request)) Request {
		change(&r)
		return r
	}
	pcsAsk := func(change func(*Request)) Request { return ask(askFor(now1), change) }
	first := func(t *testing.T, w *world) { w.setUp(t, askFor(now1)) }
	both := func(t *testing.T, w *world) { first(t, w); w.setUp(t, askFor(next1)) }
	onEC2 := func(t *testing.T, w *world) { w.setUp(t, askForOnEC2(now1)) }
	locked := func(names ...string) func(*Request) { return func(r *Request) { r.AllowAccounts = names } }
	efa := ec2.InstanceType{Name: "p5.48xlarge", Architectures: []string{"x86_64"}, GPUs: 8, EFAInterfaces: 2, Cards: make([]ec2.NetworkCard, 2)}
	for _, c := range []struct {
		name  string
		world func(t *testing.T, w *world)
		ask   Request
		seen  func(in *inspection)
	}{
		{"the first block", nil, askFor(now1), nil},
		{"again", first, askFor(now1), nil},
		{"the next block", first, askFor(next1), nil},
		{"the next block again", both, askFor(next1), nil},
		{"a third block, where both slots hold one", func(t *testing.T, w *world) {
			both(t, w)
			w.reservations["cr-0e2000000000000a3"] = blockOf("cr-0e2000000000000a3", 12, 19)
		}, askFor("cr-0e2000000000000a3"), nil},
		{"of another size", first, pcsAsk(func(r *Request) { r.MaxNodes, r.Dynamic = 2, true }), nil},
		{"more nodes than it has", nil, pcsAsk(func(r *Request) { r.MaxNodes = 5 }), nil},
		{"more nodes than it has, not yet known", nil, pcsAsk(func(r *Request) { r.MaxNodes = 5 }), func(in *inspection) { in.reservation.Total, in.reservation.State = 0, capacity.StateScheduled }},
		{"another image and subnet", first, pcsAsk(func(r *Request) {
			r.AMI = "ami-2"
			r.SubnetIDs = []string{subnet}
		}), nil},
		{"user data of the copy", nil, askFor(now1), func(in *inspection) { in.userData = []byte("MIME-Version: 1.0\n") }},
		{"other user data", first, askFor(now1), func(in *inspection) { in.userData = []byte("MIME-Version: 1.0\n") }},
		{"with EFA", nil, pcsAsk(func(r *Request) { r.EFA = capacity.EFAOnly }), func(in *inspection) { in.instanceType = efa }},
		{"with EFA by default", nil, askFor(now1), func(in *inspection) { in.instanceType = efa }},
		{"without EFA", nil, pcsAsk(func(r *Request) { r.EFA = capacity.NoEFA }), func(in *inspection) { in.instanceType = efa }},
		{"EFA on what was without", first, pcsAsk(func(r *Request) { r.EFA = capacity.EFA }), func(in *inspection) { in.instanceType = efa }},
		{"EFA that the type has not", nil, pcsAsk(func(r *Request) { r.EFA = capacity.EFAOnly }), nil},
		{"with interfaces to copy", nil, askFor(now1), func(in *inspection) {
			in.source.NetworkInterfaces, in.source.InstanceType = make([]capacity.Interface, 2), "p4d.24xlarge"
		}},
		{"for accounts", nil, pcsAsk(locked("nlp", "cv")), nil},
		{"for other accounts", func(t *testing.T, w *world) { w.setUp(t, pcsAsk(locked("nlp"))) }, pcsAsk(locked("cv")), nil},
		{"without the accounts of the queue", func(t *testing.T, w *world) {
			w.setUp(t, pcsAsk(locked("nlp")))
			w.queue("gpu").SlurmSettings = nil
		}, pcsAsk(func(*Request) {}), nil},
		{"accounts in another order", func(t *testing.T, w *world) {
			w.setUp(t, pcsAsk(locked("nlp", "cv")))
			w.queue("gpu").SlurmSettings[lock] = " CV,nlp"
		}, pcsAsk(func(*Request) {}), nil},
		{"a queue of others", func(t *testing.T, w *world) { first(t, w); w.queue("gpu").Tags = nil }, askFor(now1), nil},
		{"a launch template of others", func(t *testing.T, w *world) {
			first(t, w)
			one := w.templates["pcs-capacity-ml-gpu-a"]
			one.Tags = nil
			w.templates["pcs-capacity-ml-gpu-a"] = one
		}, askFor(now1), nil},
		{"a queue with a group more", func(t *testing.T, w *world) {
			first(t, w)
			w.queue("gpu").GroupIDs = append(w.queue("gpu").GroupIDs, "pcs_0")
		}, askFor(now1), nil},
		{"could not be created", func(t *testing.T, w *world) {
			first(t, w)
			w.group("gpu-a").Status, w.group("gpu-a").Failures = pcs.CreateFailed, pcs.Failures{{Code: "x", Message: "no"}}
		}, askFor(now1), nil},
		{"an ODCR", nil, askFor(now1), func(in *inspection) { in.reservation.Kind, in.reservation.End = capacity.ODCR, time.Time{} }},
		{"an unfamiliar type", nil, askFor(now1), func(in *inspection) { in.reservation.InstanceType = "trn2.48xlarge" }},
		{"that has ended", nil, askFor(now1), func(in *inspection) { in.reservation.State = capacity.StateExpired }},
		{"beside others", nil, askFor(now1), func(in *inspection) {
			in.users = []user{{who: "queue x", most: 2, running: 1}, {who: "instances", running: 1}}
		}},
		{"beside others, who have all of it", nil, askFor(now1), func(in *inspection) { in.users = []user{{who: "queue x", most: 4}} }},
		{"in an old cluster", nil, askFor(now1), func(in *inspection) { in.Cluster.SlurmVersion = "23.11" }},
		{"in the oldest cluster that will do", nil, askFor(now1), func(in *inspection) { in.Cluster.SlurmVersion = "24.05" }},
		{"with few addresses", nil, askFor(now1), func(in *inspection) { in.VPC[0].Free, in.chosen[0].Free = 3, 3 }},
		{"with just enough addresses", nil, askFor(now1), func(in *inspection) { in.VPC[0].Free, in.chosen[0].Free = 4, 4 }},
		{"with few addresses for EFA", nil, askFor(now1), func(in *inspection) {
			in.instanceType, in.VPC[0].Free, in.chosen[0].Free = efa, 7, 7
		}},
		{"in another zone", nil, askFor(now1), func(in *inspection) { in.chosen[0].AZID, in.VPC[0].AZID = "use2-az9", "use2-az9" }},
		{"for another architecture", nil, askFor(now1), func(in *inspection) { in.launch.Image.Architecture = "arm64" }},
		{"for an unknown architecture", nil, askFor(now1), func(in *inspection) { in.instanceType.Architectures = nil }},
		{"the first block on EC2", nil, askForOnEC2(now1), nil},
		{"again on EC2", onEC2, askForOnEC2(now1), nil},
		{"the next block on EC2", onEC2, askForOnEC2(next1), nil},
		{"another profile and script on EC2", onEC2, askForOnEC2(now1), func(in *inspection) { in.source.InstanceProfile, in.nodeScript = "nodes", "slurmd --conf-server ctl" }},
		{"a copy on EC2", nil, askForOnEC2(now1), func(in *inspection) {
			in.source = capacity.LaunchTemplate{ID: "lt-9", Name: "theirs", Version: "3", ImageID: "ami-1"}
		}},
		{"a fence that is gone", func(t *testing.T, w *world) { first(t, w); clear(w.fences) }, askFor(now1), nil},
		{"where nobody waits for Slurm", nil, askFor(now1), func(in *inspection) { in.waits = false }},
		{"by sync, which writes no settings", nil, askFor(now1), func(in *inspection) { in.unattended = true }},
		{"a copy of itself on EC2", onEC2, askForOnEC2(now1), func(in *inspection) { in.source = in.Slots[0].Template }},
	} {
		w := newWorld()
		if c.world != nil {
			c.world(t, w)
		}
		in := w.see(c.ask)
		if c.seen != nil {
			c.seen(&in)
			in.planned = templateOf(in.templateSpec(""))
		}
		p := plan(in)
		say(c.name, p.Done(), p.Actions, p.Mismatches, p.Warnings)
	}
	for _, c := range []struct {
		name  string
		world func(t *testing.T, w *world)
		ask   Request
		seen  func(in *inspection)
	}{
		{"teardown", both, Request{Queue: "gpu"}, nil},
		{"teardown of a slot", both, Request{Queue: "gpu", NodeGroup: "gpu-a"}, nil},
		{"teardown with instances and jobs", both, Request{Queue: "gpu"}, func(in *inspection) {
			in.Slots[0].Instances, in.Slots[0].Slurm.Jobs = 3, []string{"12"}
		}},
		{"teardown of what has no name of its queue", func(t *testing.T, w *world) {
			both(t, w)
			delete(w.group("gpu-a").Tags, capacity.TagPartition)
			delete(w.templates["pcs-capacity-ml-gpu-a"].Tags, capacity.TagPartition)
		}, Request{Queue: "gpu"}, nil},
		{"teardown beside a file of the administrator's", both, Request{Queue: "gpu"}, func(in *inspection) { in.file.ours = false }},
		{"teardown of a slot beside a file of the administrator's", both, Request{Queue: "gpu", NodeGroup: "gpu-a"}, func(in *inspection) { in.file.ours = false }},
		{"teardown where Slurm does not answer", both, Request{Queue: "gpu"}, func(in *inspection) {
			in.SlurmErr = errNoFence
			for i := range in.Slots {
				in.Slots[i].Slurm = site.SlurmSlot{}
			}
		}},
		{"teardown on EC2 without instances", onEC2, Request{Provider: capacity.ProviderEC2, Mark: ourMark, Queue: "gpu"}, nil},
		{"teardown of nothing on EC2", nil, Request{Provider: capacity.ProviderEC2, Mark: ourMark, Queue: "gpu"}, nil},
		{"teardown of nothing", nil, Request{Queue: "gpu"}, nil},
		{"teardown on EC2", func(t *testing.T, w *world) {
			onEC2(t, w)
			w.instances["i-1"], w.fences["gpu"] = "gpu", now1
		}, Request{Provider: capacity.ProviderEC2, Mark: ourMark, Queue: "gpu"}, nil},
	} {
		w := newWorld()
		if c.world != nil {
			c.world(t, w)
		}
		in := w.seeRemains(c.ask)
		if c.seen != nil {
			c.seen(&in)
		}
		p := planTeardown(in)
		say(c.name, p.Done(), p.Actions, p.Mismatches, p.Warnings, p.ByHand)
	}

	const path = "testdata/plans.txt"
	if os.Getenv("UPDATE_TRANSCRIPTS") != "" {
		if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); diff != "" {
		t.Errorf("%s is not what is planned; UPDATE_TRANSCRIPTS=1 writes it (-want +got):\n%s", path, diff)
	}
}

// TestGroupsOfTheSettings says which node groups teardown knows by the settings.
func TestGroupsOfTheSettings(t *testing.T) {
	cfg := config.Default()
	cfg.Partitions = []capacity.PartitionSettings{{Name: "gpu", Groups: []capacity.GroupSettings{{Name: "gpu"}, {Name: "big"}}}, {Name: "cpu", Groups: []capacity.GroupSettings{{Name: "cpu"}}}}
	queues := pcs.Inventory{Cluster: pcs.Cluster{Name: ourMark}, Queues: []pcs.Queue{{Name: "old", Tags: map[string]string{capacity.TagCluster: ourMark}}, {Name: "theirs"}}}
	for asked, want := range map[string]bool{"": true, "gpu": true, "big": true, "gpu-a": true, "gpu-b": true, "gpu-c": false, "cpu": false} {
		p := Plan{seen: &inspection{request: Request{Queue: "gpu", NodeGroup: asked, Config: cfg}, Site: site.Site{Inventory: queues}}}
		if got := p.Known(); got != want {
			t.Errorf("%q is known: %t", asked, got)
		}
		if got := strings.Join(p.There(), " "); got != "cpu gpu old" {
			t.Errorf("there are %s", got)
		}
	}
	if p := (Plan{seen: &inspection{request: Request{Queue: "none", Config: cfg}}}); p.Known() {
		t.Error("a queue that the settings do not have is known")
	}
	if p := (Plan{seen: &inspection{Site: site.Site{Inventory: queues}}}); strings.Join(p.There(), " ") != "old" {
		t.Errorf("without settings there are %s", p.There())
	}
}
