package submit_test

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
)

// The comment of a job that runs cannot be made to ask for a longer limit than before.
func TestR7_MarkOfARunningJob(t *testing.T) {
	t.Parallel()
	s := startPaid(t, "job_submit", "")
	submit := func(args ...string) string {
		t.Helper()
		_, id, err := s.submitAs(t, "games", append([]string{"--partition=big", "--account=nlp", "--wrap=sleep 100"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	runs := func(id string) {
		t.Helper()
		if _, err := s.cluster.WaitJob(hookstest.Deadline(t), id, "RUNNING"); err != nil {
			t.Fatal(err)
		}
	}
	comment := func(id, text string) error {
		t.Helper()
		_, err := s.as(t, "games", "scontrol", "update", "jobid="+id, "comment="+text)
		return err
	}
	waits, upTo, own := submit("--hold"), submit("--comment=time=fit:60", "--time-min=1"), submit()
	if err := comment(waits, "time=fit"); err != nil {
		t.Errorf("of a job that waits: %v", err)
	}
	runs(upTo)
	runs(own)
	for id, texts := range map[string][]string{own: {"time=fit", "a time=fit:5"}, upTo: {"time=fit", "time=fit:61", "x"}} {
		for _, text := range texts {
			if err := comment(id, text); (err == nil) != (text == "x") {
				t.Errorf("job %s, comment %q: %v", id, text, err)
			}
		}
	}
	if job := s.job(t, own); strings.Contains(job["Comment"], "fit") {
		t.Errorf("%v", job)
	}
}
