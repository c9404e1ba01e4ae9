package site

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// A suspended cluster does not become ACTIVE by waiting.
func TestClusterThatIsNotActive(t *testing.T) {
	for status, fix := range map[string]string{
		"ACTIVE":        "",
		"UPDATING":      "run this again once it is ACTIVE",
		"RESUMING":      "run this again once it is ACTIVE",
		"SUSPENDING":    "move it to a newer Slurm",
		"SUSPENDED":     "move it to a newer Slurm",
		"UPDATE_FAILED": "mend what the update failed on",
		"DELETE_FAILED": "name another cluster",
	} {
		t.Run(status, func(t *testing.T) {
			scenario := awssim.DefaultScenario()
			scenario.Regions[0].Clusters[0].Status = status
			_, client := simOf(t, scenario)
			r := run{Sources: Sources{Config: &config.Config{Cluster: "ml"}, EC2: client, PCS: pcs.From(client.Shared())}}
			r.pcsCluster(t.Context())
			if len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].Fix, fix) || (fix == "") != (r.Findings[0].Fix == "") || !strings.Contains(r.Findings[0].What, "cluster ml is "+status) {
				t.Errorf("said %+v, want the advice %q", r.Findings, fix)
			}
			if r.cluster == nil || r.cluster.Name != "ml" {
				t.Errorf("the cluster is not known to the checks after this one: %v", r.cluster)
			}
		})
	}
}
