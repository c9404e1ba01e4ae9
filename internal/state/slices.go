package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// slicesFile has each partition's part of the snapshot, so that the submit filter need not
// read all of it: behind a line with the version, and one with the default partition, each
// partition's name and [capacity.Snapshot.Slice] on a line.
const slicesFile = "partitions"

const slicesVersion = "version 1\n"

// writeSlices writes the slices of a snapshot that is written.
func (d Dir) writeSlices(s *capacity.Snapshot) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s%s\n", slicesVersion, s.DefaultPartition)
	for _, p := range s.Partitions {
		slice, err := json.Marshal(s.Slice(p.Name))
		if err != nil {
			return err
		}
		if !strings.ContainsAny(p.Name, " \t\r\n") {
			fmt.Fprintf(&text, "%s %s\n", p.Name, slice)
		}
	}
	return renameio.WriteFile(d.path(slicesFile), text.Bytes(), 0o644, renameio.IgnoreUmask(), renameio.WithTempDir(string(d)))
}

// ReadFor reads what of the snapshot decides about a job: the slice of its partition, if that
// does and is not older than the snapshot; else the whole, with the errors of [Dir.ReadSnapshot].
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
	// The snapshot is written first: what is older than that is of another pass, or of a
	// release that wrote no slices after it.
	whole, err := os.Stat(d.SnapshotPath())
	if err != nil {
		return nil
	}
	parts, err := os.Stat(d.path(slicesFile))
	if err != nil || parts.ModTime().Before(whole.ModTime()) {
		return nil
	}
	text, err := readRegular(d.path(slicesFile))
	if err != nil {
		return nil
	}
	after, ok := bytes.CutPrefix(text, []byte(slicesVersion))
	if !ok {
		return nil
	}
	name, _, ok := bytes.Cut(after, []byte("\n"))
	if len(req.Partitions) == 1 {
		name = []byte(req.Partitions[0])
	}
	if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t\r\n") {
		return nil
	}
	_, line, ok := bytes.Cut(after, fmt.Appendf(nil, "\n%s ", name))
	if !ok {
		return nil
	}
	line, _, ok = bytes.Cut(line, []byte("\n"))
	var s capacity.Snapshot
	if !ok || json.Unmarshal(line, &s) != nil || s.Version != capacity.SnapshotVersion {
		return nil
	}
	if len(s.Partitions) != 1 || s.Partitions[0].Name != string(name) || !s.Decides(req) {
		return nil
	}
	return &s
}
