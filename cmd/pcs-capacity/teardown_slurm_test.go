package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// tornDown is a real Slurm beside a simulated PCS in which the queue gpu was set up. The
// simulated PCS does not restart slurmctld: what teardown does there is seen by itself.
type tornDown struct {
	*testing.T
	ctx     context.Context
	cluster *slurmlab.Cluster
	ec2     *ec2.Client
	pcs     *pcs.Client
	globals Globals
	filter  string
}

// change, if there is one, changes the settings of Slurm.
func newTornDown(t *testing.T, change ...func(*slurmlab.Config)) *tornDown {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	d := &tornDown{T: t, ctx: ctx}
	dir, err := os.MkdirTemp("", "pcs") // Slurm's sockets need a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if d.filter, err = exec.LookPath("pcs-capacity-filter"); err == nil { // setup looks for it beside the program
		err = os.Symlink(d.filter, filterPlaces()[1])
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	folder := state.Dir(filepath.Join(dir, "capacity"))
	lab := slurmlab.Config{Dir: dir, CLIFilterLua: submit.CLIFilter(folder.PlanPath(), string(folder), d.filter),
		CloudGroups:   []slurmlab.NodeGroup{{Prefix: "gpu-a-", Count: 2, CPUs: 1, Features: "gpu-a", Partition: "gpu", AlwaysOn: true}},
		ResumeTimeout: time.Minute,
		Resume: func(ctx context.Context, nodes []string) {
			<-ready
			for _, n := range nodes {
				if err := d.cluster.StartNode(ctx, n, "127.0.0.1"); err != nil && ctx.Err() == nil {
					t.Errorf("starting %s: %v", n, err)
				}
			}
		},
		Suspend: func(context.Context, []string) {},
	}
	for _, f := range change {
		f(&lab)
	}
	d.cluster, err = slurmlab.Start(ctx, lab)
	if err != nil {
		t.Fatal(err)
	}
	close(ready)
	t.Cleanup(func() { d.cluster.Stop() })
	t.Setenv("SLURM_CONF", d.cluster.Conf())

	scenario := awssim.DefaultScenario()
	scenario.PCSDelay = 0
	sim, err := awssim.New(scenario, awssim.MachineClock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	if err := sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}
	if d.ec2, err = ec2.New(ctx, ec2.Options{}); err != nil {
		t.Fatal(err)
	}
	d.pcs = pcs.From(d.ec2.Shared())
	d.globals.Config = filepath.Join(t.TempDir(), "config.toml")
	text := "region = \"us-east-2\"\ncluster = \"ml\"\nstate_dir = \"" + filepath.Join(dir, "capacity") + "\"\n"
	if err := os.WriteFile(d.globals.Config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return d
}

// run runs a command and returns what it showed.
func (d *tornDown) run(c interface {
	Run(context.Context, *Globals, *terminal.Terminal, *maybeConfig, *ec2.Client, *pcs.Client) error
}) (shown string, err error) {
	d.Helper()
	cfg, err := config.Load(d.globals.Config)
	if err != nil {
		d.Fatal(err)
	}
	var out strings.Builder
	err = c.Run(d.ctx, &d.globals, &terminal.Terminal{Out: &out, Err: &out, Format: terminal.Table, Yes: true}, &maybeConfig{cfg, true}, d.ec2, d.pcs)
	return out.String(), err
}

func (d *tornDown) node(name string) capacity.Node {
	d.Helper()
	nodes, err := (&slurm.Client{}).Nodes(d.ctx)
	if err != nil {
		d.Fatal(err)
	}
	i := slices.IndexFunc(nodes, func(n capacity.Node) bool { return n.Name == name })
	if i < 0 {
		d.Fatalf("Slurm has no node %s", name)
	}
	return nodes[i]
}

func (d *tornDown) slurmReservations() []string {
	d.Helper()
	all, err := (&slurm.Client{}).Reservations(d.ctx)
	if err != nil {
		d.Fatal(err)
	}
	var names []string
	for _, r := range all {
		names = append(names, plainName(r.Name))
	}
	return slices.Sorted(slices.Values(names))
}

func (d *tornDown) groups() []string {
	d.Helper()
	inv, err := d.pcs.Inventory(d.ctx, "ml")
	if err != nil {
		d.Fatal(err)
	}
	var names []string
	for _, g := range inv.Groups {
		names = append(names, g.Name)
	}
	return names
}

func (d *tornDown) submit(args ...string) string {
	d.Helper()
	id, err := d.cluster.Submit(d.ctx, "sleep 600", append([]string{"-p", "gpu", "-t", "30"}, args...)...)
	if err != nil {
		d.Fatal(err)
	}
	return id
}

// TestLong_Teardown: jobs keep a teardown off, also those that start between the plan
// and its application; it removes our fence and nobody else's reservation.
func TestLong_Teardown(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	d := newTornDown(t)
	two := 2
	const block, fence, foreign = "cr-0e2000000000000a1", "pcs-capacity-fence-gpu-a", "gpu-a-scheduled"
	if out, err := d.run(&SetupCmd{Reservation: block, Queue: "gpu", NodeGroup: "gpu", Like: "compute", MaxNodes: &two}); err != nil {
		t.Fatal(out, err)
	}
	// PCS's own reservation, and one of an administrator under our name.
	theirs := []string{foreign, "pcs-capacity-fence-gpu-b"}
	for i, name := range theirs {
		if out, err := d.cluster.Command(d.ctx, "scontrol", "create", "reservation", "ReservationName="+name, "Nodes=gpu-a-2",
			fmt.Sprintf("StartTime=now+%ddays", i+1), "Duration=10", "Users=root"); err != nil {
			t.Fatal(out, err)
		}
	}
	if got := d.slurmReservations(); !slices.Contains(got, fence) {
		t.Fatalf("reservations %v: the fence is not there", got)
	}

	// A job that runs is named, and nothing is touched.
	job := d.submit("-w", "gpu-a-1")
	if _, err := d.cluster.WaitJob(d.ctx, job, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	out, err := d.run(&TeardownCmd{Queue: "gpu"})
	if !errors.Is(err, errShown) || !strings.Contains(out, "pcs-capacity: job "+job+" is running on these nodes\n") || d.node("gpu-a-1").Has("DRAIN") {
		t.Errorf("with job %s: %v\n%s", job, err, out)
	}
	if out, err := d.cluster.Command(d.ctx, "scancel", job); err != nil {
		t.Fatal(out, err)
	}
	if _, err := d.cluster.WaitJob(d.ctx, job, "CANCELLED"); err != nil {
		t.Fatal(err)
	}
	d.until("the nodes are free", func() bool { return !d.node("gpu-a-1").Busy() })

	// A job that starts after the plan: the nodes are drained, and everything else stays.
	cfg, err := config.Load(d.globals.Config)
	if err != nil {
		t.Fatal(err)
	}
	s := setup.Setup{PCS: d.pcs, EC2: d.ec2, Slurm: setup.InSlurm{Client: &slurm.Client{}}, Poll: time.Millisecond}
	plan, err := s.PlanTeardown(d.ctx, setup.Request{Queue: "gpu", Config: cfg})
	if err != nil || len(plan.Mismatches) > 0 {
		t.Fatal(err, plan.Mismatches)
	}
	job = d.submit("-w", "gpu-a-1")
	if _, err := d.cluster.WaitJob(d.ctx, job, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(d.ctx, plan); !errors.Is(err, setup.ErrJobsRun) || !strings.Contains(err.Error(), job+" started on gpu-a meanwhile") {
		t.Errorf("with job %s: %v", job, err)
	}
	if n := d.node("gpu-a-2"); !n.Has("DRAIN") || n.Reason != "pcs-capacity teardown" || !slices.Contains(d.groups(), "gpu-a") || !slices.Contains(d.slurmReservations(), fence) {
		t.Errorf("node %+v, node groups %v, reservations %v", n, d.groups(), d.slurmReservations())
	}

	// A job that waits is no obstacle, but it is said.
	d.submit("--begin=now+1hour")
	plan, err = s.PlanTeardown(d.ctx, setup.Request{Queue: "gpu", Force: true, Config: cfg})
	if err != nil || len(plan.Warnings) != 2 || plan.Warnings[0] != "job "+job+" is running on these nodes; jobs end with their nodes" || !strings.Contains(plan.Warnings[1], "1 job waits in it") {
		t.Errorf("by force: %v, %q", err, plan.Warnings)
	}
	if err := s.Apply(d.ctx, plan); err != nil { // not the command, whose pass of sync might hide a fence that is left
		t.Error(err)
	}
	if got := d.slurmReservations(); !slices.Equal(got, theirs) || slices.Contains(d.groups(), "gpu-a") {
		t.Errorf("reservations %v, node groups %v", got, d.groups())
	}
	if cfg, err := config.Load(d.globals.Config); err != nil || len(cfg.Partitions) > 0 {
		t.Errorf("settings %+v, %v", cfg.Partitions, err)
	}

	// Slurm's part alone, after a teardown where Slurm did not answer: the base name leads there.
	if out, err := d.cluster.Command(d.ctx, "scontrol", "create", "reservation", "ReservationName="+fence+".none.0123abcd", "Nodes=gpu-a-[1-2]", "StartTime=now+3days", "Duration=10",
		"Flags=MAINT,IGNORE_JOBS", "Users=root"); err != nil {
		t.Fatal(out, err)
	}
	if out, err := d.run(&TeardownCmd{Queue: "gpu", NodeGroup: "gpu", Force: true}); err != nil || !slices.Equal(d.slurmReservations(), theirs) {
		t.Errorf("Slurm's part: %v, reservations %v\n%s", err, d.slurmReservations(), out)
	}
}

// until waits for something that Slurm does in its own time.
func (d *tornDown) until(what string, done func() bool) {
	d.Helper()
	if slurmlab.Until(d.ctx, done) != nil {
		d.Fatalf("never: %s", what)
	}
}
