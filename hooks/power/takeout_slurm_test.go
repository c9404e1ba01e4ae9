package power_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// watched runs sync until the end of the test.
func (p *power) watched() {
	p.t.Helper()
	p.pollOften()
	ctx, cancel := context.WithCancel(p.t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { p.keepSync(ctx) })
	p.t.Cleanup(func() {
		cancel()
		watch.Wait()
	})
}

// heldForOwner waits until a job is held, can be released by its owner, and says why.
func (p *power) heldForOwner(id, partition, code string) {
	p.t.Helper()
	var job string
	defer func() {
		if p.t.Failed() {
			p.t.Log(job)
		}
	}()
	p.until("job "+id+" is held for its owner", func() bool {
		job = p.show("job", id)
		return strings.Contains(job, " Priority=0 ") && regexp.MustCompile(`Reason=(JobHeldUser|job_requeued_in_held_state) `).MatchString(job) &&
			regexp.MustCompile("AdminComment=pcs-capacity: partition ("+partition+") refuses this job: "+code+": ").MatchString(job)
	})
}

// Jobs that are refused at launch are taken out alone: what shares their nodes runs, and was
// never requeued. A job in several partitions is held when each of them has refused it.
func TestRefusedJobsAreTakenOutAlone(t *testing.T) {
	p := startPower(t, func(c *slurmlab.Config) { c.CloudGroups[0].CPUs, c.CloudGroups[1].CPUs = 16, 16 })
	p.watched()
	// The hook looks when Slurm has placed all jobs.
	path, placed := filepath.Join(p.dir, "pcs-capacity-resume"), filepath.Join(p.dir, "placed")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "exec ", "until [ -e "+placed+" ]; do sleep 0.1; done\nexec ", 1)), 0o755); err != nil {
		t.Fatal(err)
	}
	const elsewhere = "--comment=capacity_reservation_id=" + hookstest.OtherID
	var others [2]string
	var refused, once, het, both, neither string
	var said <-chan string
	p.together(func() {
		others[0] = p.submit("-p", "gpu", "-t", "10", "-n1")
		refused = p.submit("-p", "gpu", "-t", "10", "-n1")
		p.scontrol("update", "jobid="+refused, strings.TrimPrefix(elsewhere, "--"))
		once = p.submit("-p", "gpu", "-t", "10", "-n1", "--no-requeue", elsewhere)
		het = p.submit("-p", "gpu", "-t", "10", "-n1", elsewhere, ":", "-p", "gpu", "-t", "10", "-n1")
		both = p.submit("-p", "gpu,other", "-t", "10", "-n1", elsewhere)
		said = p.srun("-p", "gpu", "-t", "10", "-n1", elsewhere)
		others[1] = p.submit("-p", "gpu", "-t", "10", "-n1")
		neither = p.submit("-p", "gpu,other", "-t", "10", "-N2", // on nodes that are off in both
			"--comment=capacity_reservation_id=cr-0ffffffffffffffff")
	})
	p.until("all jobs have nodes", func() bool {
		waiting, err := p.cluster.Command(hookstest.Deadline(t), "squeue", "--noheader", "--states=PENDING", "--format=%i %P %r")
		return err == nil && strings.TrimSpace(waiting) == ""
	})
	if err := os.WriteFile(placed, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, id := range append(others[:], both) {
		p.wait(id, "COMPLETED")
	}
	for _, id := range others {
		if n := p.restarts(id); n != 0 {
			t.Errorf("job %s, which is allowed, was requeued %d times", id, n)
		}
	}
	if out := <-said; strings.Contains(out, "it ran") || !strings.Contains(out, "partition gpu refuses this job: wrong-partition: ") {
		t.Errorf("srun says %q", out)
	}
	for _, id := range []string{refused, once, het} {
		p.heldForOwner(id, "gpu", "wrong-partition")
	}
	p.heldForOwner(neither, "gpu|other", "unknown-reservation")
	if job := p.show("job", once); !strings.Contains(job, "Requeue=0") {
		t.Errorf("--no-requeue is forgotten: %s", job)
	}
	if job := p.show("job", both); !strings.Contains(job, "Partition=other") || !strings.Contains(job, "NodeList=other-") {
		t.Errorf("the job of two partitions: %s", job)
	}
	if n := p.launches(); n != 2 {
		t.Errorf("%d instances; gpu-1 and other-1 are needed", n)
	}
	if i := p.instances()["gpu-1"]; i.ReservationID != hookstest.BlockID {
		t.Errorf("gpu-1 is in %s", i.ReservationID)
	}
	p.lookedForNoNode()
}

