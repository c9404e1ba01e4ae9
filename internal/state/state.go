// Package state reads and writes the files in state_dir: the snapshot of the last pass, the roster for the Lua scripts,
// the records of hooks and jobs, the ledger of holds, and the samples for the report.
//
// A [Dir] names the folder. Most files are a [File], one JSON value that is replaced as a whole: it is written under a
// temporary name in the same folder and renamed, so a reader sees the old one or the new one, never half of it.
// Programs that must not run at the same time take a [Lock].
//
// What users' commands read is public, 0644. All else is in a private folder that no other user can enter. Root works
// in folders of other users here, so files are opened only through the methods of folder, which follow no symbolic
// link out of it.
package state

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Dir is a state_dir, which may be on a shared file system, or a local_dir, which may not and has a copy of the
// snapshot and the roster for slurmctld.
type Dir string

// The files that users' commands read: the directory is 0755 and they are 0644.
const (
	snapshotFile = "snapshot.json"
	rosterFile   = "plan"
)

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

// Create makes the directory if it is missing, open to users' commands whatever the umask is. An existing one keeps its
// mode.
func (d Dir) Create() error {
	if _, err := os.Stat(string(d)); err == nil {
		return nil
	}

	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return fmt.Errorf("%w; name a folder that can be written in the settings", err)
	}

	return os.Chmod(string(d), 0o755)
}

// Age returns since how long the folder has a record of what is done with it. A copy, or a restored backup, is as old
// as the copying: what was done meanwhile is not in it. The time is that of the last change of a file's inode, which no
// program that copies can set back.
func (d Dir) Age() (time.Duration, error) {
	in, err := d.createPrivate()
	if err != nil {
		return 0, err
	}
	defer in.close()

	file, err := in.openForWrite(ageFile, os.O_RDONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer file.Close()

	var info syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &info); err != nil {
		return 0, in.wrapError(ageFile, err)
	}

	return time.Since(time.Unix(info.Ctim.Unix())), nil
}

// ageFile is empty, and never changes.
const ageFile = "since"

// SnapshotPath returns the path of the snapshot.
func (d Dir) SnapshotPath() string { return d.path(snapshotFile) }

// RosterPath returns the path of the roster.
func (d Dir) RosterPath() string { return d.path(rosterFile) }

// ReadSnapshot reads the snapshot. A missing one is an error that wraps fs.ErrNotExist: nothing is known then, and jobs
// go through. It does not wait for the other end of a FIFO; it may wait for a file system that hangs.
func (d Dir) ReadSnapshot() (*capacity.Snapshot, error) {
	text, err := d.ReadPublic(snapshotFile)
	if err != nil {
		return nil, fmt.Errorf("reading snapshot: %w", err)
	}

	var s capacity.Snapshot
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("reading snapshot %s: %w; run `pcs-capacity sync` to write it again",
			d.SnapshotPath(), err)
	}

	if s.Version != capacity.SnapshotVersion {
		return nil, fmt.Errorf(
			"snapshot %s has version %d, this program reads %d; run `pcs-capacity sync` of the same release",
			d.SnapshotPath(), s.Version, capacity.SnapshotVersion)
	}

	return &s, nil
}

// WriteSnapshot writes the snapshot with its roster.
func (d Dir) WriteSnapshot(s *capacity.Snapshot) error {
	written := *s
	written.Version = capacity.SnapshotVersion

	text, err := json.MarshalIndent(written, "", "  ")
	if err == nil {
		err = d.WritePublic(snapshotFile, append(text, '\n'))
	}

	if err == nil {
		err = d.WritePublic(rosterFile, []byte(roster(s)))
	}

	if err != nil {
		return fmt.Errorf("writing snapshot: %w", err)
	}

	return nil
}

// roster returns the text that the Lua scripts read at every submission, a word and its values a line:
//
//	version 1
//	cluster NAME
//	default PARTITION
//	partition NAME
//
// "cluster" has Slurm's ClusterName.
func roster(s *capacity.Snapshot) string {
	var b strings.Builder
	b.WriteString("version 1\n")

	if s.SlurmCluster != "" {
		fmt.Fprintf(&b, "cluster %s\n", s.SlurmCluster)
	}

	if s.DefaultPartition != "" {
		fmt.Fprintf(&b, "default %s\n", s.DefaultPartition)
	}

	for _, p := range s.Partitions {
		for _, name := range p.SlurmNames() {
			fmt.Fprintf(&b, "partition %s\n", name)
		}
	}

	return b.String()
}
