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

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// slurmAway is a host without Slurm.
type slurmAway struct{}

var errAway = errors.New("no scontrol here")

func (slurmAway) Slots(context.Context, string, map[string][]string) (map[string]site.SlurmSlot, int, error) {
	return nil, 0, errAway
}
func (slurmAway) Drain(context.Context, []string, string) error { return errAway }
func (slurmAway) DropReservation(context.Context, string) error { return errAway }

// slurmOf is a Slurm whose slots have nodes and jobs.
type slurmOf struct {
	slurmAway
	slots   map[string]site.SlurmSlot
	drained *[]string
}

func (s slurmOf) Slots(_ context.Context, _ string, nodes map[string][]string) (map[string]site.SlurmSlot, int, error) {
	slots := map[string]site.SlurmSlot{}
	for name, more := range nodes {
		slot := s.slots[name]
		slot.Nodes = append(slices.Clone(slot.Nodes), more...)
		slots[name] = slot
	}
	return slots, 0, nil
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
var beside = []string{"file other.toml", "group compute", "group other-a", "queue cpu [compute]", "queue other [other-a]", "template pcs-capacity-ml-other-a"}

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
		if q, found := w.inventory().Queue("gpu"); !found || !slices.Equal(q.GroupIDs, []string{w.group("compute").ID}) {
			t.Errorf("queue %+v", q)
		}
	})
	t.Run("a node group of the name that lost our tag", func(t *testing.T) {
		w := twoSlots(t)
		if err := w.setup.PCS.Tag(t.Context(), w.group("gpu-a").ARN, ofAnother); err != nil {
			t.Fatal(err)
		}
		p := w.tear(w.teardown(""))
		if len(p.Warnings) != 1 || p.Warnings[0] != "compute node group gpu-a does not carry our tag, so it stays" {
			t.Errorf("warnings %q", p.Warnings)
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
	if err := os.WriteFile(w.configPath(), []byte(strings.Replace(string(text), `cluster = "ml"`, `cluster = "linux"`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	p := w.tear(w.teardown(""))
	want := append(slices.Clone(beside), "file gpu.toml")
	slices.Sort(want)
	if diff := cmp.Diff(want, w.left()); diff != "" || !slices.Contains(p.Warnings, w.configPath()+` is for cluster "linux", not for ml, so it is left alone`) {
		t.Errorf("warnings %q, left (-want +got):\n%s", p.Warnings, diff)
	}
}

// provisioner makes things that are not ours.
func (w *account) provisioner() pcs.Provisioner { return pcs.Provisioner{PCS: w.setup.PCS, EC2: w.ec2} }
