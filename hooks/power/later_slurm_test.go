package power_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

const nextID = "cr-0aaaaaaaaaaaaaaaf" // of partition gpu, opens in 24 hours

// withNext adds the block that comes after hookstest.BlockID.
func withNext(s *awssim.Scenario) {
	next := awssim.ReservationScenario{ID: nextID, Kind: "capacity-block", Type: "p5.48xlarge", Zone: "us-east-2a", Count: 2}
	for at, text := range map[*awssim.Moment]string{&next.Start: "+24h", &next.End: "+48h"} {
		if err := at.UnmarshalText([]byte(text)); err != nil {
			panic(err)
		}
	}
	s.Regions[0].Reservations = append(s.Regions[0].Reservations, next)
}

// begins is when Slurm starts a pending job at the earliest.
func (p *power) begins(id string) time.Time {
	p.t.Helper()
	at, err := time.ParseInLocation("2006-01-02T15:04:05", regexp.MustCompile(`EligibleTime=(\S+)`).FindStringSubmatch(p.show("job", id))[1], time.Local)
	if err != nil {
		p.t.Fatal(err)
	}
	return at
}

// A job that cannot be launched now, because it asks for a block that opens later, keeps
// nobody from the nodes that Slurm let it share: it waits in the queue until the block opens.
func TestJobsOfALaterBlockAreTakenOutAlone(t *testing.T) {
	config := strings.Replace(powerConfig, `["`+hookstest.BlockID+`"]`, `["`+hookstest.BlockID+`", "`+nextID+`"]`, 1)
	p := startPowerWith(t, config, withNext, func(c *slurmlab.Config) { c.CloudGroups[0].CPUs = 16 })
	const next = "--comment=capacity_reservation_id=" + nextID
	var others [2]string
	var later, once, het string
	var said <-chan string
	p.together(func() {
		later = p.submit("-p", "gpu", "-t", "10", "-n1", next)
		others[0] = p.submit("-p", "gpu", "-t", "10", "-n1")
		once = p.submit("-p", "gpu", "-t", "10", "-n1", "--no-requeue", next)
		het = p.submit("-p", "gpu", "-t", "10", "-n1", next, ":", "-p", "gpu", "-t", "10", "-n1")
		said = p.srun("-p", "gpu", "-t", "10", "-n1", next)
		others[1] = p.submit("-p", "gpu", "-t", "10", "-n1")
	})
	for _, id := range others {
		p.wait(id, "COMPLETED")
		if n := p.restarts(id); n != 0 {
			t.Errorf("job %s, which is allowed, was requeued %d times", id, n)
		}
	}
	if out := <-said; strings.Contains(out, "it ran") || !strings.Contains(out, "not launched for it: not-open: ") {
		t.Errorf("srun says %q", out)
	}
	for _, id := range []string{later, once, het} {
		p.until("job "+id+" waits for its block", func() bool { return time.Until(p.begins(id)) > 23*time.Hour })
		job := p.show("job", id)
		if !strings.Contains(job, "JobState=PENDING") || strings.Contains(job, " Priority=0 ") || time.Until(p.begins(id)) > 24*time.Hour ||
			!regexp.MustCompile(`AdminComment=pcs-capacity: the nodes of this job were not launched for it: not-open: reservation `+nextID+` .*; Slurm tries again at `).MatchString(job) {
			t.Errorf("it begins at %s: %s", p.begins(id), job)
		}
		if n := p.restarts(id); n != 1 {
			t.Errorf("job %s was requeued %d times", id, n)
		}
	}
	if job := p.show("job", once); !strings.Contains(job, "Requeue=0") {
		t.Errorf("--no-requeue is forgotten: %s", job)
	}
	nodes := map[string]bool{}
	for _, id := range others {
		nodes[regexp.MustCompile(` NodeList=(\S+)`).FindStringSubmatch(p.show("job", id))[1]] = true
	}
	if n := p.launches(); n != len(nodes) {
		t.Errorf("%d instances for %v", n, nodes)
	}
	if log, _ := os.ReadFile(filepath.Join(p.dir, "log", "resume.log")); strings.Contains(string(log), "tried again at once") {
		t.Errorf("a begin time was not set:\n%s", log)
	}
}

