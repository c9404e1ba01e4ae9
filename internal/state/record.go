package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Record is one action of a hook, kept for people who ask why.
type Record struct {
	At        time.Time `json:"at"`
	Hook      string    `json:"hook"`
	Partition string    `json:"partition,omitempty"`
	Nodes     string    `json:"nodes,omitempty"` // a Slurm hostlist
	Jobs      []string  `json:"jobs,omitempty"`
	// Restarts of each of Jobs before the run that failed; empty if no run did, or if AWS did not decide its launch.
	Restarts    []int  `json:"restarts,omitempty"`
	Reservation string `json:"reservation,omitempty"`
	// Code is our reason code; EC2Code is EC2's error code, verbatim.
	Code      string   `json:"code,omitempty"`
	EC2Code   string   `json:"ec2_code,omitempty"`
	Message   string   `json:"message,omitempty"`
	Instances []string `json:"instances,omitempty"`
	// Held says what it has cost to hold capacity; nil for other records.
	Held *Held `json:"held,omitempty"`
}

// Held counts the instances of an ODCR that was held for a launch, and their seconds from its creation until they were
// launched: what the launch has cost more than one without an ODCR.
type Held struct {
	InstanceType string `json:"instance_type"`
	Instances    int    `json:"instances"`
	Seconds      int64  `json:"instance_seconds"`
}

// HeldRecord describes an ODCR of whose instances all are launched that ever will be; inside are those.
func HeldRecord(r capacity.Reservation, inside []capacity.Instance, now time.Time) Record {
	held := Held{InstanceType: r.InstanceType, Instances: r.Total}
	idle := func(until time.Time) int64 { return max(0, int64(until.Sub(r.Created)/time.Second)) }

	for i := range r.Total {
		if i < len(inside) {
			held.Seconds += idle(inside[i].Launched)
		} else {
			held.Seconds += idle(now)
		}
	}

	return Record{
		At:          now,
		Hook:        "hold",
		Partition:   r.Tags[capacity.TagPartition],
		Jobs:        []string{r.Tags[capacity.TagJob]},
		Reservation: r.ID,
		Code:        string(capacity.OK),
		Message: fmt.Sprintf("held %d × %s in %s: %d launched, idle for %d instance-seconds", r.Total, r.InstanceType,
			r.AZID, min(len(inside), r.Total), held.Seconds),
		Held: &held,
	}
}

const recordFile = "hooks.jsonl"

// maxRecords is the size in bytes at which the file is set aside as hooks.jsonl.1.
const maxRecords = 8 << 20

// AppendRecords adds records.
func (d Dir) AppendRecords(records ...Record) error {
	err := inFolder(d.createPrivate, func(in *folder) error {
		d.rotateRecords(in)
		return appendLines(in, recordFile, records...)
	})
	if err != nil {
		return fmt.Errorf("writing hook records: %w", err)
	}

	return nil
}

// rotateRecords sets a large file aside, replacing the one before it. Only one hook at a time may: a second one would
// replace the first's many records by the few since then. A hook that cannot get the lock leaves it to the next one.
func (d Dir) rotateRecords(in *folder) {
	large := func() bool {
		info, err := in.root.Stat(recordFile)
		return err == nil && info.Size() > maxRecords
	}
	if !large() {
		return
	}

	unlock, err := d.Lock(context.Background(), recordsLock, 0)
	if err != nil {
		return
	}
	defer unlock()

	// Looked at again: another hook may have set it aside before this one had the lock.
	if large() {
		_ = in.root.Rename(recordFile, recordFile+".1")
	}
}

// Records reads all records, oldest first; none if there is no file.
func (d Dir) Records() (all []Record, err error) {
	for _, name := range []string{recordFile + ".1", recordFile} {
		read := func(in *folder) ([]Record, error) { return readLines[Record](in, name) }

		some, err := withFolder(d.openPrivate, read)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading hook records: %w", err)
		}

		all = append(all, some...)
	}

	return all, nil
}
