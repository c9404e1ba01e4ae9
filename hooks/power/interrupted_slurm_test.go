package power_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
)

const (
	lendingID = "cr-0aaaaaaaaaaaaaaae" // an ODCR of six places, of which it lends three to
	lentID    = "cr-0aaaaaaaaaaaaaaad"
)

// interruptible are settings and a world with a node group in an interruptible ODCR.
func interruptible() (string, func(*awssim.Scenario)) {
	settings := strings.Replace(holdConfig, `purchase_option = "on-demand"
  reserve = "per-job"
  max_nodes = 4`, `purchase_option = "interruptible-odcr"
  capacity_reservation_ids = ["`+lentID+`"]
  max_nodes = 3`, 1)
	settings = strings.Replace(settings, `provider = "ec2"`, `provider = "ec2"
on_end = "requeue"`, 1)
	return settings, func(s *awssim.Scenario) {
		s.Regions[0].Reservations = []awssim.ReservationScenario{
			{ID: lendingID, Type: "p5.48xlarge", Zone: "us-east-2b", Count: 6},
			{ID: lentID, Kind: "interruptible-odcr", Source: lendingID, Type: "p5.48xlarge", Zone: "us-east-2b", Count: 3}}
	}
}

// lend has the owner lend so many places from now on.
func (p *power) lend(count string) {
	p.t.Helper()
	form := url.Values{"Action": {"UpdateInterruptibleCapacityReservationAllocation"}, "Version": {"2016-11-15"},
		"CapacityReservationId": {lendingID}, "TargetInstanceCount": {count}, "ZeroSizePreference": {"retain"}}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(form.Encode()))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDOWNER/20261121/"+region+"/ec2/aws4_request")
	answer := httptest.NewRecorder()
	if p.sim.Handler().ServeHTTP(answer, r); answer.Code != http.StatusOK {
		p.t.Fatal(answer.Body)
	}
}

// The owner takes interruptible capacity back. In the two minutes that EC2 leaves, jobs are told;
// those that may be requeued are, or are held, and their nodes are given up. What can only be told
// runs until EC2 ends it. The requeued job runs again when the owner lends again.
func TestInterruptedJobsAreRequeuedInTime(t *testing.T) {
	settings, world := interruptible()
	p := startPowerWith(t, settings, world, nil)
	p.pass()
	out := filepath.Join(p.dir, "told")
	submit := func(more ...string) string {
		t.Helper()
		id, err := p.cluster.Submit(hookstest.Deadline(t), "sleep 600", append([]string{"-p", "gpu", "--exclusive", "-o", out + "-%j"}, more...)...)
		if err != nil {
			t.Fatal(err)
		}
		p.wait(id, "RUNNING")
		return id
	}
	requeues, holds, stays := submit("-w", "gpu-1"), submit("-w", "gpu-2", "--comment=on_end=hold"), submit("-w", "gpu-3", "--no-requeue")
	p.until("all nodes are up", func() bool { return p.up("gpu-1") && p.up("gpu-2") && p.up("gpu-3") })
	for node, i := range p.instances() {
		if i.ReservationID != lentID || i.Lifecycle != "interruptible-capacity-reservation" {
			t.Errorf("%s is in %q, lifecycle %q", node, i.ReservationID, i.Lifecycle)
		}
	}
	p.wrapper("sync-pass")
	taken := make(chan string, 9)                   // why instances ended, by EC2
	p.sim.OnInstance(func(e awssim.InstanceEvent) { // EventBridge
		switch e.Kind {
		case awssim.Interrupted:
			go func() {
				if err := p.run("sync-pass", e.Instance.ID); err != nil {
					t.Error(err)
				}
			}()
		case awssim.Terminated:
			taken <- e.Reason
		}
	})
	began := time.Now()
	p.lend("0")
	p.until("the one is requeued", func() bool { return strings.Contains(p.show("job", requeues), "JobState=PENDING") })
	p.until("the other is held", func() bool {
		return strings.Contains(p.show("job", holds), "JobState=PENDING Reason=job_requeued_in_held_state")
	})
	t.Logf("off their nodes after %s", time.Since(began).Round(100*time.Millisecond))
	said := func(job string) string { text, _ := os.ReadFile(out + "-" + job); return string(text) }
	const why = "EC2 takes gpu-1 of reservation " + lentID + " back within 2 minutes"
	if job := p.show("job", requeues); !strings.Contains(job, "AdminComment=pcs-capacity: requeued at ") || !strings.Contains(job, why) {
		t.Error(job)
	}
	p.until("the third is told", func() bool {
		return strings.Contains(said(stays), "this job ends then and cannot be requeued: save your work")
	})
	p.until("and so is who asks for it", func() bool {
		return strings.HasPrefix(adminComment(p.show("job", stays)), "pcs-capacity: interrupted at ")
	})
	for range 2 {
		select {
		case reason := <-taken:
			if strings.Contains(reason, "Interruptible") {
				t.Error("EC2 was first")
			}
		case <-hookstest.Deadline(t).Done():
			t.Fatal("the nodes are not given up")
		}
	}
	if job := p.show("job", stays); !strings.Contains(job, "JobState=RUNNING") {
		t.Error(job)
	}
	p.sim.Clock().Advance(2 * time.Minute)
	if reason := <-taken; !strings.Contains(reason, "Interruptible") {
		t.Errorf("the third instance ended for %s", reason)
	}
	p.lend("3")
	p.until("it runs again", func() bool {
		job := p.show("job", requeues)
		if strings.Contains(job, "Reason=BeginTime") { // the pause after a requeue, and after a launch that found no room
			_, _ = p.cluster.Command(hookstest.Deadline(t), "scontrol", "update", "jobid="+requeues, "StartTime=now")
		}
		return strings.Contains(job, "JobState=RUNNING")
	})
	if _, _, ours := capacity.ReadHoldNote(adminComment(p.show("job", holds))); !ours {
		t.Error(p.show("job", holds))
	}
}

// adminComment is that of a job that scontrol shows.
func adminComment(job string) string {
	_, after, _ := strings.Cut(job, "AdminComment=")
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}
