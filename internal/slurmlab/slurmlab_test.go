package slurmlab_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// outside lists the places where Slurm's packages put files by default.
func outside(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{
		"/run/*slurm*", "/run/*munge*", "/run/*munge*/*", "/run/*slurm*/*",
		"/var/log/*slurm*/*", "/var/log/*munge*/*", "/var/spool/*slurm*", "/var/lib/*slurm*/*", "/var/lib/munge/*",
		"/run/mysqld*", "/var/lib/mysql*", "/var/log/mysql*", "/var/log/mysql/*",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, slices.DeleteFunc(strings.Split(string(mounts), "\n"), func(mount string) bool {
		return strings.HasPrefix(mount, "full-disk-test ") // of tests of other packages, at the same time
	})...)
}

func TestStopLeavesNothingOutside(t *testing.T) {
	t.Parallel()
	before := outside(t)
	cluster := start(t, slurmlab.Config{Accounting: true})
	id := submit(t, cluster, "sleep 1000 & sleep 1000")
	waitJob(t, cluster, id, "RUNNING")
	// slurmctld, slurmscriptd, slurmd, slurmstepd, munged, slurmdbd, mariadbd, the job.
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) { // a job runs before its step does
		running := mentioning(cluster.Dir())
		if len(running) >= 7 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("expected daemons and a job, found %q", running)
		}
	}
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := mentioning(cluster.Dir()); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
	if diff := cmp.Diff(before, outside(t)); diff != "" {
		t.Errorf("files or mounts outside of the folder (-before +after):\n%s", diff)
	}
	if err := cluster.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestCloudNodePowersUpForJob(t *testing.T) {
	t.Parallel()
	cluster := start(t, slurmlab.Config{
		CloudGroups: []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 4, CPUs: 8, GPUs: 8, Features: "gpu,h100", Partition: "gpu"}},
		SuspendTime: 2 * time.Second,
	})
	id := submit(t, cluster, "srun hostname; echo gpus=$SLURM_JOB_GPUS; echo nodes=$SLURM_JOB_NODELIST", "-p", "gpu", "-N2", "--gpus-per-node=8", "-C", "h100")
	waitJob(t, cluster, id, "COMPLETED")
	out, err := os.ReadFile(filepath.Join(cluster.Dir(), "jobs", id+".out"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"nodes=gpu-[1-2]"}
	if os.Geteuid() == 0 { // only root can make devices, and only devices are handed to jobs
		want = append(want, "gpus=0,1,2,3,4,5,6,7")
	}
	for _, line := range want {
		if !strings.Contains(string(out), line) {
			t.Errorf("no %q in the output of the job: %q", line, out)
		}
	}
	if _, err := cluster.WaitNode(deadline(t), "gpu-1", func(state string) bool {
		return strings.HasSuffix(state, "+POWERED_DOWN") && !cluster.NodeRunning("gpu-1")
	}); err != nil {
		t.Errorf("after SuspendTime: %v", err)
	}
}

func TestOwnResumeProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "resume")
	err := os.WriteFile(program, []byte("#!/bin/sh\nexec </dev/null >>"+dir+"/seen 2>&1\necho resume $1\n"), 0o755)
	if err != nil {
		t.Fatal(err)
	}
	cluster := start(t, slurmlab.Config{
		CloudGroups:    []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 2, Partition: "gpu"}},
		ResumeProgram:  program,
		SuspendProgram: "/bin/true",
	})
	id := submit(t, cluster, "true", "-p", "gpu")
	seen := filepath.Join(dir, "seen")
	for {
		data, _ := os.ReadFile(seen)
		if string(data) == "resume gpu-1\n" {
			break
		}
		select {
		case <-deadline(t).Done():
			t.Fatalf("ResumeProgram wrote %q", data)
		case <-time.After(50 * time.Millisecond):
		}
	}
	// The machine boots: what a simulated EC2 does after RunInstances.
	if err := cluster.StartNode(deadline(t), "gpu-1", "127.0.1.1"); err != nil {
		t.Fatal(err)
	}
	waitJob(t, cluster, id, "COMPLETED")
	node, err := cluster.Node(deadline(t), "gpu-1")
	if err != nil {
		t.Fatal(err)
	}
	if addr := node["NodeAddr"]; addr != "127.0.1.1" && !(cluster.RegistersAddress() && addr == "127.0.0.1") {
		t.Errorf("NodeAddr is %q", addr)
	}
}

func TestStopEndsHangingResumeProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "resume")
	// The environment is cleared, so that only its parent tells whose it is.
	text := "#!/bin/sh\nexec </dev/null >>" + dir + "/seen 2>&1\necho started\nenv -i sleep 1234\n"
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	cluster := start(t, slurmlab.Config{
		CloudGroups:    []slurmlab.NodeGroup{{Prefix: "gpu-", Partition: "gpu"}},
		ResumeProgram:  program,
		SuspendProgram: "/bin/true",
	})
	submit(t, cluster, "true", "-p", "gpu")
	ctx := deadline(t)
	var sleeping string
	for sleeping == "" {
		if ctx.Err() != nil {
			t.Fatal("the ResumeProgram was not started")
		}
		time.Sleep(20 * time.Millisecond)
		sleeping = childOf(program)
	}
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	// A zombie that nobody has reaped yet has no executable.
	if _, err := os.Readlink(filepath.Join(sleeping, "exe")); err == nil {
		t.Errorf("%s, the child of a ResumeProgram, outlives Stop", sleeping)
	}
}

// childOf finds the /proc folder of the sleep that a script runs.
func childOf(script string) string {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, cmdline := range all {
		text, _ := os.ReadFile(cmdline)
		if !strings.Contains(string(text), script) {
			continue
		}
		for _, sleep := range all {
			text, _ := os.ReadFile(sleep)
			status, _ := os.ReadFile(filepath.Join(filepath.Dir(sleep), "status"))
			parent := "\nPPid:\t" + filepath.Base(filepath.Dir(cmdline)) + "\n"
			if string(text) == "sleep\x001234\x00" && strings.Contains(string(status), parent) {
				return filepath.Dir(sleep)
			}
		}
	}
	return ""
}

func TestReloadKeepsRunningJob(t *testing.T) {
	t.Parallel()
	cfg := slurmlab.Config{
		Dir:         t.TempDir(),
		CloudGroups: []slurmlab.NodeGroup{{Prefix: "a-", Count: 2, Partition: "gpu"}, {Prefix: "old-", Count: 1, Partition: "old"}},
	}
	cluster := start(t, cfg)
	static := submit(t, cluster, "while [ ! -e go ]; do sleep 0.1; done")
	cloud := submit(t, cluster, "while [ ! -e go ]; do sleep 0.1; done", "-p", "gpu")
	waitJob(t, cluster, static, "RUNNING")
	waitJob(t, cluster, cloud, "RUNNING")

	// One group grows, one comes, one goes; a static node comes.
	cfg.Static.Count = 2
	cfg.CloudGroups = []slurmlab.NodeGroup{{Prefix: "a-", Count: 3, Partition: "gpu"}, {Prefix: "b-", Count: 2, Partition: "gpu"}}
	if err := cluster.Reload(deadline(t), cfg); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{static, cloud} {
		job := waitJob(t, cluster, id, "RUNNING")
		if job["Restarts"] != "0" {
			t.Errorf("job %s was restarted: %v", id, job)
		}
	}
	waitJob(t, cluster, submit(t, cluster, "true", "-p", "gpu", "-w", "b-2"), "COMPLETED")
	waitJob(t, cluster, submit(t, cluster, "true", "-p", "gpu", "-w", "a-3"), "COMPLETED")
	waitJob(t, cluster, submit(t, cluster, "true", "-w", "static-2"), "COMPLETED")
	if _, err := cluster.Submit(deadline(t), "true", "-p", "old"); err == nil {
		t.Error("the removed partition still takes jobs")
	}
	if err := os.WriteFile(filepath.Join(cluster.Dir(), "jobs", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	waitJob(t, cluster, static, "COMPLETED")
	waitJob(t, cluster, cloud, "COMPLETED")
}

func TestTwoClustersSideBySide(t *testing.T) {
	t.Parallel()
	one := start(t, slurmlab.Config{CloudGroups: []slurmlab.NodeGroup{{Prefix: "gpu-", Partition: "gpu"}}})
	two := start(t, slurmlab.Config{CloudGroups: []slurmlab.NodeGroup{{Prefix: "gpu-", Partition: "gpu"}}, Auth: "none"})
	a := submit(t, one, "sleep 1000", "-p", "gpu")
	b := submit(t, two, "sleep 1; true", "-p", "gpu")
	waitJob(t, one, a, "RUNNING")
	if err := one.StopNode("gpu-1"); err != nil {
		t.Fatal(err)
	}
	if err := one.Stop(); err != nil {
		t.Fatal(err)
	}
	waitJob(t, two, b, "COMPLETED")
}

func TestFailedStartCleansUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := slurmlab.Start(deadline(t), slurmlab.Config{Dir: dir, Extra: []string{"SelectType=select/nonsense"}})
	if err == nil {
		t.Fatal("slurmctld started with a wrong SelectType")
	}
	for _, want := range []string{filepath.Join(dir, "log", "slurmctld."), "select/nonsense"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not show %q: %v", want, err)
		}
	}
	if left := mentioning(dir); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
	start(t, slurmlab.Config{Dir: dir}) // the folder and its ports are free again
}

func TestStartAfterKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a Slurm cluster")
	}
	dir := t.TempDir()
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holdVariable+"="+dir)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer holder.Wait()
	defer holder.Process.Kill()
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("the first cluster: %q", line)
	}
	if _, err := slurmlab.Start(deadline(t), slurmlab.Config{Dir: dir}); !errors.Is(err, slurmlab.ErrRunning) {
		t.Errorf("a second start in the folder of a live cluster: %v", err)
	}
	holder.Process.Signal(syscall.SIGKILL)
	holder.Wait()
	orphans := mentioning(dir)
	if len(orphans) < 4 {
		t.Fatalf("expected the daemons to outlive their program, found %q", orphans)
	}
	cluster := start(t, slurmlab.Config{Dir: dir})
	now := strings.Join(mentioning(dir), "\n")
	for _, orphan := range orphans {
		pid, _, _ := strings.Cut(orphan, " ")
		if strings.Contains(now, pid+" ") {
			t.Errorf("still there: %s", orphan)
		}
	}
	waitJob(t, cluster, submit(t, cluster, "true"), "COMPLETED")
}

func TestLuaHooks(t *testing.T) {
	t.Parallel()
	cluster := start(t, slurmlab.Config{
		CLIFilterLua: `
function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset)
  if options["comment"] == "refuse" then slurm.log_error("refused by cli_filter") return slurm.ERROR end
  return slurm.SUCCESS
end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end`,
		JobSubmitLua: `
function slurm_job_submit(job, partitions, uid)
  if job.name == "refuse" then slurm.log_user("refused by job_submit") return slurm.ERROR end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end`,
	})
	for flag, want := range map[string]string{"--comment=refuse": "refused by cli_filter", "--job-name=refuse": "refused by job_submit"} {
		if _, err := cluster.Submit(deadline(t), "true", flag); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", flag, err, want)
		}
	}
	submit(t, cluster, "true")
}

// A power-down that is under way when the cluster stops may stop its nodes itself.
func TestStopDuringAPowerDown(t *testing.T) {
	t.Parallel()
	var cluster *slurmlab.Cluster
	dir, began := t.TempDir(), make(chan struct{})
	cluster = start(t, slurmlab.Config{Dir: dir, CloudGroups: []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 1}},
		Suspend: func(ctx context.Context, nodes []string) {
			close(began)
			<-ctx.Done()
			for _, n := range nodes {
				if err := cluster.StopNode(n); err != nil {
					t.Error(err)
				}
			}
		}})
	if err := os.WriteFile(filepath.Join(dir, "run", "power.fifo"), []byte("suspend gpu-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	<-began
	if err := cluster.Stop(); err != nil {
		t.Error(err)
	}
}
