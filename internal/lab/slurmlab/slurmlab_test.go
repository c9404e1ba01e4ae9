package slurmlab_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
)

// deadline ends a test that hangs, with what it waited for as its error.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, cfg slurmlab.Config) *slurmlab.Cluster {
	t.Helper()

	cluster, err := slurmlab.Start(deadline(t), cfg)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}

		if t.Failed() {
			log, _ := os.ReadFile(cluster.Log("slurmctld"))
			lines := strings.Split(string(log), "\n")
			t.Logf("slurmctld.log ends:\n%s", strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	})

	return cluster
}

// mentioning lists the processes whose arguments or environment name dir, without the code under test.
func mentioning(dir string) map[int]string {
	out := map[int]string{}
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		pid, _ := strconv.Atoi(filepath.Base(entry))
		cmdline, _ := os.ReadFile(entry + "/cmdline")
		environ, _ := os.ReadFile(entry + "/environ")
		if pid != os.Getpid() && (strings.Contains(string(cmdline), dir) || strings.Contains(string(environ), dir)) {
			out[pid] = strings.ReplaceAll(string(cmdline), "\x00", " ")
		}
	}

	return out
}

func submit(t *testing.T, cluster *slurmlab.Cluster, shell string, args ...string) string {
	t.Helper()

	id, err := cluster.Submit(deadline(t), shell, args...)
	if err != nil {
		t.Fatal(err)
	}

	return id
}

func waitJob(t *testing.T, cluster *slurmlab.Cluster, id string, states ...string) map[string]string {
	t.Helper()

	job, err := cluster.WaitJob(deadline(t), id, states...)
	if err != nil {
		t.Fatal(err)
	}

	return job
}

// outside lists the places where Slurm's packages put files by default.
func outside(t *testing.T) []string {
	t.Helper()

	var out []string
	for _, pattern := range []string{
		"/run/*slurm*", "/run/*munge*", "/run/*munge*/*", "/run/*slurm*/*",
		"/var/log/*slurm*/*", "/var/log/*munge*/*", "/var/spool/*slurm*", "/var/lib/*slurm*/*", "/var/lib/munge/*",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}

		out = append(out, found...)
	}

	return out
}

const filters = `
function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset)
  if options["comment"] == "refuse" then slurm.log_error("refused by cli_filter") return slurm.ERROR end
  return slurm.SUCCESS
end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end`

const jobSubmit = `
function slurm_job_submit(job, partitions, uid)
  if job.name == "refuse" then slurm.log_user("refused by job_submit") return slurm.ERROR end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end`

