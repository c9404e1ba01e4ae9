package slurmlab

import (
	"strings"
	"testing"
)

// A process is known by its environment; a slurmstepd of Slurm 25.05, which has none, by its folder and its node's log.
func TestBelongs(t *testing.T) {
	const conf = "/lab/etc/slurm.conf"

	env := func(variables ...string) []string { return variables }
	for name, c := range map[string]struct {
		looks  processInfo
		node   string
		wanted bool
	}{
		"slurmctld": {
			processInfo{program: "slurmctld", environment: env(nodeVariable+"=slurmctld", "SLURM_CONF="+conf)},
			"",
			true,
		},
		"another lab's": {
			processInfo{
				program:     "slurmctld",
				environment: env(nodeVariable+"=slurmctld", "SLURM_CONF=/other/etc/slurm.conf"),
			},
			"",
			false,
		},
		"a user's shell": {
			processInfo{program: "bash", environment: env("SLURM_CONF=" + conf)},
			"",
			false,
		},
		"a job": {
			processInfo{program: "sleep", environment: env("SLURM_CONF="+conf, "SLURMD_NODENAME=gpu-1")},
			"gpu-1",
			true,
		},
		"a job on another node": {
			processInfo{program: "sleep", environment: env("SLURM_CONF="+conf, "SLURMD_NODENAME=gpu-2")},
			"gpu-1",
			false,
		},
		"what becomes a slurmd": {
			processInfo{program: "dash", environment: env("SLURM_CONF="+conf, nodeVariable+"=gpu-1")},
			"gpu-1",
			true,
		},
		"a step": {
			processInfo{program: "slurmstepd", environment: env("SLURM_CONF="+conf, nodeVariable+"=gpu-1")},
			"gpu-1",
			true,
		},
		"a bare step": {
			processInfo{program: "slurmstepd", environment: env(""), folder: "/lab/log"},
			"",
			true,
		},
		"a bare step elsewhere": {processInfo{program: "slurmstepd", folder: "/other/log"}, "", false},
		"a bare step of the node": {
			processInfo{
				program: "slurmstepd",
				folder:  "/lab/log",
				files:   []string{"/dev/null", "/lab/log/slurmd-gpu-1.log"},
			},
			"gpu-1",
			true,
		},
		"a bare step of another node": {
			processInfo{program: "slurmstepd", folder: "/lab/log", files: []string{"/lab/log/slurmd-gpu-2.log"}},
			"gpu-1",
			false,
		},
		"a shell in the folder of logs": {processInfo{program: "bash", folder: "/lab/log"}, "", false},
	} {
		if got := c.looks.belongsTo(conf, c.node); got != c.wanted {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Stop ends what a daemon or a ResumeProgram has started, even with another environment.
func TestDescendants(t *testing.T) {
	p := func(pid, parent int) status { return status{process: process{pid, 1}, parent: parent} }
	all := []status{p(14, 12), p(12, 11), p(11, 10), p(10, 1), p(20, 1), p(21, 20)}
	got := map[process]bool{all[3].process: true}
	withDescendants(all, got)

	if len(got) != 4 || !got[all[0].process] || got[all[4].process] || got[all[5].process] {
		t.Errorf("%v", got)
	}
}

func TestRequeueDelayByVersion(t *testing.T) {
	for version, wanted := range map[int]bool{2205: false, 2411: false, 2505: false, 2511: true, 2605: true} {
		if got := strings.Contains(schedulerParameters(version), "requeue_delay="); got != wanted {
			t.Errorf("%d: %v", version, got)
		}
	}
}
