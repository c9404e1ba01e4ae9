package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// dayOfBlocks are the reservations of a day in which a block opens every 3 hours, half an hour
// after the end of the one before.
func dayOfBlocks(every, length, lead time.Duration, count int) (world, ids string) {
	for i := range count {
		id := fmt.Sprintf("cr-0e20000000000f%03d", i)
		start := lead + time.Duration(i)*every
		world += fmt.Sprintf("  { id = %q, kind = \"capacity-block\", type = \"p5.48xlarge\", zone = \"us-east-2a\", count = 4, start = %q, end = %q },\n",
			id, fmt.Sprintf("%+ds", start/time.Second), fmt.Sprintf("%+ds", (start+length)/time.Second))
		ids += fmt.Sprintf("%q, ", id)
	}
	return world, strings.TrimSuffix(ids, ", ")
}

// withBlocks is the world and the settings of a rehearsal with other blocks behind slot gpu.
func withBlocks(world, ids string) (string, string) {
	return strings.Replace(rehearsalWorld, "\nreservation = [\n", "\nreservation = [\n"+world, 1),
		strings.Replace(rehearsalConfig, `["cr-0e2000000000000a1"]`, "["+ids+"]", 1)
}

// TestRareSyncOverADay: `sync --watch` works through 24 hours, a pass every 3 minutes, in which blocks
// open and close. Its memory, files and goroutines are after the day what they were after its first
// hours, and what it wrote has not grown.
func TestRareSyncOverADay(t *testing.T) {
	const step, all, warm = 3 * time.Minute, 24 * 20, 4 * 20
	clock := awssim.NewClock(time.Now(), 0)
	world, settings := withBlocks(dayOfBlocks(3*time.Hour, 150*time.Minute, 30*time.Minute, 8))
	r := newRehearsalIn(t, world, strings.Replace(settings, `reclaim_lead = "10s"`, `reclaim_lead = "10m"`, 1), func(*slurmlab.Config) {}, clock)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Hour)
	defer stop()
	r.ctx = ctx
	type use struct {
		heap          uint64
		files, routes int
		written       int64
	}
	measure := func() use {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		u := use{heap: m.HeapAlloc, files: len(files), routes: runtime.NumGoroutine()}
		for _, dir := range []string{r.cfg.StateDir, r.cfg.LocalDir} {
			_ = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
				if err == nil && !info.IsDir() {
					u.written += info.Size()
				}
				return nil
			})
		}
		return u
	}
	var early use
	passes, lines := 0, 0
	follower := lifecycle.Follower{Path: r.path}
	begin := time.Now()
	err := lifecycle.Watch{Say: func(string) { lines++ }, Sources: func(ctx context.Context, renew bool) (lifecycle.Sources, error) {
		switch {
		case passes == warm:
			early = measure()
		case passes == all:
			stop()
		}
		if passes++; passes%warm == 0 {
			t.Logf("%d passes in %s, heap %d KiB", passes, time.Since(begin).Round(time.Second), measure().heap>>10)
		}
		clock.Advance(step)
		s, err := follower.Sources(ctx, renew)
		s.Poll = time.Millisecond // of the machine's time
		return s, err
	}}.Run(ctx)
	if err != nil || passes < all {
		t.Fatalf("%d passes: %v", passes, err)
	}
	late := measure()
	t.Logf("%d passes in %s, %d lines said; heap %d KiB after %d passes, %d KiB at the end; files %d, %d; goroutines %d, %d; state %d and %d bytes", passes, time.Since(begin).Round(time.Second), lines,
		early.heap>>10, warm, late.heap>>10, early.files, late.files, early.routes, late.routes, early.written, late.written)
	if late.heap > early.heap+early.heap/10+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", early.heap, late.heap)
	}
	if late.files > early.files+2 || late.routes > early.routes+2 {
		t.Errorf("open files %d, then %d; goroutines %d, then %d", early.files, late.files, early.routes, late.routes)
	}
	if late.written > early.written+1<<20 { // a day
		t.Errorf("what it wrote grew from %d to %d bytes", early.written, late.written)
	}
	if lines > 5*all { // each pass moves fences here: AWS's clock alone goes on
		t.Errorf("it said %d lines", lines)
	}
}

