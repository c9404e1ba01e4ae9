package setup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// slotsNow is a Slurm with one slot, and a list of what it was told.
type slotsNow struct {
	slot SlurmSlot
	told []string
}

func (s *slotsNow) Slots(_ context.Context, _ string, nodes map[string][]string) (map[string]SlurmSlot, int, error) {
	found := map[string]SlurmSlot{}
	for name := range nodes {
		found[name] = s.slot
	}
	return found, 0, nil
}

func (s *slotsNow) Drain(_ context.Context, nodes []string, reason string) error {
	s.told = append(s.told, "drain "+strings.Join(nodes, ",")+": "+reason)
	return nil
}

func (s *slotsNow) DeleteReservation(_ context.Context, name string) error {
	s.told = append(s.told, "delete "+name)
	return nil
}

// TestStepsOnFiles makes the changes of settings, and those in Slurm that go with them: what has changed since the
// plan was made is left as it is.
func TestStepsOnFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etc", "config.toml")
	file := config.PartitionPath(path, "gpu")
	group := capacity.GroupSettings{Name: "gpu", InstanceType: "p5.48xlarge", SubnetIDs: []string{subnet}, PurchaseOption: capacity.CapacityBlock, ReservationIDs: []string{now1}, MaxNodes: 4}
	part := config.NewPartition("gpu", capacity.ProviderPCS, group)
	slurm := &slotsNow{slot: SlurmSlot{Nodes: []string{"gpu-a-1"}}}
	w := clients{Slurm: slurm}
	settings := func() *config.Config {
		t.Helper()
		c, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	has := func() capacity.PartitionSettings {
		t.Helper()
		p, _ := settings().Partition("gpu")
		return p
	}
	place := config.Place{Region: "us-east-2", Cluster: ourMark, ClusterFrom: "the only one"}
	for range 2 { // the second finds the file of the first
		if err := writeSettings(w, path, place); err != nil {
			t.Fatal(err)
		}
	}
	place.Cluster = "other"
	if err := writeSettings(w, path, place); !errors.Is(err, errChanged) || settings().Cluster != ourMark {
		t.Errorf("settings of another cluster: %v", err)
	}

	if err := writePartition(w, path, file, nil, part); err != nil || !slices.Equal(has().Groups[0].ReservationIDs, []string{now1}) {
		t.Fatal(err)
	}
	if err := writePartition(w, path, file, nil, part); !errors.Is(err, errChanged) {
		t.Errorf("a partition that has come meanwhile: %v", err)
	}
	was, bigger := has(), has()
	group.MaxNodes = 8
	bigger.Groups = []capacity.GroupSettings{group}
	if err := writePartition(w, path, file, &was, bigger); err != nil || has().Groups[0].MaxNodes != 8 {
		t.Errorf("an update: %v", err)
	}
	if err := writePartition(w, path, file, &was, bigger); !errors.Is(err, errChanged) {
		t.Errorf("an update of what has changed meanwhile: %v", err)
	}

	// Of the fences, those go that are there now.
	slurm.slot.Reservations = []string{"fence-1", "fence-2"}
	dir := filepath.Join(t.TempDir(), "state")
	if err := state.Dir(dir).Create(); err != nil {
		t.Fatal(err)
	}
	cfg := settings()
	cfg.StateDir = dir
	going := remains{request: TeardownRequest{Queue: "gpu", Config: cfg}, slots: []remainingSlot{{name: "gpu-a"}}}
	if err := going.forget(t.Context(), w, &settingsChange{before: was, ours: true}); !errors.Is(err, errChanged) || len(slurm.told) > 0 || len(has().Groups) != 1 {
		t.Errorf("settings that have changed meanwhile: %v, told %v", err, slurm.told)
	}
	fresh := &settingsChange{before: has(), ours: true}
	unlock, err := state.Dir(dir).Lock(t.Context(), state.PassLock, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := going.forget(ctx, w, fresh); err == nil || len(has().Groups) != 1 || len(slurm.told) > 0 {
		t.Errorf("beside a pass of sync: %v, told %v", err, slurm.told)
	}
	unlock()
	for range 2 { // the second finds nothing but fences
		if err := going.forget(t.Context(), w, fresh); err != nil || !slices.Equal(slurm.told, []string{"delete fence-1", "delete fence-2"}) {
			t.Errorf("%v, told %v", err, slurm.told)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("the file stays: %v", err)
		}
		slurm.told = nil
	}

	// Jobs that start before the nodes are drained keep all that follows from being done.
	nodes := SlotNodes{"gpu-a", []string{"gpu-a-1"}}
	slurm.slot.Jobs = []string{"12"}
	if err := drain(t.Context(), w, "gpu", nodes, false); !errors.Is(err, ErrJobsRun) || !strings.Contains(err.Error(), "12 started on gpu-a meanwhile") || !slices.Equal(slurm.told, []string{"drain gpu-a-1: pcs-capacity teardown"}) {
		t.Errorf("%v, told %v", err, slurm.told)
	}
	if err := drain(t.Context(), w, "gpu", nodes, true); err != nil {
		t.Errorf("by force: %v", err)
	}
}

// TestSlotsInSlurm has what Slurm says of slots: nodes by their names or by a list, in partitions alone
// where Slurm hides them; jobs that have nodes; reservations that are ours; the fence for a block.
func TestSlotsInSlurm(t *testing.T) {
	guard := func(kind capacity.GuardKind, slot string) capacity.SlurmReservation {
		return capacity.SlurmReservation{Name: capacity.Guard{Kind: kind, Slot: slot, Block: now1, Owner: "0a1b2c3d"}.String(), Flags: []string{"MAINT", "IGNORE_JOBS"}, Users: []string{"root"}}
	}
	copied := guard(capacity.GuardFence, "gpu-a")
	copied.Users = []string{"ann"}
	seen := SlurmSeen{
		Nodes:        []capacity.Node{{Name: "gpu-a-1"}, {Name: "gpu-b-1"}, {Name: "rack7"}, {Name: "cpu-1"}},
		Partitions:   []capacity.SlurmPartition{{Name: "gpu", Nodes: []string{"gpu-a-1", "gpu-a-2"}}},
		Reservations: []capacity.SlurmReservation{guard(capacity.GuardFence, "gpu-a"), guard(capacity.GuardSurplus, "gpu-b"), copied, {Name: "gpu-a-scheduled"}},
		Jobs: []capacity.Job{{Shown: "1", State: "RUNNING", Nodes: []string{"gpu-a-2"}}, {Shown: "2", State: "COMPLETED", Nodes: []string{"gpu-a-1"}},
			{Shown: "3", State: "PENDING", Partition: "gpu"}, {Shown: "4", State: "PENDING", Partition: "cpu"}, {Shown: "5_1", State: "RUNNING", Nodes: []string{"rack7", "cpu-1"}}},
	}
	slots, waiting := seen.Slots("gpu", map[string][]string{"gpu-a": nil, "gpu-b": nil, "rack": {"rack7"}})
	want := map[string]SlurmSlot{
		"gpu-a": {Nodes: []string{"gpu-a-1", "gpu-a-2"}, Jobs: []string{"1"}, Reservations: []string{fenceOf("gpu-a", now1)}},
		"gpu-b": {Nodes: []string{"gpu-b-1"}, Reservations: []string{guard(capacity.GuardSurplus, "gpu-b").Name}},
		"rack":  {Nodes: []string{"rack7"}, Jobs: []string{"5_1"}},
	}
	if diff := cmp.Diff(want, slots); diff != "" || waiting != 1 {
		t.Errorf("%d wait, slots (-want +got):\n%s", waiting, diff)
	}
	if !slots["gpu-a"].fenced(now1) || slots["gpu-a"].fenced(next1) || slots["gpu-b"].fenced(now1) {
		t.Error("a fence is one of that slot and block alone, and nothing else is one")
	}
}
