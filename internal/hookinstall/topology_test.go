package hookinstall

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Jobs do not get nodes that no switch or block has, and both may outlive their nodes. 24.11 does not start with a block
// that is too small; 25.11.0 to .2 lose the blocks of cloud nodes.
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

	const flat = "- topology: flat\n  cluster_default: true\n  flat: true\n"

	old := slurm.Version{Major: 24, Minor: 11, Micro: 5}
	mended := slurm.Version{Major: 25, Minor: 11, Micro: 3}

	const (
		refused = " and Slurm refuses jobs that need them; "
		restart = ", and restart slurmctld"
		gone    = ", which are in neither slurm.conf nor the settings; remove these nodes from it" + restart
		missing = "topology.conf has no block for gpu-[1-4], and Slurm ignores --segment of their jobs; to have it kept, " +
			"add the line `BlockName=pcs-capacity " +
			"Nodes=gpu-[1-4]`, or those of `pcs-capacity topology --plugin block`" + restart
		none  = "no block of topology.conf has nodes, and slurmctld does not start; remove TopologyPlugin from slurm.conf"
		small = " of topology.conf has fewer than 2 nodes, and slurmctld before 25.05 does not start; remove the " +
			"block, or lower BlockSizes"
	)

	for name, c := range map[string]struct {
		conf, topology string
		version        slurm.Version
		want, notes    []string
	}{
		"some nodes without a switch": {
			"TopologyPlugin=topology/tree", "SwitchName=s0 Nodes=cpu-1,gpu-1\n", old,
			[]string{"topology.conf has no switch for gpu-[2-4]," + refused + "add the line `SwitchName=pcs-capacity " +
				"Nodes=gpu-[2-4]`, or those of `pcs-capacity topology`" + restart},
			nil,
		},
		"no topology.conf": {
			"TopologyPlugin=topology/tree", "", old,
			[]string{"topology.conf has no switch for gpu-[1-4]," + refused + "add the line `SwitchName=pcs-capacity " +
				"Nodes=gpu-[1-4]`, or those of `pcs-capacity topology`" + restart},
			nil,
		},
		"switches of two files": {
			"TopologyPlugin=topology/tree",
			"SwitchName=s0 Nodes=gpu-[1-2]\nInclude more.conf\nSwitchName=root Switches=s0,s1\n", old, nil, nil,
		},
		"no topology": {"TopologyPlugin=topology/none", "", old, nil, nil},
		"names that are gone": {
			"TopologyPlugin=topology/tree", "SwitchName=s0 Nodes=cpu-1,gpu-[1-4]\nSwitchName=s1 Nodes=big-[1-2],old-1\n", old,
			[]string{"topology.conf still has big-[1-2],old-1" + gone},
			nil,
		},
		"a node without a block": {
			"TopologyPlugin=topology/block", "BlockName=b0 Nodes=gpu-[1-3]\nBlockSizes=1\n", old,
			[]string{"topology.conf has no block for gpu-4," + refused + "add the line `BlockName=pcs-capacity " +
				"Nodes=gpu-4`, or those of `pcs-capacity topology --plugin block`" + restart},
			nil,
		},
		"too few for a block of their own": {
			"TopologyPlugin=topology/block", "BlockName=b0 Nodes=gpu-[1-3]\nBlockSizes=2,4\n", old,
			[]string{"topology.conf has no block for gpu-4," + refused + "add them to a block, or take the lines of " +
				"`pcs-capacity topology --plugin block`" + restart},
			nil,
		},
		"a block whose nodes are gone": {
			"TopologyPlugin=topology/block", "BlockName=b0 Nodes=gpu-[1-4]\nBlockName=b1 Nodes=cpu-1,old-1\nBlockSizes=2\n",
			old,
			[]string{"topology.conf still has old-1" + gone, "block b1" + small},
			nil,
		},
		"a block smaller than the first": {
			"TopologyPlugin=topology/block", "BlockName=b0 Nodes=gpu-[1-2]\nBlockName=b1 Nodes=gpu-3\nBlockName=b2 " +
				"Nodes=gpu-4,cpu-1\n", old, []string{"block b1" + small}, nil,
		},
		"no block of nodes that are left": {
			"TopologyPlugin=topology/block", "BlockName=b0 Nodes=old-[1-4]\nBlockSizes=2\n", old,
			[]string{
				"topology.conf still has old-[1-4], which are in neither slurm.conf nor the settings; remove " +
					"TopologyPlugin from slurm.conf" + restart,
				none,
			},
			[]string{missing},
		},
		"no block with nodes on a newer Slurm": {
			"TopologyPlugin=topology/block", "BlockName=b0\n", mended, []string{none}, []string{missing},
		},
		"a small block on a newer Slurm": {
			"TopologyPlugin=topology/block", "BlockName=b0 Nodes=gpu-[1-4]\nBlockName=b1 Nodes=cpu-1\nBlockSizes=2\n", mended,
			nil, nil,
		},
		"a Slurm that loses blocks": {
			"TopologyPlugin=topology/block", "BlockName=b0 Nodes=gpu-[1-4]\n",
			slurm.Version{Major: 25, Minor: 11, Micro: 2},
			nil,
			[]string{"Slurm 25.11.2 takes a node out of its block when it powers the node down, and refuses jobs " +
				"that need it until slurmctld restarts; install Slurm 25.11.3 or newer"},
		},
		"a Slurm that loses blocks of others": {
			"TopologyPlugin=topology/block", "BlockName=b0 Nodes=cpu-1\n",
			slurm.Version{Major: 25, Minor: 11},
			nil,
			[]string{missing},
		},
		"blocks in YAML": {"", blocks("racks", "gpu-[1-2]", `"gpu-[3-4]"`), mended, nil, nil},
		"a node without a block in YAML": {
			"TopologyPlugin=topology/tree", blocks("racks", "gpu-1", "'gpu-3,cpu-1'"), mended,
			[]string{"topology racks of topology.yaml has no block for gpu-[2,4]," + refused + "add them to a block, or " +
				"take what `pcs-capacity topology --plugin block -o yaml` prints" + restart},
			nil,
		},
		"gone from YAML": {
			"", blocks("racks", "'gpu-[1-4]'", "old-1"), mended,
			[]string{"topology racks of topology.yaml still has old-1" + gone},
			nil,
		},
		"all gone from YAML": {
			"PartitionName=gpu Topology=flat", blocks("racks", "'old-[1-4]'", "old-5") + flat, mended,
			[]string{"topology racks of topology.yaml still has old-[1-5], which are in neither slurm.conf nor the " +
				"settings; remove this topology" + restart},
			nil,
		},
		"only what a partition uses": {
			"PartitionName=gpu Topology=RACKS", flat + blocks("others", "cpu-1", "cpu-1") +
				blocks("racks", "gpu-1", "'gpu-[2-3]'"), mended,
			[]string{"topology racks of topology.yaml has no block for gpu-4," + refused + "add them to a block, or " +
				"take what `pcs-capacity topology --plugin block -o yaml` prints" + restart},
			nil,
		},
		"the default is flat": {"", flat + blocks("racks", "cpu-1", "cpu-1"), mended, nil, nil},
		"words for true": {
			"", "- topology: flat\n" + strings.ReplaceAll(blocks("racks", "gpu-1", "'gpu-[2-3]'"), "true", "Yes"), mended,
			[]string{"topology racks of topology.yaml has no block for gpu-4," + refused + "add them to a block, or take " +
				"what `pcs-capacity topology --plugin block -o yaml` prints" + restart},
			nil,
		},
		"one without a list": {
			"", "topology: one\ntree:\n  switches:\n  - {switch: s0, nodes: 'gpu-[1-3]'}\n", mended,
			[]string{"topology one of topology.yaml has no switch for gpu-4," + refused + "add them to a switch, or take what " +
				"`pcs-capacity topology -o yaml` prints" + restart},
			nil,
		},
		"not YAML": {
			"", "- topology: [", mended,
			[]string{"cannot tell which nodes are in Slurm's topology: topology.yaml: "},
			nil,
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

			if name == "not YAML" && len(wrong) == 1 {
				wrong[0] = wrong[0][:min(len(wrong[0]), len(c.want[0]))]
			}

			if diff := cmp.Diff([][]string{c.want, c.notes}, [][]string{wrong, notes}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
