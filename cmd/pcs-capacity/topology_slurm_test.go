package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestLong_Topology: a real slurmctld knows the switches and the blocks of the topology.conf and the topology.yaml that
// topology prints, and a job whose segment is in one slot starts there.
func TestLong_Topology(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	var config slurmlab.Config

	r := newRehearsalIn(t, rehearsalWorld, rehearsalConfig, func(c *slurmlab.Config) { config = *c })
	run := func(args ...string) string {
		t.Helper()

		out, err := exec.CommandContext(r.ctx, "pcs-capacity", append([]string{
			"--config",
			r.path,
			"topology",
		}, args...)...).
			Output()
		if err != nil {
			t.Fatalf("topology %q: %v: %s", args, err, out)
		}

		return string(out)
	}

	r.sync()

	extra := config.Extra
	load := func(plugin, lines string) (shown string, err error) {
		t.Helper()

		// Slurm ignores topology.conf and TopologyPlugin beside topology.yaml.
		file := "topology.conf"
		if strings.HasPrefix(lines, "- ") {
			file = "topology.yaml"
			plugin = "topology/flat"
		}

		path := filepath.Join(filepath.Dir(r.cluster.Conf()), file)
		if err := os.WriteFile(path, []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}

		config.Extra = append(slices.Clone(extra), "TopologyPlugin="+plugin)
		if err := r.cluster.Reload(r.ctx, config); err != nil {
			t.Fatal(err)
		}

		return r.cluster.Command(r.ctx, "scontrol", "show", "topology")
	}

	tree := func(lines string) {
		t.Helper()

		shown, err := load("topology/tree", lines)
		for _, name := range regexp.MustCompile(`(?:SwitchName=|switch: )(\S+)`).FindAllStringSubmatch(lines, -1) {
			if err != nil || !strings.Contains(shown, "SwitchName="+name[1]+" Level=") {
				t.Errorf("slurmctld does not know %s (%v):\n%s", name[1], err, shown)
			}
		}

		if !regexp.MustCompile(`Level=0 .*Nodes=gpu-\[1-4\]`).MatchString(shown) {
			t.Errorf("scontrol show topology: %s", shown)
		}
	}
	block := func(lines string) {
		t.Helper()

		shown, err := load("topology/block", lines)
		if err != nil || !regexp.MustCompile(`BlockName=gpu .*Nodes=gpu-\[1-4\]`).MatchString(shown) {
			t.Errorf("slurmctld does not know the block (%v):\n%s", err, shown)
		}

		job := r.submit("-C", "gpu", "-N2", "--segment=1", "-t", "10")
		r.running(job)
		r.cancel(job)
	}

	tree(run())

	version, err := (&slurm.Client{}).Version(r.ctx)
	if err != nil {
		t.Fatal(err)
	}

	if !version.AtLeast(24, 11, 0) {
		t.Skipf("Slurm %s has no topology/block with BlockSizes", version)
	}

	block(run("--plugin", "block"))

	if version.AtLeast(25, 5, 0) {
		tree(run("-o", "yaml"))
		block(run("-o", "yaml", "--plugin", "block"))
	}
}

// blockSite is a Slurm with topology/block whose partition has two slots of four nodes. Two of each have a line in
// slurm.conf, and can be started here; the lines of the others are ours, and go with them.
type blockSite struct {
	*wired
	version slurm.Version
}

