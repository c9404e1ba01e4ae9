package power_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

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
	for ctx.Err() == nil {
		cmd := exec.CommandContext(ctx, filepath.Join(p.dir, "sync-watch"), p.settings())
		cmd.Env = p.cluster.Env()
		cmd.Stdout, cmd.Stderr = log, log
		_ = cmd.Run() // it is killed
		time.Sleep(100 * time.Millisecond)
	}
}

// Slurm calls ResumeFailProgram once for a node that did not boot. When that was killed,
// sync gives the node back; one that an administrator sent down stays so.
func TestR5_SyncGivesBackNodesThatSlurmGaveUp(t *testing.T) {
	p := startPower(t, func(c *slurmlab.Config) { c.ResumeTimeout, c.ResumeFailProgram = 8*time.Second, "/bin/false" })
	p.scontrol("update", "nodename=gpu-4", "state=DOWN", "reason=mine")
	p.dead.Store(true)
	id := p.submit("-p", "gpu", "-w", "gpu-1", "-t", "10")
	p.until("Slurm gives the node up", func() bool { return strings.Contains(p.show("node", "gpu-1"), "ResumeTimeout reached") })
	p.dead.Store(false)
	p.watched()
	p.wait(id, "COMPLETED")
	if len(p.instances()) != 1 {
		t.Errorf("%d instances", len(p.instances()))
	}
	if node := p.show("node", "gpu-4"); !strings.Contains(node, "State=DOWN") || !strings.Contains(node, "Reason=mine") {
		t.Errorf("an administrator's: %s", node)
	}
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

// Slurm 24.11 takes a job that had ended when slurmctld was restarted, and is requeued then, for
// completing until its nodes say that it is over. Nodes that are off never do, and nobody else's
// job need come to power them up.
func TestRequeuedJobCompletesOnNodesThatAreOff(t *testing.T) {
	var cfg slurmlab.Config
	p := startPower(t, func(c *slurmlab.Config) { c.SuspendTime = 2 * time.Second; cfg = *c })
	id := p.submit("-p", "gpu", "-N2", "-t", "10")
	p.wait(id, "COMPLETED")
	off := func() bool {
		states, err := p.cluster.NodeStates(p.ctx)
		return err == nil && strings.Contains(states["gpu-1"], "POWERED_DOWN") && strings.Contains(states["gpu-2"], "POWERED_DOWN")
	}
	p.until("the nodes are off", off)
	if err := p.cluster.Reload(hookstest.Deadline(t), cfg); err != nil {
		t.Fatal(err)
	}
	p.scontrol("requeue", id)
	p.watched()
	p.wait(id, "COMPLETED")
}
