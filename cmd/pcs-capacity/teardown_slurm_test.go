package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

const (
	teardownWorld = pcsWorld + `
[[region.cluster.node_group]]
id = "pcs_0e20000002"
name = "compute"
type = "p5.48xlarge"
image = "ami-0e200000000000a01"
instance_profile = "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes"
launch_template = "lt-0e200000000000b02"
subnets = ["subnet-0e200000000000a01"]
max = 4
`
	teardownConfig = "region = \"us-east-2\"\ncluster = \"ml\"\nstate_dir = %q\nlocal_dir = %q\n"
)

// run runs a command and returns what it showed.
func (r *rehearsal) run(c interface {
	Run(context.Context, *Globals, *terminal.Terminal, *maybeConfig, *ec2.Client, *pcs.Client) error
},
) (shown string, err error) {
	r.Helper()

	cfg, err := config.Load(r.path)
	if err != nil {
		r.Fatal(err)
	}

	var out strings.Builder

	err = c.Run(
		r.ctx,
		&Globals{Config: r.path},
		&terminal.Terminal{Out: &out, Err: &out, Format: terminal.Table, Yes: true},
		&maybeConfig{cfg, true},
		r.aws,
		newPCS(r.aws),
	)

	return out.String(), err
}

// TestLong_Teardown: jobs keep a teardown off, also those that start between the plan
// and its application; it removes our fence and nobody else's reservation.
func TestLong_Teardown(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	// The simulated PCS does not restart slurmctld: what teardown does there is seen by itself.
	filter, err := exec.LookPath("pcs-capacity-filter")
	if err == nil { // setup looks for it beside the program
		err = os.Symlink(filter, filterPlaces()[1])
	}

	if err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}

	world := strings.NewReplacer(`queue = [{ id = "pcs_0e20000004", name = "gpu", node_groups = ["gpu-a", "gpu-b"] `+
		`}]`, "", "launch_template = [",
		`launch_template = [{ id = "lt-0e200000000000b02", name = "compute", security_groups = `+
			`["sg-0e200000000000a01"] }, `).
		Replace("pcs_delay = \"0s\"" + rehearsalWorld + teardownWorld)
	r := newRehearsalIn(t, world, teardownConfig, func(c *slurmlab.Config) {
		folder := state.Dir(filepath.Join(c.Dir, "capacity"))
		c.CLIFilterLua = submit.CLIFilter(folder.RosterPath(), string(folder), filter)
		c.CloudGroups = []slurmlab.NodeGroup{
			{Prefix: "gpu-a-", Count: 2, CPUs: 1, Features: "gpu-a", Partition: "gpu", AlwaysOn: true},
		}
	})
	node := func(name string) capacity.Node {
		t.Helper()

		nodes, err := (&slurm.Client{}).Nodes(r.ctx, name)
		if err != nil || len(nodes) != 1 {
			t.Fatal(nodes, err)
		}

		return nodes[0]
	}
	guards := func() []string { return slices.Sorted(maps.Keys(r.reservations())) }
	hasGroup := func(name string) bool {
		t.Helper()

		inv, err := newPCS(r.aws).Inventory(r.ctx, "ml")
		if err != nil {
			t.Fatal(err)
		}

		return slices.ContainsFunc(inv.Groups, func(g pcs.NodeGroup) bool { return g.Name == name })
	}

	two := 2

	const block, fence, foreign = "cr-0e2000000000000a1", "pcs-capacity-fence-gpu-a", "gpu-a-scheduled"
	if out, err := r.run(&SetupCmd{
		Reservation: block,
		Queue:       "gpu",
		NodeGroup:   "gpu",
		Like:        "compute",
		MaxNodes:    &two,
	}); err != nil {
		t.Fatal(out, err)
	}
	// PCS's own reservation, and one of an administrator under our name.
	theirs := []string{foreign, "pcs-capacity-fence-gpu-b"}
	for i, name := range theirs {
		r.scontrol(
			"create",
			"reservation",
			"ReservationName="+name,
			"Nodes=gpu-a-2",
			fmt.Sprintf("StartTime=now+%ddays", i+1),
			"Duration=10",
			"Users=root",
		)
	}

	if got := guards(); !slices.Contains(got, fence) {
		t.Fatalf("reservations %v: the fence is not there", got)
	}

	// A job that runs is named, and nothing is touched.
	job := r.submit("-t", "30", "-w", "gpu-a-1")
	r.running(job)

	out, err := r.run(&TeardownCmd{Queue: "gpu"})
	if !errors.Is(err, errReported) ||
		!strings.Contains(out, "pcs-capacity: job "+job+" is running on these nodes\n") ||
		node("gpu-a-1").HasFlag("DRAIN") {
		t.Errorf("with job %s: %v\n%s", job, err, out)
	}

	r.cancel(job)

	if _, err := r.cluster.WaitJob(r.ctx, job, "CANCELLED"); err != nil {
		t.Fatal(err)
	}

	r.until("the nodes are free", func() bool { return !node("gpu-a-1").IsBusy() })

	// A job that starts after the plan: the nodes are drained, and everything else stays.
	cfg, err := config.Load(r.path)
	if err != nil {
		t.Fatal(err)
	}

	s := setup.Setup{
		PCS:   newPCS(r.aws),
		EC2:   r.aws,
		Slurm: setup.SlurmClient{Client: &slurm.Client{}},
		Poll:  time.Millisecond,
	}

	plan, err := s.PlanTeardown(r.ctx, setup.Request{Queue: "gpu", Config: cfg})
	if err != nil || len(plan.Mismatches()) > 0 {
		t.Fatal(err, plan.Mismatches())
	}

	job = r.submit("-t", "30", "-w", "gpu-a-1")
	r.running(job)

	if err := s.Apply(r.ctx, plan); !errors.Is(err, setup.ErrJobsRun) ||
		!strings.Contains(err.Error(), job+" started on gpu-a meanwhile") {
		t.Errorf("with job %s: %v", job, err)
	}

	if n := node("gpu-a-2"); !n.HasFlag("DRAIN") || n.Reason != "pcs-capacity teardown" || !hasGroup("gpu-a") ||
		!slices.Contains(guards(), fence) {
		t.Errorf("node %+v, node groups %v, reservations %v", n, hasGroup("gpu-a"), guards())
	}

	// A job that waits is no obstacle, but it is said.
	r.submit("-t", "30", "--begin=now+1hour")

	plan, err = s.PlanTeardown(r.ctx, setup.Request{Queue: "gpu", Force: true, Config: cfg})
	if err != nil || len(plan.Texts(capacity.Note)) != 2 ||
		plan.Texts(capacity.Note)[0] != "job "+job+" is running on these nodes; jobs end with their nodes" ||
		!strings.Contains(plan.Texts(capacity.Note)[1], "1 job waits in it") {
		t.Errorf("by force: %v, %q", err, plan.Texts(capacity.Note))
	}

	if err := s.Apply(r.ctx, plan); err != nil { // not the command, whose pass of sync might hide a fence that is left
		t.Error(err)
	}

	if got := guards(); !slices.Equal(got, theirs) || hasGroup("gpu-a") {
		t.Errorf("reservations %v, node groups %v", got, hasGroup("gpu-a"))
	}

	if cfg, err := config.Load(r.path); err != nil || len(cfg.Partitions) > 0 {
		t.Errorf("settings %+v, %v", cfg.Partitions, err)
	}

	// Slurm's part alone, after a teardown where Slurm did not answer: the base name leads there.
	r.scontrol(
		"create",
		"reservation",
		"ReservationName="+fence+".none.0123abcd",
		"Nodes=gpu-a-[1-2]",
		"StartTime=now+3days",
		"Duration=10",
		"Flags=MAINT,IGNORE_JOBS",
		"Users=root",
	)

	if out, err := r.run(&TeardownCmd{Queue: "gpu", NodeGroup: "gpu", Force: true}); err != nil ||
		!slices.Equal(guards(), theirs) {
		t.Errorf("Slurm's part: %v, reservations %v\n%s", err, guards(), out)
	}
}
