// Package state is the files in state_dir: the snapshot and its slices that the submission
// path reads, the plan that the Lua shims read, and the hooks' records. Each has one
// reader and one writer here. A file is written beside its place and renamed, so
// that a reader sees the old one or the new one, never half of it; what a kill leaves
// is beside it too, and not in the temporary folder of the machine.
package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Dir is a state_dir, which may be on a shared file system, or a local_dir, which may
// not and has a copy of the snapshot, the slices and the plan for slurmctld.
type Dir string

// The files that users' commands read: the directory is 0755 and they are 0644.
const (
	snapshotFile = "snapshot.json"
	planFile     = "plan"
)

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

// Create makes the directory if it is not there, open to users' commands whatever the
// umask is. One that is there keeps its mode.
func (d Dir) Create() error {
	if _, err := os.Stat(string(d)); err == nil {
		return nil
	}
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return fmt.Errorf("%w; name a folder that can be written in the settings", err)
	}
	return os.Chmod(string(d), 0o755)
}

// SnapshotPath is where the snapshot is.
func (d Dir) SnapshotPath() string { return d.path(snapshotFile) }

// PlanPath is where the plan is.
func (d Dir) PlanPath() string { return d.path(planFile) }

// ReadSnapshot reads the snapshot. A missing one is an error that wraps
// fs.ErrNotExist: nothing is known then, and jobs go through. It does not wait for the
// other end of a FIFO; that its file system answers is not in its hands.
func (d Dir) ReadSnapshot() (*capacity.Snapshot, error) {
	text, err := d.ReadPublic(snapshotFile)
	if err != nil {
		return nil, fmt.Errorf("reading snapshot: %w", err)
	}
	var s capacity.Snapshot
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("reading snapshot %s: %w; run `pcs-capacity sync` to write it anew", d.SnapshotPath(), err)
	}
	if s.Version != capacity.SnapshotVersion {
		return nil, fmt.Errorf("snapshot %s has version %d, this program reads %d; run `pcs-capacity sync` of the same release", d.SnapshotPath(), s.Version, capacity.SnapshotVersion)
	}
	return &s, nil
}

// WriteSnapshot writes the snapshot, and the slices and the plan that go with it.
func (d Dir) WriteSnapshot(s *capacity.Snapshot) error {
	s.Version = capacity.SnapshotVersion
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing snapshot: %w", err)
	}
	if err := d.Create(); err != nil {
		return fmt.Errorf("writing snapshot: %w", err)
	}
	if err := d.WritePublic(snapshotFile, append(text, '\n')); err != nil {
		return fmt.Errorf("writing snapshot: %w", err)
	}
	if err := d.writeSlices(s); err != nil {
		return fmt.Errorf("writing slices of the snapshot: %w", err)
	}
	if err := d.WritePublic(planFile, []byte(plan(s))); err != nil {
		return fmt.Errorf("writing plan: %w", err)
	}
	return nil
}

// plan is what the Lua shims read on every submission: one word and its value a line, and
// then the jobs that they let through by themselves, as
//
//	fits PARTITION ACCOUNTS FROM LAST NODES GPUS
//
// and the limits that they fit by themselves, as
//
//	fit PARTITION FLOOR MOST WALL UNTIL ROOMS
//	room PARTITION FROM LAST MINUTES NODES GPUS ID FENCE
//
// and, before these lines, what they say of a longer limit, for as long as UNTIL, as
//
//	long UNTIL SENTENCE
//
// "-" stands for every account and for no reservation, 0 for no bound. Times are seconds of
// the machine's clock, but FENCE is of AWS's, since it is shown; lengths are minutes. ROOMS is
// the number of lines that follow.
func plan(s *capacity.Snapshot) string {
	var b strings.Builder
	b.WriteString("version 1\n")
	if s.DefaultPartition != "" {
		fmt.Fprintf(&b, "default %s\n", s.DefaultPartition)
	}
	for _, p := range s.Partitions {
		fmt.Fprintf(&b, "partition %s\n", p.Name)
	}
	from := func(t time.Time) int64 { // rounded up
		if t.IsZero() {
			return 0
		}
		return t.Add(-s.ClockOffset.Duration).Add(time.Second - 1).Unix()
	}
	until := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.Add(-s.ClockOffset.Duration).Unix()
	}
	if says, stale := capacity.QuickTooLong(s); says != "" {
		fmt.Fprintf(&b, "long %d %s\n", until(stale), says)
	}
	for _, q := range capacity.Quicks(s) {
		accounts := "-"
		if len(q.Accounts) > 0 {
			accounts = strings.Join(q.Accounts, ",")
		}
		if strings.ContainsAny(q.Partition+accounts, " \t\r\n") {
			continue
		}
		fmt.Fprintf(&b, "fits %s %s %d %d %d %d\n", q.Partition, accounts, from(q.From), until(q.Last), q.Nodes, q.GPUs)
	}
	for _, f := range capacity.QuickFits(s) {
		fmt.Fprintf(&b, "fit %s %d %d %d %d %d\n", f.Partition, f.Floor, f.Most, f.Wall, until(f.Until), len(f.Rooms))
		for _, r := range f.Rooms {
			fmt.Fprintf(&b, "room %s %d %d %d %d %d %s %d\n", f.Partition, from(r.From), until(r.Last), r.Minutes, r.Nodes, r.GPUs, cmp.Or(r.ID, "-"), max(0, r.Fence.Unix()))
		}
	}
	return b.String()
}

// Remove deletes snapshot, slices and plan; the next pass writes them anew.
func (d Dir) Remove() error {
	var errs []error
	for _, name := range []string{snapshotFile, slicesFile, planFile} {
		errs = append(errs, d.removePublic(name))
	}
	return errors.Join(errs...)
}
