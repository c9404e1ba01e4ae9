package power_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
)

// launched starts two nodes with real instances and returns when both are up.
func (p *power) launched() {
	p.t.Helper()
	p.wait(p.submit("-p", "gpu", "-N2"), "COMPLETED")
	p.until("the nodes are idle", func() bool { return len(p.instances()) == 2 })
}

// slurmctld stops, and goes on when the returned function is called.
func (p *power) stopController() (goOn func()) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.cluster.Dir(), "run", "slurmctld.pid"))
	if err != nil {
		p.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	goOn = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	p.t.Cleanup(goOn)
	return goOn
}

// EC2 refuses more often than the SDK tries: the hook goes on for its time.
func TestSuspendInsists(t *testing.T) {
	p := startPower(t, nil)
	p.launched()
	p.fault(awssim.Fault{Operation: "TerminateInstances", Effect: awssim.FailBefore, Count: 7})
	p.scontrol("update", "nodename=gpu-[1-2]", "state=POWER_DOWN", "reason=test")
	p.until("the instances are terminated", func() bool { return len(p.instances()) == 0 })
	if left := p.sim.Faults(); len(left) != 0 {
		t.Errorf("the test proves nothing: %+v", left)
	}
}

// A slurmctld that does not answer keeps no instance alive: the hook knows the cluster's
// name from the launch.
func TestSuspendWithoutSlurmctld(t *testing.T) {
	p := startPower(t, nil)
	p.launched()
	goOn := p.stopController()
	hook := exec.CommandContext(hookstest.Deadline(t), filepath.Join(p.dir, "pcs-capacity-suspend"), "gpu-[1-2]")
	hook.Env = []string{"SLURM_CONF=" + p.cluster.Conf()}
	if err := hook.Start(); err != nil {
		t.Fatal(err)
	}
	p.until("the instances are terminated", func() bool { return len(p.instances()) == 0 })
	goOn()
	if err := hook.Wait(); err != nil {
		t.Error(err)
	}
}

// EC2 shows what was launched late: the hooks' records name it.
func TestSuspendBeforeEC2ShowsTheInstance(t *testing.T) {
	p := startPower(t, nil)
	lag := awssim.Duration(20 * time.Second)
	p.sim.SetLag(awssim.Lag{Instances: &lag})
	p.launched()
	p.scontrol("update", "nodename=gpu-2", "state=POWER_DOWN", "reason=test")
	p.until("its instance is terminated", func() bool { _, there := p.instances()["gpu-2"]; return !there })
	if _, there := p.instances()["gpu-1"]; !there {
		t.Error("that of the other node is terminated too")
	}
	p.until("the hook has recorded it", func() bool {
		records, err := p.state.Records()
		last := len(records) - 1
		return err == nil && records[last].Hook == "suspend" && records[last].Code == "ok" && records[last].Nodes == "gpu-2" && len(records[last].Instances) == 1
	})
}

// sync makes a pass as pcs-capacity does, in a program of its own: the environment of
// this one is that of all tests.
func (p *power) sync() (string, error) {
	p.t.Helper()
	cmd := exec.CommandContext(hookstest.Deadline(p.t), hookstest.Program(p.t, "one-pass"), p.settings())
	cmd.Env = append(os.Environ(), append(p.sim.Env(), "SLURM_CONF="+p.cluster.Conf(), "AWS_EC2_METADATA_DISABLED=true")...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// onePass is the program behind sync.
func onePass() int {
	cfg, err := config.Load(os.Args[1])
	if err == nil {
		var aws *ec2.Client
		if aws, err = ec2.New(context.Background(), ec2.Options{Region: cfg.Region}); err == nil {
			var report lifecycle.Report
			_, report, err = lifecycle.Pass(context.Background(), lifecycle.From(cfg, aws, nil))
			for _, d := range report.Done {
				fmt.Println(d)
			}
			for _, problem := range report.Problems {
				fmt.Println("problem:", problem)
			}
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