// Of jobs that share a node and ask for different reservations the older ones have it.
func TestOneReservationForANode(t *testing.T) {
	p := startPowerWith(t, sharedConfig, sharedWorld, func(c *slurmlab.Config) {
		sixNodes(c)
		c.CloudGroups[0].CPUs = 16
	})
	var small, any, large string
	p.together(func() {
		small = p.submit("-p", "gpu", "-t", "10", "-n1", "--comment=capacity_reservation_id="+smallID)
		any = p.submit("-p", "gpu", "-t", "10", "-n1")
		large = p.submit("-p", "gpu", "-t", "10", "-n1", "--comment=capacity_reservation_id="+largeID)
	})
	for _, id := range []string{small, any} {
		p.wait(id, "COMPLETED")
		if n := p.restarts(id); n != 0 {
			t.Errorf("job %s was requeued %d times", id, n)
		}
	}
	job := p.show("job", large)
	if p.restarts(large) != 1 || !strings.Contains(job, "not launched for it: different-reservations: ") || time.Until(p.begins(large)) > 31*time.Second {
		t.Errorf("the other: %s", job)
	}
	p.scontrol("update", "nodename=gpu-1", "state=POWER_DOWN", "reason=test")
	p.wait(large, "COMPLETED")
	if p.launches() != 2 {
		t.Errorf("%d instances", p.launches())
	}
}

// Where Slurm does not take a refused job away from nodes, all that share them go back into
// the queue, with the reason, until it does.
func TestRefusedJobThatSlurmKeeps(t *testing.T) {
	p := startPower(t, func(c *slurmlab.Config) { c.CloudGroups[0].CPUs = 16 })
	broken := filepath.Join(p.dir, "broken")
	script := filepath.Join(p.dir, "bin", "scontrol")
	if err := os.MkdirAll(filepath.Dir(script), 0o755); err != nil {
		t.Fatal(err)
	}
	real, err := exec.LookPath("scontrol")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		broken: "",
		script: "#!/bin/sh\ncase \"$*\" in *requeuehold*) [ ! -e " + broken + " ] || exit 1;; esac\nexec " + real + " \"$@\"\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.export("PATH", filepath.Dir(script)+":"+os.Getenv("PATH"))
	var allowed, refused string
	p.together(func() {
		allowed = p.submit("-p", "gpu", "-t", "10", "-n1")
		refused = p.submit("-p", "gpu", "-t", "10", "-n1", "--comment=capacity_reservation_id="+hookstest.OtherID)
	})
	p.until("both are back in the queue", func() bool { return p.restarts(allowed) == 1 && p.restarts(refused) == 1 })
	p.until("the owner is told", func() bool {
		return strings.Contains(p.show("job", allowed), "AdminComment=pcs-capacity: nodes gpu-1 were not launched: not-taken-out: another job on these nodes is refused")
	})
	if n := p.launches(); n != 0 {
		t.Errorf("%d instances", n)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{allowed, refused} { // not to wait for Slurm's own delay
		p.scontrol("update", "jobid="+id, "starttime=now")
	}
	p.wait(allowed, "COMPLETED")
	p.until("the other is held", func() bool { return strings.Contains(p.show("job", refused), " Priority=0 ") })
}

// export sets a variable for ResumeProgram.
func (p *power) export(name, value string) {
	p.t.Helper()
	path := filepath.Join(p.dir, "pcs-capacity-resume")
	text, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	changed := strings.Replace(string(text), "exec ", "export "+name+"='"+value+"'\nexec ", 1)
	if err := os.WriteFile(path, []byte(changed), 0o755); err != nil {
		p.t.Fatal(err)
	}
}
