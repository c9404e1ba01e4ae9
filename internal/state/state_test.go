package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func TestSnapshotRoundTrip(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "state"))
	if _, err := dir.ReadSnapshot(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing snapshot: %v, want fs.ErrNotExist", err)
	}

	want := &capacity.Snapshot{
		Version:          capacity.SnapshotVersion,
		TakenAt:          time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		ClockOffset:      capacity.Duration{Duration: -3 * time.Second},
		DefaultPartition: "cpu",
		Partitions:       []capacity.Partition{{Name: "gpu", MaxTime: capacity.NoLimit}, {Name: "big"}},
		Reservations: []capacity.Reservation{
			{ID: "cr-0", State: "frozen", End: time.Date(2026, 3, 2, 11, 30, 0, 0, time.UTC)},
		},
	}
	if err := dir.WriteSnapshot(want); err != nil {
		t.Fatal(err)
	}

	got, err := dir.ReadSnapshot()
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	if text, _ := os.ReadFile(dir.RosterPath()); string(
		text,
	) != "version 1\ndefault cpu\npartition gpu\npartition big\n" {
		t.Errorf("the roster is %q", text)
	}

	for _, path := range []string{dir.SnapshotPath(), dir.RosterPath()} {
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o644 {
			t.Errorf("%s: mode %v, want 0644 (users' sbatch reads it)", path, info.Mode())
		}
	}
}

func TestSnapshotOfAnotherVersionIsRefused(t *testing.T) {
	dir := Dir(t.TempDir())
	for text, want := range map[string]string{
		`{"version": 99}`: "version 99",
		`{"version": 1`:   "run `pcs-capacity sync`",
	} {
		if err := os.WriteFile(dir.SnapshotPath(), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}

		if _, err := dir.ReadSnapshot(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// sbatch reads state_dir as its user, also where root has a strict umask.
func TestStateDirIsOpenWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)

	dir := Dir(filepath.Join(t.TempDir(), "state"))
	if err := dir.Create(); err != nil {
		t.Fatal(err)
	}

	if info, err := os.Stat(string(dir)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// The Lua scripts ask the filter about jobs of spare partitions, too.
func TestRosterHasSparePartitions(t *testing.T) {
	lends := capacity.Partition{Name: "gpu", Spare: capacity.Spare{Name: "scavenge"}}
	want := "version 1\npartition gpu\npartition scavenge\npartition cpu\n"

	if got := roster(&capacity.Snapshot{Partitions: []capacity.Partition{lends, {Name: "cpu"}}}); got != want {
		t.Errorf("%q", got)
	}
}

// Any content of snapshot.json is read or refused.
func FuzzSnapshot(f *testing.F) {
	f.Add(`{"version": 1}`)
	f.Add(
		`{"version":1,"taken_at":"2026-03-01T12:00:00Z",` +
			`"partitions":[{"name":"gpu","node_groups":[{"slots":[{"name":"gpu","reservation_ids":["cr-0"]}]}]}],` +
			`"reservations":[{"id":"cr-0"}]}`,
	)
	dir := Dir(f.TempDir())
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(dir.SnapshotPath(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}

		snap, err := dir.ReadSnapshot()
		if (snap == nil) == (err == nil) {
			t.Fatalf("%v, %v", snap, err)
		}

		if snap != nil {
			capacity.Admit(capacity.Request{Partitions: []string{"gpu"}}, snap, time.Now())
			_ = roster(snap)
		}
	})
}

// An entry stays in the ledger until it is released, by token or id, or has ended. It keeps the end of its first
// order; an ODCR that exists is entered without a check.
func TestLedger(t *testing.T) {
	dir, now := Dir(t.TempDir()), time.Now()
	most := 3

	allowed := func(more capacity.Hold, others []capacity.Hold) error {
		if len(others) >= most {
			return capacity.ErrReserveLimit
		}
		return nil
	}
	for token, id := range map[string]string{"a": "cr-a", "b": "", "c": ""} {
		h := capacity.Hold{Token: token, ReservationID: id, Until: now.Add(time.Hour)}
		if _, err := dir.AddHold(h, now, allowed); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := dir.AddHold(capacity.Hold{Token: "d", Until: now.Add(time.Hour)}, now, allowed); !errors.Is(
		err,
		capacity.ErrReserveLimit,
	) {
		t.Errorf("more than may be held: %v", err)
	}

	most = 0

	h, err := dir.AddHold(capacity.Hold{Token: "b", ReservationID: "cr-b", Until: now.Add(2 * time.Hour)}, now, allowed)
	if err != nil || !h.Until.Equal(now.Add(time.Hour)) {
		t.Errorf("what is held already: %+v, %v", h, err)
	}

	if err := dir.RemoveHolds(now, "cr-a", "c", "another"); err != nil {
		t.Fatal(err)
	}

	held, err := dir.Holds(now)
	if err != nil || len(held) != 1 || held[0] != h {
		t.Errorf("left: %v, %v", held, err)
	}

	if held, err := dir.Holds(now.Add(time.Hour)); err != nil || len(held) > 0 {
		t.Errorf("after its end: %v, %v", held, err)
	}
}

// A folder whose files have older times, as a backup has that was put back, is as old as the putting back.
func TestAgeOfABackup(t *testing.T) {
	dir := Dir(t.TempDir())

	first, err := dir.Age()
	if err != nil {
		t.Fatal(err)
	}

	old := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(dir.PrivatePath(ageFile), old, old); err != nil {
		t.Fatal(err)
	}

	second, err := dir.Age()
	if err != nil || first < 0 || second < 0 || second > time.Hour {
		t.Errorf("the ages are %s and %s, %v", first, second, err)
	}
}
