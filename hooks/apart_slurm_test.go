package hooks_test

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// Jobs that share nodes do not fail together for ever: who asks for more nodes than any zone
// has, or for a zone that is full, is charged alone, and the others run.
func TestWhoSpoilsALaunchIsChargedAlone(t *testing.T) {
	settings := strings.NewReplacer(`  reserve = "per-job"`+"\n", "", "max_nodes = 4", "max_nodes = 6").Replace(holdConfig)
	p := startPowerWith(t, settings, room(4, 0), func(c *slurmlab.Config) {
		sixNodes(c)
		c.CloudGroups[0].CPUs = 16
	})
	charged := func(id string) {
		t.Helper()
		p.until("job "+id+" is charged", func() bool {
			job := p.show("job", id)
			return strings.Contains(job, "AdminComment=pcs-capacity: the nodes of this job were not launched for it: InsufficientInstanceCapacity: ") &&
				strings.Contains(job, "JobState=PENDING") && strings.Contains(job, "; Slurm tries again at ") || strings.Contains(job, ", Slurm tries again at ")
		})
		p.scontrol("update", "jobid="+id, "starttime=now+3600")
	}
	var large, small string
	p.together(func() { // no zone has five
		large = p.submit("-p", "gpu", "-w", "gpu-[1-5]", "-N5", "-n5")
		small = p.submit("-p", "gpu", "-w", "gpu-1", "-n1")
	})
	p.wait(small, "COMPLETED")
	charged(large)
	var victim, attacker string
	p.together(func() { // the second zone is full
		attacker = p.submit("-p", "gpu", "-w", "gpu-6", "-n1", "--comment=subnet_id="+secondSubnet)
		victim = p.submit("-p", "gpu", "-w", "gpu-6", "-n1")
	})
	p.wait(victim, "COMPLETED")
	charged(attacker)
	if n := p.launches(); n != 2 || p.restarts(small) != 0 || p.restarts(victim) != 0 {
		t.Errorf("%d instances for two jobs, restarts %d and %d", n, p.restarts(small), p.restarts(victim))
	}
	if node := p.show("node", "gpu-5"); !strings.Contains(node, "Reason=InsufficientInstanceCapacity: ") {
		t.Errorf("gpu-5: %s", node)
	}
}
