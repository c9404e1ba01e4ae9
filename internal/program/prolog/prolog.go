// Package prolog is pcs-capacity-prolog: slurmd runs it as the Prolog of a job, slurmstepd as
// the TaskProlog of each task. It links no AWS SDK, and nothing that goes wrong in it keeps a
// job from starting. What it does is in package hooks/prolog.
package prolog

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/prolog"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Main is the whole program. It returns the exit status, which is 0 whenever Slurm calls it.
// After [prolog.PrologDeadline] or [prolog.TaskPrologDeadline] it ends the process.
func Main([]string) int {
	switch os.Getenv("SLURM_SCRIPT_CONTEXT") {
	case "prolog_slurmd":
		time.AfterFunc(prolog.PrologDeadline, func() { os.Exit(0) })
		runProlog(os.Getenv("SLURMD_NODENAME"))
	case "prolog_task":
		// Once, whole or not at all.
		var once sync.Once
		answer := func(text string) { once.Do(func() { _, _ = os.Stdout.WriteString(text) }) }
		time.AfterFunc(prolog.TaskPrologDeadline, func() {
			answer(prolog.JobEnvironment("", nil, "", time.Time{}))
			os.Exit(0)
		})
		answer(taskProlog(os.Getenv("SLURMD_NODENAME")))
	default:
		fmt.Fprint(os.Stderr, `usage: none; Slurm calls it

Slurm's Prolog and TaskProlog: slurm.conf names it, and slurmd calls it before a job starts
on a node, slurmstepd before each task. As Prolog it logs to prolog.log in the folder that
[log] dir of the settings names, and to syslog.
`)
		if os.Getenv("SLURM_JOB_ID") == "" {
			return 2
		}
	}
	return 0
}

// runProlog does what a Prolog does on a node of ours; on others nothing.
func runProlog(node string) {
	cfg, err := config.Load(config.Find(""))
	if err != nil {
		return // a node without settings runs jobs as before
	}
	_, _, slot, ours := cfg.Domain().PlaceOf(node)
	if !ours {
		return
	}
	p := prolog.Prolog{
		State:       state.Dir(cfg.StateDir),
		Metadata:    metadata,
		MachineTime: time.Now,
		Log:         hook.Log(cfg.Log.Dir, "prolog"),
	}
	p.Run(context.Background(), node, slot, os.Getenv("SLURM_JOB_ID"))
}

// taskProlog is the output for slurmstepd. It runs as the user, once for each task on the machine, and has no log of
// its own: the Prolog's log reports broken files.
func taskProlog(node string) string {
	var snap *capacity.Snapshot
	var slot string
	var dir state.Dir
	now := time.Now()
	if cfg, err := config.Load(config.Find("")); err == nil {
		var ours bool
		if _, _, slot, ours = cfg.Domain().PlaceOf(node); ours {
			dir = state.Dir(cfg.StateDir)
			snap, _ = dir.ReadSnapshot()
		}
	}
	if snap != nil {
		now = now.Add(snap.ClockOffset.Duration)
	}
	return prolog.JobEnvironment(dir, snap, slot, now)
}
