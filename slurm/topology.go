package slurm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Topology is a network topology of Slurm's, as topology.yaml has them. topology.conf has one, without a name.
type Topology struct {
	Name    string  `json:"topology"`
	Default bool    `json:"cluster_default"` // of the partitions that name none
	Tree    *Tree   `json:"tree,omitempty"`
	Block   *Blocks `json:"block,omitempty"`
}

// Tree is the network of topology/tree.
type Tree struct {
	Switches []Switch `json:"switches"`
}

// Switch has either nodes or other switches below it.
type Switch struct {
	Name     string `json:"switch"`
	Children string `json:"children,omitempty"` // a hostlist of switches
	Nodes    string `json:"nodes,omitempty"`    // a hostlist
}

// Blocks is the network of topology/block.
type Blocks struct {
	Sizes  []int   `json:"block_sizes"` // the first is the base block size
	Blocks []Block `json:"blocks"`
}

// Block is a set of nodes with a network of their own.
type Block struct {
	Name  string `json:"block"`
	Nodes string `json:"nodes"` // a hostlist
}

// Conf returns the lines of topology.conf.
func (t Topology) Conf() string {
	var b strings.Builder
	if t.Tree != nil {
		for _, s := range t.Tree.Switches {
			if s.Nodes != "" {
				fmt.Fprintf(&b, "SwitchName=%s Nodes=%s\n", s.Name, s.Nodes)
			} else {
				fmt.Fprintf(&b, "SwitchName=%s Switches=%s\n", s.Name, s.Children)
			}
		}
	}

	if t.Block != nil {
		for _, block := range t.Block.Blocks {
			fmt.Fprintf(&b, "BlockName=%s Nodes=%s\n", block.Name, block.Nodes)
		}

		sizes := strings.Trim(fmt.Sprint(t.Block.Sizes), "[]")
		fmt.Fprintf(&b, "BlockSizes=%s\n", strings.ReplaceAll(sizes, " ", ","))
	}

	return b.String()
}

// NodeLists returns the hostlists of nodes that are in the topology.
func (t Topology) NodeLists() (lists []string) {
	if t.Tree != nil {
		for _, s := range t.Tree.Switches {
			lists = append(lists, s.Nodes)
		}
	}

	if t.Block != nil {
		for _, block := range t.Block.Blocks {
			lists = append(lists, block.Nodes)
		}
	}

	return slices.DeleteFunc(lists, func(list string) bool { return list == "" })
}

// Leaf is the place of a node in the network.
type Leaf struct {
	Node string
	Path []string // the switches above it, from the top down; empty if unknown
}

// Switches that we make up: the root, and the parent of leaves of unknown place.
const (
	rootSwitch    = "pcs-capacity-root"
	unknownSwitch = "pcs-capacity-unknown"
)

// NewTree returns the switches above leaves, each once, and a root above all, because jobs cannot span unconnected
// switches.
func NewTree(leaves []Leaf) *Tree {
	nodes := map[string][]string{}
	below := map[string][]string{}
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

		add(nodes, path[len(path)-1], l.Node)
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

	t := &Tree{}
	for _, s := range slices.Sorted(maps.Keys(nodes)) {
		t.Switches = append(t.Switches, Switch{Name: s, Nodes: hostlist.Compress(nodes[s])})
	}

	for _, s := range slices.Sorted(maps.Keys(below)) {
		children := strings.Join(slices.Sorted(slices.Values(below[s])), ",")
		t.Switches = append(t.Switches, Switch{Name: s, Children: children})
	}

	return t
}
