package power

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A refused job keeps its nodes if it was not requeued: who has nodes again after a requeue has
// others.
func TestRefusedJobKeepsItsNodes(t *testing.T) {
	for name, c := range map[string]struct {
		now   capacity.Job
		keeps bool
	}{
		"as it was":                        {capacity.Job{State: "RUNNING", Restarts: 2}, true},
		"back in the queue":                {capacity.Job{Restarts: 3}, false},
		"back in the queue, not counted":   {capacity.Job{Restarts: 2}, false},
		"requeued, and started once again": {capacity.Job{State: "RUNNING", Restarts: 3}, false},
	} {
		if got := (refusedJob{Job: capacity.Job{Restarts: 2, State: "RUNNING"}}).keeps(c.now); got != c.keeps {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// The owner of a refused job can release it at once the first time, and from the second time on
// only later.
func TestFateOfARefusedJob(t *testing.T) {
	for name, c := range map[string]struct {
		job  refusedJob
		rest string
		want fate
	}{
		"the first time":                          {refusedJob{Job: capacity.Job{Batch: true}, times: 1}, "", heldByOwner},
		"the second time":                         {refusedJob{Job: capacity.Job{Batch: true}, times: 2}, "", heldByAdmin},
		"the third time":                          {refusedJob{Job: capacity.Job{Batch: true}, times: 3}, "", heldByAdmin},
		"the first time, with another partition":  {refusedJob{Job: capacity.Job{Batch: true}, times: 1}, "other", goesOn},
		"the second time, with another partition": {refusedJob{Job: capacity.Job{Batch: true}, times: 2}, "other", heldByAdmin},
		"a het job with another partition":        {refusedJob{Job: capacity.Job{Batch: true, HetJobID: 7}, times: 1}, "other", heldByOwner},
		"refused now":                             {refusedJob{Job: capacity.Job{Batch: true}, later: true, times: 3}, "other", waits},
		"of srun":                                 {refusedJob{times: 2}, "", isOver},
		"of srun, refused now":                    {refusedJob{later: true, times: 2}, "", isOver},
	} {
		if got := c.job.fate(c.rest); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
