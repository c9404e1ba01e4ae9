package power_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
)

// TestSlurm_WithoutSettings: a job whose nodes cannot be launched because the settings cannot be read goes back into
// the queue at once, and runs when they can be read again. Nodes say why, until then.
func TestSlurm_WithoutSettings(t *testing.T) {
	p := startPower(t, powerConfig, func(c *slurmlab.Config) { c.ResumeTimeout = time.Hour })
	broken := func() {
		t.Helper()

		if err := os.WriteFile(p.settings(), []byte("[\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	broken()

	id := p.submit("-p", "gpu", "-w", "gpu-1")
	p.until("the job is requeued", func() bool { return p.restarts(id) > 0 })

	if node := p.show("node", "gpu-1"); !strings.Contains(node, "Reason=settings-unreadable: "+p.settings()+":") {
		t.Error(node)
	}

	p.configure(powerConfig)
	p.wait(id, "COMPLETED")

	if node := p.show("node", "gpu-1"); strings.Contains(node, "settings-unreadable") {
		t.Errorf("Slurm keeps the reason of a node that is up: %s", node)
	}

	// A person who calls the hook takes nothing away from a node that is up.
	broken()

	if err := p.run("pcs-capacity-resume", "gpu-1"); err == nil {
		t.Error("without settings it succeeds")
	}

	if node := p.show("node", "gpu-1"); strings.Contains(node, "POWERING_DOWN") ||
		strings.Contains(node, "POWER_DOWN") {
		t.Error(node)
	}
}
