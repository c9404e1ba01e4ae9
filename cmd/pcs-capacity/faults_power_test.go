//go:build !race

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

var faultedPower = []faulted{
	{name: "resume", workers: 3, sample: []string{"ec2 RunInstances 1/killed after", "slurm scontrol update nodename 1/killed after", "slurm squeue 1/garbage"}, start: powerOf("resume")},
	{name: "suspend", workers: 3, sample: []string{"ec2 TerminateInstances 1/killed before"}, start: powerOf("suspend")},
	{name: "resume-fail", workers: 3, sample: []string{"ec2 TerminateInstances 1/killed after"}, start: powerOf("resume-fail")},
}

// powerOf is a world in which Slurm runs the hook of that name.
func powerOf(hook string) func(*testing.T) faultedWorld {
	return func(t *testing.T) faultedWorld {
		p := &powered{hook: hook, calm: newGate(t), g: newGate(t)}
		p.start(t)
		return p
	}
}

// powered is a real Slurm whose nodes the hooks launch from simulated EC2; each instance
// boots into a slurmd. One of the hooks meets the fault.
type powered struct {
	hook    string
	calm, g *gate // in front of the other programs, and of the hook
	dir     string
	cluster *slurmlab.Cluster
	job     string
	skew    time.Duration // of AWS's clock before the machine's
	dead    atomic.Bool   // instances that are launched now do not boot
	booted  sync.Map      // node to the id of the instance whose slurmd it is
}

const poweredConfig = `
region = "us-east-2"
state_dir = %[1]q
local_dir = %[1]q
[log]
dir = %[2]q
[[partition]]
name = "gpu"
provider = "ec2"
[[partition.node_group]]
name = "gpu"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0aaaaaaaaaaaaaaaa"]
launch_template = "lt-0aaaaaaaaaaaaaaaa"
capacity_reservation_ids = ["cr-0aaaaaaaaaaaaaaa1"]
max_nodes = 2
dynamic = true
`

func (p *powered) start(t *testing.T) {
	t.Helper()
	var err error
	if p.dir, err = os.MkdirTemp("", "h"); err != nil { // Slurm's sockets need a short path
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(p.dir) })
	p.account(t)
	if err := os.MkdirAll(filepath.Dir(p.settings()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.settings(), fmt.Appendf(nil, poweredConfig, filepath.Join(p.dir, "state"), filepath.Join(p.dir, "log")), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := slurmlab.Config{Dir: filepath.Join(p.dir, "lab"), CloudGroups: []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 2, CPUs: 1, Partition: "gpu"}},
		SuspendTimeout: 3 * time.Second, ResumeTimeout: 15 * time.Second}
	for hook, setting := range map[string]*string{"resume": &cfg.ResumeProgram, "suspend": &cfg.SuspendProgram, "resume-fail": &cfg.ResumeFailProgram} {
		*setting = p.wrapper(t, hook)
	}
	if p.cluster, err = slurmlab.Start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cluster.Stop() })
	p.g.signal = func(s os.Signal) {
		if pid := p.pid(); pid > 0 {
			_ = syscall.Kill(pid, s.(syscall.Signal))
		}
	}
}

func (p *powered) settings() string {
	return filepath.Join(p.dir, "lab", "etc", "pcs-capacity", "config.toml")
}

// account is a new AWS behind both gates, in which others have an instance too.
func (p *powered) account(t *testing.T) {
	t.Helper()
	scenario, err := awssim.LoadScenario("../../hooks/power/testdata/power.toml")
	if err != nil {
		t.Fatal(err)
	}
	sim, err := awssim.New(scenario, awssim.NewClock(time.Now().Add(p.skew), 1))
	if err != nil {
		t.Fatal(err)
	}
	sim.OnInstance(p.machine(t.Context(), sim))
	p.g.serve(sim)
	p.calm.mu.Lock()
	p.calm.sim = sim // which the other gate closes
	p.calm.mu.Unlock()
	askEC2(t, sim, "RunInstances", "LaunchTemplate.LaunchTemplateId=lt-0aaaaaaaaaaaaaaaa", "MinCount=1", "MaxCount=1", "InstanceType=p5.48xlarge",
		"SubnetId=subnet-0aaaaaaaaaaaaaaaa", "InstanceMarketOptions.MarketType=capacity-block",
		"CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId=cr-0aaaaaaaaaaaaaaa2",
		"TagSpecification.1.ResourceType=instance", "TagSpecification.1.Tag.1.Key=Name", "TagSpecification.1.Tag.1.Value=gpu-1")
}