// A user who releases a refused job again and again keeps nobody from running: the job is
// held for longer each time, then its owner may release it again.
func TestReleaseLoopStarvesNobody(t *testing.T) {
	p := startPowerWith(t, powerConfig, func(s *awssim.Scenario) { s.Regions[0].Reservations[0].Count = 4 }, nil)
	if err := os.Chmod(p.dir, 0o755); err != nil { // another user may enter
		t.Fatal(err)
	}
	p.watched()
	as := func(name string, args ...string) (string, error) {
		return p.cluster.Command(hookstest.Deadline(t), "setpriv", append([]string{"--reuid=games", "--clear-groups", name}, args...)...)
	}
	var mine, waits string
	p.together(func() {
		out, err := as("sbatch", "--parsable", "--output=/dev/null", "-t", "10", "-p", "gpu", "-N2", "--wrap=true", "--comment=capacity_reservation_id="+hookstest.OtherID)
		if err != nil {
			t.Fatal(out)
		}
		mine = out
	})
	held := regexp.MustCompile(`its owner can release it from (.+ UTC) on: refused (\d) times`)
	until := map[string]time.Duration{} // by how often it was refused, from then on
	for end := time.Now().Add(50 * time.Second); time.Now().Before(end) && until["3"] == 0; time.Sleep(20 * time.Millisecond) {
		if waits == "" && p.restarts(mine) > 0 {
			waits = p.submit("-t", "10", "-p", "gpu", "-N4") // the other's nodes among them
		}
		_, _ = as("scontrol", "release", mine)
		m := held.FindStringSubmatch(p.show("job", mine))
		if m == nil || until[m[2]] != 0 {
			continue
		}
		at, err := time.Parse("2006-01-02 15:04:05 UTC", m[1])
		if err != nil {
			t.Fatal(err)
		}
		until[m[2]] = time.Until(at)
		p.until("the job is held", func() bool { return strings.Contains(p.show("job", mine), " Priority=0 ") })
		if m[2] == "2" {
			p.wait(waits, "COMPLETED")
			if n := p.restarts(waits); n > 0 {
				t.Errorf("the job that is allowed was requeued %d times", n)
			}
			// Nodes that are up are given to jobs without asking us.
			p.scontrol("update", "nodename=gpu-[1-4]", "state=POWER_DOWN", "reason=test")
		}
	}
	if until["2"] < 20*time.Second || until["2"] > 31*time.Second || until["3"] < 50*time.Second {
		t.Errorf("held for %s", until)
	}
	if n := p.launches(); n != 4 {
		t.Errorf("%d instances; 4 are for the job that is allowed", n)
	}
	// A job that is changed so that it is admitted need not wait until then.
	if out, err := as("scontrol", "update", "jobid="+mine, "comment=capacity_reservation_id="+hookstest.BlockID); err != nil {
		t.Fatal(out)
	}
	// While it is still being taken out, a release has no effect.
	p.until("its owner has released it", func() bool {
		_, _ = as("scontrol", "release", mine)
		return strings.Contains(p.show("job", mine), "JobState=COMPLETED ")
	})
}

// srun runs hostname in a terminal job, and returns when that is in the queue; then comes what
// srun says.
func (p *power) srun(args ...string) <-chan string {
	p.t.Helper()
	said := make(chan string, 1)
	ctx := hookstest.Deadline(p.t)
	go func() {
		out, err := p.cluster.Command(ctx, "srun", append(args, "hostname")...)
		if err == nil {
			out = "it ran: " + out
		}
		said <- out
	}()
	p.until("srun waits", func() bool {
		out, err := p.cluster.Command(hookstest.Deadline(p.t), "squeue", "--noheader", "--name=hostname")
		return err == nil && out != ""
	})
	return said
}
