package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/program/prolog"
)

// scenario is the account of tests that need to know what is in it.
const scenario = "testdata/up.toml"

// labProgram is the path of capacity-lab.
var labProgram string

// TestMain makes the test program capacity-lab as well, when it is called by that name:
// the tests of up run what they are compiled with.
func TestMain(m *testing.M) {
	testscript.Main(withSlurm{m}, map[string]func(){
		"capacity-lab":        main,
		"pcs-capacity-prolog": func() { os.Exit(prolog.Main(os.Args[1:])) },
	})
}

// withSlurm runs tests that need a real Slurm, and the program that they test.
type withSlurm struct{ *testing.M }

// Run is called by testscript.
func (m withSlurm) Run() int {
	if _, err := exec.LookPath("slurmctld"); err != nil {
		fmt.Fprintln(os.Stderr, "the tests of capacity-lab up need real Slurm: apt-get install slurm-wlm munge")
		return 1
	}
	var err error
	if labProgram, err = exec.LookPath("capacity-lab"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.M.Run()
}

// upProcess is a running "capacity-lab up".
type upProcess struct {
	cmd    *exec.Cmd
	dir    string
	lines  chan string // what it prints
	stderr *strings.Builder
}

// startUp runs up in a new folder, or in dir, with the product's Prolog, and programs that
// stand for its others. It does not wait until the lab is ready.
func startUp(t *testing.T, dir string, env []string, args ...string) *upProcess {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Slurm cluster")
	}
	if dir == "" {
		dir = shortDir(t)
	}
	bin := t.TempDir()
	for _, name := range []string{"pcs-capacity-resume", "pcs-capacity-suspend"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := exec.LookPath("pcs-capacity-prolog")
	if err == nil {
		err = os.Symlink(program, filepath.Join(bin, "pcs-capacity-prolog"))
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &upProcess{dir: dir, lines: make(chan string, 10), stderr: &strings.Builder{}}
	p.cmd = exec.Command(labProgram, append([]string{"up", "--dir", dir, "--bin", bin}, args...)...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			p.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		p.cmd.Process.Signal(syscall.SIGTERM)
		p.cmd.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log", "capacity-lab.log"))
			t.Logf("stderr: %s\ncapacity-lab.log:\n%s", p.stderr, log)
		}
	})
	return p
}

// shortDir is a temporary folder with a short name: unix sockets lie in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "up")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (p *upProcess) waitReady(t *testing.T) {
	t.Helper()
	select {
	case line := <-p.lines:
		if !strings.HasPrefix(line, "ready") {
			t.Fatalf("up printed %q instead of ready", line)
		}
	case <-time.After(90 * time.Second):
		t.Fatal("up is not ready after 90 s")
	}
}

