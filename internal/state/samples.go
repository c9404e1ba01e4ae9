package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Sample is a pass's view of the open reservations. On disk a line has the differences from the line before; the first
// line of each file has everything.
type Sample struct {
	At       time.Time         `json:"at"`             // AWS's time of the pass
	ValidFor capacity.Duration `json:"holds,omitzero"` // how long after At the next line comes at the latest, if sync runs
	Full     bool              `json:"full,omitempty"` // everything that this line leaves out is gone
	// Paid are the open reservations of the partitions, by id; nil for one that is gone.
	Paid map[string]*Paid `json:"paid,omitempty"`
	// Runs are the jobs that have had nodes since the sample before, by job and count of restarts: 12_3.0.
	Runs map[string]capacity.Run `json:"runs,omitempty"`
}

// Paid is a reservation that is open.
type Paid struct {
	Partition    string        `json:"partition"`
	Slot         string        `json:"slot,omitempty"`
	Spare        string        `json:"spare,omitempty"` // the partition to which the nodes are lent
	Kind         capacity.Kind `json:"kind"`
	InstanceType string        `json:"instance_type"`
	GPUs         int           `json:"gpus,omitempty"` // GPUs of one node; 0 if nobody knows
	// Size is the number of instances paid for; Unhealthy of them are on failed hosts.
	Size      int       `json:"size"`
	Unhealthy int       `json:"unhealthy,omitempty"`
	Start     time.Time `json:"start"`
	// Fence and End are zero where the reservation has no end.
	Fence time.Time `json:"fence,omitzero"`
	End   time.Time `json:"end,omitzero"`
	// Waits: a job waits in the partition, and neither its owner nor an administrator holds it.
	Waits bool `json:"waits,omitempty"`
	// Tail: jobs wait that could run in the reservation, and all of them are too long to end before the fence.
	Tail bool `json:"tail,omitempty"`
	// Nodes are hostlists by the nodes' state: up, boot, drain or down. Nodes that are powered down are left out.
	Nodes map[string]string `json:"nodes,omitempty"`
}

// The states of Paid.Nodes.
const (
	NodeUp    = "up"
	NodeBoot  = "boot"
	NodeDrain = "drain"
	NodeDown  = "down"
)

// A file of samples is followed by the next when it has maxSamples bytes, and the newest keptSamples of them are kept:
// 256 MB. 64 nodes with 100 jobs a day write about 27 MB a year.
const (
	maxSamples  = 16 << 20
	keptSamples = 16
	// quiet bounds the time between two samples while nothing changes.
	quiet = 5 * time.Minute
)

const (
	lastSampleFile = "samples.json"
	// sampleName is the name of a file of samples, by the time of its first line.
	sampleName = "samples-20060102T150405Z.jsonl"
)

func (f *folder) sampleFiles() ([]string, error) {
	names, err := f.list(".")
	return slices.DeleteFunc(names, func(name string) bool { return fileStart(name).IsZero() }), err
}

// LastSample returns the last pass's sample, whole; nil if there was none.
func (d Dir) LastSample() *Sample {
	last, _ := File[*Sample]{d, lastSampleFile, "the last sample", false}.Read()
	return last // without it the next line is a full one
}

// AppendSample appends the differences of a whole sample from last, and keeps the sample for the next pass. Runs that
// it no longer has are forgotten. Callers hold PassLock. A line that a crash cut off is made up for by the next one.
// poll is the time between two passes.
func (d Dir) AppendSample(now Sample, last *Sample, poll time.Duration) error {
	// The pass itself may take a while, if AWS does not answer.
	now.ValidFor.Duration = quiet + 2*poll + 2*time.Minute

	err := inFolder(d.createPrivate, func(in *folder) error { return in.appendSample(now, last) })
	if err != nil {
		return fmt.Errorf("saving samples for the report: %w", err)
	}

	return nil
}