// TestSlurmlab follows one cluster from a failed start to its end. Its nodes power up for jobs,
// but for dead-1, which never comes up.
func TestSlurmlab(t *testing.T) {
	t.Parallel()

	dir, before := t.TempDir(), outside(t)
	_, err := slurmlab.Start(deadline(t), slurmlab.Config{Dir: dir, Extra: []string{"SelectType=select/nonsense"}})
	for _, want := range []string{filepath.Join(dir, "log", "slurmctld."), "select/nonsense"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("a wrong SelectType: the error does not show %q: %v", want, err)
		}
	}

	if left := mentioning(dir); len(left) > 0 {
		t.Errorf("a failed start leaves %v", left)
	}

	var cluster *slurmlab.Cluster

	cfg := slurmlab.Config{Dir: dir, CloudGroups: []slurmlab.NodeGroup{
		{Prefix: "gpu-", Count: 2, CPUs: 8, GPUs: 8, Features: "gpu,h100", Partition: "gpu"},
		{Prefix: "old-", Count: 1, Partition: "old"},
		{Prefix: "dead-", Count: 1, Partition: "dead"},
	}, CLIFilterLua: filters, JobSubmitLua: jobSubmit, Resume: func(ctx context.Context, nodes []string) {
		for _, node := range nodes {
			if node == "dead-1" {
				continue
			}

			if err := cluster.StartNode(ctx, node, "127.0.0.1"); err != nil {
				t.Error(err)
			}
		}
	}}
	cluster = start(t, cfg) // the folder and its ports are free again
	static := submit(t, cluster, "sleep 1000 & while [ ! -e go ]; do sleep 0.1; done")

	t.Run("a cloud node powers up for a job", func(t *testing.T) {
		id := submit(
			t,
			cluster,
			"srun hostname; echo gpus=$SLURM_JOB_GPUS; echo nodes=$SLURM_JOB_NODELIST",
			"-p",
			"gpu",
			"-N2",
			"--gpus-per-node=8",
			"-C",
			"h100",
		)
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
	})
	t.Run("Lua judges submissions", func(t *testing.T) {
		for flag, want := range map[string]string{
			"--comment=refuse":  "refused by cli_filter",
			"--job-name=refuse": "refused by job_submit",
		} {
			if _, err := cluster.Submit(deadline(t), "true", flag); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, expected %q", flag, err, want)
			}
		}
	})
	t.Run("reload keeps a running job", func(t *testing.T) {
		cloud := submit(t, cluster, "while [ ! -e go ]; do sleep 0.1; done", "-p", "gpu")
		waitJob(t, cluster, static, "RUNNING")
		waitJob(t, cluster, cloud, "RUNNING")
		// One group grows, one comes, one goes; a static node comes.
		cfg.Static.Count = 2
		cfg.CloudGroups[0].Count = 3
		cfg.CloudGroups[1] = slurmlab.NodeGroup{Prefix: "b-", Count: 2, Partition: "gpu"}
		if err := cluster.Reload(deadline(t), cfg); err != nil {
			t.Fatal(err)
		}

		for _, id := range []string{static, cloud} {
			if job := waitJob(t, cluster, id, "RUNNING"); job["Restarts"] != "0" {
				t.Errorf("job %s was restarted: %v", id, job)
			}
		}

		for _, node := range []string{"b-2", "gpu-3", "static-2"} {
			partition := map[bool]string{true: "static", false: "gpu"}[node == "static-2"]
			waitJob(t, cluster, submit(t, cluster, "true", "-p", partition, "-w", node), "COMPLETED")
		}

		if _, err := cluster.Submit(deadline(t), "true", "-p", "old"); err == nil {
			t.Error("the removed partition still takes jobs")
		}

		if err := os.WriteFile(filepath.Join(cluster.Dir(), "jobs", "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}

		waitJob(t, cluster, static, "COMPLETED")
		waitJob(t, cluster, cloud, "COMPLETED")
	})
	t.Run("stop leaves nothing", func(t *testing.T) {
		waiting := submit(t, cluster, "true", "-p", "dead")
		waitJob(t, cluster, submit(t, cluster, "sleep 1000 & sleep 1000"), "RUNNING")
		// What waits for the nodes of a job ends with the lab, even if its parents were killed first.
		waits := func(command string) bool { return strings.Contains(command, "/run/prolog/"+waiting+".") }
		running := func(ok func(command string) bool) (pids []int) {
			for pid, command := range mentioning(dir) {
				if ok(command) {
					pids = append(pids, pid)
				}
			}

			return pids
		}
		if err := slurmlab.WaitUntil(deadline(t), func() bool { return len(running(waits)) > 1 }); err != nil {
			t.Fatalf("no prolog waits: %v: %v", err, mentioning(dir))
		}

		for _, pid := range running(func(command string) bool {
			return strings.Contains(command, "slurmctld ") || strings.Contains(command, "/bin/prologctld")
		}) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}

		for range 2 {
			if err := cluster.Stop(); err != nil {
				t.Error(err)
			}
		}

		if left := mentioning(dir); len(left) > 0 {
			t.Errorf("left running: %v", left)
		}

		if diff := cmp.Diff(before, outside(t)); diff != "" {
			t.Errorf("files outside of the folder (-before +after):\n%s", diff)
		}
	})
}
