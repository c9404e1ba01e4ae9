package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
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

// TestRareLoad: 20 users submit 1000 jobs, or as many as PCS_CAPACITY_LOAD says, of four kinds, as fast as Slurm takes them, while blocks open
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
		for _, s := range snap.Standings(now) {
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