// sh runs a shell command after sourcing the lab's env file.
func (p *upProcess) sh(t *testing.T, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", ". "+p.dir+"/env && "+command)
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

// until polls a shell command until its output satisfies ok.
func (p *upProcess) until(t *testing.T, command string, ok func(string) bool) string {
	t.Helper()
	end := time.Now().Add(90 * time.Second)
	for {
		out := p.sh(t, command)
		if ok(out) {
			return out
		}
		if time.Now().After(end) {
			t.Fatalf("%s: still %q after 90 s", command, out)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (p *upProcess) nodeState(t *testing.T, node string, ok func(state string) bool) {
	t.Helper()
	p.until(t, "scontrol -o show node "+node+" | sed -E 's/.* State=([^ ]+).*/\\1/'", ok)
}

func (p *upProcess) jobState(t *testing.T, id, want string) {
	t.Helper()
	p.until(t, "scontrol -o show job "+id, func(out string) bool {
		if strings.Contains(out, "JobState=FAILED") || strings.Contains(out, "JobState=NODE_FAIL") {
			t.Fatal(out)
		}
		return strings.Contains(out, "JobState="+want)
	})
}

// processesOf lists processes that name dir in their arguments or environment.
func processesOf(dir string) []string {
	var out []string
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		cmdline, _ := os.ReadFile(entry + "/cmdline")
		environ, _ := os.ReadFile(entry + "/environ")
		if strings.Contains(string(cmdline), dir) || strings.Contains(string(environ), dir) {
			out = append(out, entry+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return out
}

// traces are mounts, and files where Slurm's and munge's packages put theirs.
func traces(t *testing.T) []string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	out := slices.DeleteFunc(strings.Split(string(mounts), "\n"), func(mount string) bool {
		return strings.HasPrefix(mount, "full-disk-test ") // of tests of other packages, at the same time
	})
	for _, pattern := range []string{
		"/run/*slurm*", "/run/*munge*", "/run/*munge*/*", "/run/*slurm*/*",
		"/var/log/*slurm*/*", "/var/log/*munge*/*", "/var/spool/*slurm*", "/var/lib/*slurm*/*", "/var/lib/munge/*",
		"/run/mysqld*", "/var/lib/mysql*", "/var/log/mysql*",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}

// checkGone fails when the lab has left anything but the files in its folder.
func checkGone(t *testing.T, dir string, before []string) {
	t.Helper()
	if left := processesOf(dir); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
	if diff := cmp.Diff(before, traces(t)); diff != "" {
		t.Errorf("mounts or files outside of the folder (-before +after):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "env")); err == nil {
		t.Error("the env file of a lab that is gone is still there")
	}
}

func TestUpEndsOnSignal(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"ec2", "pcs"} {
		for name, signal := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM} {
			t.Run(mode+" "+name, func(t *testing.T) {
				before := traces(t)
				p := startUp(t, "", nil, "--mode", mode, "--scenario", scenario)
				p.waitReady(t)
				id := p.sh(t, "sbatch --parsable -o /dev/null --wrap 'sleep 1000 & sleep 1000'")
				p.until(t, "scontrol -o show job "+id, func(out string) bool { return strings.Contains(out, "JobState=RUNNING") })
				for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) { // a job runs before its step does
					running := processesOf(p.dir)
					if len(running) >= 6 {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("expected the lab, daemons and a job, found %q", running)
					}
				}
				p.cmd.Process.Signal(signal)
				if err := p.cmd.Wait(); err != nil {
					t.Errorf("exit: %v: %s", err, p.stderr)
				}
				checkGone(t, p.dir, before)
			})
		}
	}
}

// With --accounting there is a database of the lab's own: a job without an account is
// refused, one with an account runs and is in the database, and all of it ends.
func TestUpAccounting(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"ec2", "pcs"} {
		t.Run(mode, func(t *testing.T) {
			before := traces(t)
			p := startUp(t, "", nil, "--mode", mode, "--scenario", scenario, "--accounting")
			p.waitReady(t)
			asGames := "setpriv --reuid=games --clear-groups sbatch --parsable -D / -o /dev/null --wrap true"
			if out := p.sh(t, asGames+" 2>&1 || true"); !strings.Contains(out, "Invalid account") {
				t.Errorf("a user without an account: %s", out)
			}
			p.sh(t, "sacctmgr -i add account nlp && sacctmgr -i add user games account=nlp")
			id := p.sh(t, asGames)
			p.until(t, "sacct -nXP -j "+id+" -o account,state", func(out string) bool { return out == "nlp|COMPLETED" })
			if running := strings.Join(processesOf(p.dir), "\n"); !strings.Contains(running, "slurmdbd") || !strings.Contains(running, "mariadbd") {
				t.Errorf("expected slurmdbd and mariadbd, found %s", running)
			}
			p.cmd.Process.Signal(syscall.SIGTERM)
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("exit: %v: %s", err, p.stderr)
			}
			checkGone(t, p.dir, before)
		})
	}
}

func TestUpEndsOnSignalDuringStart(t *testing.T) {
	t.Parallel()
	before := traces(t)
	p := startUp(t, "", nil, "--mode", "ec2")
	for { // the first daemon is there, the lab is not ready
		if _, err := os.Stat(filepath.Join(p.dir, "log", "slurmctld.out")); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	p.cmd.Process.Signal(syscall.SIGINT)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("exit: %v: %s", err, p.stderr)
	}
	checkGone(t, p.dir, before)
}

func TestUpFailedStart(t *testing.T) {
	t.Parallel()
	// A slurmd that ends at once: munged and slurmctld run by then.
	bad := t.TempDir()
	if err := os.WriteFile(filepath.Join(bad, "slurmd"), []byte("#!/bin/sh\necho no such machine\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := traces(t)
	p := startUp(t, "", []string{"PATH=" + bad + ":" + os.Getenv("PATH")}, "--mode", "ec2")
	for line := range p.lines {
		t.Errorf("printed %q", line)
	}
	if err := p.cmd.Wait(); err == nil {
		t.Error("a failed start ended with exit status 0")
	}
	for _, want := range []string{filepath.Join(p.dir, "log", "slurmd-"), "no such machine"} {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("no %q in the error: %s", want, p.stderr)
		}
	}
	checkGone(t, p.dir, before)
	p = startUp(t, "", nil, "--mode", "ec2", "--slurm", bad)
	if err := p.cmd.Wait(); err == nil || !strings.Contains(p.stderr.String(), bad+" has no Slurm: there is no sbin/slurmctld") {
		t.Errorf("--slurm: %v: %s", err, p.stderr)
	}
}

// A second lab in the folder of one that runs is refused, and changes nothing of it.
func TestUpTwice(t *testing.T) {
	t.Parallel()
	first := startUp(t, "", nil, "--mode", "ec2")
	first.waitReady(t)
	settings := filepath.Join(first.dir, "etc", "pcs-capacity", "config.toml")
	before, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	second := startUp(t, first.dir, nil, "--mode", "pcs")
	if err := second.cmd.Wait(); err == nil || !strings.Contains(second.stderr.String(), "a lab is running in "+first.dir+" already") {
		t.Errorf("%v: %s", err, second.stderr)
	}
	if after, err := os.ReadFile(settings); err != nil || string(after) != string(before) {
		t.Errorf("the settings of the lab that runs were changed: %v\n%s", err, after)
	}
	first.sh(t, "sinfo") // reads DIR/env
}

func TestUpAfterKill(t *testing.T) {
	t.Parallel()
	before := traces(t)
	first := startUp(t, "", nil, "--mode", "ec2")
	first.waitReady(t)
	first.sh(t, "sbatch -o /dev/null --wrap 'sleep 1000'")
	first.cmd.Process.Kill()
	first.cmd.Wait()
	orphans := processesOf(first.dir)
	if len(orphans) < 4 {
		t.Fatalf("expected daemons to outlive the lab, found %q", orphans)
	}
	second := startUp(t, first.dir, nil, "--mode", "ec2")
	second.waitReady(t)
	now := strings.Join(processesOf(first.dir), "\n")
	for _, orphan := range orphans {
		if pid, _, _ := strings.Cut(orphan, " "); strings.Contains(now, pid+" ") {
			t.Errorf("still there: %s", orphan)
		}
	}
	second.cmd.Process.Signal(syscall.SIGTERM)
	second.cmd.Wait()
	checkGone(t, first.dir, before)
}

// The built-in scenario works in both modes, and the product can read the
// settings that up writes for it.
func TestUpBuiltInScenario(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"ec2", "pcs"} {
		t.Run(mode, func(t *testing.T) {
			p := startUp(t, "", nil, "--mode", mode)
			p.waitReady(t)
			settings, err := config.Load(filepath.Join(p.dir, "etc", "pcs-capacity", "config.toml"))
			if err != nil {
				t.Fatal(err)
			}
			if found := p.sh(t, "echo $(dirname $SLURM_CONF)/pcs-capacity/config.toml"); found != settings.Path {
				t.Errorf("SLURM_CONF leads to %s, the settings are in %s", found, settings.Path)
			}
			if settings.Region != p.sh(t, "echo $AWS_REGION") {
				t.Errorf("region %q in the settings", settings.Region)
			}
			id := p.sh(t, "sbatch --parsable -o /dev/null --wrap true") // the default partition
			p.jobState(t, id, "COMPLETED")
		})
	}
}
