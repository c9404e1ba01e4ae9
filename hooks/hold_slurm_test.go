package hooks_test

import (
	"strings"
	"testing"
)

// Slurm forgets whose hold it is on a requeued job, at a moment that no test can choose;
// here an administrator's hold stands for that. The hook still watches the job, and holds
// it again so that its owner can release it.
func TestRefusedJobIsHeldAgainForItsOwner(t *testing.T) {
	p := startPowerForNLP(t)
	id := p.submit("-p", "gpu", "-A", "bio", "-n1")
	heldBy := func(reason string) func() bool {
		return func() bool {
			job := p.show("job", id)
			return strings.Contains(job, "Reason="+reason+" ") && strings.Contains(job, "AdminComment=pcs-capacity: ")
		}
	}
	p.until("the job is held for its owner", heldBy("JobHeldUser"))
	p.scontrol("hold", id)
	if job := p.show("job", id); !strings.Contains(job, "Reason=JobHeldAdmin ") {
		t.Log("the hook was as fast as this test, or Slurm did not take the hold", job)
	}
	p.until("it is held for its owner again", heldBy("JobHeldUser"))
}
