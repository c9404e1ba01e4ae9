//go:build !race

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

const (
	faultedBlock = "cr-0e2000000000000a1" // open, in the simulator's default account
	fenceless    = "cr-0e2000000000000b2" // open for 30 hours, in the account of a rehearsal
)

var setupOnPCS = []string{"setup", "--reservation", faultedBlock, "--queue", "gpu", "--node-group", "gpu", "--like", "compute", "--max-nodes", "2"}

// The next block gets the other slot, and the queue is changed.
var nextOnPCS = []string{"setup", "--reservation", "cr-0e2000000000000a2", "--queue", "gpu", "--node-group", "gpu", "--max-nodes", "2"}

var faultedOnPCS = []faulted{
	{name: "setup on PCS", workers: 2, sample: []string{"pcs CreateComputeNodeGroup 1/killed after", "ec2 CreateLaunchTemplate 1/cut after", "ec2 CreateLaunchTemplate 2/cut after", "ec2 DeleteLaunchTemplate 1/killed before", "slurm scontrol create reservation 1/killed after"}, start: onPCS(commands{args: setupOnPCS})},
	{name: "setup of the next block", workers: 2, sample: []string{"pcs UpdateQueue 1/killed after"}, start: onPCS(commands{before: [][]string{setupOnPCS}, args: nextOnPCS})},
	{name: "sync sets up the next block", workers: 2, sample: []string{"pcs CreateComputeNodeGroup 1/killed after", "pcs UpdateQueue 1/500 before", "ec2 CreateLaunchTemplate 1/killed after"}, start: onPCS(commands{settings: rollsOver, before: [][]string{setupOnPCS}, args: []string{"sync"}, runs: 2})},
	{name: "sync releases an ended slot", workers: 2, sample: []string{"pcs UpdateQueue 1/killed after"}, start: onPCS(commands{settings: rollsOut, change: endedSlot("gpu-b"), before: [][]string{setupOnPCS}, args: []string{"sync"}})},
	{name: "sync deletes an ended slot", workers: 2, sample: []string{"pcs DeleteComputeNodeGroup 1/500 after"}, start: onPCS(commands{settings: rollsOut, change: endedSlot(), before: [][]string{setupOnPCS}, args: []string{"sync"}})},
	{name: "teardown on PCS", workers: 2, sample: []string{"ec2 CreateLaunchTemplate 1/killed after", "ec2 DeleteLaunchTemplate 1/killed after", "pcs DeleteComputeNodeGroup 1/500 after", "slurm scontrol show reservation 1/500 after"}, start: onPCS(commands{before: [][]string{setupOnPCS}, args: []string{"teardown", "--queue", "gpu"}})},
	{name: "hooks install on PCS", workers: 2, sample: []string{"pcs UpdateCluster 1/killed after"}, start: onPCS(commands{settings: laterOnPCS, args: []string{"hooks", "install", "--dir", "SITE", "--filter", "FILTER"}})},
	{name: "hooks remove on PCS", workers: 2, sample: []string{"pcs UpdateCluster 1/500 after"}, start: onPCS(commands{settings: laterOnPCS, unfiltered: true, before: [][]string{{"hooks", "install", "--dir", "SITE", "--filter", "FILTER"}},
		args: []string{"hooks", "remove", "--dir", "SITE", "--filter", "FILTER"}})},
}

// laterOnPCS has a block that is not open yet: PCS changes a cluster by restarting slurmctld.
const laterOnPCS = `
[[partition]]
name = "gpu"
provider = "pcs"
[[partition.node_group]]
name = "gpu"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
capacity_reservation_ids = ["cr-0e2000000000000a2"]
max_nodes = 4
`

// rollsOver has an open block and the next one.
const rollsOver = `
[[partition]]
name = "gpu"
provider = "pcs"
# then: roll_over = true
[[partition.node_group]]
name = "gpu"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
capacity_reservation_ids = ["cr-0e2000000000000a1", "cr-0e2000000000000a2"]
max_nodes = 2
`

// rollsOut is the same without the next block.
var rollsOut = strings.Replace(rollsOver, `, "cr-0e2000000000000a2"`, "", 1)

