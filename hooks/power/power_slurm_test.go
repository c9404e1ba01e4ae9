package power_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// power is a real Slurm whose nodes the real hooks launch from simulated EC2; each instance boots into a slurmd.
type power struct {
	t       *testing.T
	sim     *awssim.Sim
	cluster *slurmlab.Cluster
	state   state.Dir
	dir     string
	ctx     context.Context // ends with the test
	boots   sync.WaitGroup
	mu      sync.Mutex // of ended
	ended   bool       // no boot begins any more
	dead    string     // instances of this node that are launched now do not boot
	booted  sync.Map   // node to the id of the instance whose slurmd it is
}

const (
	region       = "us-east-2"
	secondSubnet = "subnet-0bbbbbbbbbbbbbbbb" // in us-east-2b
)

const powerConfig = `
region = "us-east-2"
state_dir = %q
[log]
dir = %q

[[partition]]
name = "gpu"
provider = "ec2"
  [[partition.node_group]]
  name = "gpu"
  instance_type = "p5.48xlarge"
  subnet_ids = ["subnet-0bbbbbbbbbbbbbbbb", "subnet-0aaaaaaaaaaaaaaaa"]
  launch_template = "lt-0aaaaaaaaaaaaaaaa"
  capacity_reservation_ids = ["` + hookstest.BlockID + `"]
  max_nodes = 4

[[partition]]
name = "other"
provider = "ec2"
  [[partition.node_group]]
  name = "other"
  instance_type = "p5.48xlarge"
  subnet_ids = ["` + secondSubnet + `"]
  launch_template = "lt-0aaaaaaaaaaaaaaaa"
  capacity_reservation_ids = ["` + hookstest.OtherID + `"]
  max_nodes = 4

# on demand in two zones; for its jobs capacity is held
[reserve]
max_instances = 64

[[partition]]
name = "held"
provider = "ec2"
  [[partition.node_group]]
  name = "held"
  instance_type = "p5.48xlarge"
  subnet_ids = ["subnet-0aaaaaaaaaaaaaaaa", "` + secondSubnet + `"]
  launch_template = "lt-0aaaaaaaaaaaaaaaa"
  purchase_option = "on-demand"
  reserve = "per-job"
  max_nodes = 2
`

// startPower starts a Slurm and an AWS. Both have the machine's time; nothing waits until it is late. The two %q of the
// settings are the folders of state and logs.
func startPower(t *testing.T, settingsText string, change func(*slurmlab.Config)) *power {
	t.Helper()
	t.Parallel() // each has a cluster and an AWS of its own

	scenario, err := awssim.LoadScenario("testdata/power.toml")
	if err != nil {
		t.Fatal(err)
	}

	sim, err := awssim.New(scenario, awssim.MachineClock())
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { sim.Close() })

	if _, err := sim.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}

	p := &power{t: t, sim: sim, dir: hookstest.ShortDir(t), ctx: t.Context()}
	p.state = state.Dir(filepath.Join(p.dir, "state"))
	if err := os.MkdirAll(filepath.Dir(p.settings()), 0o755); err != nil {
		t.Fatal(err)
	}

	p.configure(settingsText)

	cfg := slurmlab.Config{
		Dir: filepath.Join(p.dir, "lab"),
		CloudGroups: []slurmlab.NodeGroup{
			{Prefix: "gpu-", Count: 4, Partition: "gpu"},
			{Prefix: "other-", Count: 4, Partition: "other"},
			{Prefix: "held-", Count: 2, Partition: "held"},
		},
		ResumeProgram: p.wrapper(
			"pcs-capacity-resume",
		),
		SuspendProgram:    p.wrapper("pcs-capacity-suspend"),
		ResumeFailProgram: p.wrapper("pcs-capacity-suspend"),
		SuspendTimeout:    3 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}

	if p.cluster, err = slurmlab.Start(hookstest.Deadline(t), cfg); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		p.boots.Wait()

		if err := p.cluster.Stop(); err != nil {
			t.Error(err)
		}

		if t.Failed() {
			for _, name := range []string{"resume", "suspend"} {
				log, _ := os.ReadFile(filepath.Join(p.dir, "log", name+".log"))
				t.Logf("%s.log:\n%s", name, log)
			}

			log, _ := os.ReadFile(p.cluster.Log("slurmctld"))
			lines := slices.DeleteFunc(
				strings.Split(string(log), "\n"),
				func(l string) bool { return strings.Contains(l, "] debug") },
			)
			t.Logf("slurmctld.log ends:\n%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
	})
	// What the tests start as slurmctld would is no child of it: as `hooks install` has noted, Slurm is there.
	scontrol := hookstest.Program(t, "scontrol")
	if err := os.WriteFile(filepath.Join(filepath.Dir(p.cluster.Conf()), slurm.IncludeFile),
		[]byte(slurm.FolderLine(filepath.Dir(scontrol))), 0o644); err != nil {
		t.Fatal(err)
	}

	p.sim.OnInstance(p.machine)

	return p
}

