package power

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/hooks/power"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// With provider pcs the hook launches nothing; it makes the compute node group right.
func TestResumeConfiguresNodeGroup(t *testing.T) {
	scenario := awssim.DefaultScenario()
	scenario.PCSDelay = 0
	sim, err := awssim.New(scenario, awssim.NewClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 0))
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	if err := sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}
	client, err := ec2.New(t.Context(), ec2.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pcsClient := pcs.From(client.Shared())
	provisioner := pcs.Provisioner{PCS: pcsClient, EC2: client, Poll: time.Millisecond}

	// A cluster as `pcs-capacity setup` leaves it, with this block of its scenario.
	const block, subnet = "cr-0e2000000000000a1", "subnet-0e200000000000a01"
	path := filepath.Join(t.TempDir(), "config.toml")
	s := setup.Setup{PCS: pcsClient, EC2: client, Poll: time.Millisecond}
	plan, err := s.Plan(t.Context(), setup.Request{Cluster: "ml", Queue: "gpu", NodeGroup: "gpu", Reservation: block, Like: "compute", MaxNodes: 4, ConfigPath: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.Reservation(t.Context(), block)
	if err != nil {
		t.Fatal(err)
	}
	records := state.Dir(t.TempDir())
	hook := power.Resume{Site: &power.Site{Settings: cfg.Domain(), Cluster: "ml", Slurm: &slurm.Client{}, EC2: client, PCS: &power.PCS{Provisioner: provisioner, Cluster: "ml"},
		State: records, Log: slog.New(slog.DiscardHandler), MachineTime: time.Now}}

	launches := awssim.CallKey{Service: "ec2", Operation: "RunInstances", Region: "us-east-2"}
	before := sim.Calls()[launches] // the dry runs of setup

	// Somebody has let the group shrink to nothing.
	if changed, err := provisioner.Configure(t.Context(), pcs.ConfigureRequest{Cluster: "ml", Group: "gpu-a", Reservation: r, SubnetIDs: []string{subnet}, MaxNodes: 4, Dynamic: true}); err != nil || !changed {
		t.Fatal(changed, err)
	}
	for _, want := range []string{"configured compute node group gpu-a", "compute node group gpu-a is as it should be"} {
		if err := hook.Run(t.Context(), "gpu-a-[1-4]", nil); err != nil {
			t.Fatal(err)
		}
		all, err := records.Records()
		if err != nil {
			t.Fatal(err)
		}
		if last := all[len(all)-1]; last.Message != want || last.Reservation != block || last.Partition != "gpu" {
			t.Errorf("%+v, want %q", last, want)
		}
	}
	cluster, err := pcsClient.Cluster(t.Context(), "ml")
	if err != nil {
		t.Fatal(err)
	}
	if g, _, err := pcsClient.NodeGroup(t.Context(), cluster.ID, "gpu-a"); err != nil || g.Min != 4 || g.Max != 4 {
		t.Errorf("%v %+v", err, g)
	}
	if n := sim.Calls()[launches] - before; n != 0 {
		t.Errorf("%d launches", n)
	}
	if err := hook.Run(t.Context(), "gpu-b-1", nil); err == nil || !strings.Contains(err.Error(), "pcs-capacity setup") {
		t.Errorf("a slot that is not there: %v", err)
	}
}