// endedSlot adds the slot of a block that has ended, gpu-b, of which Slurm has no node left. The
// queue has these slots.
func endedSlot(queue ...string) func(*awssim.Scenario) {
	return func(s *awssim.Scenario) { addEndedSlot(s, queue) }
}

func addEndedSlot(s *awssim.Scenario, queue []string) {
	cluster := &s.Regions[0].Clusters[0]
	group := cluster.NodeGroups[0]
	group.ID, group.Name, group.Type, group.Tags = "pcs_0e20000009", "gpu-b", "p5.48xlarge", map[string]string{"pcs-capacity:cluster": "ml", "pcs-capacity:reservation": "cr-0e2000000000000b5"}
	cluster.NodeGroups = append(cluster.NodeGroups, group)
	cluster.Queues = append(cluster.Queues, awssim.QueueScenario{ID: "pcs_0e2000000a", Name: "gpu", NodeGroups: queue, Tags: map[string]string{"pcs-capacity:cluster": "ml"}})
}

var setupOnEC2 = []string{"setup", "--provider", "ec2", "--reservation", fenceless, "--queue", "gpu", "--node-group", "gpu", "--like", "gpu", "--subnet-ids", "subnet-0e200000000000a01"}

var faultedOnEC2 = []faulted{
	{name: "setup on EC2", workers: 2, sample: []string{"ec2 CreateLaunchTemplate 1/killed after", "slurm scontrol show config 1/garbage"}, start: onEC2(commands{args: setupOnEC2})},
	{name: "teardown on EC2", workers: 2, sample: []string{"ec2 DeleteLaunchTemplate 1/killed before", "slurm scontrol update nodename 1/killed after"}, start: onEC2(commands{before: [][]string{setupOnEC2}, args: []string{"teardown", "--queue", "gpu"}})},
	{name: "sync, one pass", workers: 2, sample: []string{"slurm scontrol create reservation 1/cut after", "slurm squeue 1/garbage", "ec2 DescribeCapacityReservations 1/garbage"}, start: onEC2(commands{settings: partitionsOf(rehearsalConfig), jobs: true, args: []string{"sync"}})},
	{name: "hooks install on EC2", workers: 2, sample: []string{"ec2 DescribeInstanceTypes 1/garbage"}, start: onEC2(commands{settings: partitionsOf(rehearsalConfig), args: []string{"hooks", "install", "--dir", "SITE", "--filter", "FILTER"}})},
	{name: "hooks remove on EC2", workers: 2, sample: []string{"slurm scontrol show config 1/garbage", "show node 1/garbage"}, start: onEC2(commands{settings: partitionsOf(rehearsalConfig),
		before: [][]string{{"hooks", "install", "--dir", "SITE", "--filter", "FILTER"}}, args: []string{"hooks", "remove", "--dir", "SITE", "--filter", "FILTER"}, drains: true})},
}

func partitionsOf(settings string) string { return settings[strings.Index(settings, "[[partition]]"):] }

// commands is a world in which a command of pcs-capacity is run.
type commands struct {
	// settings are partitions, with what is in lines "# then: …" from before the last command on.
	settings string
	// before are commands that were run, args is the one that meets the fault. SITE is a folder
	// of slurm.conf, FILTER the filter.
	before [][]string
	args   []string
	// change is of the world; nil for none.
	change func(*awssim.Scenario)
	// jobs run, one of which is not to.
	jobs bool
	// unfiltered: slurmctld runs no cli_filter, as after the restart by which PCS switches it off.
	unfiltered bool
	// drains: until slurmctld is restarted by hand, nodes that go are drained if Slurm answered.
	drains bool
	// runs is how often the command is run, 0 for once: sync goes on in the next pass.
	runs int

	pcs     bool
	dir     string
	g       *gate
	cluster *slurmlab.Cluster
	world   func() (*awssim.Scenario, error)
	began   time.Time
	ran     int
}

func onPCS(c commands) func(*testing.T) faultedWorld {
	return func(t *testing.T) faultedWorld {
		c := c
		c.pcs, c.world = true, func() (*awssim.Scenario, error) {
			s := awssim.DefaultScenario()
			s.PCSDelay = 0
			if c.change != nil {
				c.change(s)
			}
			return s, nil
		}
		c.start(t, "gpu-a-", 2)
		return &c
	}
}

