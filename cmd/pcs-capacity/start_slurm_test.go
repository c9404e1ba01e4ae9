package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// TestTheStartOfABlock: under `sync --watch`, a job that waits for a block runs within
// seconds of its start, and the nodes that no job waits for are powered up as well, unless
// their node group is dynamic.
func TestTheStartOfABlock(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	const block, other = "cr-0e2000000000000a1", "cr-0e2000000000000c3"
	begins := func(id string) string {
		return fmt.Sprintf(`id = %q, kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 4, start = `, id)
	}
	r := newRehearsalIn(t,
		strings.NewReplacer(begins(block)+`"-1h", end = "+205s"`, begins(block)+`"+40s", end = "+30h"`, begins(other)+`"+2h"`, begins(other)+`"+30s"`).Replace(rehearsalWorld),
		strings.Replace(rehearsalConfig, `["`+other+`"]`, `["`+other+`"]`+"\ndynamic = true", 1), func(*slurmlab.Config) {})
	// When sync and the job power the same node up in one second, Slurm asks for it twice. A node
	// that boots between the two stays POWERING_UP until ResumeTimeout; no machine boots that fast.
	r.bootDelay.Store(int64(3 * time.Second))
	_, said := r.watch()
	r.until("the nodes wait for their block", func() bool { return r.has("pcs-capacity-wait-gpu") })
	r.until("the first pass is over", func() bool { _, err := state.Dir(r.cfg.StateDir).ReadSnapshot(); return err == nil })
	opens, err := r.aws.Reservation(r.ctx, block)
	if err != nil {
		t.Fatal(err)
	}
	id := r.submit("-C", "gpu", "-N", "2", "-t", "10")
	if left := time.Until(opens.Start); left < 2*time.Second {
		t.Fatalf("the machine is too slow: %s are left", left)
	}
	if job := r.job(id); job.State != "PENDING" {
		t.Fatalf("before the start the job is %s", job.State)
	}
	r.explains(id, "Job "+id+" waits for "+block+", which opens at ")
	r.explains("gpu-1", "Node gpu-1 takes no jobs: "+block+" opens at ")
	r.explains("gpu", "Partition gpu takes jobs: cr-0e2000000000000b2 is open") // another slot of it
	r.within(time.Minute, "the job runs", func() bool { j := r.job(id); return j.State == "RUNNING" && !j.Configuring() })
	after := time.Since(opens.Start)
	if job := r.job(id); job.Start.Before(opens.Start.Add(-time.Second)) || after > 10*time.Second {
		t.Errorf("the job started at %s and ran %s after the start of the block, %s", job.Start, after, opens.Start)
	}
	r.explains(id, "Job "+id+" runs on gpu-[1-2] until ")
	t.Logf("the job ran %s after the start of the block", after)
	r.until("all nodes are up", func() bool { return r.status()["gpu"].NodesUp != nil && *r.status()["gpu"].NodesUp == 4 })
	if !strings.Contains(said(), "powering gpu-") || strings.Contains(said(), "powering later-") {
		t.Errorf("it said %s", said())
	}
	t.Log(said())
}

// explainsToUser has a user without rights in Slurm, and without AWS, run the program.
func (r *rehearsal) explainsToUser(what, answer string) {
	r.Helper()
	const nobody = 65534
	dir := filepath.Dir(r.cfg.StateDir) // with what it needs; the others are for root
	program, settings := filepath.Join(dir, "pcs-capacity"), filepath.Join(dir, "config.toml")
	if _, err := os.Stat(program); err != nil {
		itself, err := exec.LookPath("pcs-capacity")
		if err == nil {
			itself, err = filepath.EvalSymlinks(itself)
		}
		text, err2 := os.ReadFile(r.path)
		if err := errors.Join(err, err2, os.Chmod(dir, 0o755), os.WriteFile(settings, text, 0o644), os.Link(itself, program)); err != nil {
			r.Fatal(err)
		}
	}
	cmd := exec.CommandContext(r.ctx, program, "--config", settings, "explain", what)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "SLURM_CONF=" + r.cluster.Conf(), "AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), answer) {
		r.Errorf("to a user, explain %s says\n%s\nnot %q: %v", what, out, answer, err)
	}
}

// explains runs the command, which is to answer so.
func (r *rehearsal) explains(what, answer string) {
	r.Helper()
	var out strings.Builder
	if err := (&ExplainCmd{What: what}).Run(r.ctx, &terminal.Terminal{Out: &out, Format: terminal.Table}, &maybeConfig{r.cfg, true}); err != nil {
		r.Errorf("explain %s: %v", what, err)
	}
	if !strings.HasPrefix(out.String(), answer) {
		r.Errorf("explain %s says\n%s\nnot %q", what, out.String(), answer)
	}
}
