package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// TestRareSetupsSideBySide runs two setups at once: for two blocks of one node group each gets a slot
// of its own, and of two node groups of one queue none is lost from conf.d or the queue.
func TestRareSetupsSideBySide(t *testing.T) {
	for _, c := range []struct {
		name   string
		groups [2]string
		want   []string
	}{
		{"one node group", [2]string{"gpu", "gpu"}, []string{"gpu-a", "gpu-b"}},
		{"one queue", [2]string{"gpu", "more"}, []string{"gpu-a", "more-a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range roundsSideBySide {
				sim, settings, run := queueWorld(t, "gpu-a-[1-2]", "gpu-b-[1-2]", "more-a-[1-2]")
				var both sync.WaitGroup
				for i, block := range []string{"cr-0e2000000000000a1", "cr-0e2000000000000a2"} {
					both.Go(func() {
						if err := run("setup", "--reservation", block, "--queue", "gpu", "--node-group", c.groups[i], "--like", "compute", "--max-nodes", "2"); err != nil {
							t.Error(err)
						}
					})
				}
				if both.Wait(); t.Failed() {
					return
				}
				for _, q := range sim.PCSClusters()[0].Queues {
					if got := slices.Sorted(slices.Values(q.NodeGroups)); q.Name == "gpu" && !slices.Equal(got, c.want) {
						t.Errorf("the queue has %v, want %v", got, c.want)
					}
				}
				cfg, err := config.Load(settings)
				if err != nil {
					t.Fatal(err)
				}
				p, _ := cfg.Partition("gpu")
				if text := fmt.Sprint(p.Groups); !strings.Contains(text, "cr-0e2000000000000a1") || !strings.Contains(text, "cr-0e2000000000000a2") {
					t.Errorf("the settings have %s", text)
				}
			}
		})
	}
}

// TestRareSetupWaitsForAnother: while another setup has the lock, one changes nothing in AWS. What the
// other writes into conf.d meanwhile is there afterwards.
func TestRareSetupWaitsForAnother(t *testing.T) {
	sim, settings, run := queueWorld(t, "gpu-a-[1-2]", "more-a-[1-2]")
	setup := func(block, group string) error {
		return run("setup", "--reservation", block, "--queue", "gpu", "--node-group", group, "--like", "compute", "--max-nodes", "2")
	}
	if err := setup("cr-0e2000000000000a1", "gpu"); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(settings)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := state.Dir(cfg.StateDir).Lock(t.Context(), state.SetupLock, 0)
	if err != nil {
		t.Fatal(err)
	}
	sim.ResetCalls()
	ended := make(chan error, 1)
	go func() { ended <- setup("cr-0e2000000000000a2", "more") }()
	select {
	case err := <-ended:
		t.Fatalf("it has not waited: %v", err)
	case <-time.After(2 * time.Second):
	}
	for call := range sim.Calls() {
		if strings.HasPrefix(call.Operation, "Create") || strings.HasPrefix(call.Operation, "Update") {
			t.Errorf("%s while another setup has the lock", call.Operation)
		}
	}
	p, _ := cfg.Partition("gpu")
	p.AllowAccounts = []string{"nlp"}
	if err := config.WritePartition(config.PartitionPath(settings, "gpu"), p); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if cfg, err = config.Load(settings); err != nil {
		t.Fatal(err)
	}
	p, _ = cfg.Partition("gpu")
	if len(p.Groups) != 2 || !slices.Equal(p.AllowAccounts, []string{"nlp"}) {
		t.Errorf("the settings have %+v, for %v", p.Groups, p.AllowAccounts)
	}
}

// roundsSideBySide is how often a test that runs commands at once does so.
const roundsSideBySide = 20

