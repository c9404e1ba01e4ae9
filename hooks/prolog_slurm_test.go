package hooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/hooks"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// prologs is a power whose nodes run pcs-capacity-prolog as Prolog and as TaskProlog, beside
// a site's own: as Prolog by a pattern that finds both, as TaskProlog from the site's script.
type prologs struct{ *power }

func startPrologs(t *testing.T, settings string) prologs {
	t.Helper()
	p := prologs{}
	dir := shortDir(t)
	p.power = startPowerWith(t, settings, func(s *awssim.Scenario) {
		s.InstanceTypes = append(s.InstanceTypes, awssim.InstanceTypeScenario{Name: "g5.xlarge", VCPUs: 4, MemoryMiB: 16384, GPUs: 1})
		s.Regions[0].Capacity = append(s.Regions[0].Capacity, awssim.CapacityScenario{Zone: "us-east-2b", Type: "g5.xlarge", Count: 2})
	}, func(cfg *slurmlab.Config) {
		for name, text := range map[string]string{
			"d/10-site":     "echo \"site $SLURMD_NODENAME $SLURM_JOB_ID\" >>" + dir + "/site.log\nexit 0\n",
			"d/50-capacity": "read -r url <" + dir + "/metadata-$SLURMD_NODENAME\nexport AWS_EC2_METADATA_SERVICE_ENDPOINT=$url\nexec " + program(t, "pcs-capacity-prolog") + "\n",
			"task":          "echo export SITE=was here\n" + program(t, "pcs-capacity-prolog") + " || :\n",
		} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cfg.Extra = append(cfg.Extra, "Prolog="+dir+"/d/*", "TaskProlog="+dir+"/task")
	})
	p.sim.OnInstance(func(e awssim.InstanceEvent) {
		if node := p.nodeOf(e.Instance); node != "" && e.Kind == awssim.Launched {
			p.metadataOf(dir, node, e.Instance.ID)
		}
	})
	p.prologDir = dir
	return p
}