func (f *folder) appendSample(now Sample, last *Sample) error {
	file, err := f.openSamples(last)
	if err != nil {
		return err
	}

	if file == "" {
		return f.beginSamples(now)
	}

	// Nothing changed: a line now and then proves that sync was running.
	line := now.diff(*last)
	if len(line.Paid)+len(line.Runs) == 0 && line.ValidFor == last.ValidFor && now.At.Sub(last.At) < quiet {
		return nil
	}

	return f.writeSample(file, line, now)
}

// openSamples returns the file that the next line goes into; "" for a new one: there is none yet, it is full, or
// somebody has removed it.
func (f *folder) openSamples(last *Sample) (string, error) {
	files, err := f.sampleFiles()
	if err != nil || len(files) == 0 || last == nil {
		return "", err
	}

	file := files[len(files)-1]
	if info, err := f.root.Stat(file); err != nil || info.Size() > maxSamples {
		return "", nil
	}

	return file, nil
}

// beginSamples begins a new file with a whole sample. If it fails, the next pass begins another one.
func (f *folder) beginSamples(now Sample) error {
	line := now
	line.Full = true
	file := now.At.UTC().Format(sampleName)

	err := f.writeSample(file, line, now)
	if err != nil {
		_ = f.remove(file)
		return f.wrapError("samples-*.jsonl", err)
	}

	return f.removeOldSamples()
}

// writeSample appends a line to a file, and keeps the whole sample.
func (f *folder) writeSample(file string, line, now Sample) error {
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}

	if err := appendLines(f, file, line); err != nil {
		return err
	}

	// Before samples.json says that the line is there.
	if err := f.sync(file); err != nil {
		return err
	}

	return f.write(lastSampleFile, append(text, '\n'), 0o600)
}

// removeOldSamples removes the oldest files: the report reaches back as far as the kept ones do.
func (f *folder) removeOldSamples() error {
	files, err := f.sampleFiles()
	if err != nil {
		return err
	}

	for _, old := range files[:max(0, len(files)-keptSamples)] {
		if err := f.remove(old); err != nil {
			return err
		}
	}

	return nil
}

// diff returns what a whole sample changes in the last one.
func (s Sample) diff(last Sample) Sample {
	line := Sample{At: s.At, ValidFor: s.ValidFor, Paid: map[string]*Paid{}, Runs: map[string]capacity.Run{}}
	for id, p := range s.Paid {
		if !reflect.DeepEqual(p, last.Paid[id]) {
			line.Paid[id] = p
		}
	}

	for id := range last.Paid {
		if s.Paid[id] == nil {
			line.Paid[id] = nil
		}
	}

	for id, r := range s.Runs {
		if last.Runs[id] != r {
			line.Runs[id] = r
		}
	}

	return line
}

// Samples returns the lines from a time on, oldest first, and the lines before them that give the situation at that
// time.
func (d Dir) Samples(since time.Time) (all []Sample, err error) {
	err = inFolder(d.openPrivate, func(in *folder) error {
		files, err := in.sampleFiles()
		for i, file := range files {
			if i+1 < len(files) && !fileStart(files[i+1]).After(since) {
				continue // the line after it has everything that counts
			}

			var lines []Sample

			lines, err = readLines[Sample](in, file)
			if err != nil {
				break
			}

			all = append(all, lines...)
		}

		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading samples: %w", err)
	}
	// Two files may overlap where clocks are set back.
	slices.SortStableFunc(all, func(a, b Sample) int { return a.At.Compare(b.At) })

	return all, nil
}

// fileStart returns the time of the first line of a file, from its name; zero if that has none.
func fileStart(name string) time.Time {
	at, _ := time.Parse(sampleName, name)
	return at
}

// Apply brings a whole sample up to the next line.
func (s *Sample) Apply(line Sample) {
	if line.Full || s.Paid == nil {
		s.Paid, s.Runs = map[string]*Paid{}, map[string]capacity.Run{}
	}

	s.At, s.Full = line.At, line.Full
	if line.ValidFor.Duration > 0 {
		s.ValidFor = line.ValidFor
	}

	for id, p := range line.Paid {
		s.Paid[id] = p
		if p == nil {
			delete(s.Paid, id)
		}
	}

	maps.Copy(s.Runs, line.Runs)
}
