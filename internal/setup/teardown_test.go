package setup_test

import (
	"context"
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
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// slurmAway is a host without Slurm.
type slurmAway struct{}

var errAway = errors.New("no scontrol here")

func (slurmAway) Slots(context.Context, string, map[string][]string) (map[string]setup.SlurmSlot, setup.QueueJobs, error) {
	return nil, setup.QueueJobs{}, errAway
}
func (slurmAway) Drain(context.Context, []string, string) error   { return errAway }
func (slurmAway) DeleteReservation(context.Context, string) error { return errAway }

// slurmOf is a Slurm whose slots have nodes and jobs.
type slurmOf struct {
	slurmAway
	slots   map[string]setup.SlurmSlot
	drained *[]string
}

func (s slurmOf) Slots(
	_ context.Context,
	_ string,
	nodes map[string][]string,
) (map[string]setup.SlurmSlot, setup.QueueJobs, error) {
	slots := map[string]setup.SlurmSlot{}
	for name, more := range nodes {
		slot := s.slots[name]
		slot.Nodes = append(slices.Clone(slot.Nodes), more...)
		slots[name] = slot
	}

	return slots, setup.QueueJobs{}, nil
}

func (s slurmOf) Drain(_ context.Context, nodes []string, _ string) error {
	*s.drained = append(*s.drained, nodes...)
	return nil
}

func (w *account) teardown(group string) setup.Request {
	w.setup.Slurm = slurmAway{}
	return setup.Request{Cluster: "ml", Queue: "gpu", NodeGroup: group, Config: w.config()}
}

func (w *account) planTeardown(r setup.Request) *setup.Plan {
	w.Helper()

	p, err := w.setup.PlanTeardown(w.Context(), r)
	if err != nil {
		w.Fatal(err)
	}

	return p
}

func (w *account) tear(r setup.Request) *setup.Plan {
	w.Helper()

	p := w.planTeardown(r)
	if err := w.setup.Apply(w.Context(), p); err != nil {
		w.Fatal(err)
	}

	return p
}

func stepsOf(p *setup.Plan) []string {
	var all []string
	for _, s := range p.Steps() {
		all = append(all, string(s.Verb)+" "+s.What+" "+filepath.Base(s.Name))
	}

	return all
}

// twoSlots sets up a block in each slot of the queue gpu, and something beside it.
func twoSlots(t *testing.T) *account {
	t.Helper()
	w := newAccount(t, nil)
	w.run(w.request(openBlock))
	w.run(w.request(laterBlock))
	other := w.request(gpuODCR)
	other.Queue, other.NodeGroup = "other", "other"
	w.run(other)
	w.written()

	return w
}

// left describes all that is there: node groups, queues with their groups, launch templates, and files of settings.
func (w *account) left() []string {
	w.Helper()

	inv := w.inventory()

	var all []string
	for _, g := range inv.Groups {
		all = append(all, "group "+g.Name)
	}

	for _, q := range inv.Queues {
		var names []string
		for _, id := range q.GroupIDs {
			g, _ := inv.Group(id)
			names = append(names, g.Name)
		}

		all = append(all, fmt.Sprintf("queue %s %v", q.Name, names))
	}

	templates, err := w.ec2.LaunchTemplatesByTag(w.Context(), map[string]string{capacity.TagCluster: "ml"})
	if err != nil {
		w.Fatal(err)
	}

	for _, t := range templates {
		all = append(all, "template "+t.Name)
	}

	files, err := filepath.Glob(filepath.Join(filepath.Dir(w.configPath()), "conf.d", "*"))
	if err != nil {
		w.Fatal(err)
	}

	for _, f := range files {
		all = append(all, "file "+filepath.Base(f))
	}

	slices.Sort(all)

	return all
}

// What stands beside the queue gpu, and must stay.
var beside = []string{
	"file other.toml",
	"group compute",
	"group other-a",
	"queue cpu [compute]",
	"queue other [other-a]",
	"template pcs-capacity-ml-other-a",
}

// addToQueue puts a node group into one more queue.
func (w *account) addToQueue(queue, group string) {
	w.Helper()

	q, _ := w.inventory().Queue(queue)
	q.GroupIDs = append(q.GroupIDs, w.group(group).ID)
	if err := w.provisioner().EnsureQueue(w.Context(), q); err != nil {
		w.Fatal(err)
	}
}

// What somebody else put into the queue stays there, and so does the queue; what lacks
// our tag is left alone, in the plan and when it loses the tag after that.
func TestR9_TeardownLeavesWhatIsNotOurs(t *testing.T) {
	ofAnother := map[string]string{capacity.TagCluster: "other"}

	t.Run("a foreign node group in the queue", func(t *testing.T) {
		w := twoSlots(t)
		w.addToQueue("gpu", "compute")
		w.tear(w.teardown(""))

		want := append(slices.Clone(beside), "queue gpu [compute]")
		slices.Sort(want)

		if diff := cmp.Diff(want, w.left()); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	})
	t.Run("a foreign node group that joins after the plan", func(t *testing.T) {
		w := twoSlots(t)
		p := w.planTeardown(w.teardown(""))
		w.addToQueue("gpu", "compute")

		if err := w.setup.Apply(t.Context(), p); err != nil {
			t.Fatal(err)
		}

		if q, found := w.inventory().Queue("gpu"); !found ||
			!slices.Equal(q.GroupIDs, []string{w.group("compute").ID}) {
			t.Errorf("queue %+v", q)
		}
	})
	t.Run("a node group of the name that lost our tag", func(t *testing.T) {
		w := twoSlots(t)
		if err := w.setup.PCS.Tag(t.Context(), w.group("gpu-a").ARN, ofAnother); err != nil {
			t.Fatal(err)
		}

		p := w.tear(w.teardown(""))
		if len(p.Texts(capacity.Note)) != 1 ||
			p.Texts(capacity.Note)[0] != "compute node group gpu-a does not carry our tag, so it stays" {
			t.Errorf("warnings %q", p.Texts(capacity.Note))
		}

		w.group("gpu-a")

		if q, _ := w.inventory().Queue("gpu"); len(q.GroupIDs) != 1 {
			t.Errorf("queue %+v", q)
		}
	})
}

// Settings of another cluster that happen to have a partition of that name stay.
func TestTeardownBesideOtherSettings(t *testing.T) {
	w := twoSlots(t)

	text, err := os.ReadFile(w.configPath())
	if err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(w.configPath(),
		[]byte(strings.Replace(string(text), `cluster = "ml"`, `cluster = "linux"`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}

	p := w.tear(w.teardown(""))

	want := append(slices.Clone(beside), "file gpu.toml")
	slices.Sort(want)

	if diff := cmp.Diff(want, w.left()); diff != "" ||
		!slices.Contains(
			p.Texts(capacity.Note),
			w.configPath()+` is for cluster "linux", not for ml, so it is left alone`,
		) {
		t.Errorf("warnings %q, left (-want +got):\n%s", p.Texts(capacity.Note), diff)
	}
}

// provisioner makes things that are not ours.
func (w *account) provisioner() pcs.Provisioner { return pcs.Provisioner{PCS: w.setup.PCS, EC2: w.ec2} }

// rolling is an account whose partition rolls over by itself, with the open block in its first slot.
type rolling struct {
	*account
	setup.RollOver
	of    capacity.NodeGroup
	slurm *slurmOf
}

func newRolling(t *testing.T, spare string) *rolling {
	t.Helper()

	w := newAccount(t, nil)
	first := w.request(openBlock)
	first.Spare = spare
	first.InstallHooks = "cli_filter"
	w.run(first)

	dir := t.TempDir()
	w.edit(w.configPath(), "region = ", "state_dir = \""+dir+"\"\nregion = ")
	w.edit(w.config().Partitions[0].File, "[[partition]]\n", "[[partition]]\nroll_over = true\n")
	r := &rolling{
		account:  w,
		slurm:    &slurmOf{drained: new([]string)},
		RollOver: setup.RollOver{Setup: w.setup, Config: w.config()},
	}
	r.of = capacity.NodeGroup{
		Name:     "gpu",
		MaxNodes: 4,
		Subnets:  []capacity.Subnet{{ID: subnetA, AZID: "use2-az1"}, {ID: subnetB, AZID: "use2-az2"}},
		Slots:    []capacity.Slot{{Name: "gpu-a", Occupant: openBlock}, {Name: "gpu-b"}},
	}

	if err := state.Dir(dir).Create(); err != nil {
		t.Fatal(err)
	}

	return r
}

// edit replaces a text in a file, once.
func (w *account) edit(file, old, with string) {
	w.Helper()

	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(text), old, with, 1)), 0o644)
	}

	if err != nil {
		w.Fatal(err)
	}
}