func newBlockSite(t *testing.T) blockSite {
	t.Helper()

	w := newWiredOn(t, func(c *slurmlab.Config) {
		first := slurmlab.NodeGroup{Prefix: "gpu-a-", Count: 2, CPUs: 1, Features: "gpu-a", AlwaysOn: true}
		second := first
		second.Prefix = "gpu-b-"
		second.Features = "gpu-b"
		c.CloudGroups = []slurmlab.NodeGroup{first, second}
		c.GresConf = "NodeName=gpu-a-[1-2],gpu-b-[1-2] AutoDetect=off\n"
		c.Extra = []string{"Include site.conf"}

		siteConf := filepath.Join(c.Dir, "etc", "site.conf")
		if err := errors.Join(os.Mkdir(filepath.Dir(siteConf), 0o755), os.WriteFile(siteConf, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	})

	version, err := (&slurm.Client{}).Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	if !version.AtLeast(24, 11, 0) {
		t.Skipf("Slurm %s has no topology/block with BlockSizes", version)
	}

	w.sim.OnInstance(func(e awssim.InstanceEvent) {
		node := capacity.Instance{Tags: e.Instance.Tags, LaunchIndex: e.Instance.AMILaunchIndex}.Node()
		if e.Kind != awssim.Launched || !regexp.MustCompile("^gpu-[ab]-[12]$").MatchString(node) {
			return
		}

		go func() {
			if err := w.cluster.StartNode(t.Context(), node, "127.0.0.1"); err != nil && t.Context().Err() == nil {
				t.Errorf("starting %s: %v", node, err)
			}
		}()
	})

	confD := filepath.Join(filepath.Dir(w.settings), "conf.d")
	if err := os.Mkdir(confD, 0o755); err != nil {
		t.Fatal(err)
	}

	// In a file of setup's, which teardown removes.
	w.configure(func(text string) string {
		global, partition, _ := strings.Cut(text, "[[partition]]")
		partition = strings.NewReplacer(
			`spare = "scavenge"`, "",
			"max_nodes = 4", "max_nodes = 4\nslots = 2\ndynamic = true",
			`["cr-0e2000000000000a1"]`, `["cr-0e2000000000000a1", "cr-0e2000000000000a2"]`,
		).Replace(partition)
		w.write(filepath.Join(confD, "gpu.toml"),
			"# Written by pcs-capacity setup, which may write it again.\n[[partition]]"+partition)

		return global
	})
	w.hooks("install")
	w.sync()

	return blockSite{w, version}
}

// load restarts slurmctld with a topology.conf of blocks, or a topology.yaml.
func (s blockSite) load(topology string) {
	s.Helper()
	os.Remove(filepath.Join(s.etc, "topology.yaml"))

	siteConf := "TopologyPlugin=topology/block\n"
	file := "topology.conf"
	if strings.HasPrefix(topology, "- ") {
		siteConf = ""
		file = "topology.yaml"
	}

	s.write(filepath.Join(s.etc, "site.conf"), siteConf)
	s.write(filepath.Join(s.etc, file), topology)

	if err := s.restartSlurm(); err != nil {
		s.Fatal(err)
	}
}

// topology runs the command.
func (s blockSite) topology(args ...string) string {
	s.Helper()

	lines, status := s.run(nil, append([]string{"topology", "--plugin", "block"}, args...)...)
	if status != 0 {
		s.Fatalf("topology: %s", s.said)
	}

	return lines
}

// submit submits a job of two nodes.
func (s blockSite) submit(args ...string) (id string, err error) {
	return s.cluster.Submit(s.Context(), "true", append([]string{"-p", "gpu", "-N2", "-t", "10"}, args...)...)
}

// runs submits one, and sees it run in a slot.
func (s blockSite) runs(args ...string) {
	s.Helper()

	id, err := s.submit(args...)
	if err != nil {
		s.Fatal(err)
	}

	job, err := s.cluster.WaitJob(s.Context(), id, "COMPLETED")
	if err != nil || job["Features"] != "[gpu-a|gpu-b]" || job["NodeList"] != "gpu-a-[1-2]" {
		s.Errorf("job %q: features %s, nodes %s, %v", args, job["Features"], job["NodeList"], err)
	}
}

// powersDown powers a node down, and sees whether it leaves its block, which is a matter of Slurm's version.
func (s blockSite) powersDown(node string) {
	s.Helper()

	if _, err := s.cluster.Command(s.Context(), "scontrol", "update", "nodename="+node, "state=POWER_DOWN"); err != nil {
		s.Fatal(err)
	}

	s.wait(node+" is powered down", func() bool { return strings.Contains(s.node(node), "POWERED_DOWN") })

	shown, err := s.cluster.Command(s.Context(), "scontrol", "show", "topology")
	if kept := strings.Contains(shown, " Nodes=gpu-a-[1-4] "); err != nil || kept == s.version.LosesTopology() {
		s.Errorf("Slurm %s, after %s is powered down: %s, %v", s.version, node, shown, err)
	}
}

// says runs check, and compares what it finds in slurm.conf.
func (s blockSite) says(severity capacity.Severity, want ...string) {
	s.Helper()

	var said []string

	_, found := s.check()
	for _, f := range found {
		if f.About.Check == "slurm.conf" && f.Severity == severity {
			said = append(said, f.Sentence+"; "+f.Fix)
		}
	}

	if diff := cmp.Diff(want, said); diff != "" {
		s.Errorf("check (-want +got):\n%s", diff)
	}
}

// TestLong_BlockTopology: a job runs in the block of one of two slots, and keeps its segment. check names the nodes
// that no block has, and the names that are gone after teardown; slurmctld runs before and after these are corrected.
func TestLong_BlockTopology(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	s := newBlockSite(t)
	yaml := s.version.AtLeast(25, 5, 0)
	lines := s.topology()
	s.replace("pcs-capacity.conf", "SuspendTimeout=120", "SuspendTimeout=1")
	s.load(lines)
	s.says(capacity.Admin)
	s.runs("--segment=2")
	s.powersDown("gpu-a-1")
	s.replace("pcs-capacity.conf", "SuspendTimeout=1", "SuspendTimeout=120")

	if yaml {
		s.load(s.topology("-o", "yaml"))
		s.says(capacity.Admin)
		s.runs("--segment=2")
	}

	// No block has two nodes of one slot.
	s.load("BlockName=x Nodes=gpu-a-1,gpu-b-1\nBlockName=y Nodes=gpu-a-2,gpu-b-2\nBlockSizes=2\n")
	s.runs("--segment=1")

	if id, err := s.submit("--segment=2"); err == nil {
		t.Errorf("job %s lost its segment", id)
	}

	const (
		restart = ", and restart slurmctld"
		refused = " has no block for gpu-a-[3-4],gpu-b-[3-4], and Slurm refuses jobs that need them; add "
		ignored = " has no block for gpu-a-[1-4],gpu-b-[1-4], and Slurm ignores --segment of their jobs; "
		command = "`pcs-capacity topology --plugin block"
	)

	s.says(
		capacity.Admin,
		"topology.conf"+refused+"the line `BlockName=pcs-capacity Nodes=gpu-a-[3-4],gpu-b-[3-4]`, or "+
			"those of "+command+"`"+restart,
	)

	if id, err := s.submit("-w", "gpu-a-[3-4]"); err == nil {
		t.Errorf("job %s needs nodes that are in no block", id)
	}

	// Blocks are of others only.
	s.load("BlockName=site Nodes=static-1\n")
	s.says(capacity.Admin)
	s.says(
		capacity.Note,
		"topology.conf"+ignored+"add the line `BlockName=pcs-capacity Nodes=gpu-a-[1-4],gpu-b-[1-4]`, or "+
			"those of "+command+"`"+restart,
	)
	s.runs("--segment=2")

	if yaml {
		s.load("- topology: site\n  block: {block_sizes: [1], blocks: [{block: site, nodes: static-1}]}\n")
		s.says(capacity.Note, "topology site of topology.yaml"+ignored+"add them to a block, or take what "+command+
			" -o yaml` prints"+restart)
		s.runs("--segment=2")
	}

	s.load(lines)

	s.said = ""
	if _, status := s.run(nil, "teardown", "--queue", "gpu"); status != 0 {
		t.Fatal(s.said)
	}

	const gone = "topology.conf still has gpu-a-[3-4],gpu-b-[3-4], which are in neither slurm.conf nor the settings; " +
		"remove these nodes from it" + restart
	if !strings.Contains(s.said, "Left to do: "+gone+"\n") {
		t.Error(s.said)
	}

	// Slurm 24.11 does not start with a small block, so it is not restarted with one.
	s.said = ""
	_, status := s.run(nil, "hooks", "install")

	switch {
	case yaml:
		s.says(capacity.Admin, gone)
	case status != 1 || !strings.Contains(s.said, "block gpu-b of topology.conf has fewer than 4 nodes"):
		t.Errorf("hooks install: status %d, %s", status, s.said)
	}

	if _, err := (&slurm.Client{}).Config(t.Context()); err != nil {
		t.Error(err)
	}

	s.load("BlockName=gpu-a Nodes=gpu-a-[1-2]\nBlockName=gpu-b Nodes=gpu-b-[1-2]\nBlockSizes=2\n")
	s.hooks("install")
	s.says(capacity.Admin)

	if shown, err := s.cluster.Command(t.Context(), "scontrol", "show", "topology"); err != nil ||
		!strings.Contains(shown, "BlockName=gpu-b BlockIndex=1 Nodes=gpu-b-[1-2] BlockSize=2") {
		t.Errorf("%s, %v", shown, err)
	}
}

// TestLong_UltraServers: an instance that runs is in the UltraServer and behind the switch that EC2 names, and
// slurmctld takes the switches.
func TestLong_UltraServers(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	w := newWiredOn(t, func(c *slurmlab.Config) {
		c.CloudGroups[0].Count = 8
		c.Extra = []string{"Include site.conf"}

		siteConf := filepath.Join(c.Dir, "etc", "site.conf")
		if err := errors.Join(os.Mkdir(filepath.Dir(siteConf), 0o755), os.WriteFile(siteConf, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	})
	w.configure(func(text string) string {
		return strings.NewReplacer(
			"p5.48xlarge", "trn2u.48xlarge",
			"subnet-0e200000000000a01", "subnet-0e200000000000c03",
			"cr-0e2000000000000a1", "cr-0e2000000000000c6",
			"max_nodes = 4", "max_nodes = 8\ndynamic = true", // sync powers no node up
		).Replace(text)
	})
	w.hooks("install")
	w.sync()

	topology := func(args ...string) string {
		t.Helper()

		w.said = ""

		lines, status := w.run(nil, append([]string{"topology"}, args...)...)
		if status != 0 {
			t.Fatal(w.said)
		}

		return lines
	}

	guess := regexp.MustCompile(
		`^BlockName=(cb-\w+) Nodes=gpu-\[1-4\]\nBlockName=(cb-\w+) Nodes=gpu-\[5-8\]\nBlockSizes=4\n$`,
	)

	blocks := guess.FindStringSubmatch(topology("--plugin", "block"))
	if blocks == nil || !strings.Contains(w.said, "run this again when gpu-[1-8] are up") {
		t.Fatal(w.said)
	}

	aws, err := ec2.New(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}

	launched, err := aws.Launch(t.Context(), capacity.Launch{
		ClientToken:    "ultra",
		LaunchTemplate: "lt-0e2000000000000a4",
		InstanceType:   "trn2u.48xlarge",
		SubnetID:       "subnet-0e200000000000c03",
		ReservationID:  "cr-0e2000000000000c6",
		Kind:           capacity.CapacityBlock,
		Count:          5,
		Tags: map[string]string{
			capacity.TagCluster: capacity.ClusterMark("lab", "0123456789abcdef"),
			capacity.TagNodes:   "gpu-[4-8]",
		},
	})
	if err != nil {
		t.Fatal(err)
	}

	// The simulator fills the first of its UltraServers.
	first := launched[0].BlockID
	second := blocks[1]
	if second == first {
		second = blocks[2]
	}

	lines := topology("--plugin", "block")
	for _, want := range []string{
		"BlockName=" + first + " Nodes=gpu-[4-7]\n", "BlockName=" + second + " Nodes=gpu-[1-3,8]\n", "BlockSizes=4\n",
	} {
		if !strings.Contains(lines, want) || !strings.Contains(w.said, "run this again when gpu-[1-3] are up") {
			t.Errorf("no %s in %s", want, w.said)
		}
	}

	w.wait("the instances run", func() bool {
		found, err := aws.FindInstances(t.Context(), capacity.InstanceQuery{IDs: capacity.InstanceIDs(launched)})
		return err == nil &&
			!slices.ContainsFunc(found, func(i capacity.Instance) bool { return i.State != "running" })
	})

	// Here two instances each are behind a switch of their own, below that of the reservation.
	w.write(filepath.Join(w.etc, "topology.conf"), topology())
	w.write(filepath.Join(w.etc, "site.conf"), "TopologyPlugin=topology/tree\n")

	if err := w.restartSlurm(); err != nil {
		t.Fatal(err)
	}

	shown, err := w.cluster.Command(t.Context(), "scontrol", "show", "topology")
	for _, want := range []string{"0 gpu-[1-3]", "0 gpu-[4-5]", "0 gpu-[6-7]", "0 gpu-8", "1 gpu-[1-8]"} {
		level, nodes, _ := strings.Cut(want, " ")
		if err != nil || !strings.Contains(shown, " Level="+level+" LinkSpeed=1 Nodes="+nodes) {
			t.Errorf("no switch of level %s with %s: %s, %v", level, nodes, shown, err)
		}
	}
}
