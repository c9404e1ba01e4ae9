package power_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
)

// What goes wrong around the hooks, on one cluster.
func TestLong_R5_PowerHooks(t *testing.T) {
	p := startPower(t, powerConfig, func(c *slurmlab.Config) { c.Extra = []string{"MessageTimeout=3"} })
	hooks := []string{"pcs-capacity-resume", "pcs-capacity-suspend"}
	idle := p.show("node", "gpu-1")
	t.Run("R6 settings missing", func(t *testing.T) {
		if err := os.Rename(p.settings(), p.settings()+".away"); err != nil {
			t.Fatal(err)
		}
		defer os.Rename(p.settings()+".away", p.settings())

		for _, hook := range hooks {
			if err := p.run(hook, "gpu-1"); err == nil {
				t.Errorf("%s succeeds", hook)
			}
		}
	})
	// They end by themselves and say no; that of a power-down insists before.
	t.Run("R6 slurmctld hangs", func(t *testing.T) {
		defer p.stopController()()

		var both sync.WaitGroup
		for _, hook := range hooks {
			both.Go(func() {
				err := p.run(hook, "gpu-1")

				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != 1 {
					t.Errorf("%s: %v", hook, err)
				}
			})
		}

		both.Wait()
	})

	if now := p.show("node", "gpu-1"); p.launches("") != 0 || now != idle {
		t.Errorf("the node was touched: %s", now)
	}

	t.Run("without room for a preferred hold, the job gets its nodes anyway", func(t *testing.T) {
		p.sim.SetCapacity(region, "us-east-2b", "p5.48xlarge", 2)
		p.fault(awssim.Fault{
			Operation: "CreateCapacityReservation",
			Effect:    awssim.FailBefore,
			Code:      "InsufficientInstanceCapacity",
			Count:     2, // zones
		})
		p.wait(p.submit("-p", "held", "-N2", "--comment=capacity=prefer"), "COMPLETED")

		if left := p.sim.Faults(); len(left) != 0 {
			t.Errorf("the test proves nothing: %+v", left)
		}

		for node, i := range p.instances() {
			if i.ReservationID != "" {
				t.Errorf("%s is in %s", node, i.ReservationID)
			}
		}

		p.scontrol("update", "nodename=held-[1-2]", "state=POWER_DOWN", "reason=test")
		p.until("the instances are terminated", func() bool { return len(p.instances()) == 0 })
	})

	launched := p.launches("")

	t.Run("SIGTERM lets the launch that is under way be finished", func(t *testing.T) {
		p.fault(
			awssim.Fault{
				Operation: "RunInstances",
				Effect:    awssim.Delay,
				Latency:   awssim.Duration(2 * time.Second),
				Count:     1,
			},
		)
		id := p.submit("-p", "gpu", "-N2")
		p.until("the hook launches", func() bool { return len(p.sim.Faults()) == 0 })

		if err := syscall.Kill(p.lastPid("pcs-capacity-resume"), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}

		p.wait(id, "COMPLETED")

		if p.launches("") != launched+2 {
			t.Errorf("%d instances ever", p.launches(""))
		}
	})
	// EC2 refuses more often than the SDK tries: the hook goes on for its time.
	t.Run("a power-down insists", func(t *testing.T) {
		p.fault(awssim.Fault{Operation: "TerminateInstances", Effect: awssim.FailBefore, Count: 7})
		p.scontrol("update", "nodename=gpu-[1-2]", "state=POWER_DOWN", "reason=test")
		p.until("the instances are terminated", func() bool { return len(p.instances()) == 0 })

		if left := p.sim.Faults(); len(left) != 0 {
			t.Errorf("the test proves nothing: %+v", left)
		}
	})
	// A slurmctld that does not answer keeps no instance alive: the hook knows the cluster's name from the launch.
	t.Run("a power-down without slurmctld", func(t *testing.T) {
		p.wait(p.submit("-p", "gpu", "-N2"), "COMPLETED")
		goOn := p.stopController()

		hook := exec.CommandContext(
			hookstest.Deadline(t),
			filepath.Join(p.dir, "pcs-capacity-suspend"),
			"gpu-[1-4]",
		) // the job may be on any two
		hook.Env = []string{"SLURM_CONF=" + p.cluster.Conf()}
		if err := hook.Start(); err != nil {
			t.Fatal(err)
		}

		p.until("the instances are terminated", func() bool { return len(p.instances()) == 0 })
		goOn()

		if err := hook.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// stopController stops slurmctld until the returned function is called.
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