func (r *rolling) next(anew bool) ([]string, error) {
	r.Helper()

	block, err := ec2.Reservation(r.Context(), r.ec2, laterBlock)
	if err != nil {
		r.Fatal(err)
	}

	return r.SetUp(r.Context(), "gpu", r.of, block, anew)
}

func (r *rolling) remove() ([]string, error) {
	r.Setup.Slurm = r.slurm
	return r.Remove(r.Context(), "gpu", "gpu-a")
}

// queued is how many node groups the queue has.
func (r *rolling) queued() int {
	q, _ := r.inventory().Queue("gpu")
	return len(q.GroupIDs)
}

// TestRollOverLends: where the queue lends its nodes, the spare queue gets those of the next block after it, and loses
// those of an ended one before it.
func TestRollOverLends(t *testing.T) {
	r := newRolling(t, "scavenge")

	var did []string
	for range 5 {
		more, err := r.next(false)
		if err != nil {
			t.Fatal(err)
		}

		did = append(did, more...)
	}

	r.sim.Clock().Advance(6 * 24 * time.Hour)

	for range 4 {
		more, err := r.remove()
		if err != nil {
			t.Fatal(err)
		}

		did = append(did, more...)
	}

	want := []string{
		"create launch template pcs-capacity-ml-gpu-b", "create compute node group gpu-b",
		"update queue gpu", "update queue scavenge",
		"update queue scavenge", "update queue gpu", "delete compute node group gpu-a",
	}

	did = slices.DeleteFunc(did, func(one string) bool { return strings.HasPrefix(one, "warning: ") })
	if !slices.Equal(did, want) {
		t.Errorf("did %q, want %q", did, want)
	}

	if what := r.template(r.group("gpu-b")).Installs(); what != "cli_filter" {
		t.Errorf("nodes of gpu-b install %q", what)
	}

	for _, q := range r.inventory().Queues {
		if (q.Name == "gpu" || q.Name == "scavenge") && len(q.GroupIDs) != 1 {
			t.Errorf("queue %s has %v", q.Name, q.GroupIDs)
		}
	}
}

