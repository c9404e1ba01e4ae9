package hookinstall

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// topologies reads the file that tells Slurm where nodes are in the network; none is in effect without a name.
func (s SlurmConf) topologies() (file string, all []slurm.Topology, err error) {
	// With topology.yaml, Slurm 25.05 and newer ignore topology.conf and TopologyPlugin.
	text, found, err := read(s.sibling("topology.yaml"))
	if found {
		all, err := parseTopologies([]byte(text))
		return "topology.yaml", all, err
	}

	plugin := strings.ToLower(s.value("TopologyPlugin"))
	if err != nil || plugin != "topology/tree" && plugin != "topology/block" {
		return "", nil, err
	}

	// Nothing of ours is included there.
	lines, _, err := readLines(s.sibling("topology.conf"), IncludeFile)

	return "topology.conf", []slurm.Topology{parseTopology(plugin, lines)}, err
}

// parseTopologies reads topology.yaml. Slurm also takes one topology without a list, and words for true.
func parseTopologies(text []byte) (all []slurm.Topology, err error) {
	words := yaml.CustomUnmarshaler(func(to *bool, word []byte) error {
		*to = slices.Contains([]string{"true", "yes", "on"}, strings.ToLower(strings.Trim(string(word), "\"' \n")))
		return nil
	})

	err = yaml.UnmarshalWithOptions(text, &all, words)
	if err == nil {
		return all, nil
	}

	var one slurm.Topology
	if yaml.UnmarshalWithOptions(text, &one, words) == nil {
		return []slurm.Topology{one}, nil
	}

	return nil, fmt.Errorf("topology.yaml: %s", yaml.FormatError(err, false, false))
}

// parseTopology reads lines of topology.conf.
func parseTopology(plugin string, lines []string) (t slurm.Topology) {
	if plugin == "topology/tree" {
		t.Tree = &slurm.Tree{}
	} else {
		t.Block = &slurm.Blocks{}
	}

	for _, line := range lines {
		nodes := optionValue(line, "Nodes")
		if t.Tree != nil {
			t.Tree.Switches = append(t.Tree.Switches, slurm.Switch{Name: optionValue(line, "SwitchName"), Nodes: nodes})
			continue
		}

		if name := optionValue(line, "BlockName"); name != "" {
			t.Block.Blocks = append(t.Block.Blocks, slurm.Block{Name: name, Nodes: nodes})
		}

		for size := range strings.SplitSeq(optionValue(line, "BlockSizes"), ",") {
			if n, err := strconv.Atoi(size); err == nil {
				t.Block.Sizes = append(t.Block.Sizes, n)
			}
		}
	}

	return t
}

// CheckTopology says which nodes of ours Slurm's topologies leave out, and which nodes they have that are gone.
// notes say what works, but not as one may think. A version of zero is not known.
func (s SlurmConf) CheckTopology(settings capacity.Settings, version slurm.Version) (wrong, notes []string) {
	file, all, err := s.topologies()
	if err != nil {
		return []string{fmt.Sprintf("cannot tell which nodes are in Slurm's topology: %s; correct it", err)}, nil
	}

	ours := nodeNames(launchedGroups(settings)...)
	groups := make([][]capacity.GroupSettings, len(all))
	for _, p := range settings.Partitions {
		if p.Provider.Launches() && len(all) > 0 {
			at := s.topologyOf(p.Name, all)
			groups[at] = append(groups[at], p.Groups...)
		}
	}

	for i, t := range all {
		where := file
		if t.Name != "" {
			where = "topology " + t.Name + " of " + file
		}

		if t.Tree == nil && t.Block == nil {
			continue
		}

		known := map[string]bool{}
		for _, nodes := range t.NodeLists() {
			if err := addNames(nodes, known); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s has an %s; correct it", where, err))
			}
		}

		used := nodeNames(groups[i]...)

		left := slices.DeleteFunc(slices.Clone(used), func(name string) bool { return known[name] })
		// Slurm looks at blocks only where one of the nodes for a job is in a block.
		switch ignored := t.Block != nil && len(left) == len(used); {
		case len(left) == 0:
		case ignored:
			notes = append(notes, describeLack(where, t, left, "ignores --segment of their jobs"))
		default:
			wrong = append(wrong, describeLack(where, t, left, "refuses jobs that need them"))
		}

		if len(left) < len(used) && version.LosesTopology() {
			notes = append(notes, fmt.Sprintf(
				"Slurm %s takes a node out of its %s when it powers the node down, and refuses jobs that need it "+
					"until slurmctld restarts; install Slurm 25.11.3 or newer", version, unit(t)))
		}

		stale := slices.DeleteFunc(slices.Sorted(maps.Keys(known)),
			func(name string) bool { return !s.gone(name, ours) })
		if len(stale) > 0 {
			wrong = append(wrong, fmt.Sprintf(
				"%s still has %s, which are in neither slurm.conf nor the settings; remove %s, and restart slurmctld",
				where, hostlist.Compress(stale), removal(t, len(stale) == len(known))))
		}
	}

	return wrong, notes
}

