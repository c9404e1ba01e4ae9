package main

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// A job that begins and ends between two passes, of which no pass sees it, is in the samples
// of the report all the same, once, and as it ended.
func TestJobBetweenTwoPasses(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsalOn(t, func(*slurmlab.Config) {})
	cfg, err := config.Load(r.path)
	if err != nil {
		t.Fatal(err)
	}
	first := r.submit("-C", "gpu", "-N", "1", "-t", "1") // the nodes are up then
	r.running(first)
	r.sync()
	id, err := r.cluster.Submit(r.ctx, "sleep 2", "-p", "gpu", "-C", "gpu", "-N", "2", "-t", "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.cluster.WaitJob(r.ctx, id, "COMPLETED"); err != nil {
		t.Fatal(err)
	}
	r.sync()
	r.sync()
	samples, err := state.Dir(cfg.StateDir).Samples(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var seen []state.Run
	for _, s := range samples {
		for _, run := range s.Runs {
			if run.Job == id {
				seen = append(seen, run)
			}
		}
	}
	if len(seen) != 1 || seen[0].State != "COMPLETED" || seen[0].End.Sub(seen[0].Start) < time.Second || seen[0].Nodes == "" {
		t.Errorf("the samples have it as %+v", seen)
	}
}
