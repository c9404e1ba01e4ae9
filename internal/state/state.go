// Package state reads and writes the files in state_dir: the snapshot and its slices for the submission path, the plan
// for the Lua shims, and the hooks' records. Each has one reader and one writer here. A file is written under a
// temporary name in the same folder and renamed: a reader sees the old one or the new one, never half of it, and a kill
// leaves nothing in the machine's temporary folder.
package state

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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

// Create makes the directory if it is missing, open to users' commands whatever the umask is. An
// existing one keeps its mode.
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

// ReadSnapshot reads the snapshot. A missing one is an error that wraps fs.ErrNotExist: nothing is known then, and jobs
// go through. It does not wait for the other end of a FIFO; it may wait for a file system that hangs.
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

// WriteSnapshot writes the snapshot with its slices and its plan.
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

// plan is what the Lua scripts read at every submission, a word and its values a line:
//
//	version 1
//	cluster NAME
//	default PARTITION
//	partition NAME
//
// "cluster" has Slurm's ClusterName.
func plan(s *capacity.Snapshot) string {
	var b strings.Builder
	b.WriteString("version 1\n")
	if s.SlurmCluster != "" {
		fmt.Fprintf(&b, "cluster %s\n", s.SlurmCluster)
	}
	if s.DefaultPartition != "" {
		fmt.Fprintf(&b, "default %s\n", s.DefaultPartition)
	}
	for _, p := range s.Partitions {
		fmt.Fprintf(&b, "partition %s\n", p.Name)
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

// slicesFile has each partition's part of the snapshot, so that the submit filter need not read all of it: a line with
// the version, one with the default partition, one with the name of each partition and the length of its
// [capacity.Snapshot.Slice], an empty one, and then the slices.
const slicesFile = "partitions"

const slicesVersion = "version 2\n"

// writeSlices writes the slices of a snapshot that is written.
func (d Dir) writeSlices(s *capacity.Snapshot) error {
	var head, text bytes.Buffer
	fmt.Fprintf(&head, "%s%s\n", slicesVersion, s.DefaultPartition)
	for _, p := range s.Partitions {
		slice, err := json.Marshal(s.Slice(p.Name))
		if err != nil {
			return err
		}
		if !strings.ContainsAny(p.Name, " \t\r\n") {
			fmt.Fprintf(&head, "%s %d\n", p.Name, len(slice))
			text.Write(slice)
		}
	}
	head.WriteString("\n")
	head.Write(text.Bytes())
	return d.WritePublic(slicesFile, head.Bytes())
}

// ReadFor reads the part of the snapshot that decides about a job: the slice of its partition, if that suffices and is
// not older than the snapshot; else the whole, with the errors of [Dir.ReadSnapshot].
func (d Dir) ReadFor(req capacity.Request) (*capacity.Snapshot, error) {
	if slice := d.readSlice(req); slice != nil {
		return slice, nil
	}
	return d.ReadSnapshot()
}

func (d Dir) readSlice(req capacity.Request) *capacity.Snapshot {
	if len(req.Partitions) > 1 {
		return nil
	}
	// The snapshot is written first: older slices are from another pass, or from a release that wrote none after it.
	dir, err := d.open()
	if err != nil {
		return nil
	}
	defer dir.close()
	whole, err := dir.root.Stat(snapshotFile)
	if err != nil {
		return nil
	}
	file, info, err := dir.regular(slicesFile)
	if err != nil {
		return nil
	}
	defer file.Close()
	if info.ModTime().Before(whole.ModTime()) {
		return nil
	}
	in, at := bufio.NewReader(file), 0
	line := func() string {
		text, _ := in.ReadString('\n')
		at += len(text)
		return text
	}
	if line() != slicesVersion {
		return nil
	}
	name := strings.TrimSpace(line())
	if len(req.Partitions) == 1 {
		name = req.Partitions[0]
	}
	var begin, length int // of the slice, behind these lines
	for end := 0; ; {
		partition, digits, more := strings.Cut(strings.TrimSpace(line()), " ")
		if !more {
			break
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 || int64(n) > info.Size() {
			return nil
		}
		if partition == name {
			begin, length = end, n
		}
		end += n
	}
	if length == 0 {
		return nil
	}
	text := make([]byte, length)
	if _, err := file.ReadAt(text, int64(at+begin)); err != nil {
		return nil
	}
	var s capacity.Snapshot
	if json.Unmarshal(text, &s) != nil || s.Version != capacity.SnapshotVersion {
		return nil
	}
	if len(s.Partitions) != 1 || s.Partitions[0].Name != name || !s.Decides(req) {
		return nil
	}
	return &s
}