// gone reports whether no node has a name.
func (s SlurmConf) gone(name string, ours []string) bool {
	return !s.nodes[name] && !slices.Contains(ours, name)
}

// topologyOf returns the index of the topology of a partition's jobs.
func (s SlurmConf) topologyOf(partition string, all []slurm.Topology) int {
	named := optionValue(s.partitions[partition], "topology")

	return max(0, slices.IndexFunc(all, func(t slurm.Topology) bool {
		return named == "" && t.Default || named != "" && strings.EqualFold(named, t.Name)
	}))
}

// unit names what a topology puts nodes into.
func unit(t slurm.Topology) string {
	if t.Block != nil {
		return "block"
	}

	return "switch"
}

// describeLack says how to add nodes to a topology, and what Slurm does until then.
func describeLack(where string, t slurm.Topology, nodes []string, deed string) string {
	list := hostlist.Compress(nodes)
	line := "SwitchName=pcs-capacity"
	command := "pcs-capacity topology"
	tooFew := false

	if t.Block != nil {
		line = "BlockName=pcs-capacity"
		command += " --plugin block"
		tooFew = len(t.Block.Sizes) > 0 && len(nodes) < t.Block.Sizes[0]
	}

	add := fmt.Sprintf("add the line `%s Nodes=%s`, or those of `%s`", line, list, command)
	switch {
	case t.Name != "":
		add = fmt.Sprintf("add them to a %s, or take what `%s -o yaml` prints", unit(t), command)
	case tooFew:
		add = fmt.Sprintf("add them to a block, or take the lines of `%s`", command)
	}

	return fmt.Sprintf("%s has no %s for %s, and Slurm %s; %s, and restart slurmctld", where, unit(t), list, deed, add)
}

// removal says what goes with nodes that are gone. Slurm 25.11 does not start without any switch or block.
func removal(t slurm.Topology, all bool) string {
	switch {
	case all && t.Name != "":
		return "this topology"
	case all:
		return "TopologyPlugin from slurm.conf"
	default:
		return "these nodes from it"
	}
}

// CheckBlocks says which blocks of topology.conf have too few nodes for slurmctld to start. Slurm 25.05 and newer need
// one with a node, or BlockSizes. What cannot be read is CheckTopology's to say.
func (s SlurmConf) CheckBlocks(settings capacity.Settings, version slurm.Version) (sentences []string) {
	file, all, err := s.topologies()
	if err != nil || file != "topology.conf" || all[0].Block == nil {
		return nil
	}

	ours := nodeNames(launchedGroups(settings)...)
	gone := func(name string) bool { return s.gone(name, ours) }

	// Without BlockSizes, the first block with nodes is the measure.
	size := slices.Concat(all[0].Block.Sizes, []int{0})[0]
	left := 0
	for _, block := range all[0].Block.Blocks {
		names, _ := hostlist.Expand(block.Nodes)
		count := len(slices.DeleteFunc(names, gone))

		left += count
		if size == 0 {
			size = count
		}

		if count < size {
			sentences = append(sentences, fmt.Sprintf(
				"block %s of topology.conf has fewer than %d nodes, and slurmctld before 25.05 does not start; "+
					"remove the block, or lower BlockSizes", block.Name, size))
		}
	}

	switch strict := !version.AtLeast(25, 5, 0); {
	case left == 0 && (strict || size == 0):
		return []string{"no block of topology.conf has nodes, and slurmctld does not start; remove " +
			"TopologyPlugin from slurm.conf"}
	case strict:
		return sentences
	default:
		return nil
	}
}
