package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

var opens = time.Date(2027, 3, 1, 11, 30, 0, 0, time.UTC)

// sampleAt is how a block of 4 nodes is after some minutes, of which so many are up.
func sampleAt(minutes, up int, runs ...string) Sample {
	s := Sample{
		At: opens.Add(time.Duration(minutes) * time.Minute), Runs: map[string]capacity.Run{},
		Paid: map[string]*Paid{
			"cr-1": {
				Partition: "gpu",
				Slot:      "gpu",
				Kind:      capacity.CapacityBlock,
				Size:      4,
				Start:     opens,
				Nodes:     map[string]string{NodeUp: strings.Repeat("x", up)},
			},
		},
	}
	for _, job := range runs {
		s.Runs[job+".0"] = capacity.Run{Job: job, Nodes: "gpu-1", Start: opens}
	}

	return s
}

// appendTo does what a pass does.
func appendTo(t *testing.T, dir Dir, s Sample) {
	t.Helper()

	if err := dir.AppendSample(s, dir.LastSample(), time.Minute); err != nil {
		t.Fatal(err)
	}
}

// whole is the sample that all lines of a folder add up to.
func whole(t *testing.T, dir Dir) (s Sample, lines int) {
	t.Helper()

	all, err := dir.Samples(time.Time{})
	if err != nil {
		t.Fatal(err)
	}

	for _, line := range all {
		s.Apply(line)
	}

	return s, len(all)
}

// A line has changes only; without changes there is one every five minutes.
func TestSamplesAreWhatIsNew(t *testing.T) {
	dir := Dir(t.TempDir())
	appendTo(t, dir, sampleAt(0, 0))
	appendTo(t, dir, sampleAt(1, 4, "7"))

	for m := 2; m <= 12; m++ {
		appendTo(t, dir, sampleAt(m, 4, "7"))
	}

	last := sampleAt(13, 4)
	last.Paid = nil // it is gone
	appendTo(t, dir, last)

	got, lines := whole(t, dir)
	if lines != 5 || len(got.Paid) != 0 || !got.At.Equal(last.At) { // 0, 1, 6, 11 and 13
		t.Errorf("%d lines, %+v", lines, got)
	}

	text, err := os.ReadFile(samplePaths(dir)[0])
	if err != nil {
		t.Fatal(err)
	}

	if n := strings.Count(string(text), `"nodes":"gpu-1"`); n != 1 {
		t.Errorf("the run is there %d times:\n%s", n, text)
	}
}

// After a crash in the middle of a line, the next line repeats what it said.
func TestSamplesAfterACrash(t *testing.T) {
	dir := Dir(t.TempDir())
	appendTo(t, dir, sampleAt(0, 0))

	before, err := os.ReadFile(dir.PrivatePath(lastSampleFile))
	if err != nil {
		t.Fatal(err)
	}

	appendTo(t, dir, sampleAt(1, 4, "7"))
	path := samplePaths(dir)[0]

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	first := strings.IndexByte(string(text), '\n') + 1
	for cut := first; cut < len(text); cut += 7 {
		for name, text := range map[string][]byte{path: text[:cut], dir.PrivatePath(lastSampleFile): before} {
			if err := os.WriteFile(name, text, 0o640); err != nil {
				t.Fatal(err)
			}
		}

		appendTo(t, dir, sampleAt(2, 4, "7"))
		appendTo(t, dir, sampleAt(3, 3, "7", "8"))

		got, lines := whole(t, dir)
		if diff := cmp.Diff(sampleAt(3, 3, "7", "8").Paid, got.Paid); diff != "" {
			t.Error(diff)
		}

		if _, seven := got.Runs["7.0"]; !seven || len(got.Runs) != 2 || lines < 3 {
			t.Errorf("cut at %d: %d lines, runs %v", cut-first, lines, got.Runs)
		}
	}
}

// A full file is followed by a new one, which begins with a full line; the oldest are deleted.
func TestSamplesRotate(t *testing.T) {
	dir := Dir(t.TempDir())
	for m := range keptSamples + 3 {
		appendTo(t, dir, sampleAt(m, m%4, "7"))

		paths := samplePaths(dir)
		if err := os.Truncate(paths[len(paths)-1], maxSamples+1); err != nil { // a sparse tail that is no line
			t.Fatal(err)
		}
	}

	paths := samplePaths(dir)
	if len(paths) != keptSamples || filepath.Base(paths[0]) != "samples-20270301T113300Z.jsonl" {
		t.Fatalf("%d files from %s on", len(paths), filepath.Base(paths[0]))
	}

	if err := os.Truncate(paths[len(paths)-1], 0); err != nil {
		t.Fatal(err)
	}

	appendTo(t, dir, sampleAt(60, 1, "7"))

	for _, path := range paths[:len(paths)-1] { // else the test reads 256 MB of nothing
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}

	if got, _ := whole(t, dir); len(got.Paid) != 1 {
		t.Errorf("%+v", got)
	}
}

// samplePaths are the files of samples, oldest first.
func samplePaths(dir Dir) []string {
	paths, _ := filepath.Glob(dir.PrivatePath("samples-*.jsonl"))
	return paths
}
