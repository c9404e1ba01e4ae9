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
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// fencing is a Slurm that shows the nodes of a node group some looks after PCS has it, and whose
// fences a pass places.
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
