package slurmlab

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// nodeVariable names a daemon, or the node of a slurmd, in its environment and, because slurmd hands its environment
// on, in that of its slurmstepds.
const nodeVariable = "SLURMLAB_NODE"

// process is one process of this machine. The start time tells it apart from
// a later process with the same pid: pids can wrap within minutes.
type process struct {
	pid   int
	start uint64 // clock ticks since boot
}

// status has the facts of a process that its looks do not add.
type status struct {
	process
	parent int
}

// allProcesses lists what runs now; zombies have ended and are left out.
func allProcesses() (all []status) {
	processes, _ := procfs.AllProcs()
	for _, p := range processes {
		if s, err := p.Stat(); err == nil && s.State != "Z" && s.State != "X" {
			all = append(all, status{process{p.PID, s.Starttime}, s.PPID})
		}
	}

	return all
}

// kill ends a process that still runs, and no later one with its pid.
func (p process) kill() {
	now, err := procfs.NewProc(p.pid)
	if err != nil || p.pid <= 1 || p.pid == os.Getpid() {
		return
	}

	if s, err := now.Stat(); err == nil && s.Starttime == p.start {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// processInfo tell whose a process is, as far as we may read them.
type processInfo struct {
	program     string // Debian installs slurmctld as slurmctld-wlm; an upgraded one reads "slurmctld (deleted)"
	environment []string
	folder      string
	files       []string // that it has open; of a slurmstepd without an environment only
}

func inspect(pid int) (l processInfo) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return l
	}

	path, _ := p.Executable()
	l.program = filepath.Base(path)
	l.environment, _ = p.Environ()
	if l.isNameless() {
		l.folder, _ = p.Cwd()
		l.files, _ = p.FileDescriptorTargets()
	}

	return l
}

// isNameless: a slurmstepd whose environment says nothing. Slurm 25.05 empties it.
func (l processInfo) isNameless() bool {
	return strings.HasPrefix(l.program, "slurmstepd") &&
		!slices.ContainsFunc(
			l.environment,
			func(variable string) bool { return strings.HasPrefix(variable, "SLURM_CONF=") },
		)
}

// belongsTo reports whether the process is the cluster's, or one of its node's: daemons that were started with it, and
// what jobs left running on a node. The shell of a user who has set SLURM_CONF is neither, so it is never touched. A
// slurmstepd without an environment runs in the folder of the cluster's logs, and has its node's log open.
func (l processInfo) belongsTo(conf, node string) bool {
	if l.isNameless() {
		logs := filepath.Join(filepath.Dir(filepath.Dir(conf)), "log")
		return l.folder == logs && (node == "" || slices.Contains(l.files, filepath.Join(logs, "slurmd-"+node+".log")))
	}

	var nodes []string
	for _, variable := range l.environment {
		// The first is set by slurmd for the processes of a job.
		if key, value, _ := strings.Cut(variable, "="); key == "SLURMD_NODENAME" || key == nodeVariable {
			nodes = append(nodes, value)
		}
	}

	return slices.Contains(l.environment, "SLURM_CONF="+conf) && len(nodes) > 0 &&
		(node == "" || slices.Contains(nodes, node))
}

// withDescendants adds the children of the given processes, and theirs.
func withDescendants(all []status, roots map[process]bool) {
	for grown := true; grown; {
		grown = false

		pids := map[int]bool{}
		for p := range roots {
			pids[p.pid] = true
		}

		for _, s := range all {
			if pids[s.parent] && !roots[s.process] && s.pid != os.Getpid() {
				roots[s.process] = true
				grown = true
			}
		}
	}
}

// stopOwned ends the processes of a cluster, or of one of its nodes, and everything below them, as the end of their
// machine would: nothing of theirs is read again.
func stopOwned(conf, node string) error {
	found := map[process]bool{}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		all := allProcesses()
		running := map[process]bool{}
		for _, s := range all {
			if found[s.process] || inspect(s.pid).belongsTo(conf, node) {
				running[s.process] = true
			}
		}

		withDescendants(all, running)

		switch {
		case len(running) == 0:
			return nil
		case time.Since(begin) > hang:
			return fmt.Errorf("processes of %s do not end on SIGKILL: %v", conf, slices.Collect(maps.Keys(running)))
		}

		for p := range running {
			found[p] = true
			p.kill()
		}
	}
}
