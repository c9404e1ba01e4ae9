package power

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/hooks/power"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Which instances a power-down of gpu-1 terminates, and which not.
func TestSuspendTerminates(t *testing.T) {
	scenario, err := awssim.LoadScenario("../../../hooks/power/testdata/power.toml")
	if err != nil {
		t.Fatal(err)
	}
	sim, err := awssim.New(scenario, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	if err := sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}
	// A slurmctld that does not run: nothing listens on port 1.
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(conf, []byte("ClusterName=lab\nSlurmctldHost=localhost\nSlurmctldPort=1\nAuthType=auth/none\nMessageTimeout=1\nNodeName=gpu-1\nPartitionName=gpu Nodes=gpu-1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLURM_CONF", conf)
	client, err := ec2.New(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		tags       map[string]string
		calledLate bool // after the launch, as it should be
		terminates bool
	}{
		"known by its node":         {map[string]string{capacity.TagCluster: "lab", capacity.TagNode: "gpu-1"}, true, true},
		"known by its launch index": {map[string]string{capacity.TagCluster: "lab", capacity.TagNodes: "gpu-[1-2]"}, true, true},
		"a newer launch":            {map[string]string{capacity.TagCluster: "lab", capacity.TagNode: "gpu-1"}, false, false},
		"another node":              {map[string]string{capacity.TagCluster: "lab", capacity.TagNode: "gpu-12"}, true, false},
		"another index":             {map[string]string{capacity.TagCluster: "lab", capacity.TagNodes: "gpu-[0-1]"}, true, false},
		"another cluster":           {map[string]string{capacity.TagCluster: "lab2", capacity.TagNode: "gpu-1"}, true, false},
		"not ours":                  {map[string]string{capacity.TagNode: "gpu-1"}, true, false},
		"nobody's":                  {map[string]string{"Name": "gpu-1"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			launched, err := client.Launch(t.Context(), capacity.Launch{ClientToken: name, LaunchTemplate: "lt-0aaaaaaaaaaaaaaaa", InstanceType: "p5.48xlarge",
				SubnetID: "subnet-0aaaaaaaaaaaaaaaa", ReservationID: "cr-0aaaaaaaaaaaaaaa1", Kind: capacity.CapacityBlock, Count: 1, Tags: test.tags})
			if err != nil {
				t.Fatal(err)
			}
			called := time.Now()
			if !test.calledLate {
				called = called.Add(-30 * time.Second) // SuspendTimeout ago, and the call was slow
			}
			records := state.Dir(t.TempDir())
			// Without slurmctld, a run goes on asking for nodes that did not boot for as long
			// as it may: here until it has ended the instances.
			run := func() error {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := power.Suspend{Site: &power.Site{Cluster: "lab", Slurm: &slurm.Client{Conf: conf}, EC2: client, State: records,
					Log: slog.New(endsWith{slog.DiscardHandler, cancel}), MachineTime: time.Now}, Called: called}
				return s.Run(ctx, "gpu-1")
			}
			if err := run(); err != nil {
				t.Fatal(err)
			}
			var ended bool
			for _, i := range sim.Instances("us-east-2") {
				if i.ID == launched[0].ID {
					ended = i.State == "shutting-down" || i.State == "terminated"
				}
			}
			if ended != test.terminates {
				t.Errorf("terminated: %t, want %t", ended, test.terminates)
			}
			if err := client.Terminate(t.Context(), []string{launched[0].ID}); err != nil {
				t.Fatal(err)
			}
			if err := run(); err != nil {
				t.Errorf("nothing left to do must be fine: %v", err)
			}
		})
	}
}

// endsWith is a log that ends a run when it says what became of the instances.
type endsWith struct {
	slog.Handler
	end func()
}

func (h endsWith) Enabled(context.Context, slog.Level) bool { return true }

func (h endsWith) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "terminated" || r.Message == "no instance to terminate" {
		h.end()
	}
	return nil
}
