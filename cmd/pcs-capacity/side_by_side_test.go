package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// TestSetupsSideBySide runs two setups at once: for two blocks of one node group each gets a slot
// of its own, and of two node groups of one queue none is lost from conf.d or the queue.
func TestSetupsSideBySide(t *testing.T) {
	rounds := 2
	if os.Getenv("PCS_CAPACITY_FAULTS") != "" {
		rounds = 50
	}
	for _, c := range []struct {
		name   string
		groups [2]string
		want   []string
	}{
		{"one node group", [2]string{"gpu", "gpu"}, []string{"gpu-a", "gpu-b"}},
		{"one queue", [2]string{"gpu", "more"}, []string{"gpu-a", "more-a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range rounds {
				scenario, err := awssim.LoadScenario(simWorld)
				if err != nil {
					t.Fatal(err)
				}
				sim, err := awssim.New(scenario, awssim.NewClock(simStart, 0))
				if err != nil {
					t.Fatal(err)
				}
				defer sim.Close()
				if _, err := sim.Listen("127.0.0.1:0"); err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				settings := filepath.Join(dir, "config.toml")
				if err := os.WriteFile(settings, fmt.Appendf(nil, "region = \"us-east-2\"\ncluster = \"ml\"\nstate_dir = %q\n", dir+"/state"), 0o644); err != nil {
					t.Fatal(err)
				}
				env := append(append(os.Environ(), sim.Env()...), "AWS_EC2_METADATA_DISABLED=true", "TZ=UTC", "XDG_CACHE_HOME="+dir,
					fakeSlurmFor(t, filepath.Join(dir, "slurm"), "gpu-a-[1-2]", "gpu-b-[1-2]", "more-a-[1-2]"), "SLURM_CONF="+filepath.Join(dir, "slurm.conf"))
				run := func(args ...string) error {
					command := exec.Command("pcs-capacity", append([]string{"--config", settings, "--yes"}, args...)...)
					command.Env = env
					if out, err := command.CombinedOutput(); err != nil {
						return fmt.Errorf("%v: %w\n%s", args, err, out)
					}
					return nil
				}
				if err := run("hooks", "install", "cli_filter"); err != nil {
					t.Fatal(err)
				}
				var both sync.WaitGroup
				for i, block := range []string{"cr-0e2000000000000a1", "cr-0e2000000000000a2"} {
					both.Go(func() {
						if err := run("setup", "--reservation", block, "--queue", "gpu", "--node-group", c.groups[i], "--like", "compute", "--max-nodes", "2"); err != nil {
							t.Error(err)
						}
					})
				}
				both.Wait()
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
				if text := fmt.Sprint(p.NodeGroups); !strings.Contains(text, "cr-0e2000000000000a1") || !strings.Contains(text, "cr-0e2000000000000a2") {
					t.Errorf("the settings have %s", text)
				}
			}
		})
	}
}
