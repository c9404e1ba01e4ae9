package notify

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// wait waits until something holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// processes are those whose ids a file has, one a line, as far as they live.
func processes(path string) (alive, all int) {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
			all++
			if lives(pid) {
				alive++
			}
		}
	}
	return alive, all
}

// lives reports whether a process runs; one that is dead and not yet waited for does not.
func lives(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// What failed rests, longer each time, keeps nothing else, and is known by its key until it is
// delivered.
func TestQueueTriesAgain(t *testing.T) {
	dir := t.TempDir()
	works, broken := Target{Command: program(t, "cat >>"+dir+"/said\n"), Timeout: time.Hour}, Target{Command: filepath.Join(dir, "nosuch"), Timeout: time.Hour}
	q := NewQueue()
	defer q.Close()
	var resting atomic.Int64
	resting.Store(int64(time.Hour))
	q.rest = func(int) time.Duration { return time.Duration(resting.Load()) }
	var delivered atomic.Int32
	done := func() error { delivered.Add(1); return nil }
	if err := q.Add(broken, "a", message, done); !errors.Is(err, ErrUnderWay) {
		t.Error(err)
	}
	if err := q.Add(works, "b", message, done); !errors.Is(err, ErrUnderWay) {
		t.Error(err)
	}
	wait(t, "b is delivered", func() bool { return delivered.Load() == 1 })
	failed := func(key string) bool {
		err := q.Add(works, key, message, done)
		return !errors.Is(err, ErrUnderWay) && err != nil
	}
	if !failed("a") {
		t.Error("a failure is not told")
	}
	q.mu.Lock()
	if len(q.waiting) != 0 {
		t.Error("a does not rest")
	}
	q.known["a"].again = time.Now()
	q.mu.Unlock()
	if !failed("a") { // it is under way again, and what is known of it is the failure
		t.Error("the failure is forgotten before it is delivered")
	}
	wait(t, "a is delivered", func() bool { return delivered.Load() == 2 })

	// What has been delivered and could not be kept has failed, too.
	resting.Store(0)
	once := false
	keep := func() error {
		if !once {
			once = true
			return errors.New("the disk is full")
		}
		return done()
	}
	wait(t, "c is kept", func() bool { _ = q.Add(works, "c", message, keep); return delivered.Load() == 3 })
	for failures, want := range map[int]time.Duration{1: time.Minute, 2: 2 * time.Minute, 4: 8 * time.Minute, 5: 15 * time.Minute, 1000: 15 * time.Minute} {
		if got := rest(failures); got != want {
			t.Errorf("after %d failures it rests for %s, want %s", failures, got, want)
		}
	}
}

// What a command has started in its process group ends with it, also where the command has ended
// well; that it holds the output open is no failure.
func TestCommandsGroupEndsWithIt(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	for range 3 {
		to := Target{Command: program(t, "sleep 7777 & echo $! >>"+pids+"\ncat >/dev/null\n"), Timeout: time.Minute}
		if err := to.Deliver(t.Context(), message); err != nil {
			t.Error(err)
		}
	}
	if _, all := processes(pids); all != 3 {
		t.Errorf("%d attempts", all)
	}
	wait(t, "all have ended", func() bool { alive, _ := processes(pids); return alive == 0 })
	hangs := Target{Command: program(t, "sleep 7777 & echo $! >>"+pids+"\necho $$ >>"+pids+"\nexec sleep 7777\n"), Timeout: 200 * time.Millisecond}
	if err := hangs.Deliver(t.Context(), message); err == nil {
		t.Error("it is delivered")
	}
	if _, all := processes(pids); all > 5 {
		t.Errorf("a command that hangs is tried again: %d", all)
	}
	wait(t, "all have ended", func() bool { alive, _ := processes(pids); return alive == 0 })
	if syscall.Kill(os.Getpid(), 0) != nil {
		t.Error("so did this one")
	}
}
