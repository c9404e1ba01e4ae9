//go:build !race

// The race detector takes a multiple of the memory that the test bounds; `make test` runs
// it without.

package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// mostMemory is what a list of 10,000 reservations may hold, in bytes.
const mostMemory = 150 << 20

func TestListOf10000Reservations(t *testing.T) {
	// This test program itself, see TestMain. Its size is some MiB of what it holds.
	program, err := exec.LookPath("pcs-capacity")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(sim http.Handler) http.Handler { return sim })
	text, held := w.output(t, program, "list", "--regions", "all", "--output", "json")
	var list struct {
		Reservations []struct {
			ID string `json:"id"`
		} `json:"reservations"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, r := range list.Reservations {
		ids[r.ID] = true
	}
	if len(ids) != reservations || len(list.Reservations) != reservations {
		t.Errorf("%d reservations with %d ids, want %d", len(list.Reservations), len(ids), reservations)
	}
	// The simulator counts: the regions, whose account it is, and one question a page.
	want := map[string]int{"DescribeRegions": 1, "GetCallerIdentity": 1, "DescribeCapacityReservations": pages()}
	got := map[string]int{}
	for key, n := range w.sim.Calls() {
		got[key.Operation] += n
	}
	for operation, n := range got {
		if n != want[operation] {
			t.Errorf("%d calls of %s, want %d", n, operation, want[operation])
		}
	}
	if len(got) != len(want) {
		t.Errorf("calls %v, want %v", got, want)
	}
	t.Logf("%d MiB held, %d calls for pages, %d KiB of JSON", held>>20, pages(), len(text)>>10)
	if held == 0 || held > mostMemory {
		t.Errorf("it held %d MiB, want at most %d", held>>20, mostMemory>>20)
	}
}

// BenchmarkListOf10000Reservations takes turns between `pcs-capacity list` and a bare SDK
// program that pages through the same answers, and reports how many times as long the
// former takes, by the medians. Both are built as users have them.
func BenchmarkListOf10000Reservations(b *testing.B) {
	w := newWorld(b, func(sim http.Handler) http.Handler {
		return &replay{next: sim, answers: map[string]*httptest.ResponseRecorder{}}
	})
	ours, bare := build(b, "."), build(b, "../../internal/bench/bare")
	const turns = 11
	w.time(b, ours, "list", "--regions", "all") // every answer is known from here on
	for b.Loop() {
		var oursTook, bareTook []time.Duration
		for range turns {
			oursTook = append(oursTook, w.time(b, ours, "list", "--regions", "all", "--output", "json"))
			bareTook = append(bareTook, w.time(b, bare))
		}
		b.ReportMetric(median(oursTook).Seconds(), "list-s")
		b.ReportMetric(median(bareTook).Seconds(), "bare-s")
		b.ReportMetric(median(oursTook).Seconds()/median(bareTook).Seconds(), "list/bare")
	}
	b.ReportMetric(0, "ns/op") // of no use: it counts both programs
}

// build compiles a program and returns its path. A benchmark is never cached.
func build(b *testing.B, dir string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "program")
	if out, err := exec.Command("go", "build", "-o", path, dir).CombinedOutput(); err != nil {
		b.Fatalf("go build %s: %v\n%s", dir, err, out)
	}
	return path
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
