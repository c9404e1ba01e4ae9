package power_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
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
	t.Run("SIGTERM lets the launch that is under way be finished", func(t *testing.T) {
		p.fault(awssim.Fault{Operation: "RunInstances", Effect: awssim.Delay, Latency: awssim.Duration(2 * time.Second), Count: 1})
		id := p.submit("-p", "gpu", "-N2")
		p.until("the hook launches", func() bool { return len(p.sim.Faults()) == 0 })
		if err := syscall.Kill(p.lastPid("pcs-capacity-resume"), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		p.wait(id, "COMPLETED")
		if p.launches("") != 2 {
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
		hook := exec.CommandContext(hookstest.Deadline(t), filepath.Join(p.dir, "pcs-capacity-suspend"), "gpu-[1-4]") // the job may be on any two
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

// Jobs that are refused at launch are held; what shares their nodes is requeued, and runs. A job in several
// partitions is held when each of them has refused it.
func TestLong_RefusedJobsAreHeld(t *testing.T) {
	p := startPower(t, powerConfig, func(c *slurmlab.Config) { c.CloudGroups[0].CPUs, c.CloudGroups[1].CPUs = 16, 16 })
	p.watched()
	// The hook looks when Slurm has placed all jobs.
	path, placed := filepath.Join(p.dir, "pcs-capacity-resume"), filepath.Join(p.dir, "placed")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "exec ", "until [ -e "+placed+" ]; do sleep 0.1; done\nexec ", 1)), 0o755); err != nil {
		t.Fatal(err)
	}
	const elsewhere = "--comment=capacity_reservation_id=" + hookstest.OtherID
	var others [2]string
	var refused, once, het, both, neither string
	var said <-chan string
	p.together(func() {
		others[0] = p.submit("-p", "gpu", "-t", "10", "-n1")
		refused = p.submit("-p", "gpu", "-t", "10", "-n1")
		p.scontrol("update", "jobid="+refused, strings.TrimPrefix(elsewhere, "--"))
		once = p.submit("-p", "gpu", "-t", "10", "-n1", "--no-requeue", elsewhere)
		het = p.submit("-p", "gpu", "-t", "10", "-n1", elsewhere, ":", "-p", "gpu", "-t", "10", "-n1")
		both = p.submit("-p", "gpu,other", "-t", "10", "-n1", elsewhere)
		said = p.srun("-p", "gpu", "-t", "10", "-n1", elsewhere)
		others[1] = p.submit("-p", "gpu", "-t", "10", "-n1")
		neither = p.submit("-p", "gpu,other", "-t", "10", "-N2", // on nodes that are off in both
			"--comment=capacity_reservation_id=cr-0ffffffffffffffff")
	})
	p.until("all jobs have nodes", func() bool {
		waiting, err := p.cluster.Command(hookstest.Deadline(t), "squeue", "--noheader", "--states=PENDING", "--format=%i %P %r")
		return err == nil && strings.TrimSpace(waiting) == ""
	})
	if err := os.WriteFile(placed, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, id := range append(others[:], both) {
		p.wait(id, "COMPLETED")
	}
	if out := <-said; strings.Contains(out, "it ran") || !strings.Contains(out, "partition gpu refuses this job: wrong-partition: ") {
		t.Errorf("srun says %q", out)
	}
	for _, id := range []string{refused, once, het} {
		p.heldForOwner(id, "gpu", "wrong-partition")
	}
	p.heldForOwner(neither, "gpu|other", "unknown-reservation")
	if job := p.show("job", once); !strings.Contains(job, "Requeue=0") {
		t.Errorf("--no-requeue is forgotten: %s", job)
	}
	if job := p.show("job", both); !strings.Contains(job, "Partition=other") || !strings.Contains(job, "NodeList=other-") {
		t.Errorf("the job of two partitions: %s", job)
	}
}

// heldForOwner waits until a job is held, can be released by its owner, and says why.
func (p *power) heldForOwner(id, partition, code string) {
	p.t.Helper()
	var job string
	defer func() {
		if p.t.Failed() {
			p.t.Log(job)
		}
	}()
	p.until("job "+id+" is held for its owner", func() bool {
		job = p.show("job", id)
		return strings.Contains(job, " Priority=0 ") && regexp.MustCompile(`Reason=(JobHeldUser|job_requeued_in_held_state) `).MatchString(job) &&
			regexp.MustCompile("AdminComment=pcs-capacity: partition ("+partition+") refuses this job: "+code+": ").MatchString(job)
	})
}

// srun runs hostname in a terminal job, and returns when that is in the queue; then comes what
// srun says.
func (p *power) srun(args ...string) <-chan string {
	p.t.Helper()
	said := make(chan string, 1)
	ctx := hookstest.Deadline(p.t)
	go func() {
		out, err := p.cluster.Command(ctx, "srun", append(args, "hostname")...)
		if err == nil {
			out = "it ran: " + out
		}
		said <- out
	}()
	p.until("srun waits", func() bool {
		out, err := p.cluster.Command(hookstest.Deadline(p.t), "squeue", "--noheader", "--name=hostname")
		return err == nil && out != ""
	})
	return said
}

// together lets Slurm start all jobs that submit queues at once.
func (p *power) together(submit func()) {
	p.t.Helper()
	p.scontrol("update", "partitionname=gpu", "state=DOWN")
	submit()
	p.scontrol("update", "partitionname=gpu", "state=UP")
}

// syncWatch is `pcs-capacity sync --watch` with the settings that are its argument.
func syncWatch(settings string) int {
	follower := lifecycle.Follower{Path: settings}
	err := lifecycle.Watch{Sources: follower.Sources, Say: func(line string) { fmt.Println(time.Now().Format(time.TimeOnly), line) }}.Run(context.Background())
	fmt.Println(err)
	return 1
}

// keepSync runs `sync --watch` until ctx ends, again whenever it was killed.
func (p *power) keepSync(ctx context.Context) {
	log, err := os.OpenFile(filepath.Join(p.dir, "sync.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer func() {
		log.Close()
		if text, _ := os.ReadFile(log.Name()); p.t.Failed() {
			p.t.Logf("sync.log:\n%s", text)
		}
	}()
	_ = slurmlab.Until(ctx, func() bool {
		cmd := exec.CommandContext(ctx, filepath.Join(p.dir, "sync-watch"), p.settings())
		cmd.Env = p.cluster.Env()
		cmd.Stdout, cmd.Stderr = log, log
		_ = cmd.Run() // it is killed
		return false
	})
}

// pollOften makes sync look every second.
func (p *power) pollOften() {
	p.t.Helper()
	text, err := os.ReadFile(p.settings())
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(p.settings(), []byte(strings.Replace(string(text), "[log]", "[timing]\npoll = \"1s\"\n[log]", 1)), 0o644); err != nil {
		p.t.Fatal(err)
	}
	p.wrapper("sync-watch")
}

// watched runs sync until the end of the test.
func (p *power) watched() {
	p.t.Helper()
	p.pollOften()
	ctx, cancel := context.WithCancel(p.t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { p.keepSync(ctx) })
	p.t.Cleanup(func() {
		cancel()
		watch.Wait()
	})
}
