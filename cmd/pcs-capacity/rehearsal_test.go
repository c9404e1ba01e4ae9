package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/sources"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// rehearsal is a real Slurm and a simulated AWS whose clock is the machine's, until a test moves it.
// reclaim_lead is 10 s here, in the settings and in the simulation.
type rehearsal struct {
	*testing.T
	ctx       context.Context
	cluster   *slurmlab.Cluster
	cfg       *config.Config
	path      string // of the settings
	sim       *awssim.Sim
	aws       *ec2.Client
	bootDelay atomic.Int64 // time.Duration; what powering a node up takes
}

const rehearsalWorld = `
reclaim_lead = "10s"
payment_delay = "0s"
account = "111122223333"
[[instance_type]]
name = "p5.48xlarge"
vcpus = 192
memory_mib = 2097152
usage_classes = ["on-demand", "capacity-block"]
[[region]]
name = "us-east-2"
zone = [{ name = "us-east-2a", id = "use2-az1" }]
vpc = [{ id = "vpc-0e2000000000000a1", cidr = "127.2.0.0/16" }]
subnet = [{ id = "subnet-0e200000000000a01", vpc = "vpc-0e2000000000000a1", zone = "us-east-2a", cidr = "127.2.16.0/20" }]
security_group = [{ id = "sg-0e200000000000a01", name = "nodes", vpc = "vpc-0e2000000000000a1" }]
image = [{ id = "ami-0e200000000000a01", name = "node" }]
launch_template = [{ id = "lt-0e200000000000a01", name = "gpu", image = "ami-0e200000000000a01", type = "p5.48xlarge", security_groups = ["sg-0e200000000000a01"] }]
capacity = [{ zone = "us-east-2a", type = "p5.48xlarge", count = 64 }]
offering = [{ zone = "us-east-2a", type = "p5.48xlarge", max_count = 64, price = 31.464, start_days = [1] }]
reservation = [
  { id = "cr-0e2000000000000a1", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 4, start = "-1h", end = "+3h" },
  { id = "cr-0e2000000000000b2", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 4, start = "-1h", end = "+30h" },
  { id = "cr-0e2000000000000c3", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 4, start = "+2h", end = "+30h" },
  { id = "cr-0e2000000000000d4", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 4, start = "+40h", end = "+90h" },
]
`

const rehearsalConfig = `
region = "us-east-2"
state_dir = %q
local_dir = %q
[timing]
poll = "1s"
drain_margin = "5s"
boot_allowance = "0s"
reclaim_lead = "10s"
[[partition]]
name = "gpu"
provider = "ec2"
min_time = "1m"
[[partition.node_group]]
name = "gpu"
dynamic = true
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
capacity_reservation_ids = ["cr-0e2000000000000a1"]
max_nodes = 4
launch_template = "gpu"
[[partition.node_group]]
name = "long"
dynamic = true
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
capacity_reservation_ids = ["cr-0e2000000000000b2"]
max_nodes = 1
launch_template = "gpu"
[[partition.node_group]]
name = "later"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
capacity_reservation_ids = ["cr-0e2000000000000c3"]
max_nodes = 1
launch_template = "gpu"
`

// newRehearsal starts both. AWS's clock is the machine's unless another one is given.
func newRehearsal(t *testing.T, clock ...*awssim.Clock) *rehearsal {
	t.Helper()
	return newRehearsalIn(t, rehearsalWorld, rehearsalConfig, func(*slurmlab.Config) {}, clock...)
}

// newRehearsalIn does so in another world, with other settings.
func newRehearsalIn(
	t *testing.T,
	world, settings string,
	change func(*slurmlab.Config),
	clock ...*awssim.Clock,
) *rehearsal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	r := &rehearsal{T: t, ctx: ctx}

	// Slurm's sockets need a short path.
	dir, err := os.MkdirTemp("", "pcs")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { os.RemoveAll(dir) })

	ready := make(chan struct{})
	group := func(prefix string, count int) slurmlab.NodeGroup {
		return slurmlab.NodeGroup{
			Prefix:    prefix + "-",
			Count:     count,
			CPUs:      1,
			GPUs:      8,
			Features:  prefix,
			Partition: "gpu",
			AlwaysOn:  true,
		}
	}
	cfg := slurmlab.Config{Dir: dir, CloudGroups: []slurmlab.NodeGroup{group("gpu", 4), group("long", 1), group("later",
		1)}, ResumeTimeout: 2 * time.Minute, Resume: func(ctx context.Context, nodes []string) {
		<-ready

		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(r.bootDelay.Load())):
		}

		for _, n := range nodes {
			if err := r.cluster.StartNode(ctx, n, "127.0.0.1"); err != nil && ctx.Err() == nil {
				t.Errorf("starting %s: %v", n, err)
			}
		}
	}, Suspend: func(ctx context.Context, nodes []string) {
		for _, n := range nodes {
			r.cluster.StopNode(n)
		}
	}}
	change(&cfg)

	if r.cluster, err = slurmlab.Start(ctx, cfg); err != nil {
		t.Fatal(err)
	}

	close(ready)
	t.Cleanup(func() {
		r.cluster.Stop()

		if t.Failed() {
			log, _ := os.ReadFile(r.cluster.Log("slurmctld"))
			lines := strings.Split(string(log), "\n")
			t.Logf("slurmctld.log ends:\n%s", strings.Join(lines[max(0, len(lines)-300):], "\n"))
		}
	})
	t.Setenv("SLURM_CONF", r.cluster.Conf())

	scenario, err := awssim.ParseScenario("rehearsal", []byte(world))
	if err != nil {
		t.Fatal(err)
	}

	if r.sim, err = awssim.New(scenario, append(clock, awssim.MachineClock())[0]); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { r.sim.Close() })

	if err := r.sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}

	if r.aws, err = ec2.New(ctx, ec2.Options{Region: "us-east-2"}); err != nil {
		t.Fatal(err)
	}

	r.path = filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(r.path, fmt.Appendf(nil, settings, filepath.Join(dir, "capacity"),
		filepath.Join(dir, "local")), 0o644); err != nil {
		t.Fatal(err)
	}

	if r.cfg, err = config.Load(r.path); err != nil {
		t.Fatal(err)
	}

	return r
}

