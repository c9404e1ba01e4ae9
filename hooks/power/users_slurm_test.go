package power_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// attackFor is how long users attack: PCS_CAPACITY_ATTACK_FOR, such as 10m.
func attackFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("PCS_CAPACITY_ATTACK_FOR")
	if text == "" {
		return 5 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// attackers is what a user does below the cluster's folder, $1, again and again: lock all that
// can be opened and stop the process that has it open; take away and replace what is there; place
// links to another's file, $1/victim, under our names wherever a file can be made; submit jobs
// that power nodes up, stop sbatch and the filter at any point, and stop a job that has a lock.
// What it did is in its own folder, $2. Its nodes are $3 and $4.
const attackers = `top=$1 mine=$2 node=$3 stopped=$4
cd "$mine" || exit 1
known="private/sync.lock private/watch.lock private/held.lock private/purchase.lock private/setup.lock private/canary.lock private/hooks.lock
  private/held.json private/hooks.jsonl private/intents private/marks.json"
round=0
while [ -d /proc/$PPID ]; do # a test that was killed leaves nothing
  round=$((round + 1))
  for f in $(find "$top/state" "$top/log" "$top/lab/etc" "$top/lab/log" "$top/lab/state" 2>/dev/null) $known; do
    case $f in /*) ;; *) f=$top/state/$f ;; esac
    flock -F -n -x "$f" sh -c 'echo "$0" >>"$1"; kill -STOP $$' "$f" "$mine/held" </dev/null 2>/dev/null &
    case $f in "$top"/state | "$top"/log | "$top"/lab/*) continue ;; esac
    ln -f "$f" "$mine/linked" 2>/dev/null
    mv -T "$f" "$mine/taken" 2>/dev/null && echo "$f" >>"$mine/moved"
    rm -rf "$f" 2>/dev/null
    ln -sfn "$top/victim/made" "$f" 2>/dev/null && echo "$f" >>"$mine/moved"
    chmod 777 "$f" 2>/dev/null && echo "$f" >>"$mine/moved"
  done
  for d in $(find "$top" -type d -writable 2>/dev/null); do
    for n in snapshot.json plan partitions owner mark facts private config.toml conf.d sync.lock held.json hooks.jsonl resume.log suspend.log; do
      ln -sfn "$top/victim/made" "$d/$n"
      ln -f "$top/victim/file" "$d/hard-$n"
    done 2>/dev/null
  done
  if [ $(squeue -h -u "$(id -u)" | wc -l) -lt 3 ]; then
    sbatch -p gpu -w "$node" -n1 -t 5 --output=/dev/null --wrap "echo ran >>$mine/ran"
    [ $((round % 10)) = 1 ] && sbatch -p gpu -w "$stopped" -n1 -t 1 --output=/dev/null --wrap "exec 9<$top/state/snapshot.json; flock -x 9; kill -STOP \$\$"
  fi >/dev/null 2>&1
  for wait in 0.002 0.005 0.008 0.012 0.020; do
    setsid sbatch -p gpu -w "$node" -n1 -t 1 --hold --output=/dev/null --wrap true >/dev/null 2>&1 &
    sleep $wait
    kill -STOP -$!
  done 2>/dev/null
  echo . >>"$mine/rounds"
  sleep 1
  jobs -p >"$mine/jobs" # in $(jobs -p) there are none: a shell of its own has no jobs
  for j in $(cat "$mine/jobs"); do kill -KILL -$j || kill -KILL $j; done 2>/dev/null
  wait 2>/dev/null
  scancel $(squeue -h -u "$(id -u)" -t PENDING -o '%i %r' | grep JobHeld | cut -d' ' -f1) 2>/dev/null
done`

// openTo makes this test program, under the names of hooks, one that every user may run, and has
// what calls them call these.
func openTo(t *testing.T, dir string, wrappers ...string) {
	t.Helper()
	itself, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(itself)
	if err := errors.Join(err, os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "program"), text, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pcs-capacity-filter", "pcs-capacity-resume", "pcs-capacity-suspend", "pcs-capacity-prolog"} {
		if err := os.Link(filepath.Join(dir, "program"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		for _, path := range wrappers {
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, []byte(strings.ReplaceAll(string(text), hookstest.Program(t, name), filepath.Join(dir, name))), 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// withEnvironment are the processes that have a variable in their environment.
func withEnvironment(variable string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is valid
	for _, path := range all {
		text, _ := os.ReadFile(path)
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && slices.Contains(strings.Split(string(text), "\x00"), variable) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stopped are the processes of a program that are stopped.
func stopped(program string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, path := range all {
		text, _ := os.ReadFile(path)
		if name, _, _ := strings.Cut(string(text), "\x00"); name != program {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && strings.Contains(string(stat), ") T ") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Two users do what they can with flock(1), links and processes that they stop, while root's
// `sync --watch` works with the hooks of SlurmUser and jobs power nodes up: no pass is late, no
// ResumeProgram takes longer than its budget, and nothing is written where the users' links lead.
func TestUsersDelayNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as other users")
	}
	const (
		slurmUser, slurmID = "slurm", 64030
		resumeTimeout      = 40 * time.Second
		budget             = resumeTimeout * 3 / 4
		latestPass         = 30 * time.Second // half of what a pass waits for a lock
	)
	var top string
	p := startPowerWith(t, holdConfig, room(4, 4), func(c *slurmlab.Config) {
		top = filepath.Dir(c.Dir)
		dir := state.Dir(filepath.Join(top, "state"))
		err := errors.Join(os.Chmod(top, 0o755), dir.Create(), os.Chown(string(dir), slurmID, slurmID),
			os.Mkdir(filepath.Join(top, "log"), 0o755), os.Chown(filepath.Join(top, "log"), slurmID, slurmID))
		for _, path := range []string{c.ResumeProgram + ".pids", c.SuspendProgram + ".pids"} {
			err = errors.Join(err, os.WriteFile(path, nil, 0o644), os.Chown(path, slurmID, slurmID))
		}
		if err != nil {
			t.Fatal(err)
		}
		openTo(t, filepath.Join(top, "bin"), c.ResumeProgram, c.SuspendProgram)
		filter := filepath.Join(top, "bin", "pcs-capacity-filter")
		c.SlurmUser = slurmUser
		c.CLIFilterLua, c.JobSubmitLua = submit.CLIFilter(dir.PlanPath(), string(dir), filter), submit.JobSubmit(dir.PlanPath(), string(dir), filter)
		c.SuspendTime, c.ResumeTimeout = 2*time.Second, resumeTimeout
	})
	p.watched()
	p.until("the first pass is made", func() bool { _, err := os.Stat(p.state.PlanPath()); return err == nil })

	victim := filepath.Join(top, "victim")
	precious := filepath.Join(victim, "file")
	if err := errors.Join(os.Mkdir(victim, 0o755), os.WriteFile(precious, []byte("root's\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(precious)
	if err != nil {
		t.Fatal(err)
	}

	var users sync.WaitGroup
	var mine []string
	var groups []int
	for i, uid := range []uint32{1, 5} { // daemon and games
		path := filepath.Join(top, "user"+strconv.Itoa(i))
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, int(uid), int(uid))); err != nil {
			t.Fatal(err)
		}
		c := exec.Command("sh", "-c", attackers, "sh", top, path, "gpu-"+strconv.Itoa(2+i), "gpu-4")
		c.Env = append(p.cluster.Env(), "ATTACKS="+top)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		mine, groups = append(mine, path), append(groups, c.Process.Pid)
		users.Go(func() { _ = c.Wait() })
	}
	t.Cleanup(func() {
		for _, g := range groups {
			_ = syscall.Kill(-g, syscall.SIGKILL)
		}
		users.Wait()
		for _, pid := range withEnvironment("ATTACKS=" + top) { // nothing of theirs starts another any more
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	did := func(file string) (all string) {
		for _, path := range mine {
			text, _ := os.ReadFile(filepath.Join(path, file))
			all += string(text)
		}
		return all
	}

	// Passes, by the snapshots that they write.
	over := make(chan struct{})
	var passes int
	var latest time.Duration
	var filters atomic.Int64 // that were stopped
	var watching sync.WaitGroup
	watching.Go(func() {
		var written, looked time.Time
		seen := map[int]bool{}
		last := time.Now()
		for {
			if time.Since(looked) > 300*time.Millisecond {
				looked = time.Now()
				for _, pid := range stopped(filepath.Join(top, "bin", "pcs-capacity-filter")) {
					seen[pid] = true
				}
				filters.Store(int64(len(seen)))
			}
			info, err := os.Stat(p.state.SnapshotPath())
			if err == nil && !info.ModTime().Equal(written) {
				written, last = info.ModTime(), time.Now()
				passes++
			}
			latest = max(latest, time.Since(last))
			select {
			case <-over:
				return
			case <-p.ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})

	var jobs int
	var longest time.Duration
	attacked := func() bool {
		held := did("held")
		return strings.Contains(held, "snapshot.json") && filters.Load() > 0 && strings.Contains(did("ran"), "ran")
	}
	for until, last := time.Now().Add(attackFor(t)), time.Now().Add(attackFor(t)+2*time.Minute); time.Now().Before(until) || !attacked(); jobs++ {
		if time.Now().After(last) {
			t.Fatalf("the users did too little: they locked %q, stopped %d filters, ran %q", did("held"), filters.Load(), did("ran"))
		}
		began := time.Now()
		p.wait(p.submit("-p", "gpu", "-w", "gpu-1", "-n1", "-t", "10", "--output=/dev/null"), "COMPLETED")
		longest = max(longest, time.Since(began))
		p.until("gpu-1 is powered down", func() bool { s, _ := p.cluster.NodeState(p.ctx, "gpu-1"); return strings.Contains(s, "POWERED_DOWN") })
	}
	close(over)
	watching.Wait()
	if latest > latestPass || passes == 0 {
		t.Errorf("of %d passes the latest came after %s", passes, latest)
	}
	var slowest time.Duration
	resumes := p.logged("resume", "power up: done")
	for _, end := range resumes {
		ms, _ := end["ms"].(float64)
		slowest = max(slowest, time.Duration(ms)*time.Millisecond)
	}
	if slowest > budget {
		t.Errorf("a ResumeProgram took %s, of at most %s", slowest, budget)
	}
	if held := did("held"); strings.Contains(held, "/private/") || strings.Contains(held, "/log/re") {
		t.Errorf("users locked %q", held)
	}
	if moved := did("moved"); moved != "" {
		t.Errorf("users changed %q", moved)
	}
	after, err := os.Stat(precious)
	text, readErr := os.ReadFile(precious)
	if err := errors.Join(err, readErr); err != nil || string(text) != "root's\n" || !after.ModTime().Equal(before.ModTime()) || after.Mode() != before.Mode() {
		t.Errorf("the file of root's is %q, %v: %v", text, after, err)
	}
	if names, err := os.ReadDir(victim); err != nil || len(names) != 1 {
		t.Errorf("where the users' links lead: %v, %v", names, err)
	}
	for _, path := range mine {
		_ = filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
			if info, infoErr := e.Info(); infoErr == nil && slices.Contains([]uint32{0, slurmID}, info.Sys().(*syscall.Stat_t).Uid) {
				t.Errorf("ours is in a user's folder: %s", path)
			}
			return nil
		})
	}
	t.Logf("%d jobs, the longest took %s; %d passes, the latest after %s; %d runs of ResumeProgram, the slowest of %s; %d rounds, %d locks, %d filters stopped",
		jobs, longest, passes, latest, len(resumes), slowest, strings.Count(did("rounds"), "\n"), strings.Count(did("held"), "\n"), filters.Load())
}
