package slurm

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Never is a time that does not come.
const Never = time.Duration(math.MaxInt64)

// ShortestResumeTimeout is how long a node of the named partitions may take to boot at least.
func (c Config) ShortestResumeTimeout(partitions []capacity.SlurmPartition, names []string) time.Duration {
	shortest := Never
	for _, p := range partitions {
		if slices.Contains(names, p.Name) {
			shortest = min(shortest, cmp.Or(p.ResumeTimeout, c.ResumeTimeout))
		}
	}
	if shortest == Never {
		return c.ResumeTimeout
	}
	return shortest
}

// PowersDown reports whether Slurm powers a node down that is idle for long enough. The
// longest SuspendTime of its partitions counts, else that of slurm.conf.
func (c Config) PowersDown(n capacity.Node, partitions []capacity.SlurmPartition) bool {
	var after time.Duration
	for _, p := range partitions {
		if slices.Contains(n.Partitions, p.Name) {
			after = max(after, p.SuspendTime)
		}
	}
	after = cmp.Or(after, c.SuspendTime)
	return after > 0 && after != Never && !slices.Contains(c.excludedNodes(), n.Name) &&
		!slices.ContainsFunc(c.SuspendExcParts, func(name string) bool { return slices.Contains(n.Partitions, name) })
}

// excludeCount is how many of the nodes before it stay up: slurm.conf(5), SuspendExcNodes.
var excludeCount = regexp.MustCompile(`:[0-9]+`)

// excludedNodes are those of SuspendExcNodes.
func (c Config) excludedNodes() []string {
	names, err := Expand(excludeCount.ReplaceAllString(c.SuspendExcNodes, ""))
	if err != nil {
		return nil
	}
	return names
}
