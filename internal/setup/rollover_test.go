package setup_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
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
	r.failGroups("gpu-b", 1, "InsufficientAddresses", "no address is left")
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

	r.slurm.slots = map[string]site.SlurmSlot{"gpu-a": {Nodes: []string{"gpu-a-1"}, Jobs: []string{"12"}}}
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
