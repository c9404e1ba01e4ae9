package check

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// The interfaces of the first node, which PCS launched from the template that setup made; then
// the template changes, and the node stays as it was.
func TestInterfacesOfTheFirstNode(t *testing.T) {
	scenario := awssim.DefaultScenario()
	scenario.PCSDelay = 0
	sim, err := awssim.New(scenario, awssim.NewClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	if err := sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}
	client, err := ec2.New(t.Context(), ec2.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := setup.Setup{PCS: pcs.From(client.Shared()), EC2: client, Poll: time.Millisecond}
	path := filepath.Join(t.TempDir(), "config.toml")
	plan, err := s.Plan(t.Context(), setup.Request{Cluster: "ml", Queue: "gpu", NodeGroup: "gpu", Reservation: "cr-0e2000000000000a1", Like: "compute", MaxNodes: 2, ConfigPath: path})
	if err == nil {
		err = s.Apply(t.Context(), plan)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	look := func() string {
		t.Helper()
		r := run{Sources: Sources{Config: cfg, EC2: client, PCS: s.PCS}, settings: cfg.Domain()}
		r.pcsCluster(t.Context())
		r.templates(t.Context())
		for _, f := range r.Findings {
			if f.Check == "interfaces" {
				return string(f.Status) + " " + f.What
			}
		}
		return ""
	}
	if said := look(); said != "" {
		t.Errorf("without a node: %s", said)
	}
	node, err := sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1")
	if err != nil {
		t.Fatal(err)
	}
	sim.Clock().Advance(10 * time.Minute)
	if said := look(); said != "ok node group gpu-a: instance "+node.ID+" has those of pcs-capacity-ml-gpu-a" {
		t.Errorf("a node as it should be: %q", said)
	}
	group, _, err := s.PCS.NodeGroup(t.Context(), plan.Cluster.ID, "gpu-a")
	if err != nil {
		t.Fatal(err)
	}
	template, _, err := client.LaunchTemplate(t.Context(), group.TemplateID, group.TemplateVersion)
	if err != nil {
		t.Fatal(err)
	}
	r := run{Sources: Sources{Config: cfg, EC2: client}}
	template.NetworkInterfaces = append(template.NetworkInterfaces[:1:1], capacity.Interface{Card: 1, Device: 1, Type: "efa-only"})
	r.firstNode(t.Context(), template, "gpu-a", func() ([]capacity.Instance, error) {
		return client.InstancesByTag(t.Context(), map[string][]string{pcs.TagNodeGroupID: {group.ID}})
	})
	want := "instance " + node.ID + " of node group gpu-a has 32 × efa, where the launch template describes 1 × efa-only and 1 × efa (pcs-capacity-ml-gpu-a version 1)"
	if len(r.Findings) != 1 || r.Findings[0].Status != Fail || r.Findings[0].What != want {
		t.Errorf("%+v, want %s", r.Findings, want)
	}
}