// queueWorld is a simulated cluster with the submit filter of this host, whose Slurm has nodes; run
// runs pcs-capacity there.
func queueWorld(t *testing.T, nodes ...string) (sim *awssim.Sim, settings string, run func(args ...string) error) {
	t.Helper()
	scenario, err := awssim.LoadScenario(simWorld)
	if err != nil {
		t.Fatal(err)
	}
	if sim, err = awssim.New(scenario, awssim.NewClock(simStart, 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	if _, err := sim.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	settings, run = queueHost(t, sim, nodes...)
	return sim, settings, run
}

// queueHost is a host of that world, with settings, a state_dir and a Slurm of its own.
func queueHost(t *testing.T, sim *awssim.Sim, nodes ...string) (settings string, run func(args ...string) error) {
	t.Helper()
	dir := t.TempDir()
	settings = filepath.Join(dir, "config.toml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, "region = \"us-east-2\"\ncluster = \"ml\"\nstate_dir = %q\n", dir+"/state"), 0o644); err != nil {
		t.Fatal(err)
	}
	env := append(append(os.Environ(), sim.Env()...), "AWS_EC2_METADATA_DISABLED=true", "TZ=UTC", "XDG_CACHE_HOME="+dir,
		fakeSlurmFor(t, filepath.Join(dir, "slurm"), nodes...), "SLURM_CONF="+filepath.Join(dir, "slurm.conf"))
	run = func(args ...string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // one whose slot another took waits for long
		defer cancel()
		command := exec.CommandContext(ctx, "pcs-capacity", append([]string{"--config", settings, "--yes"}, args...)...)
		command.Env = env
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", args, err, out)
		}
		return nil
	}
	if err := run("hooks", "install", "cli_filter"); err != nil {
		t.Fatal(err)
	}
	return settings, run
}

// TestRareTeardownBesideRollOver tears a queue down while sync makes node group and fence of its next
// block: whichever comes first, nothing is left, and teardown says so by its exit status.
func TestRareTeardownBesideRollOver(t *testing.T) {
	made := 0
	for round := range roundsSideBySide {
		nodes := []string{"gpu-a-[1-2]", "gpu-b-[1-2]"} // on which sync places a fence for the next block
		if round%2 > 0 {
			nodes = nodes[:1] // so that sync makes its node group
		}
		sim, settings, run := queueWorld(t, nodes...)
		if err := run("setup", "--reservation", "cr-0e2000000000000a1", "--queue", "gpu", "--node-group", "gpu", "--like", "compute", "--max-nodes", "2"); err != nil {
			t.Fatal(err)
		}
		file := config.PartitionPath(settings, "gpu")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		next := strings.NewReplacer(`"cr-0e2000000000000a1"`, `"cr-0e2000000000000a1", "cr-0e2000000000000a2"`, `provider = "pcs"`, "provider = \"pcs\"\nroll_over = true").Replace(string(text))
		if err := os.WriteFile(file, []byte(next), 0o644); err != nil || !strings.Contains(next, "roll_over") {
			t.Fatal(err, next)
		}
		sim.ResetCalls()
		var both sync.WaitGroup
		both.Go(func() {
			if err := run("sync"); err != nil {
				t.Log(err) // half of it may be gone
			}
		})
		both.Go(func() {
			time.Sleep(time.Duration(round*3%16) * 25 * time.Millisecond)
			if err := run("teardown", "--queue", "gpu"); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		for call, n := range sim.Calls() {
			if call.Operation == "CreateComputeNodeGroup" {
				made += n
			}
		}
		if err := run("sync"); err != nil { // which the watching one would do
			t.Error(err)
		}
		for _, g := range sim.PCSClusters()[0].NodeGroups {
			if strings.HasPrefix(g.Name, "gpu") {
				t.Errorf("round %d left compute node group %s", round, g.Name)
			}
		}
		for _, q := range sim.PCSClusters()[0].Queues {
			if q.Name == "gpu" {
				t.Errorf("round %d left queue gpu with %v", round, q.NodeGroups)
			}
		}
		left, err := filepath.Glob(filepath.Join(filepath.Dir(settings), "slurm", "reservation-*"))
		if _, gone := os.Stat(file); err != nil || len(left) > 0 || gone == nil {
			t.Errorf("round %d left reservations %v, or %s", round, left, file)
		}
		if err := run("teardown", "--queue", "gpu"); err != nil {
			t.Error(err)
		}
		for _, variable := range append(sim.Env(), "AWS_EC2_METADATA_DISABLED=true") {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, value)
		}
		client, err := ec2.New(t.Context(), ec2.Options{Region: "us-east-2"})
		if err != nil {
			t.Fatal(err)
		}
		if templates, err := client.MadeTemplates(t.Context(), "ml", ""); err != nil || len(templates) > 0 {
			t.Errorf("round %d left %v, %v", round, templates, err)
		}
	}
	t.Logf("sync made %d node groups beside a teardown", made)
}
