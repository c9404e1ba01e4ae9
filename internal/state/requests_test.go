package state

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var began = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Programs that send calls of one account at the same moment share its limit: a burst of 4, then two a second.
func TestProgramsShareALimit(t *testing.T) {
	dir := Dir(t.TempDir())

	var mu sync.Mutex

	waits := map[time.Duration]int{}

	var programs sync.WaitGroup
	for range 20 {
		programs.Go(func() {
			wait, ok, err := dir.RateLimit(LaunchRate, 4, time.Second/2).Take(began, time.Minute)
			if !ok || err != nil {
				t.Errorf("%v, %v", ok, err)
			}

			mu.Lock()
			defer mu.Unlock()

			waits[wait]++
		})
	}

	programs.Wait()

	if waits[0] != 4 || len(waits) != 17 || waits[8*time.Second] != 1 {
		t.Errorf("waits: %v", waits)
	}
}

// What is late takes no turn from others, and the burst comes back with time.
func TestTurns(t *testing.T) {
	dir := Dir(t.TempDir())
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

	for i, step := range []struct {
		at, most, wait time.Duration
		ok             bool
	}{
		{0, 0, 0, true},
		{0, 0, 0, true},
		{0, second(0.9), second(1), false},
		{0, second(1), second(1), true},
		{second(1), 0, second(1), false},
		{second(2), 0, 0, true},
		{second(60), 0, 0, true},
		{second(60), 0, 0, true},
		{second(60), 0, second(1), false},
		{-time.Hour, 0, 0, true}, // the clock was an hour ahead
	} {
		wait, ok, err := dir.RateLimit(LaunchRate, 2, time.Second).Take(began.Add(step.at), step.most)
		if wait != step.wait || ok != step.ok || err != nil {
			t.Errorf("step %d: %s, %v, %v", i, wait, ok, err)
		}
	}
}

// Without the file a program keeps the limit for itself; what a killed program has left of it holds nobody up.
func TestTurnsWithoutTheFile(t *testing.T) {
	dir := Dir(t.TempDir())
	path := filepath.Join(dir.PrivatePath("."), string(LaunchRate))

	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}

	alone := dir.RateLimit(LaunchRate, 1, time.Second)
	for _, want := range []time.Duration{0, time.Second, 2 * time.Second} {
		if wait, ok, err := alone.Take(began, time.Minute); wait != want || !ok || err == nil {
			t.Errorf("%s, %v, %v", wait, ok, err)
		}
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(path, []byte("2026-11-2"), 0o600); err != nil {
		t.Fatal(err)
	}

	if wait, ok, err := alone.Take(began, time.Minute); wait != 0 || !ok || err != nil {
		t.Errorf("%s, %v, %v", wait, ok, err)
	}
}
