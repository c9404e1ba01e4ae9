package state

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A job is judged by its partition's slice where that says all, and by the whole snapshot else:
// also by one that another release, or a pass that was cut off, wrote later.
func TestReadFor(t *testing.T) {
	t.Parallel()
	const mine, others = "cr-00000000000000001", "cr-00000000000000002"
	partition := func(name, id string) capacity.Partition {
		return capacity.Partition{Name: name, Groups: []capacity.NodeGroup{{Name: name, Slots: []capacity.Slot{{Name: name, ReservationIDs: []string{id}}}}}}
	}
	whole := &capacity.Snapshot{DefaultPartition: "gpu", Partitions: []capacity.Partition{partition("gpu", mine), partition("other", others)},
		Reservations: []capacity.Reservation{{ID: mine}, {ID: others}}, Said: capacity.Said{Problems: []string{"one"}}}
	write := func(t *testing.T, dir Dir, change func(text string) string) {
		t.Helper()
		text, err := os.ReadFile(dir.path(slicesFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir.path(slicesFile), []byte(change(string(text))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	none := func(*testing.T, Dir) {}
	for name, test := range map[string]struct {
		req    capacity.Request
		damage func(t *testing.T, dir Dir)
		slice  string // the partition; "" for the whole snapshot
	}{
		"its partition":         {capacity.Request{Partitions: []string{"other"}}, none, "other"},
		"the default":           {capacity.Request{}, none, "gpu"},
		"names its reservation": {capacity.Request{Partitions: []string{"gpu"}, Comment: "capacity_reservation_id=" + mine}, none, "gpu"},
		"another's reservation": {capacity.Request{Partitions: []string{"gpu"}, Comment: "capacity_reservation_id=" + others}, none, ""},
		"not ours":              {capacity.Request{Partitions: []string{"cpu"}}, none, ""},
		"older than the snapshot": {capacity.Request{}, func(t *testing.T, dir Dir) {
			now, err := os.Stat(dir.path(slicesFile))
			if err != nil {
				t.Fatal(err)
			}
			before := now.ModTime().Add(-time.Minute)
			if err := os.Chtimes(dir.path(slicesFile), before, before); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"missing": {capacity.Request{}, func(t *testing.T, dir Dir) { os.Remove(dir.path(slicesFile)) }, ""},
		"a FIFO": {capacity.Request{}, func(t *testing.T, dir Dir) {
			os.Remove(dir.path(slicesFile))
			if err := syscall.Mkfifo(dir.path(slicesFile), 0o644); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"cut off": {capacity.Request{}, func(t *testing.T, dir Dir) { write(t, dir, func(text string) string { return text[:30] }) }, ""},
		"cut off at the end": {capacity.Request{Partitions: []string{"other"}},
			func(t *testing.T, dir Dir) { write(t, dir, func(text string) string { return text[:len(text)-1] }) }, ""},
		"shorter than it says": {capacity.Request{}, func(t *testing.T, dir Dir) {
			write(t, dir, func(text string) string { return strings.Replace(text, "\ngpu ", "\ngpu 999999999999999", 1) })
		}, ""},
		"with another schema": {capacity.Request{}, func(t *testing.T, dir Dir) {
			write(t, dir, func(text string) string { return strings.ReplaceAll(text, `"version":1`, `"version":2`) })
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := Dir(t.TempDir())
			if err := dir.WriteSnapshot(whole); err != nil {
				t.Fatal(err)
			}
			test.damage(t, dir)
			snap, err := dir.ReadFor(test.req)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(snap.Partitions) == 1 {
				got = snap.Partitions[0].Name
			}
			if got != test.slice || got == "" && len(snap.Problems) == 0 {
				t.Errorf("got the slice %q of %d partitions, want %q", got, len(snap.Partitions), test.slice)
			}
			if got != "" && len(snap.Reservations) != 1 {
				t.Errorf("%d reservations in the slice", len(snap.Reservations))
			}
		})
	}
	t.Run("without a snapshot", func(t *testing.T) {
		dir := Dir(t.TempDir())
		if err := dir.WriteSnapshot(whole); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(dir.SnapshotPath()); err != nil {
			t.Fatal(err)
		}
		if snap, err := dir.ReadFor(capacity.Request{}); err == nil {
			t.Errorf("what is left of it counts: %+v", snap)
		}
	})
}
