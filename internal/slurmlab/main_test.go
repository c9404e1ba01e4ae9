package slurmlab_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// holdVariable makes the test program start a cluster in a folder and wait, so
// that a test can kill it as a whole.
const holdVariable = "SLURMLAB_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdVariable); dir != "" {
		hold(dir)
	}
	if _, err := exec.LookPath("slurmctld"); err != nil {
		fmt.Fprintln(os.Stderr, "the tests of slurmlab need real Slurm:", slurmlab.ErrNotInstalled)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func hold(dir string) {
	cluster, err := slurmlab.Start(context.Background(), slurmlab.Config{Dir: dir})
	if err == nil {
		_, err = cluster.Submit(context.Background(), "sleep 1000")
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

// deadline ends a test that hangs, with what it waited for as its error.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, cfg slurmlab.Config) *slurmlab.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Slurm cluster")
	}
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cluster, err := slurmlab.Start(deadline(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
		if left := mentioning(cluster.Dir()); len(left) > 0 {
			t.Errorf("left running after Stop: %q", left)
		}
		if t.Failed() {
			log, _ := os.ReadFile(cluster.Log("slurmctld"))
			lines := strings.Split(string(log), "\n")
			t.Logf("slurmctld.log ends:\n%s", strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	})
	return cluster
}

// mentioning lists the command lines of processes that name dir in their
// arguments or environment. It looks at /proc by itself, on purpose not with
// the code under test.
func mentioning(dir string) []string {
	var out []string
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		if entry == fmt.Sprintf("/proc/%d", os.Getpid()) {
			continue
		}
		cmdline, _ := os.ReadFile(entry + "/cmdline")
		environ, _ := os.ReadFile(entry + "/environ")
		if strings.Contains(string(cmdline), dir) || strings.Contains(string(environ), dir) {
			out = append(out, entry+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
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
