package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// An instance is the node that it was launched for, or, where PCS launched it, the one at its
// address. Nodes of others are left alone.
func TestNodeOfInstance(t *testing.T) {
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{
		{Name: "pcs", Provider: capacity.ProviderPCS, Groups: []capacity.GroupSettings{{Name: "gpu"}}},
		{Name: "own", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "own"}}}}}
	p := passOf(Sources{Settings: settings}, Seen{Cluster: &Cluster{Mark: "ml", Nodes: []capacity.Node{
		{Name: "gpu-a-1", State: "IDLE", Address: "10.0.0.1"}, {Name: "gpu-a-2", State: "IDLE+CLOUD+POWERED_DOWN", Address: "gpu-a-2"},
		{Name: "own-1", State: "IDLE", Address: "own-1"}, {Name: "other-1", State: "IDLE", Address: "10.0.0.9"}}}})
	launched := func(mark, node string) capacity.Instance {
		return capacity.Instance{PrivateIP: "10.0.0.7", Tags: map[string]string{capacity.TagCluster: mark, capacity.TagNode: node}}
	}
	for name, c := range map[string]struct {
		i    capacity.Instance
		want string
	}{
		"by its address":     {capacity.Instance{PrivateIP: "10.0.0.1"}, "gpu-a-1"},
		"by our tags":        {launched("ml", "own-1"), "own-1"},
		"of another cluster": {launched("ml2", "own-1"), ""},
		"of no node":         {capacity.Instance{PrivateIP: "10.0.0.3"}, ""},
		"of a site's node":   {capacity.Instance{PrivateIP: "10.0.0.9"}, ""},
		"node is off":        {launched("ml", "gpu-a-2"), ""},
		"without an address": {capacity.Instance{}, ""},
	} {
		if got := p.nodeOf(c.i); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What sync does with a job whose nodes EC2 takes back. What an administrator holds is not held
// by us as well: our hold would become its owner's to release.
func TestInterruptedJobs(t *testing.T) {
	held := func(j *capacity.Job) { j.Held, j.Reason = true, "JobHeldUser" }
	admin := func(j *capacity.Job) { j.Held, j.Reason = true, "JobHeldAdmin" }
	for name, c := range map[string]struct {
		onEnd  capacity.OnEnd
		change func(*capacity.Job)
		holds  int    // how often it is requeued and held
		state  string // afterwards
		note   string // how its AdminComment begins
	}{
		"requeued":                       {capacity.RequeueAtEnd, nil, 0, "PENDING", "pcs-capacity: requeued at "},
		"held":                           {capacity.HoldAtEnd, nil, 1, "PENDING", "pcs-capacity: its owner can release it from "},
		"its owner holds it":             {capacity.HoldAtEnd, held, 1, "PENDING", "pcs-capacity: its owner can release it from "},
		"an administrator holds it":      {capacity.HoldAtEnd, admin, 0, "PENDING", "pcs-capacity: requeued at "},
		"an administrator holds another": {capacity.StopAtEnd, admin, 0, "RUNNING", "pcs-capacity: interrupted at "},
		"not to be requeued":             {capacity.HoldAtEnd, func(j *capacity.Job) { admin(j); j.Requeue = false }, 0, "RUNNING", "pcs-capacity: interrupted at "},
	} {
		t.Run(name, func(t *testing.T) {
			s := newModel(noon, map[string]int{"solo": 1})
			j := s.submit(modelJob{Job: capacity.Job{Partition: "solo", Batch: true, Requeue: true}})
			j.State, j.Nodes = "RUNNING", []string{"solo-1"}
			s.node("solo-1").job = j
			if c.change != nil {
				c.change(&j.Job)
			}
			p := passOf(Sources{State: state.Dir(t.TempDir()), MachineTime: func() time.Time { return noon }}.at(s, nil), Seen{Snap: &capacity.Snapshot{}, Now: noon, Jobs: []capacity.Job{j.Job}, Cluster: &Cluster{}, TakenBack: map[string]fenced{"solo-1": {slot: "solo", reservation: "cr-1", onEnd: c.onEnd, fence: noon}}})
			effects := interruptions(p.seen)
			holds := 0
			for _, e := range effects {
				if e, requeued := e.(InterruptJob); requeued && e.Hold {
					holds++
				}
			}
			p.carryOut(t.Context(), effects)
			if j.State != c.state || holds != c.holds || !strings.HasPrefix(j.AdminComment, c.note) {
				t.Errorf("%s, held %d times, %q; want %s, %d, %q", j.State, holds, j.AdminComment, c.state, c.holds, c.note)
			}
			if len(p.failed) > 0 || len(p.seen.Snap.Problems) > 0 {
				t.Errorf("failed: %v, %v", p.failed, p.seen.Snap.Problems)
			}
		})
	}
}