func onEC2(c commands) func(*testing.T) faultedWorld {
	return func(t *testing.T) faultedWorld {
		c := c
		c.world = func() (*awssim.Scenario, error) { return awssim.ParseScenario("rehearsal", []byte(rehearsalWorld)) }
		c.start(t, "gpu-", 4)
		return &c
	}
}

// foreign are reservations of Slurm that others made, two of them under names like ours.
var foreign = []string{"gpu-a-scheduled", "pcluster-" + faultedBlock, "pcs-capacity-fence-mine"}

func (c *commands) start(t *testing.T, prefix string, count int) {
	t.Helper()
	c.g = newGate(t)
	var err error
	if c.dir, err = os.MkdirTemp("", "pcs"); err != nil { // Slurm's sockets need a short path
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(c.dir) })
	group := strings.TrimSuffix(prefix, "-")
	filter := filepath.Join(filepath.Dir(itself(t)[0]), "pcs-capacity-filter")
	script := submit.CLIFilter("/no/plan", "/no/state", filter)
	if c.unfiltered {
		script = ""
	}
	groups := []slurmlab.NodeGroup{{Prefix: prefix, Count: count, CPUs: 1, Features: group, Partition: "gpu", AlwaysOn: true}}
	if c.pcs && c.change == nil { // of the next block, whose node group PCS makes meanwhile
		c.g.hide(t)
		groups = append(groups, slurmlab.NodeGroup{Prefix: "gpu-b-", Count: count, CPUs: 1, Features: "gpu-b", Partition: "gpu", AlwaysOn: true})
	}
	c.cluster, err = slurmlab.Start(t.Context(), slurmlab.Config{Dir: filepath.Join(c.dir, "lab"), CLIFilterLua: script,
		CloudGroups: append(groups, slurmlab.NodeGroup{Prefix: "long-", Count: 1, CPUs: 1, Features: "long", Partition: "gpu", AlwaysOn: true},
			slurmlab.NodeGroup{Prefix: "later-", Count: 1, CPUs: 1, Features: "later", Partition: "gpu", AlwaysOn: true})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cluster.Stop() })
	c.slurm(t, "update", "nodename="+prefix+fmt.Sprintf("[1-%d],long-1", count), "state=POWER_UP")
	for _, node := range []string{prefix + "1", prefix + "2", "long-1"} {
		if _, err := c.cluster.WaitNode(c.limit(t), node, func(s string) bool { return s == "IDLE+CLOUD" }); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range foreign {
		c.slurm(t, "create", "reservation", "ReservationName="+name, "Nodes=static-1", "StartTime=now+20hour", "Duration=10", "Flags=MAINT,IGNORE_JOBS", "Users=root")
	}
	c.stand(t)
}

// stand puts a systemctl in front of the programs: slurmctld is not restarted, because the lab
// would write its settings anew; that `hooks install` and its restart are sound together is in
// the tests of internal/wiring.
func (c *commands) stand(t *testing.T) {
	t.Helper()
	c.g.stand(t, "systemctl", "/bin/true")
}

func (c *commands) limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (c *commands) slurm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.cluster.Command(c.limit(t), "scontrol", args...)
	if err != nil {
		t.Fatal(out, err)
	}
	return out
}

func (c *commands) gate() *gate { return c.g }

func (c *commands) here() string { return filepath.Join(c.dir, fmt.Sprint("run", c.ran)) }

