package site

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Where AWS ParallelCluster is, and what says its version: "aws-parallelcluster-cookbook-3.11.1", written when the image
// was made.
const (
	parallelClusterFolder  = "/opt/parallelcluster/"
	parallelClusterVersion = "/opt/parallelcluster/.bootstrapped"
	parallelClusterSigns   = "/etc/parallelcluster/cfnconfig"
)

var (
	threeNumbers = regexp.MustCompile(`[0-9]+\.[0-9]+\.[0-9]+`)
	// parallelClusterStatic is QUEUE-st-RESOURCE-1: QUEUE-dy-RESOURCE-1 is dynamic, and only for jobs.
	parallelClusterStatic = regexp.MustCompile(`^[a-z0-9-]+-st-[a-z0-9-]+-[0-9]+$`)
)

// The first and the last version that ends and launches static nodes under foreign reservations with MAINT while they
// boot: aws-parallelcluster issues 7465 and 7470, fixed by aws-parallelcluster-node pull request 728.
const firstLoop, lastLoop = "v3.8.0", "v3.15.1"

// parallelCluster is what this host says of ParallelCluster.
type parallelCluster struct {
	Here    bool
	Version string // the text that has it; "" for none
}

func readParallelCluster() parallelCluster {
	text, err := os.ReadFile(parallelClusterVersion)
	if err != nil {
		_, err = os.Stat(parallelClusterSigns)
	}
	return parallelCluster{err == nil, string(text)}
}

// parallelClusterFences judges our fences over static nodes of ParallelCluster, which takes every reservation with
// MAINT for its own.
func (s *Survey) parallelClusterFences(f *findings) {
	if !s.ParallelCluster.Here && !strings.HasPrefix(s.Slurmctld.ResumeProgram, parallelClusterFolder) {
		return
	}
	version := threeNumbers.FindString(s.ParallelCluster.Version)
	before, named, old := len(f.Problems), strings.TrimSpace("ParallelCluster "+version), semver.Compare("v"+version, firstLoop) >= 0 && semver.Compare("v"+version, lastLoop) <= 0
	for _, p := range s.Settings.Partitions {
		at := slices.IndexFunc(s.Partitions.Is, func(there capacity.SlurmPartition) bool { return there.Name == p.Name })
		if at < 0 || p.Provider.Guest() {
			continue
		}
		static := slices.DeleteFunc(slices.Clone(s.Partitions.Is[at].Nodes), func(name string) bool { return !parallelClusterStatic.MatchString(name) })
		const fix = "set provider = \"none\" for the partition, whose fences are without MAINT then, or update ParallelCluster to a version after 3.15.1"
		switch list := hostlist.Compress(static); {
		case len(static) == 0:
		case old:
			f.fail("parallelcluster", fix, "%s keeps terminating and relaunching a static node that boots under a fence of partition %s: %s", named, p.Name, list)
		case version == "":
			f.warn("parallelcluster", fix, "%s of an unknown version launches %s of partition %s; 3.8.0 to 3.15.1 keep terminating and relaunching static nodes that boot under a fence",
				named, list, p.Name)
		}
	}
	if len(f.Problems) == before {
		f.ok("parallelcluster", "%s leaves nodes under our fences alone", named)
	}
}
