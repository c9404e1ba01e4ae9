package site

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// srun of 22.05 gives up by the times of the cluster, which hooks install leaves alone.
func TestShortWaits(t *testing.T) {
	for _, c := range []struct {
		version         string
		resume, suspend time.Duration
		found           int
	}{
		{"slurm 22.05.8", time.Minute, 30 * time.Second, 1},
		{"slurm 22.05.8", 3 * time.Minute, 30 * time.Second, 0},
		{"slurm 24.11.5", time.Minute, 30 * time.Second, 0},
	} {
		version, err := slurm.ParseVersion(c.version)
		if err != nil {
			t.Fatal(err)
		}
		r := run{settings: capacity.Settings{Timing: capacity.Timing{BootAllowance: capacity.Duration{Duration: 15 * time.Minute}}},
			slurmConfig: &slurm.Config{Version: version, ResumeTimeout: c.resume, SuspendTimeout: c.suspend}}
		if r.shortWaits(); len(r.Findings) != c.found || c.found > 0 && !strings.Contains(r.Findings[0].What, "450 s") {
			t.Errorf("%+v: %+v", c, r.Findings)
		}
	}
}

// templates asks for each template that slurmctld launches from.
func TestTemplatesAskForConfigless(t *testing.T) {
	scenario := awssim.DefaultScenario()
	home := &scenario.Regions[slices.IndexFunc(scenario.Regions, func(r awssim.RegionScenario) bool { return r.Name == "us-east-2" })]
	at := slices.IndexFunc(home.LaunchTemplates, func(l awssim.LaunchTemplateScenario) bool { return l.Name == "ec2-nodes" })
	home.LaunchTemplates[at].UserData = "#!/bin/sh\nexec slurmd --conf-server head\n"
	_, client := simOf(t, scenario)
	r := run{Sources: Sources{Config: config.Default(), EC2: client}, slurmConfig: &slurm.Config{}, settings: capacity.Settings{Partitions: []capacity.PartitionSettings{
		{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "gpu", LaunchTemplate: "ec2-nodes"}}}}}}
	r.templates(t.Context())
	if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Check == "configless" && f.Status == Fail }) {
		t.Errorf("%+v", r.Findings)
	}
}

// Nodes that ask slurmctld for slurm.conf get it only if it hands it out.
func TestConfigless(t *testing.T) {
	asks := capacity.LaunchTemplate{Name: "gpu", UserData: []byte("exec slurmd --conf-server head\n")}
	for _, c := range []struct {
		template capacity.LaunchTemplate
		running  *slurm.Config
		found    int
	}{
		{asks, &slurm.Config{}, 1},
		{asks, &slurm.Config{SlurmctldParameters: []string{"idle_on_node_suspend", "enable_configless"}}, 0},
		{asks, nil, 0},
		{capacity.LaunchTemplate{}, &slurm.Config{}, 0},
	} {
		r := run{slurmConfig: c.running}
		if r.configless(c.template); len(r.Findings) != c.found {
			t.Errorf("%+v: %+v", c, r.Findings)
		}
	}
}
