package power_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
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

// Where nobody knows whether a common launch had an effect, nobody is charged at once: who spoils it
// waits longer than the other, so that they do not meet again, and the other runs at its next try.
func TestWhoMaySpoilALaunchComesLater(t *testing.T) {
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
	p.fault(awssim.Fault{Operation: "RunInstances", Effect: awssim.CutBefore})
	var large, small string
	p.together(func() { // no zone has five
		large = p.submitAs("games", "-w", "gpu-[1-5]", "-N5", "-n5")
		small = p.submitAs("daemon", "-w", "gpu-1", "-n1")
	})
	eligible := func(id string) time.Time {
		found := regexp.MustCompile(`EligibleTime=(\S+)`).FindStringSubmatch(p.show("job", id))
		at, err := time.ParseInLocation("2006-01-02T15:04:05", found[1], time.Local)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, id := range []string{small, large} {
		p.until("job "+id+" is told", func() bool {
			return strings.Contains(p.show("job", id), "AdminComment=pcs-capacity: nodes gpu-[1-5] were not launched: ")
		})
	}
	p.sim.ClearFaults()
	if apart := eligible(large).Sub(eligible(small)); apart < 20*time.Second {
		t.Errorf("the large job may start %s after the small one: they meet again", apart)
	}
	p.wait(small, "COMPLETED")
	if n := p.restarts(small); n != 1 {
		t.Errorf("the small job ran after %d restarts, not at its next try", n)
	}
}

// submitAs submits a job of another user's, for partition gpu.
func (p *power) submitAs(user string, args ...string) string {
	p.t.Helper()
	as := []string{"--reuid=" + user, "--clear-groups", "sbatch", "--parsable", "--partition=gpu", "--output=/dev/null", "--wrap=true"}
	id, err := p.cluster.Command(hookstest.Deadline(p.t), "setpriv", append(as, args...)...)
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}
