package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestRareLoad: 20 users submit 1000 jobs, or as many as PCS_CAPACITY_LOAD says, of four kinds, as fast as Slurm takes
// them, while blocks open and close under `sync --watch`. Each submission is answered as it should be, none is lost, no
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

	var world, ids string // forty blocks behind slot gpu, one after the other
	for i := range 40 {
		start := 150*i - 30
		world += fmt.Sprintf(
			"  { id = \"cr-0e20000000000f%03d\", kind = \"capacity-block\", type = \"p5.48xlarge\", zone = "+
				"\"us-east-2a\", count = 4, start = \"%+ds\", end = \"%+ds\" },\n",
			i,
			start,
			start+130,
		)
		ids += fmt.Sprintf("\"cr-0e20000000000f%03d\", ", i)
	}

	world = strings.Replace(rehearsalWorld, "\nreservation = [\n", "\nreservation = [\n"+world, 1)
	settings := strings.NewReplacer(`["cr-0e2000000000000a1"]`, "["+ids+"]", `poll = "1s"`, `poll = "10s"`).
		Replace(rehearsalConfig)

	var dir string

	r := newRehearsalIn(t, world, settings, func(c *slurmlab.Config) {
		dir = filepath.Join(c.Dir, "capacity")
		c.CLIFilterLua = submit.CLIFilter(state.Dir(dir).RosterPath(), dir, filter)
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

	watching, stop := context.WithCancel(ctx)
	past := make(chan int)
	go func() { past <- r.watchFences(watching) }()

	r.submitAll(users, total)
	stop()

	if past := <-past; past > 0 {
		t.Errorf("%d times a job was seen that runs past the fence", past)
	}

	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", sync.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}

	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if peak == nil || len(peak[1]) > 5 { // 100 MB
		t.Errorf("sync had %q", peak)
	}

	if info, err := said.Stat(); err != nil || info.Size() > 1<<20 {
		t.Errorf("sync said %d bytes (%v)", info.Size(), err)
	}
}

// submitAll lets the users submit total jobs between them. Each is answered as it should be.
func (r *rehearsal) submitAll(users []string, total int) {
	r.Helper()

	kinds := []struct {
		args    []string
		refused bool
	}{
		{[]string{"-p", "gpu", "-C", "gpu", "-t", "1"}, false},         // waits for a block that it fits into
		{[]string{"-p", "gpu", "-C", "long"}, false},                   // is fitted
		{[]string{"-p", "gpu", "-C", "gpu", "-t", "9-00:00:00"}, true}, // never fits
		{[]string{"-p", "static"}, false},
	}

	var (
		jobs       sync.Map
		submitting sync.WaitGroup
	)
	for i, user := range users {
		submitting.Go(func() {
			for n := range total / len(users) {
				kind := kinds[(i+n)%len(kinds)]
				args := append(
					[]string{"--reuid=" + user, "--clear-groups", "sbatch", "--parsable", "-o", "/dev/null", "-D", "/"},
					kind.args...)

				id, err := r.cluster.Command(r.ctx, "setpriv", append(args, "--wrap=true")...)
				twice := false
				if err == nil {
					_, twice = jobs.LoadOrStore(id, true)
				}

				if kind.refused != (err != nil) || twice {
					r.Errorf("%s: %v: %v %s", user, kind.args, err, id)
				}
			}
		})
	}

	submitting.Wait()
}

// watchFences looks at each job that runs in the block of slot gpu, and counts those that go past its fence.
func (r *rehearsal) watchFences(ctx context.Context) (past int) {
	for ; ctx.Err() == nil; time.Sleep(2 * time.Second) {
		snap, err := state.Dir(r.cfg.StateDir).ReadSnapshot()
		if err != nil {
			continue
		}

		jobs, _, err := (&slurm.Client{}).JobsOf(ctx, []string{"gpu"}, capacity.Job.Running)
		if err != nil {
			continue
		}

		for _, j := range jobs { // sync lowers a limit that a boot has pushed past the fence
			fence := snap.EarliestFence("gpu", j.Nodes, time.Now())
			if slices.ContainsFunc(j.Nodes, func(n string) bool { return strings.HasPrefix(n, "gpu-") }) &&
				!fence.IsZero() &&
				j.End.After(fence.Add(time.Minute+r.cfg.Timing.Poll.Duration)) {
				past++
			}
		}
	}

	return past
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
