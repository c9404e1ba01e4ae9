package prolog

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Main is pcs-capacity-prolog: slurmd runs it as the Prolog of a job, slurmstepd as the TaskProlog of each task. It
// returns the exit status, which is 0 whenever Slurm calls it. After [PrologDeadline] or [TaskPrologDeadline] it ends
// the process. A node without settings runs jobs as before.
func Main([]string) int {
	switch os.Getenv("SLURM_SCRIPT_CONTEXT") {
	case "prolog_slurmd":
		time.AfterFunc(PrologDeadline, func() { os.Exit(0) })
		if cfg, node, slot := place(); slot != "" {
			p := Prolog{State: state.Dir(cfg.StateDir), Metadata: metadata, MachineTime: time.Now, Log: hook.Log(cfg.Log.Dir, "prolog")}
			p.Run(context.Background(), node, slot, os.Getenv("SLURM_JOB_ID"))
		}
	case "prolog_task":
		// Once, whole or not at all.
		var once sync.Once
		answer := func(text string) { once.Do(func() { _, _ = os.Stdout.WriteString(text) }) }
		time.AfterFunc(TaskPrologDeadline, func() {
			answer(JobEnvironment("", nil, "", time.Time{}))
			os.Exit(0)
		})
		answer(taskProlog())
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

// place is this node and its slot; "" if the node is not ours or there are no settings.
func place() (cfg *config.Config, node, slot string) {
	node = os.Getenv("SLURMD_NODENAME")
	cfg, err := config.Load(config.Find(""))
	if err == nil {
		_, _, slot, _ = cfg.Domain().PlaceOf(node)
	}
	return cfg, node, slot
}

// taskProlog is the output for slurmstepd. It runs as the user, once for each task on the machine, and has no log of
// its own: the Prolog's log reports broken files.
func taskProlog() string {
	cfg, _, slot := place()
	if slot == "" {
		return JobEnvironment("", nil, "", time.Time{})
	}
	dir, now := state.Dir(cfg.StateDir), time.Now()
	snap, _ := dir.ReadSnapshot()
	if snap != nil {
		now = now.Add(snap.ClockOffset.Duration)
	}
	return JobEnvironment(dir, snap, slot, now)
}
