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

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// rolling is an account whose partition rolls over by itself, with the open block in its first slot.
type rolling struct {
	*account
	setup.RollOver
	of    capacity.NodeGroup
	slurm *slurmOf
}

func newRolling(t *testing.T) *rolling {
	t.Helper()
	w := newAccount(t, nil)
	w.run(w.request(openBlock))
	dir := t.TempDir()
	w.edit(w.configPath(), "region = ", "state_dir = \""+dir+"\"\nregion = ")
	w.edit(w.config().Partitions[0].File, "[[partition]]\n", "[[partition]]\nroll_over = true\n")
	r := &rolling{account: w, slurm: &slurmOf{drained: new([]string)}, RollOver: setup.RollOver{Setup: w.setup, Config: w.config()}}
	r.of = capacity.NodeGroup{Name: "gpu", MaxNodes: 4, Subnets: []capacity.Subnet{{ID: subnetA, AZID: "use2-az1"}, {ID: subnetB, AZID: "use2-az2"}},
		Slots: []capacity.Slot{{Name: "gpu-a", Holds: openBlock}, {Name: "gpu-b"}}}
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
	block, err := r.ec2.Reservation(r.Context(), laterBlock)
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

// TestRollOver: a pass begins one thing, and the next one goes on; what is in the way is said. All that it calls is in
// the policy of sync.
func TestRollOver(t *testing.T) {
	r := newRolling(t)
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
	fails("no subnet in the zone", did, err, "but node group gpu-b has only "+subnetB+" in us-east-2b (use2-az2); `pcs-capacity setup --reservation "+laterBlock+" --queue gpu --node-group gpu` shows what to do")
	r.of.Subnets = subnets
	r.fault(awssim.Denies("pcs:CreateComputeNodeGroup"))
	did, err = r.next(false)
	fails("not allowed", did, err, "pcs:CreateComputeNodeGroup is not allowed")
	r.sim.ClearFaults()
	r.sim.FailNodeGroups(1, "InsufficientAddresses", "no address is left")
	unused := "warning: 12 of the 16 instances of " + laterBlock + " stay unused: max_nodes of node group gpu is 4"
	did, err = r.next(false)
	expect("first pass", did, err, unused, "create compute node group gpu-b")
	did, err = r.next(false)
	fails("PCS cannot create it", did, err, "PCS could not create compute node group gpu-b: InsufficientAddresses: no address is left")
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

// fencing is a Slurm that shows the nodes of a node group some looks after PCS has it, and whose fences a pass places.
type fencing struct {
	setup.Slurm
	w       *account
	hidden  int // looks until the nodes show
	refused error
	fenced  bool
}

func (f *fencing) Slots(_ context.Context, _ string, nodes map[string][]string) (map[string]setup.SlurmSlot, int, error) {
	slots := map[string]setup.SlurmSlot{}
	for name := range nodes {
		slot := setup.SlurmSlot{}
		if _, there := f.w.inventory().Group(name); there && f.hidden <= 0 {
			slot.Nodes = []string{name + "-1"}
		}
		if f.fenced {
			block := map[string]string{"gpu-a": openBlock, "gpu-b": laterBlock}[name]
			slot.Reservations = []string{capacity.Guard{Kind: capacity.GuardFence, Slot: name, Block: block, Owner: "0a1b2c3d"}.String()}
		}
		slots[name] = slot
	}
	f.hidden--
	return slots, 0, nil
}

// pass is Setup.Fence: it places the fence if the settings have the partition.
func (f *fencing) pass(context.Context) error {
	c := f.w.config()
	if c == nil || f.hidden > 0 || f.refused != nil {
		return f.refused
	}
	_, f.fenced = c.Partition("gpu")
	return nil
}

// TestNoQueueWithoutSettingsAndFence stops setup at each of its steps: there is no queue without
// settings and fence, and the same command goes on from there.
func TestNoQueueWithoutSettingsAndFence(t *testing.T) {
	type outcome struct {
		name string
		set  func(w *account, f *fencing)
		mend func(w *account, f *fencing)
		want string // of the error
	}
	cases := []outcome{
		{name: "no trouble"},
		{name: "the nodes show late", set: func(_ *account, f *fencing) { f.hidden = 5 }},
		{name: "the nodes never show", set: func(_ *account, f *fencing) { f.hidden = 1 << 30 }, mend: func(_ *account, f *fencing) { f.hidden = 0 },
			want: "Slurm shows no nodes of compute node group gpu-a after 5m, so no fence can stand on them, and they are not put into queue gpu"},
		{name: "the pass fails", set: func(_ *account, f *fencing) { f.refused = errors.New("Access/permission denied") }, mend: func(_ *account, f *fencing) { f.refused = nil },
			want: "no fence could be placed on the nodes of gpu-a, so they are not put into queue gpu: Access/permission denied"},
		{name: "conf.d cannot be written", set: func(w *account, _ *fencing) { w.confD("a file") }, mend: func(w *account, _ *fencing) { w.confD("") }, want: "conf.d"},
	}
	for _, call := range []string{"CreateLaunchTemplate", "CreateComputeNodeGroup", "CreateQueue"} {
		for _, effect := range []awssim.Effect{awssim.FailBefore, awssim.FailAfter, awssim.CutAfter} {
			cases = append(cases, outcome{name: fmt.Sprint(call, " ", effect), want: "*", set: func(w *account, _ *fencing) {
				w.fault(awssim.Fault{Operation: call, Effect: effect, Code: "InternalError", Count: 1})
			}})
		}
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newAccount(t, nil)
			f := &fencing{w: w}
			w.setup.Slurm, w.setup.Fence, w.setup.Poll = f, f.pass, time.Millisecond
			w.setup.Patience = 20 * time.Millisecond // 5 minutes are over soon
			if c.set != nil {
				c.set(w, f)
			}
			safe := func() {
				t.Helper()
				if _, queue := w.inventory().Queue("gpu"); !queue {
					return
				}
				cfg := w.config()
				if cfg == nil {
					t.Fatal("a queue without settings")
				}
				if _, found := cfg.Partition("gpu"); !found || !f.fenced {
					t.Errorf("a queue with settings: %v, with a fence: %v", found, f.fenced)
				}
			}
			apply := func() error {
				r := w.request(openBlock)
				p, err := w.setup.Plan(w.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				return w.setup.Apply(w.Context(), p)
			}
			err := apply()
			safe()
			switch {
			case c.want == "" && err != nil, c.want != "" && c.want != "*" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
			if c.want != "" && c.want != "*" {
				if _, queue := w.inventory().Queue("gpu"); queue {
					t.Error("there is a queue")
				}
			}
			if c.mend != nil {
				c.mend(w, f)
			}
			if err := apply(); err != nil {
				t.Error("again:", err)
			}
			safe()
			if _, queue := w.inventory().Queue("gpu"); !queue {
				t.Error("there is no queue in the end")
			}
		})
	}
}

// confD makes conf.d a file, or nothing.
func (w *account) confD(text string) {
	w.Helper()
	path := filepath.Join(filepath.Dir(w.configPath()), "conf.d")
	if text == "" {
		if err := os.Remove(path); err != nil {
			w.Fatal(err)
		}
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
		if err != nil {
			w.Fatal(err)
		}
	}
}

// TestRollOverWaitsForTheFence: sync puts a node group into the queue in the first pass that
// finds its fence standing, and not before.
func TestRollOverWaitsForTheFence(t *testing.T) {
	w := newAccount(t, nil)
	w.run(w.request(openBlock))
	f := &fencing{w: w}
	w.setup.Slurm, w.setup.Unattended = f, true
	for _, fenced := range []bool{false, true} {
		f.fenced = fenced
		err := w.setup.Apply(w.Context(), w.plan(w.request(laterBlock)))
		if !errors.Is(err, pcs.ErrAtWork) { // the next pass sees that it is done
			t.Errorf("with a fence %v: %v", fenced, err)
		}
		q, _ := w.inventory().Queue("gpu")
		if slices.Contains(q.GroupIDs, w.group("gpu-b").ID) != fenced {
			t.Errorf("with a fence %v: the queue has %v", fenced, q.GroupIDs)
		}
	}
}
