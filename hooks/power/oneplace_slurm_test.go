package power_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
)

// Slurm calls no ResumeProgram for a job whose nodes are all up. sync has powered those down by then that are
// elsewhere.
func TestIdleNodesAreInOnePlace(t *testing.T) {
	p := startPowerWith(t, holdConfig, room(4, 4), nil)
	p.upAlone("gpu-1", firstSubnet)
	p.upAlone("gpu-2", secondSubnet)
	p.upAlone("gpu-3", secondSubnet)
	p.watched()
	p.until("the one that is elsewhere is let go", func() bool { _, up := p.instances()["gpu-1"]; return !up })
	id := p.submit("-p", "gpu", "-w", "gpu-[1-2]", "-N2")
	p.wait(id, "COMPLETED")
	p.inOneZone(secondSubnet, "gpu-1", "gpu-2", "gpu-3")
	if p.launches() != 4 || p.restarts(id) != 0 {
		t.Errorf("%d instances, %d restarts", p.launches(), p.restarts(id))
	}
}

// A node that runs a job elsewhere, or boots for one, gets no other: it goes down when the job
// ends. A job that is to have it and another one waits until then.
func TestBusyNodesElsewhereGetNoOtherJob(t *testing.T) {
	p := startPowerWith(t, holdConfig, room(4, 4), manyCPUs)
	p.upAlone("gpu-2", secondSubnet)
	p.upAlone("gpu-3", secondSubnet)
	p.bootTime.Store(int64(6 * time.Second))
	p.watched()
	other, err := p.cluster.Submit(hookstest.Deadline(t), "sleep 10", "-p", "gpu", "-w", "gpu-1", "-n1", "-t", "10", "--comment=subnet_id="+firstSubnet)
	if err != nil {
		t.Fatal(err)
	}
	p.until("the one that boots elsewhere is let go", func() bool {
		state := p.show("node", "gpu-1")
		return strings.Contains(state, "POWERING_UP") && strings.Contains(state, "+POWER_DOWN")
	})
	id := p.submit("-p", "gpu", "-w", "gpu-[1-2]", "-N2", "-n2", "-t", "10")
	p.wait(other, "RUNNING")
	time.Sleep(3 * time.Second)
	if job := p.show("job", id); !strings.Contains(job, "JobState=PENDING") {
		t.Errorf("beside a node elsewhere: %s", job)
	}
	p.wait(other, "COMPLETED")
	p.wait(id, "COMPLETED")
	p.inOneZone(secondSubnet, "gpu-1", "gpu-2", "gpu-3")
	if p.restarts(other) != 0 || p.restarts(id) != 0 {
		t.Errorf("%d and %d restarts", p.restarts(other), p.restarts(id))
	}
}
