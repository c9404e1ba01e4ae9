package power_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// Every code with which EC2 may refuse a launch is in the node's Reason, in the job's
// AdminComment and in the hook's record, with what to do about it, whatever else EC2 says.
func TestR12_LaunchCodesComeWithAdvice(t *testing.T) {
	type refusal struct{ call, code, says, do string }
	var all []refusal
	for _, r := range ec2.Remedies {
		if slices.Contains(r.Calls, "RunInstances") {
			for _, call := range r.Calls {
				all = append(all, refusal{call, r.Code, r.Says, r.Do})
			}
		}
	}
	settings := strings.Replace(powerConfig, "max_nodes = 4", fmt.Sprint("max_nodes = ", len(all)), 1)
	p := startPowerWith(t, settings, func(s *awssim.Scenario) { s.Regions[0].Reservations[0].Count = len(all) }, func(c *slurmlab.Config) {
		c.CloudGroups[0].Count, c.ResumeTimeout = len(all), 15*time.Minute
		c.ResumeProgram = "/bin/true" // Slurm waits for the nodes; the test calls the hook
	})
	jobs := make([]string, len(all))
	for i := range all {
		jobs[i] = p.submit("-p", "gpu", "-w", fmt.Sprint("gpu-", i+1), "-t", "10")
	}
	for i, want := range all {
		node := fmt.Sprint("gpu-", i+1)
		p.until("Slurm powers "+node+" up", func() bool { return strings.Contains(p.show("node", node), "POWERING_UP") })
		p.sim.ClearFaults()
		p.fault(awssim.Fault{Operation: want.call, Effect: awssim.FailBefore, Code: want.code,
			Message: strings.Repeat("EC2 says a lot here. ", 10) + want.says + "."})
		if err := p.run("pcs-capacity-resume", node); err != nil {
			t.Errorf("%s: %v", want.code, err)
		}
		records, err := p.state.Records()
		if err != nil {
			t.Fatal(err)
		}
		if last := records[len(records)-1]; last.Nodes != node || last.EC2Code != want.code || !strings.HasSuffix(last.Message, "; "+want.do) {
			t.Errorf("%s of %s: record %+v, want %q", want.code, want.call, last, want.do)
		}
		if text := p.show("node", node); !strings.Contains(text, "Reason="+want.code+": ") || !strings.Contains(text, "; "+want.do) {
			t.Errorf("%s of %s: %s", want.code, want.call, text)
		}
		if text := p.show("job", jobs[i]); !strings.Contains(text, "not launched: "+want.code+": ") || !strings.Contains(text, "; "+want.do) {
			t.Errorf("%s of %s: %s", want.code, want.call, text)
		}
	}
	t.Logf("%d codes", len(all))
}