// TestRollOver: a pass begins one thing, and the next one goes on; what is in the way is said. All that it calls is in
// the policy of sync.
func TestRollOver(t *testing.T) {
	r := newRolling(t, "")
	r.sim.ResetCalls()

	expect := func(when string, did []string, err error, want ...string) {
		t.Helper()

		if err != nil || !slices.Equal(did, want) {
			t.Errorf("%s: %q, %v; want %q", when, did, err, want)
		}
	}
	fails := func(when string, did []string, err error, want string) {
		t.Helper()

		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", when, did, err)
		}
	}
	subnets := r.of.Subnets
	r.of.Subnets = subnets[1:]
	did, err := r.next(false)
	fails(
		"no subnet in the zone",
		did,
		err,
		"but node group gpu-b has only "+subnetB+" in us-east-2b (use2-az2); use --subnet-ids "+subnetA+
			"; see `pcs-capacity setup --reservation "+laterBlock+" --queue gpu --node-group gpu`",
	)

	r.of.Subnets = subnets
	r.fault(awssim.Denies("pcs:CreateComputeNodeGroup"))
	did, err = r.next(false)
	fails("not allowed", did, err, "pcs:CreateComputeNodeGroup is not allowed")
	r.sim.ClearFaults()
	r.fault(awssim.Fault{
		Operation: "CreateComputeNodeGroup",
		Effect:    awssim.FailLater,
		Code:      "InsufficientAddresses",
		Message:   "no address is left",
	})

	unused := "warning: 12 of the 16 instances of " + laterBlock + " stay unused: max_nodes of node group gpu is 4"
	did, err = r.next(false)
	expect("first pass", did, err, unused, "create compute node group gpu-b")
	did, err = r.next(false)
	fails(
		"PCS cannot create it",
		did,
		err,
		"PCS could not create compute node group gpu-b: InsufficientAddresses: no address is left",
	)
	did, err = r.next(true)
	expect("anew", did, err, "delete compute node group gpu-b")
	r.sim.ClearFaults()
	did, err = r.next(false)
	expect("made anew", did, err, unused, "create compute node group gpu-b")
	did, err = r.next(false)
	expect("then", did, err, "update queue gpu")

	if did, err = r.next(false); len(did) > 0 || err != nil || r.queued() != 2 {
		t.Errorf("in the end: %q, %v", did, err)
	}

	r.slurm.slots = map[string]setup.SlurmSlot{"gpu-a": {Nodes: []string{"gpu-a-1"}, Jobs: []string{"12"}}}
	did, err = r.remove()
	expect("while a job runs", did, err)

	r.slurm.slots = nil
	r.sim.Clock().Advance(6 * 24 * time.Hour)
	unlock, err := state.Dir(r.Config.StateDir).Lock(t.Context(), state.SetupLock, 0)
	if err != nil {
		t.Fatal(err)
	}

	did, err = r.remove()
	expect("beside another setup", did, err)
	unlock()

	did, err = r.remove()
	expect("after the block", did, err, "update queue gpu")
	did, err = r.remove()
	expect("then", did, err, "delete compute node group gpu-a")

	if _, there := r.inventory().Group("gpu-a"); there || r.queued() != 1 || r.group("gpu-b").Max != 4 {
		t.Errorf("left are %+v", r.inventory().Groups)
	}

	for _, action := range r.sim.CalledBy(os.Getenv("AWS_ACCESS_KEY_ID")) {
		if !permissions.Allows("sync", action) && action != "sts:GetCallerIdentity" {
			t.Errorf("it calls %s, which the policy of sync does not allow", action)
		}
	}

	r.edit(r.Config.Partitions[0].File, "roll_over = true\n", "")
	did, err = r.next(false)
	expect("after the setting is gone", did, err)
}
