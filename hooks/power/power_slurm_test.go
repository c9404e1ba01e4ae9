package power_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// power is a real Slurm whose nodes the real hooks launch from simulated EC2; each
// instance boots into a slurmd.
type power struct {
	t        *testing.T
	sim      *awssim.Sim
	cluster  *slurmlab.Cluster
	state    state.Dir
	dir      string
	ctx      context.Context // ends with the test
	dead     atomic.Bool     // instances that are launched now do not boot
	bootTime atomic.Int64    // of instances, in nanoseconds, once Slurm knows their addresses
	boots    sync.WaitGroup
	mu       sync.Mutex // of ended
	ended    bool       // no boot begins any more
	booted   sync.Map   // node to the id of the instance whose slurmd it is
}

const region = "us-east-2"

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
  subnet_ids = ["subnet-0aaaaaaaaaaaaaaaa"]
  launch_template = "lt-0aaaaaaaaaaaaaaaa"
  capacity_reservation_ids = ["` + hookstest.OtherID + `"]
  max_nodes = 4
`

func startPower(t *testing.T, change func(*slurmlab.Config)) *power {
	t.Helper()
	return startPowerWith(t, powerConfig, nil, change)
}

// startPowerWith is startPower with other settings, whose two %q are the folders of state
// and logs, and another AWS.
func startPowerWith(t *testing.T, settingsText string, world func(*awssim.Scenario), change func(*slurmlab.Config)) *power {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Slurm cluster")
	}
	t.Parallel() // each has a cluster and an AWS of its own
	scenario, err := awssim.LoadScenario("testdata/power.toml")
	if err != nil {
		t.Fatal(err)
	}
	if world != nil {
		world(scenario)
	}
	sim, err := awssim.New(scenario, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	if _, err := sim.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	return startPowerIn(t, sim, settingsText, change)
}

// startPowerIn starts a Slurm in an AWS that is there.
func startPowerIn(t *testing.T, sim *awssim.Sim, settingsText string, change func(*slurmlab.Config)) *power {
	t.Helper()
	p := &power{t: t, sim: sim, dir: hookstest.ShortDir(t), ctx: t.Context()}
	p.state = state.Dir(filepath.Join(p.dir, "state"))
	if err := os.MkdirAll(filepath.Dir(p.settings()), 0o755); err != nil {
		t.Fatal(err)
	}
	p.configure(settingsText)
	cfg := slurmlab.Config{Dir: filepath.Join(p.dir, "lab"),
		CloudGroups:   []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 4, Partition: "gpu"}, {Prefix: "other-", Count: 4, Partition: "other"}},
		ResumeProgram: p.wrapper("pcs-capacity-resume"), SuspendProgram: p.wrapper("pcs-capacity-suspend"), ResumeFailProgram: p.wrapper("pcs-capacity-suspend"),
		SuspendTimeout: 3 * time.Second}
	if change != nil {
		change(&cfg)
	}
	var err error
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
			lines := slices.DeleteFunc(strings.Split(string(log), "\n"), func(l string) bool { return strings.Contains(l, "] debug") })
			t.Logf("slurmctld.log ends:\n%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
	})
	// What the tests start as slurmctld would is no child of it: as `hooks install` has noted, Slurm is there.
	scontrol := hookstest.Program(t, "scontrol")
	if err := os.WriteFile(filepath.Join(filepath.Dir(p.cluster.Conf()), slurm.IncludeFile), []byte(slurm.Note(filepath.Dir(scontrol))), 0o644); err != nil {
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
	nodes, err := slurm.Expand(capacity.LaunchedNodes(e.Instance.Tags))
	if err != nil || e.Instance.AMILaunchIndex >= len(nodes) {
		return
	}
	node := nodes[e.Instance.AMILaunchIndex]
	switch e.Kind {
	case awssim.Launched:
		if p.dead.Load() {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ended {
			return // nobody waits for it any more
		}
		p.boots.Go(func() {
			for p.ctx.Err() == nil && p.runs(e.Instance.ID) {
				fields, err := p.cluster.Node(p.ctx, node)
				if err == nil && fields["NodeAddr"] == e.Instance.PrivateIP {
					time.Sleep(time.Duration(p.bootTime.Load()))
					p.booted.Store(node, e.Instance.ID)
					_ = p.cluster.StartNode(p.ctx, node, "") // fails if the cluster ends
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	case awssim.Terminated:
		if p.booted.CompareAndDelete(node, e.Instance.ID) { // else it is a newer one's
			_ = p.cluster.StopNode(node)
		}
	}
}

// wrapper gives a hook what it finds on a real controller: a way to EC2. It leaves the
// hook's pid in a file.
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
		nodes, _ := slurm.Expand(capacity.LaunchedNodes(i.Tags))
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

// launches counts all instances there ever were.
func (p *power) launches() int { return len(p.sim.Instances(region)) }

// until waits for a condition.
func (p *power) until(what string, ok func() bool) {
	p.t.Helper()
	ctx := hookstest.Deadline(p.t)
	for !ok() {
		select {
		case <-ctx.Done():
			p.t.Fatalf("waiting until %s", what)
		case <-time.After(50 * time.Millisecond):
		}
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

// kill ends the newest run of a hook.
func (p *power) kill(name string) {
	p.t.Helper()
	if err := syscall.Kill(p.lastPid(name), syscall.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
}

func TestResumeLaunchesJobIntoItsBlock(t *testing.T) {
	p := startPower(t, nil)
	// The effect of the first call, and no answer: the SDK's retry is the same launch.
	p.fault(awssim.Fault{Operation: "RunInstances", Effect: awssim.CutAfter, Count: 1})
	id := p.submit("-p", "gpu", "-N2")
	p.wait(id, "COMPLETED")
	up := p.instances()
	if len(up) != 2 || p.launches() != 2 {
		t.Fatalf("%d instances, %d ever", len(up), p.launches())
	}
	mark, err := p.state.Mark()
	if err != nil || !strings.HasPrefix(mark, "lab/") {
		t.Fatalf("mark %q, %v", mark, err)
	}
	for node, i := range up {
		if i.ReservationID != hookstest.BlockID || i.SubnetID != "subnet-0aaaaaaaaaaaaaaaa" {
			t.Errorf("%s is in %s, %s", node, i.ReservationID, i.SubnetID)
		}
		want := map[string]string{capacity.TagCluster: mark, capacity.TagPartition: "gpu", capacity.TagReservation: hookstest.BlockID,
			capacity.TagNodes: "gpu-[1-2]", capacity.TagJob: id, capacity.TagName: "gpu-[1-2]"}
		for key, value := range want {
			if i.Tags[key] != value {
				t.Errorf("%s: tag %s is %q, want %q", node, key, i.Tags[key], value)
			}
		}
		text := p.show("node", node)
		if !p.cluster.RegistersAddress() && (!strings.Contains(text, "NodeAddr="+i.PrivateIP+" ") || !strings.Contains(text, "NodeHostName="+node+" ")) {
			t.Errorf("address of %s, %s: %s", node, i.PrivateIP, text)
		}
	}
	records, err := p.state.Records()
	if err != nil || len(records) != 1 || records[0].Code != "ok" || records[0].Nodes != "gpu-[1-2]" || !slices.Equal(records[0].Jobs, []string{id}) || len(records[0].Instances) != 2 {
		t.Errorf("records: %v %+v", err, records)
	}

	// Power down terminates, and leaves others' instances alone.
	p.scontrol("update", "nodename=gpu-[1-2]", "state=POWER_DOWN", "reason=test")
	p.until("the instances are terminated", func() bool { return len(p.instances()) == 0 })
	for _, node := range []string{"gpu-1", "gpu-2"} {
		if _, err := p.cluster.WaitNode(hookstest.Deadline(t), node, func(s string) bool { return s == "IDLE+CLOUD+POWERED_DOWN" }); err != nil {
			t.Fatal(err)
		}
	}

	p.checkLog(id, up)

	// The same nodes again are another launch.
	p.wait(p.submit("-p", "gpu", "-N2"), "COMPLETED")
	if p.launches() != 4 {
		t.Errorf("%d instances ever, want 4", p.launches())
	}
}

// EC2's code is the Reason, the record and the word to the owner; the job waits.
func TestR12_ResumeKeepsEC2sCode(t *testing.T) {
	p := startPower(t, nil)
	const code = "ReservationCapacityExceeded"
	p.fault(awssim.Fault{Operation: "RunInstances", Effect: awssim.FailBefore, Code: code, Message: "The requested reservation does not have sufficient compatible and available capacity for this request."})
	id := p.submit("-p", "gpu", "-N2")
	p.until("the job's AdminComment has EC2's code", func() bool { return strings.Contains(p.show("job", id), code) })
	job, node := p.show("job", id), p.show("node", "gpu-1")
	if !strings.Contains(job, "AdminComment=pcs-capacity: nodes gpu-[1-2] were not launched: "+code+": ") || !strings.Contains(job, "JobState=PENDING") || strings.Contains(job, "Restarts=0") {
		t.Error(job)
	}
	if !strings.Contains(node, "Reason="+code+": ") {
		t.Error(node)
	}
	records, err := p.state.Records()
	if err != nil || len(records) == 0 || records[0].EC2Code != code || records[0].Code != code {
		t.Errorf("%v %+v", err, records)
	}
	if p.launches() != 0 {
		t.Errorf("%d instances", p.launches())
	}
	if end := p.logged("resume", "power up: done")[0]; fmt.Sprint(end["codes"]) != "["+code+"]" || fmt.Sprint(end["aws_codes"]) != "["+code+"]" || fmt.Sprint(end["jobs"]) != "["+id+"]" {
		t.Errorf("resume.log: %v", end)
	}
}

// What a user changes after submission launches nothing that the job may not have.
func TestR7_CommentChangedAfterSubmission(t *testing.T) {
	for name, comment := range map[string]string{
		"reservation of another partition": "capacity_reservation_id=" + hookstest.OtherID,
		"reservation of nobody":            "capacity_reservation_id=cr-0ffffffffffffffff",
		"no value at all":                  "capacity_reservation_id=$(reboot)\nNodeName=gpu-1 State=DOWN",
	} {
		t.Run(name, func(t *testing.T) {
			p := startPower(t, nil)
			id := p.submit("-p", "gpu", "--hold", "--comment=capacity_reservation_id="+hookstest.BlockID)
			p.scontrol("update", "jobid="+id, "comment="+comment)
			p.scontrol("release", id)
			p.until("the job is told", func() bool { return strings.Contains(p.show("job", id), "AdminComment=pcs-capacity: ") })
			if p.launches() != 0 {
				t.Errorf("%d instances", p.launches())
			}
			node := p.show("node", "gpu-1")
			if !strings.Contains(node, "POWER") || strings.Contains(node, "reboot") {
				t.Error(node)
			}
		})
	}
}

// SIGTERM lets the launch that is under way be finished.
func TestR5_ResumeTerminated(t *testing.T) {
	p := startPower(t, nil)
	p.fault(awssim.Fault{Operation: "RunInstances", Effect: awssim.Delay, Latency: awssim.Duration(2 * time.Second), Count: 1})
	id := p.submit("-p", "gpu", "-N2")
	p.until("the hook launches", func() bool { return len(p.sim.Faults()) == 0 })
	if err := syscall.Kill(p.lastPid("pcs-capacity-resume"), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.wait(id, "COMPLETED")
	if p.launches() != 2 {
		t.Errorf("%d instances ever", p.launches())
	}
}

// Nodes that an administrator powers up have no job; twice within an hour is two launches.
func TestResumeWithoutJob(t *testing.T) {
	p := startPower(t, nil)
	for round := 1; round <= 2; round++ {
		p.scontrol("update", "nodename=gpu-1", "state=POWER_UP")
		if _, err := p.cluster.WaitNode(hookstest.Deadline(t), "gpu-1", func(s string) bool { return s == "IDLE+CLOUD" }); err != nil {
			t.Fatal(err)
		}
		if p.launches() != round {
			t.Errorf("round %d: %d instances ever", round, p.launches())
		}
		p.scontrol("update", "nodename=gpu-1", "state=POWER_DOWN", "reason=test")
		if _, err := p.cluster.WaitNode(hookstest.Deadline(t), "gpu-1", func(s string) bool { return s == "IDLE+CLOUD+POWERED_DOWN" }); err != nil {
			t.Fatal(err)
		}
	}
}

// A node whose instance does not boot is launched again: Slurm would leave it DOWN, and
// with it a place in a paid block.
func TestNodeThatDoesNotBoot(t *testing.T) {
	p := startPower(t, func(c *slurmlab.Config) { c.ResumeTimeout = 8 * time.Second })
	p.dead.Store(true)
	id := p.submit("-p", "gpu", "-w", "gpu-1")
	p.until("Slurm gives the node up", func() bool { return strings.Contains(p.show("node", "gpu-1"), "ResumeTimeout reached") })
	p.dead.Store(false)
	p.wait(id, "COMPLETED")
	if p.launches() < 2 || len(p.instances()) != 1 {
		t.Errorf("%d instances ever, %d now", p.launches(), len(p.instances()))
	}
}

// A person who calls a hook is told what it is.
func TestPowerHooksUsage(t *testing.T) {
	for _, hook := range []string{"pcs-capacity-resume", "pcs-capacity-suspend"} {
		for _, args := range [][]string{nil, {"--help"}, {"gpu-1", "gpu-2"}} {
			out, err := exec.CommandContext(hookstest.Deadline(t), hookstest.Program(t, hook), args...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.HasPrefix(string(out), "usage: "+hook+" HOSTLIST\n") {
				t.Errorf("%s %q: %v: %s", hook, args, err, out)
			}
		}
	}
}

func TestR6_PowerHooksWithoutSettingsOrSlurm(t *testing.T) {
	if !hookstest.OwnProcess(t) { // the suspend hook insists for 90 seconds
		return
	}
	p := startPower(t, func(c *slurmlab.Config) { c.Extra = []string{"MessageTimeout=3"} })
	before := p.show("node", "gpu-1")
	t.Run("settings missing", func(t *testing.T) {
		if err := os.Rename(p.settings(), p.settings()+".away"); err != nil {
			t.Fatal(err)
		}
		defer os.Rename(p.settings()+".away", p.settings())
		for _, hook := range []string{"pcs-capacity-resume", "pcs-capacity-suspend"} {
			if err := p.run(hook, "gpu-1"); err == nil {
				t.Errorf("%s succeeds", hook)
			}
		}
	})
	t.Run("slurmctld hangs", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(p.cluster.Dir(), "run", "slurmctld.pid"))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer syscall.Kill(pid, syscall.SIGCONT)
		var both sync.WaitGroup
		for _, hook := range []string{"pcs-capacity-resume", "pcs-capacity-suspend"} {
			both.Go(func() {
				err := p.run(hook, "gpu-1")
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != 1 {
					t.Errorf("%s must end by itself and say no: %v", hook, err)
				}
			})
		}
		both.Wait()
	})
	if p.launches() != 0 || p.show("node", "gpu-1") != before {
		t.Errorf("the node was touched: %s", p.show("node", "gpu-1"))
	}
}

// A node can be powered up by hand before it is in a partition, which sinfo does not show.
func TestNodeInNoPartitionIsPoweredUp(t *testing.T) {
	p := startPower(t, nil)
	p.scontrol("update", "partitionname=other", "nodes=static-1")
	p.scontrol("update", "nodename=other-1", "state=power_up")
	p.until("it has an instance", func() bool { return p.instances()["other-1"].ID != "" })
}
