package lifecycle

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// No limit is raised past what accounting lets a job of a managed partition have.
func TestMarksStayWithinAccounting(t *testing.T) {
	p := passOf(Sources{World: World{State: state.Dir(t.TempDir())}}, Seen{Snap: oneSlot("ec2", nil)})
	p.seen.Snap.Walls = capacity.NewWalls([]capacity.QOSWall{{Name: "short", MaxWall: capacity.Minutes(60)}}, nil, nil)
	p.seen.Snap.Partitions[0].MinTime.Duration = 10 * time.Minute
	job := func(id, partition, qos string, timeMin, limit int) capacity.Job {
		return capacity.Job{Shown: id, State: "PENDING", Partition: partition, QOS: qos, TimeMin: capacity.Minutes(timeMin), TimeLimit: capacity.Minutes(limit)}
	}
	jobs := []capacity.Job{
		job("1", "gpu", "short", 11, 90), job("2", "gpu", "short", 5, 90), job("3", "gpu", "short", 5, 30),
		job("4", "gpu", "long", 11, 90), job("5", "cpu", "short", 11, 90), job("7", "gpu", "short", 5, 60),
	}
	p.seen.Jobs = jobs
	p.seen.Marks = trusted(p.seen)
	p.carryOut(t.Context(), keepMarks(p.seen))
	now := withinWalls(p.seen, jobs)
	want := map[string]state.Mark{"1": {Fit: true, UpTo: 60}, "2": {Fit: true, UpTo: 60}, "3": {Fit: true, UpTo: 30}, "4": {Fit: true}, "7": {Fit: true, UpTo: 60}}
	if diff := cmp.Diff(want, now); diff != "" || len(p.seen.Snap.Problems) > 0 {
		t.Errorf("%s\nproblems: %q", diff, p.seen.Snap.Problems)
	}
	// What is kept for the next pass is what the users stated.
	kept, err := p.State.Marks()
	if err != nil || kept["2"].UpTo != 90 {
		t.Errorf("%v, kept %+v", err, kept)
	}
}

// Marks that cannot be read or kept are told, and those of this pass count.
func TestMarksWithoutAState(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/state", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p := passOf(Sources{World: World{State: state.Dir(dir + "/state")}}, Seen{Snap: oneSlot("ec2", nil)})
	p.seen.Jobs = []capacity.Job{{Shown: "1", State: "PENDING", Partition: "gpu", TimeMin: capacity.Minutes(2)}}
	p.seen.Marks = trusted(p.seen)
	p.carryOut(t.Context(), keepMarks(p.seen))
	if !p.seen.Marks["1"].Fit || len(p.seen.Snap.Problems) != 1 {
		t.Errorf("%+v, problems %q", p.seen.Marks, p.seen.Snap.Problems)
	}
}
