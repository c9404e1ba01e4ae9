package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

	"github.com/pcs-capacity/pcs-capacity/hooks/prolog"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
)

// scenario is the account of tests that need to know what is in it.
const scenario = "testdata/up.toml"

// hang is longer than anything takes that does not hang.
const hang = 5 * time.Minute

// labProgram is the path of capacity-lab.
var labProgram string

// TestMain makes the test program capacity-lab as well, when it is called by that name:
// the tests of up run what they are compiled with.
func TestMain(m *testing.M) {
	testscript.Main(withProgram{m}, map[string]func(){
		"capacity-lab":        main,
		"pcs-capacity-prolog": func() { os.Exit(prolog.Main(os.Args[1:])) },
	})
}

// withProgram finds the program for the tests.
type withProgram struct{ *testing.M }

// Run is called by testscript.
func (m withProgram) Run() int {
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

// startUp runs up in a new folder, or in dir, with the product's Prolog and none of its other programs. It does not
// wait until the lab is ready.
func startUp(t *testing.T, dir string, args ...string) *upProcess {
	t.Helper()

	if dir == "" {
		dir = shortDir(t)
	}

	bin := t.TempDir()

	program, err := exec.LookPath("pcs-capacity-prolog")
	if err == nil {
		err = os.Symlink(program, filepath.Join(bin, "pcs-capacity-prolog"))
	}

	if err != nil {
		t.Fatal(err)
	}

	p := &upProcess{dir: dir, lines: make(chan string, 10), stderr: &strings.Builder{}}
	p.cmd = exec.Command(labProgram, append([]string{"up", "--dir", dir, "--bin", bin}, args...)...)
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
	case <-time.After(hang):
		t.Fatal("up is not ready")
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

	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()

	var out string
	if err := slurmlab.WaitUntil(ctx, func() bool { out = p.sh(t, command); return ok(out) }); err != nil {
		t.Fatalf("%s: still %q", command, out)
	}

	return out
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

// end ends the lab by a signal, and looks for what it leaves.
func (p *upProcess) end(t *testing.T, signal syscall.Signal, before []string) {
	t.Helper()

	_ = p.cmd.Process.Signal(signal)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("exit: %v: %s", err, p.stderr)
	}

	checkGone(t, p.dir, before)
}

// twice: a second lab in the folder of one that runs is refused, and changes nothing of it.
func (p *upProcess) twice(t *testing.T) {
	t.Helper()

	settings := filepath.Join(p.dir, "etc", "pcs-capacity", "config.toml")

	before, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}

	second := startUp(t, p.dir)
	if err := second.cmd.Wait(); err == nil ||
		!strings.Contains(second.stderr.String(), "a lab is running in "+p.dir+" already") {
		t.Errorf("%v: %s", err, second.stderr)
	}

	if after, err := os.ReadFile(settings); err != nil || string(after) != string(before) {
		t.Errorf("the settings of the lab that runs were changed: %v\n%s", err, after)
	}

	p.sh(t, "sinfo") // reads DIR/env
}

// The shell that evaluates what `up --detach` prints does not see its exit status: without a lab
// it gets a command that fails, and with set -e it ends there.
func TestDetachWithoutALab(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "env"), []byte("# of a lab that was killed\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	var out strings.Builder
	if err := (&upCmd{Dir: dir}).detach(&out); err == nil {
		t.Fatal("it started")
	}

	cmd := exec.Command("/bin/sh", "-ec", `eval "$PRINTED"; echo went on`)
	cmd.Env = []string{"PRINTED=" + out.String()}
	if said, err := cmd.CombinedOutput(); err == nil || len(said) > 0 {
		t.Errorf("%v: %s", err, said)
	}
}

// The shell evaluates a file of the lab's folder: another user's is refused, and so is another user's link.
func TestFolderOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}

	theirs := filepath.Join(t.TempDir(), "theirs")
	link := filepath.Join(t.TempDir(), "link")
	for _, err := range []error{
		os.Mkdir(theirs, 0o777),
		os.Chown(theirs, 65534, 65534),
		os.Symlink(t.TempDir(), link),
		os.Lchown(link, 65534, 65534),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	for _, dir := range []string{theirs, link} {
		if err := ownFolder(dir); err == nil ||
			!strings.Contains(err.Error(), "belongs to another user; choose another --dir") {
			t.Errorf("%s: %v", dir, err)
		}
	}

	if err := ownFolder(filepath.Join(t.TempDir(), "new")); err != nil {
		t.Error(err)
	}
}

// A lab does not begin with the settings of an earlier one in its folder. What users have made stays.
func TestFolderOfAnEarlierLab(t *testing.T) {
	dir := t.TempDir()
	queue, output := filepath.Join(dir, "etc/pcs-capacity/conf.d/gpu.toml"), filepath.Join(dir, "home/job.out")
	for _, path := range []string{queue, output} {
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err := errors.Join(err, os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}

	l, err := (&upCmd{Dir: dir, Bare: true}).newLab()
	if err != nil {
		t.Fatal(err)
	}
	defer l.logTo.Close()

	_, gone := os.Stat(queue)
	_, stays := os.Stat(output)
	if !errors.Is(gone, fs.ErrNotExist) || stays != nil {
		t.Errorf("the queue of the earlier lab: %v; the output of its job: %v", gone, stays)
	}
}

// The lab's systemctl refuses what systemd's refuses.
func TestPlayedSystemctl(t *testing.T) {
	for line, want := range map[string]int{
		"daemon-reload":         0,
		"is-active no-such":     3,
		"frobnicate slurmctld":  1,
		"start":                 1,
		"start no-such":         5,
		"stop no-such":          5,
		"enable --now no-such":  5,
		"disable --now no-such": 5,
		"":                      1,
	} {
		cmd := exec.Command("sh", append([]string{"plain/systemctl"}, strings.Fields(line)...)...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("systemctl %s exits %d, not %d: %s", line, got, want, out)
		}
	}
}

// Nodes that launch into a reservation, or a group of them, need instances.
func TestStaticGroup(t *testing.T) {
	cluster := awssim.PCSCluster{NodeGroups: []awssim.PCSNodeGroup{
		{Name: "block", PurchaseOption: "CAPACITY_BLOCK"},
		{Name: "odcr", PurchaseOption: "ONDEMAND", ReservationID: "cr-1"},
		{Name: "holds", PurchaseOption: "ONDEMAND", ReservationGroup: "arn:aws:resource-groups:…"},
		{Name: "compute", PurchaseOption: "ONDEMAND"},
	}}
	if got := staticGroup(cluster); got != "compute" {
		t.Errorf("the static nodes are those of %q", got)
	}
}
