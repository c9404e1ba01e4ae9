package state

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// slicesFile has each partition's part of the snapshot, so that the submit filter need not
// read all of it: a line with the version, one with the default partition, one with the name
// of each partition and the length of its [capacity.Snapshot.Slice], an empty one, and then
// the slices.
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

// ReadFor reads the part of the snapshot that decides about a job: the slice of its partition, if
// that suffices and is not older than the snapshot; else the whole, with the errors of
// [Dir.ReadSnapshot].
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
	// The snapshot is written first: older slices are from another pass, or from a release that
	// wrote none after it.
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
