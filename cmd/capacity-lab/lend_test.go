package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/sources"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// lentNodes is the size of the block that is lent.
const lentNodes = 16

// spareWork is a job that adds a line a second to a file, over all its runs, until the file done is there.
const spareWork = `#!/bin/sh
f=work.$SLURM_JOB_ID
work() { echo $(($(wc -l < $f) + 1)) ${SLURM_RESTART_COUNT:-0} >> $f; }
touch $f
while [ ! -e done ]; do work; sleep 1; done
work
`

// TestLongLendOnPCS: setup makes a spare queue on PCS and has Slurm preempt jobs, and nobody touches slurm.conf. A job of
// all nodes of the block gets them from 16 spare jobs, which go on from where they were.
func TestLongLendOnPCS(t *testing.T) {
	world, err := os.ReadFile(scenario)
	if err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(t.TempDir(), "world.toml")
	text := strings.Replace(string(world), "count = 2\n", fmt.Sprintf("count = %d\n", lentNodes), 1)
	settings := filepath.Join(t.TempDir(), "config.toml")

	before := traces(t)

	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	p := startUp(t, "", "--scenario", path)
	p.waitReady(t)
	p.awsConfig(t)
	t.Setenv("SLURM_CONF", p.sh(t, "echo $SLURM_CONF"))

	own := fmt.Sprintf("region = \"us-east-2\"\ncluster = \"lab\"\nstate_dir = %q\n", filepath.Join(p.dir, "lending"))
	if err := os.WriteFile(settings, []byte(own), 0o644); err != nil {
		t.Fatal(err)
	}

	pass := p.lend(t, settings)
	p.until(t, "sinfo -h -t idle -o '%D' -p scavenge || true", func(out string) bool {
		return out == fmt.Sprint(lentNodes)
	})

	if err := os.WriteFile(filepath.Join(p.dir, "spare.sh"), []byte(spareWork), 0o755); err != nil {
		t.Fatal(err)
	}

	ids := strings.Fields(
		p.sh(t, fmt.Sprintf("for i in $(seq %d); do sbatch --parsable -p scavenge -N1 --exclusive -t 60 "+
			"--requeue --open-mode=append -o spare.out spare.sh; done", lentNodes)),
	)
	p.until(t, "squeue -h -p scavenge -t RUNNING -o %i | wc -l", func(out string) bool {
		return out == fmt.Sprint(lentNodes)
	})

	began := time.Now()

	lender := p.sh(
		t,
		fmt.Sprintf("sbatch --parsable -p gpu -N%d --exclusive -t 10 -o lender.out --wrap 'sleep 5'", lentNodes),
	)
	p.jobState(t, lender, "RUNNING")
	t.Logf("the lender's job of %d nodes ran after %s", lentNodes, time.Since(began).Round(time.Second/10))
	pass()
	p.sh(t, "touch done")

	for _, id := range ids {
		p.jobState(t, id, "COMPLETED")

		lines := strings.Split(p.sh(t, "cat work."+id), "\n")
		for i, line := range lines {
			if !strings.HasPrefix(line, fmt.Sprint(i+1, " ")) {
				t.Errorf("line %d of job %s is %q", i+1, id, line)
			}
		}

		if !strings.HasSuffix(lines[0], " 0") || !strings.HasSuffix(lines[len(lines)-1], " 1") {
			t.Errorf("job %s ran like this: %q", id, lines)
		}
	}

	p.end(t, syscall.SIGTERM, before)
}

// lend sets up a queue that lends its nodes, and returns a pass of sync.
func (p *upProcess) lend(t *testing.T, settings string) (pass func()) {
	t.Helper()

	shared, err := awsconfig.Load(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}

	aws := ec2.From(shared)
	load := func() *config.Config {
		cfg, err := config.Load(settings)
		if err != nil {
			t.Fatal(err)
		}

		return cfg
	}
	pass = func() {
		t.Helper()

		if _, report, err := lifecycle.Pass(t.Context(), sources.New(load(), aws, pcs.From(shared))); err != nil {
			t.Fatalf("%v\n%+v", err, report)
		}
	}
	s := setup.Setup{
		PCS:   pcs.From(shared),
		EC2:   aws,
		Slurm: setup.SlurmClient{Client: slurm.New("lab")},
		Fence: func(context.Context) error { pass(); return nil },
		Poll:  200 * time.Millisecond,
	}

	plan, err := s.Plan(t.Context(), setup.Request{
		Queue:       "gpu",
		NodeGroup:   "gpu",
		Reservation: "cr-0aaaaaaaaaaaaaaaa",
		Like:        "compute",
		Spare:       "scavenge",
		EFA:         capacity.EFAOnly,
		Config:      load(),
		ConfigPath:  settings,
	})
	if err == nil {
		err = s.Apply(t.Context(), plan)
	}

	if err != nil {
		t.Fatal(err)
	}

	return pass
}
