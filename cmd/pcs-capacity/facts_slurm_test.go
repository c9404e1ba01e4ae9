package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// A block is extended while a job runs in it: the file that the job reads has the new end, at
// the same path, and so has the environment of later steps; that of the script stays.
func TestFactsFollowAnExtension(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	program, err := exec.LookPath("pcs-capacity-prolog")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, folder := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := newRehearsalOn(t, func(c *slurmlab.Config) {
		path := filepath.Join(dir, "task-prolog")
		if err := os.WriteFile(path, []byte("#!/bin/sh\nexec "+program+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		c.Extra = append(c.Extra, "TaskProlog="+path)
	})
	beside := filepath.Join(filepath.Dir(r.cluster.Conf()), "pcs-capacity", "config.toml")
	text, err := os.ReadFile(r.path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(beside), 0o755)
	}
	if err == nil {
		err = os.WriteFile(beside, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.sync()
	const block = "cr-0e2000000000000b2"
	facts := state.Dir(r.cfg.StateDir).FactsPath("long")
	if info, err := os.Stat(facts); err != nil || info.Mode() != 0o644 {
		t.Fatalf("%v %v", info, err)
	}
	before, err := r.aws.Reservation(r.ctx, block)
	if err != nil {
		t.Fatal(err)
	}
	said := filepath.Join(dir, "said")
	// The script's own environment, the file, and that of a new step.
	id, err := r.cluster.Submit(r.ctx, `while echo "$PCS_CAPACITY_FACTS" $PCS_CAPACITY_END $(sed -n 's/.*"end_unix": \([0-9]*\).*/\1/p' "$PCS_CAPACITY_FACTS") `+
		`$(srun sh -c 'echo $PCS_CAPACITY_END') >`+said+`.new && mv `+said+`.new `+said+` && ! [ -e `+said+`.stop ]; do sleep 0.3; done`, "-p", "gpu", "-C", "long", "-t", "30")
	if err != nil {
		t.Fatal(err)
	}
	says := func(script, now time.Time) func() bool {
		return func() bool {
			text, _ := os.ReadFile(said)
			return strings.TrimSpace(string(text)) == fmt.Sprintf("%s %d %d %d", facts, script.Unix(), now.Unix(), now.Unix())
		}
	}
	r.within(2*time.Minute, "the job has read its end", says(before.End, before.End))
	extend(r, block)
	r.sync()
	r.within(2*time.Minute, "the running job reads the new end", says(before.End, before.End.Add(24*time.Hour)))
	if err := os.WriteFile(said+".stop", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.cluster.WaitJob(r.ctx, id, "COMPLETED"); err != nil {
		t.Fatal(err)
	}
	// Slots whose reservation has ended have none.
	if err := state.Dir(r.cfg.StateDir).WriteFacts(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(facts); err == nil {
		t.Error("the facts of a slot without a reservation stay")
	}
}