// wrapper gives a hook what it finds on a real controller: a way to EC2 and to Slurm.
func (p *powered) wrapper(t *testing.T, hook string) string {
	t.Helper()
	program := map[string]string{"resume": "pcs-capacity-resume"}[hook]
	if program == "" {
		program = "pcs-capacity-suspend"
	}
	path := filepath.Join(p.dir, hook)
	g, note := p.calm, ""
	if hook == p.hook {
		g, note = p.g, "echo $$ >"+p.dir+"/pid\n"
	}
	text := "#!/bin/sh\n" + note
	for _, variable := range append(p.g.sim.Env(), "AWS_ENDPOINT_URL="+g.url, "AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1", "PATH="+g.dir+":/usr/bin:/bin") {
		text += "export '" + variable + "'\n"
	}
	real := append(itself(t), "")[0]
	if err := os.WriteFile(path, []byte(text+"exec "+filepath.Join(filepath.Dir(real), program)+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// machine plays the instances of an account.
func (p *powered) machine(ctx context.Context, sim *awssim.Sim) func(awssim.InstanceEvent) {
	runs := func(id string) bool {
		return slices.ContainsFunc(sim.Instances("us-east-2"), func(i awssim.Instance) bool {
			return i.ID == id && (i.State == "running" || i.State == "pending")
		})
	}
	return func(e awssim.InstanceEvent) {
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
			go func() {
				// A real one boots so long that Slurm knows its address by then.
				for ; ctx.Err() == nil && runs(e.Instance.ID); time.Sleep(100 * time.Millisecond) {
					if fields, err := p.cluster.Node(ctx, node); err == nil && fields["NodeAddr"] == e.Instance.PrivateIP {
						p.booted.Store(node, e.Instance.ID)
						_ = p.cluster.StartNode(ctx, node, "") // fails if the cluster ends
						return
					}
				}
			}()
		case awssim.Terminated:
			if p.booted.CompareAndDelete(node, e.Instance.ID) { // else it is a newer one's
				_ = p.cluster.StopNode(node)
			}
		}
	}
}

func (p *powered) gate() *gate { return p.g }

func (p *powered) limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (p *powered) scontrol(t *testing.T, args ...string) {
	t.Helper()
	if out, err := p.cluster.Command(p.limit(t), "scontrol", args...); err != nil {
		t.Fatal(out, err)
	}
}

func (p *powered) node(t *testing.T, state string) {
	t.Helper()
	for _, node := range []string{"gpu-1", "gpu-2"} {
		if _, err := p.cluster.WaitNode(p.limit(t), node, func(s string) bool { return s == state }); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *powered) submit(t *testing.T) {
	t.Helper()
	var err error
	if p.job, err = p.cluster.Submit(p.limit(t), "srun hostname", "-p", "gpu", "-N2", "-t", "5"); err != nil {
		t.Fatal(p.job, err)
	}
}

// done waits for the job. When it takes long, sync makes a pass, as it would on a cluster.
func (p *powered) done(t *testing.T) {
	t.Helper()
	for limit := p.limit(t); ; {
		soon, cancel := context.WithTimeout(limit, 10*time.Second)
		_, err := p.cluster.WaitJob(soon, p.job, "COMPLETED")
		cancel()
		if err == nil {
			return
		}
		if limit.Err() != nil {
			t.Errorf("the job is lost: %v", err)
			return
		}
		p.sync(t)
	}
}

// sync makes a pass.
func (p *powered) sync(t *testing.T) outcome {
	t.Helper()
	return p.calm.run(t, time.Minute, p.calm.env("SLURM_CONF="+p.cluster.Conf()), append(itself(t), "--config", p.settings(), "sync"))
}

// reset is a new account, and nodes that are off. For a power-down they are on.
func (p *powered) reset(t *testing.T) {
	t.Helper()
	p.node(t, "IDLE+CLOUD+POWERED_DOWN")
	p.account(t)
	_ = os.Remove(filepath.Join(p.dir, "pid"))
	p.calm.arm(t, nil, "")
	p.g.arm(t, nil, "")
	p.dead.Store(p.hook == "resume-fail")
	if p.hook == "suspend" {
		p.submit(t)
		p.done(t)
	}
}

// run lets Slurm run the hook.
func (p *powered) run(t *testing.T) string {
	t.Helper()
	switch p.hook {
	case "suspend":
		p.scontrol(t, "update", "nodename=gpu-[1-2]", "state=POWER_DOWN", "reason=test")
		p.node(t, "IDLE+CLOUD+POWERED_DOWN")
	case "resume-fail":
		p.submit(t)
		for p.limit(t).Err() == nil {
			fields, err := p.cluster.Node(p.limit(t), "gpu-1")
			if err == nil && strings.Contains(fields["Reason"], "ResumeTimeout reached") || len(p.g.made(t)) > 0 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		p.dead.Store(false)
		p.done(t)
	default:
		p.submit(t)
		p.done(t)
	}
	for limit := p.limit(t); p.pid() > 0 && syscall.Kill(p.pid(), 0) == nil; time.Sleep(50 * time.Millisecond) {
		if limit.Err() != nil {
			t.Fatal("the hook does not end")
		}
	}
	return p.logs()
}

// pid is that of the hook that meets the fault; 0 if it has not run.
func (p *powered) pid() int {
	text, _ := os.ReadFile(filepath.Join(p.dir, "pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// settle powers the nodes down, and lets sync look twice.
func (p *powered) settle(t *testing.T) string {
	t.Helper()
	if p.hook != "suspend" {
		p.scontrol(t, "update", "nodename=gpu-[1-2]", "state=POWER_DOWN", "reason=test")
	}
	p.node(t, "IDLE+CLOUD+POWERED_DOWN")
	var said string
	for range 2 {
		p.g.sim.Clock().Advance(6 * time.Minute)
		o := p.sync(t)
		if said += o.stdout + o.stderr; o.status != 0 {
			t.Errorf("sync fails when all is well: %s", o.stderr)
		}
	}
	return said + p.logs()
}

func (p *powered) logs() (all string) {
	files, _ := filepath.Glob(filepath.Join(p.dir, "log", "*.log"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		_ = os.Truncate(file, 0)
		all += filepath.Base(file) + ":\n" + string(text)
	}
	return all
}

func (p *powered) seen(t *testing.T) []string {
	t.Helper()
	all := account(t, p.g.sim)
	nodes, err := p.cluster.Command(p.limit(t), "scontrol", "-o", "show", "node")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(nodes) {
		fields := slurmFields(line)
		all = append(all, "node "+fields["NodeName"]+" "+fields["State"])
	}
	reservations, err := p.cluster.Command(p.limit(t), "scontrol", "-o", "show", "reservation")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(reservations) {
		all = append(all, "reservation "+ownerID.ReplaceAllString(slurmFields(line)["ReservationName"], "$1"))
	}
	return all
}

// TestPowerOnAClockThatIsOff: AWS's clock is 10 minutes before or behind that of the machine,
// by which a launch seems to be later than the power-down of its nodes, or long past.
func TestPowerOnAClockThatIsOff(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Slurm cluster")
	}
	t.Parallel()
	for _, skew := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			p := &powered{calm: newGate(t), g: newGate(t), skew: skew}
			p.start(t)
			p.reset(t)
			before := account(t, p.g.sim)
			p.submit(t)
			p.done(t)
			p.scontrol(t, "update", "nodename=gpu-[1-2]", "state=POWER_DOWN", "reason=test")
			p.node(t, "IDLE+CLOUD+POWERED_DOWN")
			for limit := p.limit(t); ; time.Sleep(100 * time.Millisecond) {
				diff := cmp.Diff(before, account(t, p.g.sim))
				if diff == "" {
					break
				}
				if limit.Err() != nil {
					t.Fatalf("the power-down has not ended (-before +after):\n%s\n%s", diff, p.logs())
				}
			}
			if log := p.logs(); len(log) > 10<<10 {
				t.Errorf("one power-up and one power-down wrote %d bytes of log:\n%s", len(log), log)
			} else {
				t.Logf("one power-up and one power-down wrote %d bytes of log", len(log))
			}
			if n := len(p.g.sim.Instances("us-east-2")); n != 3 {
				t.Errorf("%d instances ever, want two and that of others", n)
			}
		})
	}
}
