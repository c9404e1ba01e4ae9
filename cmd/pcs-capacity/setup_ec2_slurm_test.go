package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestSlurm_SetupAndTeardownOnEC2 sets up a partition of self-managed Slurm, whose mark nobody has
// made yet, and tears it down while a job runs, and after it.
func TestSlurm_SetupAndTeardownOnEC2(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	settings, _, _ := strings.Cut(rehearsalConfig, "[[partition]]")
	clock := awssim.MachineClock()

	r := newRehearsalIn(t, rehearsalWorld, settings, func(*slurmlab.Config) {}, clock)
	mark := func(create bool) string {
		t.Helper()

		mark, err := facts.SlurmMark(r.ctx, r.cfg, create)
		if err != nil {
			t.Fatal(err)
		}

		return mark
	}
	if none := mark(false); !strings.HasSuffix(none, "/new") || mark(false) != none {
		t.Errorf("the mark is %s before there is one", none)
	}

	made := mark(true)
	if _, id, _ := strings.Cut(made, "/"); len(id) != 16 || mark(false) != made || mark(true) != made {
		t.Errorf("the mark is %s, then %s", made, mark(false))
	}

	s := setup.Setup{PCS: pcs.From(r.aws.Shared()), EC2: r.aws, Slurm: setup.SlurmClient{Client: &slurm.Client{}}}

	plan, err := s.Plan(
		r.ctx,
		setup.Request{
			Provider:    capacity.ProviderEC2,
			Mark:        made,
			Queue:       "gpu",
			NodeGroup:   "gpu",
			Reservation: "cr-0e2000000000000b2",
			Like:        "gpu",
			SubnetIDs:   []string{"subnet-0e200000000000a01"},
			Dynamic:     true,
			ConfigPath:  r.path,
			Config:      r.cfg,
		},
	)
	if err == nil {
		err = s.Apply(r.ctx, plan)
	}

	if err != nil {
		t.Fatal(err)
	}

	load := func() {
		t.Helper()

		if r.cfg, err = config.Load(r.path); err != nil {
			t.Fatal(err)
		}
	}
	load()
	r.expect("create-fence gpu")

	const fence = "pcs-capacity-fence-gpu"

	job := r.running(r.submit("-C", "gpu", "-w", "gpu-1", "-t", "10"))
	launch := func(token, template, node string) string {
		t.Helper()

		all, err := r.aws.Launch(
			r.ctx,
			capacity.Launch{
				ClientToken:    token,
				LaunchTemplate: template,
				InstanceType:   "p5.48xlarge",
				SubnetID:       "subnet-0e200000000000a01",
				ReservationID:  "cr-0e2000000000000b2",
				Kind:           capacity.CapacityBlock,
				Count:          1,
				Tags: map[string]string{
					capacity.TagCluster:   made,
					capacity.TagPartition: "gpu",
					capacity.TagNodes:     node,
				},
			},
		)
		if err != nil {
			t.Fatal(err)
		}

		return all[0].ID
	}
	ended := func(id string) bool {
		t.Helper()

		for _, i := range r.sim.Instances("us-east-2") {
			if i.ID == id {
				return i.State != "running" && i.State != "pending"
			}
		}

		return true
	}
	first := launch("a", "pcs-capacity-"+made+"-gpu", "gpu-1")

	tear := func(force bool) *setup.Plan {
		t.Helper()

		plan, err := s.PlanTeardown(
			r.ctx,
			setup.Request{Provider: capacity.ProviderEC2, Mark: made, Queue: "gpu", Config: r.cfg, Force: force},
		)
		if err != nil {
			t.Fatal(err)
		}

		return plan
	}
	if p := tear(false); len(p.Mismatches()) != 1 || p.Mismatches()[0].Code != "jobs-run" ||
		!strings.Contains(p.Mismatches()[0].Sentence, job.Shown) {
		t.Errorf("with a job: %v", p.Mismatches())
	}

	r.cancel(job.Shown)
	r.until("the job is gone", func() bool { return len(tear(false).Mismatches()) == 0 })

	if err := s.Apply(r.ctx, tear(false)); err != nil {
		t.Fatal(err)
	}

	load()

	if !ended(first) {
		t.Error("the instance of gpu-1 is left")
	}

	if _, found, err := r.aws.LaunchTemplate(r.ctx, "pcs-capacity-"+made+"-gpu", ""); found || err != nil ||
		len(r.cfg.Partitions) > 0 ||
		r.has(fence) {
		t.Errorf("left: template %v (%v), partitions %v, fence %v", found, err, r.cfg.Partitions, r.has(fence))
	}

	nodes, err := (&slurm.Client{}).Nodes(r.ctx)
	if err != nil {
		t.Fatal(err)
	}

	var drained []string
	for _, n := range nodes {
		if n.HasFlag("DRAIN") {
			drained = append(drained, n.Name)
		}
	}

	slices.Sort(drained)

	if strings.Join(drained, " ") != "gpu-1 gpu-2 gpu-3 gpu-4" {
		t.Errorf("drained: %v", drained)
	}

	// No partition is left. What a ResumeProgram launched meanwhile is named, and ended.
	late := launch("b", "lt-0e200000000000a01", "gpu-9")

	clock.Advance(6 * time.Minute)
	r.expect()

	if notes := r.document().Texts(capacity.Note); !slices.ContainsFunc(
		notes,
		func(n string) bool { return strings.Contains(n, late+" (gpu-9)") },
	) {
		t.Errorf("status: %q", notes)
	}

	clock.Advance(45 * time.Second) // of a minute, one answer alone is not believed
	r.expect("end-instance")

	if !ended(late) {
		t.Error("the instance of gpu-9 is left")
	}
}
