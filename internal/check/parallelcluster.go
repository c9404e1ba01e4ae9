package check

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// parallelClusterFolder has the programs that AWS ParallelCluster installs.
const parallelClusterFolder = "/opt/parallelcluster/"

var (
	versionNumber = regexp.MustCompile(`[0-9]+\.[0-9]+\.[0-9]+`)
	// parallelClusterStatic is QUEUE-st-RESOURCE-1: QUEUE-dy-RESOURCE-1 is dynamic, and only for jobs.
	parallelClusterStatic = regexp.MustCompile(`^[a-z0-9-]+-st-[a-z0-9-]+-[0-9]+$`)
)

// The first and the last version that ends and launches static nodes under foreign reservations with MAINT while they
// boot: aws-parallelcluster issues 7465 and 7470, fixed by aws-parallelcluster-node pull request 728.
const firstLooping, lastLooping = "3.8.0", "3.15.1"

// checkParallelCluster judges our fences over static nodes of ParallelCluster, which takes every reservation with
// MAINT for its own.
func (s survey) checkParallelCluster(f *findings) {
	version := versionNumber.FindString(s.ParallelCluster)
	if version == "" && !strings.HasPrefix(s.Slurmctld.ResumeProgram, parallelClusterFolder) {
		return
	}

	var static []string
	for _, p := range s.Partitions.Value {
		isOurs := func(of capacity.PartitionSettings) bool { return of.Name == p.Name && !of.Provider.IsGuest() }
		if !slices.ContainsFunc(s.Settings.Partitions, isOurs) {
			continue
		}

		for _, name := range p.Nodes {
			if parallelClusterStatic.MatchString(name) {
				static = append(static, name)
			}
		}
	}

	const fix = "set provider = \"none\" for their partition, whose fences are without MAINT then, or update " +
		"ParallelCluster to a version after 3.15.1"
	switch list := hostlist.Compress(static); {
	case len(static) > 0 && version == "":
		f.warn("parallelcluster", fix,
			"ParallelCluster of an unknown version launches %s; 3.8.0 to 3.15.1 keep terminating and relaunching "+
				"static nodes that boot under a fence",
			list)
	case len(static) > 0 && hostlist.NaturalCompare(version, firstLooping) >= 0 &&
		hostlist.NaturalCompare(version, lastLooping) <= 0:
		f.fail("parallelcluster", fix,
			"ParallelCluster %s keeps terminating and relaunching static nodes that boot under a fence: %s", version,
			list)
	default:
		f.ok("parallelcluster", "%s leaves nodes under our fences alone", strings.TrimSpace("ParallelCluster "+version))
	}
}
