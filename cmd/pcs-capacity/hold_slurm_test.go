package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// An administrator's hold of a job that we hold as long stays where Slurm shows it, and where
// the administrator has cleared our note as well. Slurm shows nothing of a hold on one that
// only administrators can release already: where that changes, the rule can be kinder.
func TestHoldsOfAdministratorsStay(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsal(t)
	client := &slurm.Client{Conf: r.cluster.Conf()}
	hold := func(ended time.Duration) string { // as one that was refused twice is held
		id := r.submit("-H", "-t", "1")
		note := capacity.HoldNote(time.Now().Add(-ended), "refused 2 times; partition gpu refuses this job")
		if err := client.SetAdminComment(r.ctx, id, note); err != nil {
			t.Fatal(err)
		}
		if err := client.Hold(r.ctx, id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	by := func(id string) string { return heldBy(t, r.ctx, r.cluster, id) }
	show := func(id string) []string {
		out, err := r.cluster.Command(r.ctx, "scontrol", "show", "job", id)
		if err != nil {
			t.Fatal(out)
		}
		return slices.DeleteFunc(strings.Fields(out), func(word string) bool {
			return strings.HasPrefix(word, "LastSchedEval=") || strings.HasPrefix(word, "StartTime=") || strings.HasPrefix(word, "Scheduler=")
		})
	}

	ours, cleared, told, early := hold(time.Minute), hold(time.Minute), hold(time.Minute), hold(-time.Hour)
	before := show(ours)
	r.scontrol("hold", ours)
	if after := show(ours); !slices.Equal(before, after) {
		t.Errorf("Slurm shows a hold on a hold:\n%q\n%q", before, after)
	}
	r.scontrol("update", "jobid="+cleared, "admincomment=")
	r.scontrol("hold", cleared)
	r.scontrol("update", "jobid="+told, "admincomment=for the audit")
	r.scontrol("hold", told)
	running := r.running(r.submit("-C", "gpu", "-t", "1")).Shown
	r.scontrol("hold", running)
	if j := r.job(running); !j.Held || !j.AdminHeld() || j.State != "RUNNING" {
		t.Errorf("an administrator holds it for later: %+v", j)
	}

	r.sync()
	for id, want := range map[string]string{ours: "JobHeldUser", cleared: "JobHeldAdmin", told: "JobHeldAdmin", early: "JobHeldUser"} {
		if got := by(id); got != want {
			t.Errorf("job %s, %q: %s, want %s", id, r.job(id).AdminComment, got, want)
		}
	}
	if text := r.job(told).AdminComment; text != "for the audit" {
		t.Errorf("the administrator's words are %q", text)
	}
	// Once it is the owner's, Slurm shows whose a later hold is.
	if _, _, noted := capacity.ReadHoldNote(r.job(ours).AdminComment); noted {
		t.Errorf("the note is not taken back: %q", r.job(ours).AdminComment)
	}
	r.scontrol("hold", ours)
	r.sync()
	if got := by(ours); got != "JobHeldAdmin" {
		t.Errorf("a later hold: %s", got)
	}
	// So does a requeue of a job that was held while it ran.
	if err := client.Requeue(r.ctx, running); err != nil {
		t.Fatal(err)
	}
	r.until("the job waits", func() bool { return r.job(running).Settled() })
	r.sync()
	if got := by(running); got != "JobHeldAdmin" {
		t.Errorf("held while it ran: %s", got)
	}
}