func (p *power) settings() string {
	return filepath.Join(p.dir, "lab", "etc", "pcs-capacity", "config.toml")
}

// configure writes settings, whose two %q are the folders of state and logs.
func (p *power) configure(text string) {
	p.t.Helper()

	text = fmt.Sprintf("local_dir = %q\n"+text, p.state, p.state, filepath.Join(p.dir, "log"))
	if err := os.WriteFile(p.settings(), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// machine plays the instances: a slurmd under the name that the launch's tag gives it.
// A real instance takes so long to boot that Slurm knows its address by then.
func (p *power) machine(e awssim.InstanceEvent) {
	nodes, err := hostlist.Expand(capacity.LaunchedNodes(e.Instance.Tags))
	if err != nil || e.Instance.AMILaunchIndex >= len(nodes) {
		return
	}

	node := nodes[e.Instance.AMILaunchIndex]
	switch e.Kind {
	case awssim.Launched:
		p.mu.Lock()
		defer p.mu.Unlock()

		if p.ended || node == p.dead {
			return
		}

		p.boots.Go(func() {
			addressed := false
			err := slurmlab.WaitUntil(p.ctx, func() bool {
				fields, err := p.cluster.Node(p.ctx, node)
				addressed = err == nil && fields["NodeAddr"] == e.Instance.PrivateIP
				return addressed || !p.runs(e.Instance.ID)
			})
			if err == nil && addressed {
				p.booted.Store(node, e.Instance.ID)
				_ = p.cluster.StartNode(p.ctx, node, "") // fails if the cluster ends
			}
		})
	case awssim.Terminated:
		if p.booted.CompareAndDelete(node, e.Instance.ID) { // else it is a newer one's
			_ = p.cluster.StopNode(node)
		}
	}
}

// wrapper gives a hook what it finds on a real controller: a way to EC2. It leaves the hook's pid in a file.
func (p *power) wrapper(name string) string {
	p.t.Helper()

	path := filepath.Join(p.dir, name)
	text := "#!/bin/sh\necho $$ >>" + path + ".pids\n"
	for _, variable := range append(p.sim.Env(), "AWS_EC2_METADATA_DISABLED=true", "GORACE="+os.Getenv("GORACE")) {
		text += "export '" + variable + "'\n"
	}

	text += "exec " + hookstest.Program(p.t, name) + " \"$@\"\n"
	// A process that another test starts meanwhile would keep the file open for writing until its
	// exec, and who runs the file then gets "text file busy" (golang/go#22315).
	syscall.ForkLock.RLock()

	err := os.WriteFile(path, []byte(text), 0o755)

	syscall.ForkLock.RUnlock()

	if err != nil {
		p.t.Fatal(err)
	}

	return path
}

// run calls a hook by hand, with the environment that Slurm gives it.
func (p *power) run(name string, args ...string) error {
	cmd := exec.CommandContext(hookstest.Deadline(p.t), filepath.Join(p.dir, name), args...)
	cmd.Env = []string{"SLURM_CONF=" + p.cluster.Conf()}
	return cmd.Run()
}

// instances are those that run, by node.
func (p *power) instances() map[string]awssim.Instance {
	found := map[string]awssim.Instance{}
	for _, i := range p.sim.Instances(region) {
		nodes, _ := hostlist.Expand(capacity.LaunchedNodes(i.Tags))
		if (i.State == "running" || i.State == "pending") && i.AMILaunchIndex < len(nodes) {
			found[nodes[i.AMILaunchIndex]] = i
		}
	}

	return found
}

// runs reports whether an instance runs.
func (p *power) runs(id string) bool {
	return slices.ContainsFunc(p.sim.Instances(region), func(i awssim.Instance) bool {
		return i.ID == id && (i.State == "running" || i.State == "pending")
	})
}

// bootsNot says which node does not boot from now on.
func (p *power) bootsNot(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.dead = node
}

// launches counts all instances that there ever were of nodes whose names begin so.
func (p *power) launches(prefix string) (n int) {
	for _, i := range p.sim.Instances(region) {
		if strings.HasPrefix(capacity.LaunchedNodes(i.Tags), prefix) {
			n++
		}
	}

	return n
}

// until waits for a condition.
func (p *power) until(what string, ok func() bool) {
	p.t.Helper()

	if err := slurmlab.WaitUntil(hookstest.Deadline(p.t), ok); err != nil {
		p.t.Fatalf("waiting until %s: %v", what, err)
	}
}

func (p *power) submit(args ...string) string {
	p.t.Helper()

	id, err := p.cluster.Submit(hookstest.Deadline(p.t), "srun hostname; echo $SLURM_JOB_NODELIST", args...)
	if err != nil {
		p.t.Fatal(err)
	}

	return id
}

func (p *power) wait(id, jobState string) {
	p.t.Helper()

	if _, err := p.cluster.WaitJob(hookstest.Deadline(p.t), id, jobState); err != nil {
		p.t.Fatal(err)
	}
}

// show is a job or node as scontrol shows it, in full.
func (p *power) show(args ...string) string {
	p.t.Helper()

	out, err := p.cluster.Command(hookstest.Deadline(p.t), "scontrol", append([]string{"show"}, args...)...)
	if err != nil {
		p.t.Fatal(err)
	}

	return out
}

func (p *power) scontrol(args ...string) {
	p.t.Helper()

	if _, err := p.cluster.Command(hookstest.Deadline(p.t), "scontrol", args...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *power) fault(f awssim.Fault) {
	p.t.Helper()

	f.Service = "ec2"
	if _, err := p.sim.AddFault(f); err != nil {
		p.t.Fatal(err)
	}
}

// lastPid is that of the newest run of a hook.
func (p *power) lastPid(name string) int {
	text, _ := os.ReadFile(filepath.Join(p.dir, name+".pids"))

	words := strings.Fields(string(text))
	if len(words) == 0 {
		return 0
	}

	pid, _ := strconv.Atoi(words[len(words)-1])

	return pid
}

// in are the reservations that nodes run in.
func (p *power) in(nodes ...string) string {
	var all []string
	for _, n := range nodes {
		all = append(all, p.instances()[n].ReservationID)
	}

	return strings.Join(all, " ")
}

// restarts is how often Slurm has requeued a job.
func (p *power) restarts(id string) int {
	m := regexp.MustCompile(`Restarts=(\d+)`).FindStringSubmatch(p.show("job", id))
	n, _ := strconv.Atoi(m[1])
	return n
}

// pass makes one pass of sync.
func (p *power) pass() lifecycle.Report {
	p.t.Helper()
	cmd := exec.CommandContext(hookstest.Deadline(p.t), p.wrapper("sync-pass"))
	cmd.Env = []string{"SLURM_CONF=" + p.cluster.Conf()}

	var stderr bytes.Buffer

	cmd.Stderr = &stderr

	out, err := cmd.Output()

	var report lifecycle.Report
	if err == nil {
		err = json.Unmarshal(out, &report)
	}

	if err != nil {
		p.t.Fatalf("sync: %v: %s%s", err, out, stderr.String())
	}

	return report
}
