package site

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

func TestParallelClusterFences(t *testing.T) {
	const cookbook, static, dynamic = "aws-parallelcluster-cookbook-", "gpu-st-p5-1", "gpu-dy-p5-1"
	for name, c := range map[string]struct {
		version, resume string
		provider        capacity.Provider
		node            string
		want            Status // "" for nothing
		says            string
	}{
		"no ParallelCluster":        {"", "/usr/libexec/pcs-capacity/pcs-capacity-resume", "ec2", static, "", ""},
		"before Capacity Blocks":    {cookbook + "3.7.2", "", "ec2", static, OK, "ParallelCluster 3.7.2"},
		"the first":                 {cookbook + "3.8.0\n", "", "ec2", static, Fail, "ParallelCluster 3.8.0 ends a static node that boots under a fence of partition gpu"},
		"in between":                {cookbook + "3.10.1", "", "ec2", static, Fail, "for ever: gpu-st-p5-1"},
		"the last":                  {cookbook + "3.15.1", "", "ec2", static, Fail, ""},
		"mended":                    {cookbook + "3.15.2", "", "ec2", static, OK, ""},
		"later":                     {cookbook + "3.16.0", "", "ec2", static, OK, ""},
		"dynamic nodes":             {cookbook + "3.10.1", "", "ec2", dynamic, OK, ""},
		"a guest":                   {cookbook + "3.10.1", "", "none", static, OK, "ParallelCluster 3.10.1 leaves nodes under our fences alone"},
		"a version that is not one": {"yes", "", "ec2", static, Warn, "of an unknown version"},
		"only slurmctld says so":    {"", "/opt/parallelcluster/scripts/slurm/slurm_resume", "ec2", static, Warn, "of an unknown version"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if c.version != "" {
				path := filepath.Join(root, parallelClusterVersion)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(c.version), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			r := run{
				Sources:     Sources{Root: root},
				settings:    capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: c.provider}}},
				slurmConfig: &slurm.Config{ResumeProgram: c.resume},
			}
			r.parallelClusterFences([]capacity.SlurmPartition{{Name: "gpu", Nodes: []string{c.node}}})
			switch {
			case c.want == "" && len(r.Findings) == 0:
			case len(r.Findings) != 1 || r.Findings[0].Status != c.want || !strings.Contains(r.Findings[0].What, c.says):
				t.Errorf("%+v", r.Findings)
			case c.want != OK && !strings.Contains(r.Findings[0].Fix, `provider = "none"`):
				t.Errorf("the fix is %q", r.Findings[0].Fix)
			}
		})
	}
}
