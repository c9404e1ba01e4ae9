package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Leaf is nodes that are at one place in the network.
type Leaf struct {
	// Nodes is a Slurm hostlist.
	Nodes string
	// Path is the switches above them, from the top down; empty if they are not known.
	Path []string
}

// RankOrder sorts leaves so that those which are near each other in the network follow each
// other; what is not known comes last. Leaves at one place stay in their order.
func RankOrder(leaves []Leaf) {
	slices.SortStableFunc(leaves, func(a, b Leaf) int {
		if known := len(b.Path) - len(a.Path); len(a.Path) == 0 || len(b.Path) == 0 {
			return known
		}
		return slices.Compare(a.Path, b.Path)
	})
}

// The switches of our own making: what is above all others, and above what is not known.
const (
	rootSwitch    = "pcs-capacity-root"
	unknownSwitch = "pcs-capacity-unknown"
)

// TopologyConf is the lines of topology.conf for topology/tree: each switch once, and one that
// is above all, because jobs do not cross what nothing connects.
func TopologyConf(leaves []Leaf) string {
	nodes, below := map[string][]string{}, map[string][]string{}
	add := func(to map[string][]string, key, value string) {
		if !slices.Contains(to[key], value) {
			to[key] = append(to[key], value)
		}
	}
	var tops []string
	for _, l := range leaves {
		path := l.Path
		if len(path) == 0 {
			path = []string{unknownSwitch}
		}
		if !slices.Contains(tops, path[0]) {
			tops = append(tops, path[0])
		}
		for i, s := range path[1:] {
			add(below, path[i], s)
		}
		add(nodes, path[len(path)-1], l.Nodes)
	}
	// A switch of Slurm has nodes or switches below it.
	for _, s := range slices.Sorted(maps.Keys(nodes)) {
		if len(below[s]) > 0 {
			add(below, s, s+"-nodes")
			nodes[s+"-nodes"] = nodes[s]
			delete(nodes, s)
		}
	}
	if len(tops) > 1 {
		below[rootSwitch] = tops
	}
	var b strings.Builder
	for _, s := range slices.Sorted(maps.Keys(nodes)) {
		fmt.Fprintf(&b, "SwitchName=%s Nodes=%s\n", s, strings.Join(nodes[s], ","))
	}
	for _, s := range slices.Sorted(maps.Keys(below)) {
		fmt.Fprintf(&b, "SwitchName=%s Switches=%s\n", s, strings.Join(slices.Sorted(slices.Values(below[s])), ","))
	}
	return b.String()
}
