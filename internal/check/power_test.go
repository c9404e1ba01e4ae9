package check

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

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