// sync makes one pass and returns what it did, as "code slot job" each.
func (r *rehearsal) sync() []string {
	r.Helper()

	_, report, err := lifecycle.Pass(r.ctx, sources.New(r.cfg, r.aws, newPCS(r.aws)))
	if err != nil {
		r.Fatalf("pass: %v\n%+v", err, report)
	}

	var did []string
	for _, d := range report.Done {
		did = append(did, strings.TrimSpace(d.Do+" "+d.Slot+" "+d.Job))
	}

	return did
}

// until waits for a condition.
func (r *rehearsal) until(what string, ok func() bool) {
	r.Helper()

	if slurmlab.WaitUntil(r.ctx, ok) != nil {
		r.Fatalf("waited in vain until %s", what)
	}
}

// expect makes one pass and compares what it did.
func (r *rehearsal) expect(want ...string) {
	r.Helper()

	if got := r.sync(); strings.Join(got, "; ") != strings.Join(want, "; ") {
		r.Fatalf("the pass did %q, want %q", got, want)
	}
}

func (r *rehearsal) submit(args ...string) string {
	r.Helper()

	id, err := r.cluster.Submit(r.ctx, "sleep 600", append([]string{"-p", "gpu"}, args...)...)
	if err != nil {
		r.Fatal(err)
	}

	return id
}

func (r *rehearsal) running(id string) capacity.Job {
	r.Helper()

	if _, err := r.cluster.WaitJob(r.ctx, id, "RUNNING"); err != nil {
		r.Fatal(err)
	}

	return r.job(id)
}

func (r *rehearsal) job(id string) capacity.Job {
	r.Helper()

	jobs, _, err := (&slurm.Client{}).JobsOf(r.ctx, nil, nil)
	if err != nil {
		r.Fatal(err)
	}

	for _, j := range jobs {
		if strconv.Itoa(j.ID) == id {
			return j
		}
	}

	r.Fatalf("no job %s", id)

	return capacity.Job{}
}

func (r *rehearsal) cancel(ids ...string) {
	r.Helper()

	if out, err := r.cluster.Command(r.ctx, "scancel", ids...); err != nil {
		r.Fatal(out, err)
	}
}

// plainName is the name of a Slurm reservation of ours without block and owner.
func plainName(name string) string {
	if g, ours := capacity.ParseGuard(name); ours {
		return "pcs-capacity-" + string(g.Kind) + "-" + g.Slot
	}
	return name
}

// reservations are Slurm's, by name; ours without block and owner, and of several the first.
func (r *rehearsal) reservations() map[string]capacity.SlurmReservation {
	r.Helper()

	all, err := (&slurm.Client{}).Reservations(r.ctx)
	if err != nil {
		r.Fatal(err)
	}

	byName := map[string]capacity.SlurmReservation{}
	for _, one := range all {
		name := plainName(one.Name)
		if before, there := byName[name]; !there || one.Start.Before(before.Start) {
			byName[name] = one
		}
	}

	return byName
}

func (r *rehearsal) has(reservation string) bool {
	r.Helper()
	_, ok := r.reservations()[reservation]
	return ok
}

func (r *rehearsal) scontrol(args ...string) {
	r.Helper()

	if out, err := r.cluster.Command(r.ctx, "scontrol", args...); err != nil {
		r.Fatal(out, err)
	}
}

// fence is when EC2 takes the block back, less the two margins of the settings.
func (r *rehearsal) fence(id string) time.Time {
	r.Helper()

	block, err := ec2.Reservation(r.ctx, r.aws, id)
	if err != nil {
		r.Fatal(err)
	}

	return block.End.Add(-r.cfg.Timing.ReclaimLead.Duration - r.cfg.Timing.DrainMargin.Duration)
}

func near(a, b time.Time) bool { return a.Sub(b).Abs() < time.Minute }

// document is what status shows.
func (r *rehearsal) document() statusDocument {
	r.Helper()

	var out, errs strings.Builder
	if err := (&StatusCmd{}).Run(r.ctx, &Globals{}, &terminal.Terminal{
		Out:    &out,
		Err:    &errs,
		Format: terminal.JSON,
	}, r.cfg); err != nil &&
		!errors.Is(err, errReported) {
		r.Fatalf("status: %v\n%s%s", err, out.String(), errs.String())
	}

	var doc statusDocument
	if err := json.Unmarshal([]byte(out.String()), &doc); err != nil {
		r.Fatal(err)
	}

	return doc
}

// extend buys another day for a block.
func extend(r *rehearsal, id string) {
	r.Helper()

	offers, err := r.aws.ExtensionOfferings(r.ctx, id, 24*time.Hour)
	if err != nil || len(offers) == 0 {
		r.Fatalf("extension offerings: %v, %v", offers, err)
	}

	if err := r.aws.PurchaseExtension(r.ctx, ec2.Buy, offers[0].ID, id); err != nil {
		r.Fatal(err)
	}
}
