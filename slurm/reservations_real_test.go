package slurm_test

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestAnActiveReservationIsUpdated: Slurm refuses a start for one that has started, also the one
// that it has. Its nodes and its end change.
func TestAnActiveReservationIsUpdated(t *testing.T) {
	t.Parallel()
	_, client := start(t)
	ctx := deadline(t)
	only := func() capacity.SlurmReservation {
		t.Helper()
		all, err := client.Reservations(ctx)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0]
	}
	now := time.Now().Truncate(time.Second)
	check(t, client.CreateReservation(ctx, capacity.SlurmReservation{Name: "pcs-capacity-fence-gpu.cr-0e2000000000000a1.0123abcd", Nodes: []string{"gpu-1", "gpu-2"}, Start: now,
		Flags: []string{"MAINT", "IGNORE_JOBS"}, Users: []string{"root"}}))
	active := only()
	if !active.Active || !active.Infinite() {
		t.Fatalf("not active, or not without end: the test proves nothing: %+v", active)
	}
	active.Nodes, active.End = []string{"gpu-2", "gpu-3"}, now.Add(time.Hour)
	check(t, client.UpdateReservation(ctx, active))
	if got := only(); slurm.Compress(got.Nodes) != "gpu-[2-3]" || !got.End.Equal(active.End) || !got.Active {
		t.Errorf("after the update: %+v, want %+v", got, active)
	}
}
