package power

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// A job's nodes that are not being launched hide none of the others.
func TestLaunchGroupsOfSomeNodes(t *testing.T) {
	groups := launchGroups([]string{"a", "b", "c"}, []Waiting{{1, []string{"x", "a", "y", "c"}}}, []capacity.Job{{ID: 1, State: "RUNNING"}})
	if len(groups) != 2 {
		t.Fatalf("%+v", groups)
	}
	if diff := cmp.Diff([]string{"a", "c"}, groups[0].nodes); diff != "" {
		t.Error(diff)
	}
}

func TestTried(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		failures int
		after    time.Duration
		want     string
	}{
		{0, time.Minute, "; Slurm tries again at 2026-11-20 12:01 UTC"},
		{1, time.Minute, "; Slurm tries again at 2026-11-20 12:01 UTC"},
		{2, time.Minute, "; tried 2 times, Slurm tries again at 2026-11-20 12:01 UTC"},
		{2, 0, ""},
		{3, -time.Second, ""},
	} {
		if got := tried(c.failures, now.Add(c.after), now); got != c.want {
			t.Errorf("%d failures, in %s: %q, want %q", c.failures, c.after, got, c.want)
		}
	}
}
