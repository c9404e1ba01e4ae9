package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// TestTheHealthOfABlock: when a block opens, the site's command runs on each of its nodes
// before jobs do. One node of two fails it, is launched anew, and fails again.
func TestTheHealthOfABlock(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	const block, other = "cr-0e2000000000000a1", "cr-0e2000000000000c3"
	ran := filepath.Join(t.TempDir(), "ran")
	command := filepath.Join(t.TempDir(), "health command")
	if err := os.WriteFile(command, fmt.Appendf(nil, "#!/bin/sh\necho $SLURMD_NODENAME >>%s\necho looking\ncase $SLURMD_NODENAME in\ngpu-1) sleep 3;;\ngpu-2) echo 'GPU 3 fell off the bus'; exit 3;;\nlater-1) exec /no/such/program;;\nesac\n", ran), 0o755); err != nil {
		t.Fatal(err)
	}
	begins := func(id string) string {
		return fmt.Sprintf(`id = %q, kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = `, id)
	}
	filter, err := exec.LookPath("pcs-capacity-filter")
	if err != nil {
		t.Fatal(err)
	}
	// The command's jobs go through our own filter, as those of users do.
	r := newRehearsalIn(t,
		strings.NewReplacer(begins(block)+`4, start = "-1h", end = "+205s"`, begins(block)+`2, start = "+25s", end = "+30h"`,
			begins(other)+`4, start = "+2h"`, begins(other)+`1, start = "+25s"`).Replace(rehearsalWorld),
		strings.Replace(rehearsalConfig, "[[partition]]", fmt.Sprintf("[health]\nopen = %q\ntimeout = \"1m\"\ntries = 2\n[[partition]]", command), 1), func(c *slurmlab.Config) {
			dir, local := filepath.Join(c.Dir, "capacity"), state.Dir(filepath.Join(c.Dir, "local"))
			c.CLIFilterLua = submit.CLIFilter(state.Dir(dir).PlanPath(), dir, filter)
			c.JobSubmitLua = submit.JobSubmit(local.PlanPath(), string(local), filter)
		})
	dir := state.Dir(r.cfg.StateDir)

	r.sync()
	opens, err := r.aws.Reservation(r.ctx, block)
	if err != nil {
		t.Fatal(err)
	}
	if closed := r.reservations()["pcs-capacity-health-gpu.gpu-1"]; !closed.Active || closed.Infinite() || closed.End.Before(opens.Start.Add(time.Minute)) {
		t.Fatalf("before the start gpu-1 is closed by %+v", closed)
	}
	if out, err := r.cluster.Command(r.ctx, "sbatch", "-p", "gpu", "-C", "gpu", "-N", "3", "--wrap", "true"); err == nil || !strings.Contains(out, "pcs-capacity") {
		t.Fatalf("the filter does not look at jobs: %v\n%s", err, out)
	}
	job := r.submit("-C", "gpu", "-N", "1", "-t", "10")
	both := r.submit("-C", "gpu", "-N", "2", "-t", "10")

	// Each pass is of a program of its own.
	var did []string
	killed := false
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(300 * time.Millisecond) {
		did = append(did, r.sync()...)
		h, err := dir.Health("gpu")
		if err != nil {
			t.Fatal(err)
		}
		if h != nil && h.Nodes["gpu-1"].Job != "" && !killed { // before it wrote down what it had submitted
			killed = true
			h.Nodes["gpu-1"].Job = ""
			if err := dir.KeepHealth(h); err != nil {
				t.Fatal(err)
			}
			r.explains("gpu-1", "Node gpu-1 takes no jobs yet: ")
		}
		if h != nil && h.Nodes["gpu-2"].State == state.HealthBad && h.Nodes["gpu-1"].State == state.HealthGood {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain; did %q, knows %+v", did, h)
		}
	}
	all := strings.Join(did, "; ")
	for what, times := range map[string]int{"check-node gpu": 3, "drain-node gpu": 2, "power-down gpu": 1, "power-up gpu": 2} {
		if n := strings.Count(all, what); n != times {
			t.Errorf("%s %d times, want %d: %s", what, n, times, all)
		}
	}
	if text, _ := os.ReadFile(ran); strings.Count(string(text), "gpu-2") != 2 || strings.Count(string(text), "gpu-1") != 1 {
		t.Errorf("the command ran on\n%s", text)
	}
	r.until("the job runs on the healthy node", func() bool { return r.job(job).State == "RUNNING" && strings.Join(r.job(job).Nodes, ",") == "gpu-1" })
	if j := r.job(both); j.State != "PENDING" {
		t.Errorf("a job of both nodes is %s", j.State)
	}
	// That the command did not start is not the fault of a node.
	if h, err := dir.Health("later"); err != nil || h == nil || h.Nodes["later-1"].State != state.HealthUnknown || !strings.Contains(h.Nodes["later-1"].Why, "/no/such/program") {
		t.Errorf("%v: of the other block it knows %+v", err, h)
	}
	if strings.Contains(all, "drain-node later") {
		t.Errorf("it did %s", all)
	}
	out, err := r.cluster.Command(r.ctx, "scontrol", "show", "node", "gpu-2")
	if err != nil || !strings.Contains(out, "DRAIN") || !strings.Contains(out, "GPU 3 fell off the bus") {
		t.Errorf("the bad node is %v\n%s", err, out)
	}
	r.sync()
	for name := range r.reservations() {
		if strings.HasPrefix(name, "pcs-capacity-health-") {
			t.Errorf("%s is there still", name)
		}
	}
	text, err := os.ReadFile(dir.HealthCasePath("gpu-2", block))
	var c state.HealthCase
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil || len(c.Failures) != 2 || c.Failures[1].ExitStatus != 3 || c.Failures[1].Output != "looking\nGPU 3 fell off the bus\n" || c.Failures[0].Zone != "use2-az1" || c.Failures[0].Began.IsZero() {
		t.Errorf("%v: the facts are %s", err, text)
	}
	t.Logf("did %s\n%s", all, text)

	// Each thing is told once, and the report has the node among the hardware.
	snap, report, err := lifecycle.Pass(r.ctx, lifecycle.From(r.cfg, r.aws, newPCS(r.aws)))
	if err != nil || !strings.Contains(strings.Join(report.Problems, "\n"), "open a case with AWS Support") {
		t.Errorf("%v: the problems are %q", err, report.Problems)
	}
	var told []string
	for range 2 {
		if errs := lifecycle.Tell(dir, snap, report, lifecycle.NoticeSettings{Lost: time.Hour}, func(n lifecycle.Notice) error {
			if n.Kind == "host-failed" {
				told = append(told, n.Message)
			}
			return nil
		}); len(errs) > 0 {
			t.Error(errs)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "gpu-2") {
		t.Errorf("told %q", told)
	}
	if last := dir.LastSample(); last == nil || last.Paid[block] == nil || last.Paid[block].Nodes[state.NodeDown] != "gpu-2" {
		t.Errorf("the report knows %+v", last)
	}
}
