package hookinstall

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Jobs do not get nodes that no switch or block has, and both may outlive their nodes. 24.11 does not start with a
// block that is too small; 25.11.0 to .2 lose the blocks of cloud nodes.
func TestCheckTopology(t *testing.T) {
	settings := capacity.Settings{
		Partitions: []capacity.PartitionSettings{
			{
				Name:     "gpu",
				Provider: capacity.ProviderEC2,
				Groups:   []capacity.GroupSettings{{Name: "gpu", MaxNodes: 4, Slots: 1}},
			},
		},
	}
	blocks := func(name, first, second string) string {
		return "- topology: " + name + "\n  cluster_default: true\n  block:\n    block_sizes:\n      - 2\n" +
			"    blocks:\n      - block: b0\n        nodes: " + first + "\n      - {block: b1, nodes: " + second + "}\n"
	}

	const (
		flat    = "- topology: flat\n  cluster_default: true\n  flat: true\n"
		tree    = "TopologyPlugin=topology/tree"
		block   = "TopologyPlugin=topology/block"
		restart = ", and restart slurmctld"
		refused = " and Slurm refuses jobs that need them; "
		missing = "topology.conf has no block for gpu-[1-4], and Slurm ignores --segment of their jobs; add the line " +
			"`BlockName=pcs-capacity Nodes=gpu-[1-4]`, or those of `pcs-capacity topology --plugin block`" + restart
		neither = ", which are in neither slurm.conf nor the settings; remove "
		gone    = neither + "these nodes from it" + restart
		small   = " of topology.conf has fewer than 2 nodes, and slurmctld before 25.05 does not start; remove the " +
			"block, or lower BlockSizes"
		none = "no block of topology.conf has nodes, and slurmctld does not start; remove TopologyPlugin from " +
			"slurm.conf"
		inYAML = "add them to a block, or take what `pcs-capacity topology --plugin block -o yaml` prints" + restart
	)

	mended := slurm.Version{Major: 25, Minor: 11, Micro: 3}
	lossy := slurm.Version{Major: 25, Minor: 11, Micro: 2}

	for name, c := range map[string]struct {
		conf, topology string
		version        slurm.Version
		want, notes    []string
	}{
		"some nodes without a switch": {
			conf:     tree,
			topology: "SwitchName=s0 Nodes=cpu-1,gpu-1\n",
			want: []string{"topology.conf has no switch for gpu-[2-4]," + refused + "add the line " +
				"`SwitchName=pcs-capacity Nodes=gpu-[2-4]`, or those of `pcs-capacity topology`" + restart},
		},
		"no topology.conf": {
			conf: tree,
			want: []string{"topology.conf has no switch for gpu-[1-4]," + refused + "add the line " +
				"`SwitchName=pcs-capacity Nodes=gpu-[1-4]`, or those of `pcs-capacity topology`" + restart},
		},
		"switches of two files": {
			conf:     tree,
			topology: "SwitchName=s0 Nodes=gpu-[1-2]\nInclude more.conf\nSwitchName=root Switches=s0,s1\n",
		},
		"no topology": {conf: "TopologyPlugin=topology/none"},
		"names that are gone": {
			conf:     tree,
			topology: "SwitchName=s0 Nodes=cpu-1,gpu-[1-4]\nSwitchName=s1 Nodes=big-[1-2],old-1\n",
			want:     []string{"topology.conf still has big-[1-2],old-1" + gone},
		},
		"a node without a block": {
			conf:     block,
			topology: "BlockName=b0 Nodes=gpu-[1-3]\nBlockSizes=1\n",
			want: []string{"topology.conf has no block for gpu-4," + refused + "add the line `BlockName=pcs-capacity " +
				"Nodes=gpu-4`, or those of `pcs-capacity topology --plugin block`" + restart},
		},
		"too few for a block of their own": {
			conf:     block,
			topology: "BlockName=b0 Nodes=gpu-[1-3]\nBlockSizes=2,4\n",
			want: []string{"topology.conf has no block for gpu-4," + refused + "add them to a block, or take the " +
				"lines of `pcs-capacity topology --plugin block`" + restart},
		},
		"a block whose nodes are gone": {
			conf:     block,
			topology: "BlockName=b0 Nodes=gpu-[1-4]\nBlockName=b1 Nodes=cpu-1,old-1\nBlockSizes=2\n",
			want:     []string{"topology.conf still has old-1" + gone, "block b1" + small},
		},
		"a block smaller than the first": {
			conf: block,
			topology: "BlockName=b0 Nodes=gpu-[1-2]\nBlockName=b1 Nodes=gpu-3\n" +
				"BlockName=b2 Nodes=gpu-4,cpu-1\n",
			want: []string{"block b1" + small},
		},
		"no block of nodes that are left": {
			conf:     block,
			topology: "BlockName=b0 Nodes=old-[1-4]\nBlockSizes=2\n",
			want: []string{
				"topology.conf still has old-[1-4]" + neither + "TopologyPlugin from slurm.conf" + restart,
				none,
			},
			notes: []string{missing},
		},
		"no block with nodes on a newer Slurm": {
			conf:     block,
			topology: "BlockName=b0\n",
			version:  mended,
			want:     []string{none},
			notes:    []string{missing},
		},
		"a small block on a newer Slurm": {
			conf:     block,
			topology: "BlockName=b0 Nodes=gpu-[1-4]\nBlockName=b1 Nodes=cpu-1\nBlockSizes=2\n",
			version:  mended,
		},
		"a Slurm that loses blocks": {
			conf:     block,
			topology: "BlockName=b0 Nodes=gpu-[1-4]\n",
			version:  lossy,
			notes: []string{"Slurm 25.11.2 takes a node out of its block when it powers the node down, and refuses " +
				"jobs that need it until slurmctld restarts; install Slurm 25.11.3 or newer"},
		},
		"a Slurm that loses blocks of others": {
			conf:     block,
			topology: "BlockName=b0 Nodes=cpu-1\n",
			version:  lossy,
			notes:    []string{missing},
		},
		"blocks in YAML": {topology: blocks("racks", "gpu-[1-2]", `"gpu-[3-4]"`)},
		"a node without a block in YAML": {
			conf:     tree,
			topology: blocks("racks", "gpu-1", "'gpu-3,cpu-1'"),
			want:     []string{"topology racks of topology.yaml has no block for gpu-[2,4]," + refused + inYAML},
		},
		"gone from YAML": {
			topology: blocks("racks", "'gpu-[1-4]'", "old-1"),
			want:     []string{"topology racks of topology.yaml still has old-1" + gone},
		},
		"all gone from YAML": {
			conf:     "PartitionName=gpu Topology=flat",
			topology: blocks("racks", "'old-[1-4]'", "old-5") + flat,
			want: []string{
				"topology racks of topology.yaml still has old-[1-5]" + neither + "this topology" + restart,
			},
		},
		"only what a partition uses": {
			conf:     "PartitionName=gpu Topology=RACKS",
			topology: flat + blocks("others", "cpu-1", "cpu-1") + blocks("racks", "gpu-1", "'gpu-[2-3]'"),
			want:     []string{"topology racks of topology.yaml has no block for gpu-4," + refused + inYAML},
		},
		"the default is flat": {topology: flat + blocks("racks", "cpu-1", "cpu-1")},
		"words for true": {
			topology: "- topology: flat\n" + strings.ReplaceAll(blocks("racks", "gpu-1", "'gpu-[2-3]'"), "true", "Yes"),
			want:     []string{"topology racks of topology.yaml has no block for gpu-4," + refused + inYAML},
		},
		"one without a list": {
			topology: "topology: one\ntree:\n  switches:\n  - {switch: s0, nodes: 'gpu-[1-3]'}\n",
			want: []string{"topology one of topology.yaml has no switch for gpu-4," + refused + "add them to a " +
				"switch, or take what `pcs-capacity topology -o yaml` prints" + restart},
		},
		"not YAML": {
			topology: "- topology: [",
			want: []string{"cannot tell which nodes are in Slurm's topology: topology.yaml: [1:13] sequence end " +
				"token ']' not found; correct it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.write("slurm.conf", siteConf+c.conf+"\n")

			file := "topology.conf"
			if strings.Contains(c.topology, "topology: ") {
				file = "topology.yaml"
			}

			s.write(file, c.topology)
			s.write("more.conf", "SwitchName=s1 Nodes=gpu-[3-4]\n")

			conf := s.conf()
			wrong, notes := conf.CheckTopology(settings, c.version)
			wrong = append(wrong, conf.CheckBlocks(settings, c.version)...)

			if diff := cmp.Diff([][]string{c.want, c.notes}, [][]string{wrong, notes}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
