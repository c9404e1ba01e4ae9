package power_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// One dead host in a block of 4: a job of 4 nodes is told that 3 are usable, at submission
// and while it waits, and is not launched in vain; a job of 3 nodes runs; and when the host is
// back, the larger one runs as well.
func TestADeadHost(t *testing.T) {
	p := startPowerWith(t, powerConfig, func(s *awssim.Scenario) { s.Regions[0].Reservations[0].Count = 4 }, func(c *slurmlab.Config) {
		dir := state.Dir(filepath.Join(filepath.Dir(c.Dir), "state"))
		c.CLIFilterLua = submit.CLIFilter(dir.PlanPath(), string(dir), hookstest.Program(t, "pcs-capacity-filter"))
	})
	p.pass()
	p.wait(p.submit("-p", "gpu", "-w", "gpu-2", "-t", "10"), "COMPLETED")
	if err := p.sim.FailHost(region, p.instances()["gpu-2"].ID); err != nil {
		t.Fatal(err)
	}
	// Its node is powered down, and Slurm would power it up again for whoever needs it.
	p.scontrol("update", "nodename=gpu-2", "state=POWER_DOWN", "reason=dead")
	p.until("the node is off", func() bool { return strings.Contains(p.show("node", "gpu-2"), "IDLE+CLOUD+POWERED_DOWN") })
	p.pass()
	sbatch := exec.CommandContext(hookstest.Deadline(t), "sbatch", "--parsable", "-p", "gpu", "-N4", "-t", "10", "-o", "/dev/null", "--wrap", "true")
	sbatch.Env = p.cluster.Env()
	var told bytes.Buffer
	sbatch.Stderr = &told
	id, err := sbatch.Output()
	if err != nil || !strings.Contains(told.String(), "3 of the 4 hosts of "+hookstest.BlockID+" are usable; it waits until the others are back: use --nodes=3 to run now") {
		t.Fatalf("at submission: %v: %s", err, told.String())
	}
	large := strings.TrimSpace(string(id))
	p.pass()
	if job := p.show("job", large); !strings.Contains(job, "3 of the 4 hosts of "+hookstest.BlockID+" are usable; to start now ask for fewer: scontrol update numnodes=3 jobid="+large) {
		t.Errorf("while it waits: %s", job)
	}
	small := p.submit("-p", "gpu", "-N3", "-t", "10")
	p.wait(small, "COMPLETED")
	if job := p.show("job", large); !strings.Contains(job, "JobState=PENDING") || !strings.Contains(job, "Restarts=0") {
		t.Errorf("the job of 4 nodes: %s", job)
	}
	launches := p.launches()
	if launches != 4 { // the dead one, and three
		t.Errorf("%d launches", launches)
	}
	if report := p.pass(); len(report.Done) > 0 {
		t.Errorf("another pass did %v", report.Done)
	}
	// Its owner does what the words say.
	p.scontrol("update", "jobid="+large, "numnodes=3")
	p.wait(large, "COMPLETED")
	if job := p.show("job", large); strings.Contains(job, "NumNodes=4") {
		t.Error(job)
	}
}
