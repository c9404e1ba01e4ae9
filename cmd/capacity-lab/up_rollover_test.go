package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/sources"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// rollingSettings are for three blocks of the scenario below.
const rollingSettings = `
region = "us-east-2"
cluster = "lab"
state_dir = %q
[timing]
poll = "1s"
drain_margin = "5s"
boot_allowance = "0s"
reclaim_lead = "1m"
[[partition]]
name = "gpu"
provider = "pcs"
roll_over = true
[[partition.node_group]]
name = "gpu"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0aaaaaaaaaaaaaaaa"]
capacity_reservation_ids = ["cr-0aaaaaaaaaaaaaaaa", "cr-0bbbbbbbbbbbbbbbb", "cr-0cccccccccccccccc"]
max_nodes = 2
`

// TestSlurmRollsOver: on PCS, with roll_over, `sync --watch` alone takes a queue from a block to the next one and to
// the one after it, through PCS's restarts of slurmctld. A job that fits only the second block waits for it, runs there
// once that has opened, and goes on while the first one's slot is removed and set up for the third.
func TestSlurmRollsOver(t *testing.T) {
	world, err := os.ReadFile(scenario)
	if err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(t.TempDir(), "world.toml")
	third := "  [[region.reservation]]\n  id = \"cr-0cccccccccccccccc\"\n  kind = \"capacity-block\"\n  type = " +
		"\"p5.48xlarge\"\n  zone = \"us-east-2a\"\n  count = 2\n  start = \"+3h\"\n  end = \"+23h\"\n\n"

	text := strings.NewReplacer(`"+23h"`, `"+30m"`, `"+10m"`, `"+20m"`, `"+40m"`, `"+2h"`,
		"  [[region.launch_template]]\n  id    = \"lt-0a", third+"  [[region.launch_template]]\n  id    = \"lt-0a").
		Replace(string(world))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	before := traces(t)
	p := startUp(t, "", "--scenario", path)
	p.waitReady(t)
	p.twice(t)
	p.awsConfig(t)
	t.Setenv("SLURM_CONF", p.sh(t, "echo $SLURM_CONF"))

	shared, err := awsconfig.Load(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}

	aws := ec2.From(shared)

	settings := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, rollingSettings, filepath.Join(p.dir, "state-pcs-capacity")),
		0o644); err != nil {
		t.Fatal(err)
	}

	cfg, err := config.Load(settings)
	if err != nil {
		t.Fatal(err)
	}

	s := setup.Setup{PCS: pcs.From(shared), EC2: aws, Poll: 200 * time.Millisecond}

	plan, err := s.Plan(
		t.Context(),
		setup.Request{
			Queue:       "gpu",
			NodeGroup:   "gpu",
			Reservation: "cr-0aaaaaaaaaaaaaaaa",
			Like:        "compute",
			Config:      cfg,
			ConfigPath:  settings,
		},
	)
	if err == nil {
		err = s.Apply(t.Context(), plan)
	}

	if err != nil {
		t.Fatal(err)
	}

	var (
		mu    sync.Mutex
		lines []string
	)

	said := func() string { mu.Lock(); defer mu.Unlock(); return strings.Join(lines, "\n") }

	follower := sources.Follower{Path: settings}
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() {
		watched <- lifecycle.Watch{Sources: follower.Sources, Say: func(line string) {
			mu.Lock()
			defer mu.Unlock()

			lines = append(lines, line)
		}}.Run(ctx)
	}()

	stop := sync.OnceFunc(func() {
		cancel()

		if err := <-watched; err != nil {
			t.Error(err)
		}

		t.Log(said())
	})
	defer stop()

	nodes := func(want string) {
		t.Helper()
		p.until(t, "sinfo -h -o '%N' -p gpu || true", func(out string) bool { return out == want })
	}
	nodes("gpu-a-[1-2],gpu-b-[1-2]")
	p.until(t, "scontrol -o show reservation || true", func(out string) bool {
		return strings.Contains(out, "ReservationName=gpu-b-scheduled ") &&
			strings.Contains(out, "ReservationName=pcs-capacity-fence-gpu-b.")
	})
	job := p.sh(t, "sbatch --parsable -p gpu -C '[gpu-a|gpu-b]' -N2 -t 60 -o job.out --wrap 'sleep 600'")
	p.jobState(t, job, "PENDING")
	p.advance(t, "21m") // the second block opens
	p.jobState(t, job, "RUNNING")

	if out := p.sh(t, "scontrol -o show job "+job); !strings.Contains(out, " NodeList=gpu-b-[1-2] ") {
		t.Errorf("the job is elsewhere: %s", out)
	}

	p.advance(t, "10m") // the first one is over
	p.until(
		t,
		"scontrol -o show reservation || true",
		func(out string) bool { return strings.Contains(out, "ReservationName=gpu-a-scheduled ") },
	)
	nodes("gpu-a-[1-2],gpu-b-[1-2]")

	if out := p.sh(t, "scontrol -o show job "+job); !strings.Contains(out, "JobState=RUNNING ") ||
		!strings.Contains(out, " Restarts=0 ") {
		t.Errorf("the job did not go on: %s", out)
	}

	for _, want := range []string{
		"remove compute node group gpu-a of cr-0aaaaaaaaaaaaaaaa, which has ended: delete compute node group gpu-a",
		"set up cr-0cccccccccccccccc in partition gpu: create compute node group gpu-a",
	} {
		if !strings.Contains(said(), want) {
			t.Errorf("sync did not say %q", want)
		}
	}

	stop()

	// What a killed lab leaves is ended by the next one in its folder.
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	if orphans := processesOf(p.dir); len(orphans) < 4 {
		t.Fatalf("expected daemons to outlive the lab, found %q", orphans)
	}

	p = startUp(t, p.dir, "--bare")
	p.waitReady(t)
	p.end(t, syscall.SIGTERM, before)
}

// awsConfig reaches the lab's AWS as its env file says.
func (p *upProcess) awsConfig(t *testing.T) {
	t.Helper()

	for _, key := range []string{"AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(key, p.sh(t, "echo $"+key))
	}
}

// advance moves AWS's clock; Slurm's is the machine's.
func (p *upProcess) advance(t *testing.T, by string) {
	t.Helper()
	p.sh(t, labProgram+" sim clock advance="+by)
}
