package power

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// What no other test decides.

// The owner of a refused job is told why, from when on it can be released, and what to do.
func TestNoteOfRefusedJob(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	why := refusal("wrong-partition", "cr-1 is of other")
	for name, c := range map[string]struct {
		job   refusedJob
		until time.Time
		rest  string
	}{
		"first":           {refusedJob{Job: capacity.Job{Batch: true}, partition: "gpu", why: why, times: 1}, now, "pcs-capacity: partition gpu refuses this job: wrong-partition: cr-1 is of other; change it before you release it"},
		"released":        {refusedJob{Job: capacity.Job{Batch: true}, partition: "gpu", why: why, times: 3}, now.Add(time.Minute), "pcs-capacity: refused 3 times; partition gpu refuses this job: wrong-partition: cr-1 is of other; change it before you release it"},
		"it has ended":    {refusedJob{partition: "gpu", why: why, times: 3}, time.Time{}, ""},
		"nothing is held": {refusedJob{partition: "gpu", why: why, times: 1}, time.Time{}, ""},
	} {
		until, rest, ours := capacity.ReadHoldNote(c.job.note(Answer{At: now}))
		if !until.Equal(c.until) || rest != c.rest || ours != c.job.Batch {
			t.Errorf("%s: %q", name, c.job.note(Answer{At: now}))
		}
	}
}