// TestRareLoad: 20 users submit 1000 jobs, or as many as `make load` says, of four kinds, as fast as Slurm takes them, while blocks open
// and close under `sync --watch`. Each submission is answered as it should be, none is lost, no
// job runs past the fence of its block, and sync stays small.
func TestRareLoad(t *testing.T) {
	total, err := strconv.Atoi(cmp.Or(os.Getenv("PCS_CAPACITY_LOAD"), "1000"))
	if err != nil {
		t.Fatal(err)
	}
	users := systemUsers(t, 20)
	filter, err := exec.LookPath("pcs-capacity-filter")
	if err != nil {
		t.Fatal(err)
	}
	if err := chmodPath(filepath.Dir(filter)); err != nil {
		t.Fatal(err)
	}
	world, settings := withBlocks(dayOfBlocks(150*time.Second, 130*time.Second, -30*time.Second, 40))
	var dir string
	r := newRehearsalIn(t, world, strings.Replace(settings, `poll = "1s"`, `poll = "10s"`, 1), func(c *slurmlab.Config) {
		dir = filepath.Join(c.Dir, "capacity")
		c.CLIFilterLua = submit.CLIFilter(state.Dir(dir).PlanPath(), dir, filter)
		c.Extra = []string{"MaxJobCount=50000", "MinJobAge=60"}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
	defer cancel()
	r.ctx = ctx
	r.sync() // the snapshot is there before the first submission

	sync := exec.CommandContext(ctx, "pcs-capacity", "--config", r.path, "sync", "--watch")
	said, err := os.Create(filepath.Join(dir, "..", "sync.said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	sync.Stdout, sync.Stderr = said, said
	if err := sync.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sync.Process.Kill()
		_ = sync.Wait()
	}()

	tally := r.submitAll(users, total)
	peak, now := memory(t, sync.Process.Pid)
	t.Logf("%s; sync: %d MiB resident, %d MiB at its peak", tally, now>>10, peak>>10)
	if tally.wrong.Load() > 0 {
		t.Errorf("%d submissions were not answered as they should be", tally.wrong.Load())
	}
	if peak>>10 > 100 {
		t.Errorf("sync had %d MiB", peak>>10)
	}
	if past := tally.past.Load(); past > 0 {
		t.Errorf("%d times a job was seen that runs past the fence", past)
	}
	if info, err := said.Stat(); err != nil || info.Size() > 1<<20 {
		t.Errorf("sync said %d bytes (%v)", info.Size(), err)
	}
}

// tally is what became of submissions.
type tally struct {
	mu             sync.Mutex
	jobs           map[string]bool
	took           []time.Duration
	refused, wrong atomic.Int32
	past           atomic.Int32
	opened         int
	lasted         time.Duration
}

func (y *tally) String() string {
	slices.Sort(y.took)
	at := func(part float64) time.Duration {
		return y.took[int(part*float64(len(y.took)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("%d submissions in %s: %d jobs, %d refused; sbatch took %s (median), %s (99 %%), %s (most); blocks opened: %d",
		len(y.took), y.lasted.Round(time.Second), len(y.jobs), y.refused.Load(), at(0.5), at(0.99), at(1), y.opened)
}

// submitAll lets the users submit total jobs between them, and watches what runs.
func (r *rehearsal) submitAll(users []string, total int) *tally {
	r.Helper()
	y := &tally{jobs: map[string]bool{}}
	kinds := []struct {
		args    []string
		refused bool
	}{
		{[]string{"-p", "gpu", "-C", "gpu", "-t", "1"}, false},         // waits for a block that it fits into
		{[]string{"-p", "gpu", "-C", "long"}, false},                   // is fitted
		{[]string{"-p", "gpu", "-C", "gpu", "-t", "9-00:00:00"}, true}, // never fits
		{[]string{"-p", "static"}, false},
	}
	begin := time.Now()
	watching, stop := context.WithCancel(r.ctx)
	var work sync.WaitGroup
	work.Go(func() { r.watchFences(watching, y) })
	var submitting sync.WaitGroup
	for i, user := range users {
		submitting.Go(func() {
			for n := range total / len(users) {
				kind := kinds[(i+n)%len(kinds)]
				args := append([]string{"--reuid=" + user, "--clear-groups", "sbatch", "--parsable", "-o", "/dev/null", "-D", "/"}, kind.args...)
				sent := time.Now()
				out, err := r.cluster.Command(r.ctx, "setpriv", append(args, "--wrap=true")...)
				took := time.Since(sent)
				y.mu.Lock()
				y.took = append(y.took, took)
				id := strings.TrimSpace(out)
				twice := y.jobs[id]
				if err == nil {
					y.jobs[id] = true
				}
				y.mu.Unlock()
				switch {
				case kind.refused && err != nil:
					y.refused.Add(1)
				case kind.refused || err != nil || twice:
					if y.wrong.Add(1) < 4 {
						r.Errorf("%s: %v: %v %s", user, kind.args, err, out)
					}
				}
			}
		})
	}
	submitting.Wait()
	y.lasted = time.Since(begin)
	stop()
	work.Wait()
	return y
}

// watchFences looks at each job that runs in the block of slot gpu, against its fence.
func (r *rehearsal) watchFences(ctx context.Context, y *tally) {
	seen := map[string]bool{}
	for ; ctx.Err() == nil; time.Sleep(2 * time.Second) {
		snap, err := state.Dir(r.cfg.StateDir).ReadSnapshot()
		if err != nil {
			continue
		}
		now := time.Now()
		for _, s := range lifecycle.Slots(snap, now) {
			if s.Slot.Name != "gpu" || !s.Window.Start.Before(now) || !now.Before(s.Window.Fence) {
				continue
			}
			seen[s.Reservation.ID] = true
			y.mu.Lock()
			y.opened = len(seen)
			y.mu.Unlock()
			out, err := r.cluster.Command(ctx, "squeue", "--noheader", "-t", "RUNNING", "-p", "gpu", "-O", "JobID:20,EndTime:30,NodeList:30")
			if err != nil {
				continue
			}
			for line := range strings.Lines(out) {
				words := strings.Fields(line)
				if len(words) < 3 || !strings.HasPrefix(words[2], "gpu-") {
					continue
				}
				end, err := time.ParseInLocation("2006-01-02T15:04:05", words[1], time.Local)
				// sync lowers what a boot has pushed over
				if err == nil && end.After(s.Window.Fence.Add(time.Minute+r.cfg.Timing.Poll.Duration)) {
					y.past.Add(1)
				}
			}
		}
	}
}

// systemUsers are users of the machine other than root.
func systemUsers(t *testing.T, most int) (names []string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("submits as other users: needs root")
	}
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, _, _ := strings.Cut(line, ":"); name != "root" && len(names) < most {
			names = append(names, name)
		}
	}
	return names
}

// chmodPath lets other users reach the programs that this test program is.
func chmodPath(dir string) error {
	for ; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// memory is what a process has and had at most, in KiB.
func memory(t *testing.T, pid int) (peak, now int) {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 {
			switch n, _ := strconv.Atoi(words[1]); words[0] {
			case "VmHWM:":
				peak = n
			case "VmRSS:":
				now = n
			}
		}
	}
	return peak, now
}
