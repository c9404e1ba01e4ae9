package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Leaf is a set of nodes at one place in the network.
type Leaf struct {
	// Nodes is a Slurm hostlist.
	Nodes string
	// Path is the switches above the nodes, from the top down; empty if unknown.
	Path []string
}

// RankOrder sorts leaves so that neighbours in the network follow each other; leaves of unknown place come last.
// Leaves at one place keep their order.
func RankOrder(leaves []Leaf) {
	slices.SortStableFunc(leaves, func(a, b Leaf) int {
		if known := len(b.Path) - len(a.Path); len(a.Path) == 0 || len(b.Path) == 0 {
			return known
		}
		return slices.Compare(a.Path, b.Path)
	})
}

// Switches that we make up: the root, and the parent of leaves of unknown place.
const (
	rootSwitch    = "pcs-capacity-root"
	unknownSwitch = "pcs-capacity-unknown"
)

// TopologyConf is the lines of topology.conf for topology/tree: each switch once, and a root above all, because jobs
// cannot span unconnected switches.
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
	// A Slurm switch has either nodes or switches below it.
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
