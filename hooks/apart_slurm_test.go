package hooks_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// Jobs that share nodes do not fail together for ever: who asks for more nodes than any zone
// has, or for a zone that is full, is charged alone, and another user's job is launched at once.
func TestWhoSpoilsALaunchIsChargedAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can submit as other users")
	}
	settings := strings.NewReplacer(`  reserve = "per-job"`+"\n", "", "max_nodes = 4", "max_nodes = 6").Replace(holdConfig)
	p := startPowerWith(t, settings, room(4, 0), func(c *slurmlab.Config) {
		sixNodes(c)
		c.CloudGroups[0].CPUs = 16
	})
	if err := os.Chmod(p.dir, 0o755); err != nil { // users read slurm.conf
		t.Fatal(err)
	}
	charged := func(id string) {
		t.Helper()
		p.until("job "+id+" is charged", func() bool {
			job := p.show("job", id)
			return strings.Contains(job, "AdminComment=pcs-capacity: the nodes of this job were not launched for it: InsufficientInstanceCapacity: ") &&
				strings.Contains(job, "JobState=PENDING") && (strings.Contains(job, "; Slurm tries again at ") || strings.Contains(job, ", Slurm tries again at "))
		})
		p.scontrol("update", "jobid="+id, "starttime=now+3600")
	}
	var large, small string
	p.together(func() { // no zone has five
		large = p.submitAs("games", "-w", "gpu-[1-5]", "-N5", "-n5")
		small = p.submitAs("daemon", "-w", "gpu-1", "-n1")
	})
	p.wait(small, "COMPLETED")
	charged(large)
	var victim string
	var attackers []string
	p.together(func() { // the second zone is full
		for range 3 {
			attackers = append(attackers, p.submitAs("games", "-w", "gpu-6", "-n1", "--comment=subnet_id="+secondSubnet))
		}
		victim = p.submitAs("daemon", "-w", "gpu-6", "-n1")
	})
	p.wait(victim, "COMPLETED")
	for _, id := range attackers {
		charged(id)
	}
	if n := p.launches(); n != 2 || p.restarts(small) != 0 || p.restarts(victim) != 0 {
		t.Errorf("%d instances for two jobs, restarts %d and %d", n, p.restarts(small), p.restarts(victim))
	}
	if node := p.show("node", "gpu-5"); !strings.Contains(node, "Reason=InsufficientInstanceCapacity: ") {
		t.Errorf("gpu-5: %s", node)
	}
}

// submitAs submits a job of another user's, for partition gpu.
func (p *power) submitAs(user string, args ...string) string {
	p.t.Helper()
	as := []string{"--reuid=" + user, "--clear-groups", "sbatch", "--parsable", "--partition=gpu", "--output=/dev/null", "--wrap=true"}
	id, err := p.cluster.Command(deadline(p.t), "setpriv", append(as, args...)...)
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}
