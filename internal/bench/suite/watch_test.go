package suite

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// everySecond makes `sync --watch` make a pass each second.
const everySecond = "[timing]\npoll = \"1s\"\n"

// clockTick is the unit of the times in /proc/PID/stat: USER_HZ of proc(5), 100 a second on
// all of Linux's architectures that Go knows.
const clockTick = time.Second / 100

// spent is what a process, and the children that it has waited for, have had of a core.
func spent(b *testing.B, pid int) (own, children time.Duration) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest) // from the third on: proc_pid_stat(5)
	var ticks [4]time.Duration
	for i := range ticks {
		n, err := strconv.Atoi(fields[11+i])
		if err != nil {
			b.Fatal(err)
		}
		ticks[i] = time.Duration(n) * clockTick
	}
	return ticks[0] + ticks[1], ticks[2] + ticks[3]
}

// BenchmarkSyncWatch looks at what passes cost in which nothing has changed, beside one squeue.
func BenchmarkSyncWatch(b *testing.B) {
	t := newTable("sync-watch", "jobs", "partition", "CPU ms of squeue", "CPU ms of a pass", "of it Slurm's programs", "% of a core, a pass each 30 s")
	measure := func(jobs int, where string) {
		p := newPasses(b, 1, 16, everySecond)
		sim := p.world()
		defer sim.Close()
		if jobs > 0 {
			p.queue(where, jobs)
		}
		env := append(sim.Env(), "SLURM_CONF="+p.cluster.Conf(), "PATH=/usr/bin:/bin", "AWS_EC2_METADATA_DISABLED=true", "AWS_REGION=us-east-2")
		watch := exec.Command(p.sync, "sync", "--watch")
		watch.Env = env
		if err := watch.Start(); err != nil {
			b.Fatal(err)
		}
		stopped := false
		stop := func() {
			if !stopped {
				stopped = true
				_ = watch.Process.Signal(syscall.SIGTERM)
				_ = watch.Wait()
			}
		}
		defer stop()
		passes := func() (n int) {
			for key, calls := range sim.Calls() {
				if key.Operation == "DescribeCapacityReservations" {
					n += calls
				}
			}
			return n
		}
		sim.ResetCalls()
		for passes() < size(3, 1) { // the first do what there is to do
			time.Sleep(50 * time.Millisecond)
		}
		began := passes()
		own, children := spent(b, watch.Process.Pid)
		for passes() < began+size(20, 2) {
			time.Sleep(50 * time.Millisecond)
		}
		ownNow, childrenNow := spent(b, watch.Process.Pid)
		n := time.Duration(passes() - began)
		stop()
		slurm, pass := (childrenNow-children)/n, (ownNow-own+childrenNow-children)/n
		var alone []time.Duration
		for range size(9, 1) {
			cmd := exec.Command("squeue", "--all", "--noheader", "--Format="+plain)
			cmd.Env = env
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
			alone = append(alone, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		}
		t.add(jobs, where, median(alone), pass, slurm, float64(pass)/float64(30*time.Second)*100)
	}
	measure(0, "")
	measure(size(10000, 10), elsewhere)
	measure(size(10000, 10), "p1")
	t.keep(b)
}