// reset is a new account, new settings, and a Slurm on which nothing of ours was done.
func (c *commands) reset(t *testing.T) {
	t.Helper()
	os.RemoveAll(c.here())
	c.ran++
	scenario, err := c.world()
	if err != nil {
		t.Fatal(err)
	}
	sim, err := awssim.New(scenario, awssim.MachineClock())
	if err != nil {
		t.Fatal(err)
	}
	c.began = sim.Clock().Now()
	c.g.serve(sim)
	if err := os.MkdirAll(filepath.Join(c.here(), "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	cluster := ""
	if c.pcs {
		cluster = "cluster = \"ml\"\n"
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(c.here(), "etc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("config.toml", fmt.Sprintf("region = \"us-east-2\"\n%sstate_dir = %q\nlocal_dir = %q\n[log]\ndir = %q\n[timing]\nreclaim_lead = \"10s\"\ndrain_margin = \"5s\"\n%s",
		cluster, c.here()+"/state", c.here()+"/local", c.here()+"/log", c.settings))
	write("slurm.conf", "ClusterName=lab\nSlurmctldHost=localhost\nNodeName=static-1\nPartitionName=static Nodes=static-1\n")
	if out, err := c.cluster.Command(c.limit(t), "scancel", "--user=root"); err != nil {
		t.Fatal(out, err)
	}
	for _, name := range c.reservations(t) {
		if !slices.Contains(foreign, name) {
			c.slurm(t, "delete", "reservationname="+name)
		}
	}
	for _, line := range c.nodes(t) {
		if name, state, _ := strings.Cut(line, " "); strings.Contains(state, "DRAIN") {
			c.slurm(t, "update", "nodename="+strings.TrimPrefix(name, "node:"), "state=RESUME")
		}
	}
	if c.jobs {
		for _, args := range [][]string{{"-J", "fits", "-C", "gpu", "-t", "1"}, {"-J", "crosses", "-C", "long", "-t", "6000"}} {
			id, err := c.cluster.Submit(c.limit(t), "sleep 600", append([]string{"-p", "gpu"}, args...)...)
			if err != nil {
				t.Fatal(id, err)
			}
			if _, err := c.cluster.WaitJob(c.limit(t), id, "RUNNING"); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.g.arm(t, nil, "")
	for _, args := range c.before {
		if o := c.command(t, args); o.status != 0 {
			t.Fatalf("%v: exit status %d: %s", args, o.status, o.stderr)
		}
	}
	text, err := os.ReadFile(filepath.Join(c.here(), "etc", "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	write("config.toml", strings.ReplaceAll(string(text), "# then: ", ""))
}

func (c *commands) command(t *testing.T, args []string) outcome {
	t.Helper()
	words := append(itself(t), "--yes", "--config", filepath.Join(c.here(), "etc", "config.toml"))
	for _, word := range args {
		switch word {
		case "SITE":
			word = filepath.Join(c.here(), "etc")
		case "FILTER":
			word = filepath.Join(filepath.Dir(words[0]), "pcs-capacity-filter")
		}
		words = append(words, word)
	}
	return c.g.run(t, time.Minute, c.g.env("SLURM_CONF="+c.cluster.Conf()), words)
}

func (c *commands) run(t *testing.T) (said string) {
	t.Helper()
	for range max(1, c.runs) {
		o := c.command(t, c.args)
		said += fmt.Sprintf("exit status %d\n%s%s", o.status, o.stdout, o.stderr)
	}
	c.safe(t, said)
	return said
}

// safe holds a queue of ours to be in the settings and behind a fence, wherever a run ended.
func (c *commands) safe(t *testing.T, said string) {
	t.Helper()
	if c.args[0] != "setup" || !c.pcs {
		return
	}
	for _, cluster := range c.g.sim.PCSClusters() {
		for _, q := range cluster.Queues {
			if q.Name != "gpu" {
				continue
			}
			if _, err := os.Stat(filepath.Join(c.here(), "etc", "conf.d", "gpu.toml")); err != nil {
				t.Errorf("a queue without settings: %v\n%s", err, said)
			}
			for _, group := range q.NodeGroups {
				if !slices.ContainsFunc(c.reservations(t), func(name string) bool { return strings.HasPrefix(name, "pcs-capacity-fence-"+group+".") }) {
					t.Errorf("node group %s is in the queue without a fence\n%s", group, said)
				}
			}
		}
	}
}

// settle runs the command again until it has nothing to do; the second time at the latest.
func (c *commands) settle(t *testing.T) string {
	t.Helper()
	var said string
	for range 2 {
		_ = os.Remove(filepath.Join(c.here(), "state", "private", "setbacks.json")) // as if the pause were over
		o := c.command(t, c.args)
		said += fmt.Sprintf("exit status %d\n%s%s", o.status, o.stdout, o.stderr)
		if o.status != 0 {
			t.Errorf("it fails when all is well: %s", o.stderr)
		}
	}
	return said
}

func (c *commands) reservations(t *testing.T) (names []string) {
	t.Helper()
	for line := range strings.Lines(c.slurm(t, "-o", "show", "reservation")) {
		if name, ok := strings.CutPrefix(strings.Fields(line + " .")[0], "ReservationName="); ok {
			names = append(names, name)
		}
	}
	return names
}

func (c *commands) nodes(t *testing.T) (lines []string) {
	t.Helper()
	for line := range strings.Lines(c.slurm(t, "-o", "show", "node")) {
		fields := slurmFields(line)
		state := strings.NewReplacer("IDLE", "", "MIXED", "", "ALLOCATED", "", "+MAINTENANCE", "", "+RESERVED", "", "+PLANNED", "", "+NOT_RESPONDING", "").Replace(fields["State"])
		reason, _, _ := strings.Cut(fields["Reason"], " [")
		if c.drains && reason == "pcs-capacity" {
			state, reason = strings.Replace(state, "+DRAIN", "", 1), ""
		}
		lines = append(lines, strings.TrimSpace("node:"+fields["NodeName"]+" "+state+" "+reason))
	}
	return lines
}

// slurmFields are the Key=value of a line of scontrol.
func slurmFields(line string) map[string]string {
	fields := map[string]string{}
	for _, word := range strings.Fields(line) {
		if key, value, ok := strings.Cut(word, "="); ok {
			if _, twice := fields[key]; !twice {
				fields[key] = value
			}
		}
	}
	return fields
}

// ownerID is what the name of a fence ends with: each run has settings of its own.
var ownerID = regexp.MustCompile(`^(pcs-capacity-.*)\.[0-9a-f]{8}$`)

// seen is the account, Slurm's reservations, nodes and jobs, and the files of the settings.
func (c *commands) seen(t *testing.T) []string {
	t.Helper()
	all := account(t, c.g.sim)
	lines := slices.Sorted(strings.Lines(c.slurm(t, "-o", "show", "reservation")))
	for _, line := range lines {
		f := slurmFields(line)
		start, _ := time.ParseInLocation("2006-01-02T15:04:05", f["StartTime"], time.Local)
		after := start.Sub(c.began).Round(time.Minute).String()
		switch {
		case slices.Contains(foreign, f["ReservationName"]):
			after = ""
		case c.pcs: // where blocks end at fixed times of the day
			after = start.UTC().Round(time.Minute).Format(time.DateTime)
		}
		if start.Before(time.Now()) {
			after = "now"
		}
		all = append(all, fmt.Sprintf("reservation %s of %s, %s, %s %s", ownerID.ReplaceAllString(f["ReservationName"], "$1"), f["Nodes"], f["Flags"], f["Users"], after))
	}
	all = append(all, c.nodes(t)...)
	jobs, err := c.cluster.Command(c.limit(t), "squeue", "--noheader", "-o", "job %j %T %l %r")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range slices.Sorted(strings.Lines(jobs)) { // squeue has no order of those that run
		if !strings.Contains(line, "COMPLETING") { // of an earlier case
			all = append(all, c.rounded(line))
		}
	}
	err = filepath.WalkDir(filepath.Join(c.here(), "etc"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		folders := strings.NewReplacer(c.here(), "", c.g.dir, "/slurm") // each worker has its own
		all = append(all, "file "+folders.Replace(path)+":\n"+plain(folders.Replace(string(text))))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// rounded leaves the minutes out of a limit that was fitted to a fence.
func (c *commands) rounded(job string) string {
	job = strings.TrimSpace(job)
	if name, _, ok := strings.Cut(strings.TrimPrefix(job, "job "), " "); ok && name == "crosses" {
		if i := strings.LastIndexByte(job, ':'); i > 3 {
			job = job[:i-3] + " " + job[strings.LastIndexByte(job, ' ')+1:]
		}
	}
	return job
}
