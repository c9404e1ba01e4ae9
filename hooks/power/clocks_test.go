package power

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Slurm's times are the machine's; those of EC2 and of our records are AWS's, whose clock is an hour
// ahead here.
func TestTwoClocks(t *testing.T) {
	const ahead = time.Hour
	at := func(a Answer) Answer {
		a.At, a.Offset = noon, ahead
		return a
	}
	aws := noon.Add(ahead)
	instance := func(id string, launched time.Time) capacity.Instance {
		return capacity.Instance{ID: id, State: "running", Launched: launched, Tags: map[string]string{capacity.TagCluster: "ml", capacity.TagNode: "gpu-1"}}
	}

	down := terminating{cluster: "ml", nodes: []string{"gpu-1"}, called: noon}
	down, _ = down.next(at(Answer{}))
	down, _ = down.next(at(Answer{Records: []state.Record{
		{At: aws.Add(-time.Minute), Hook: "resume", Code: "ok", Nodes: "gpu-1", Instances: []string{"i-recorded"}},
		{At: noon.Add(-time.Minute), Hook: "resume", Code: "ok", Nodes: "gpu-1", Instances: []string{"i-long ago"}}}}))
	down, effects := down.next(at(Answer{Instances: []capacity.Instance{instance("i-1", aws.Add(-time.Minute)), instance("i-newer", aws.Add(time.Minute))}}))
	if got := effects[len(effects)-1].(Terminate).Instances; len(effects) != 2 || len(got) != 2 || got[0] != "i-1" || got[1] != "i-recorded" {
		t.Errorf("terminated: %q", got)
	}
	_, effects = down.next(at(Answer{}))
	if got := effects[0].(Tell).Records[0].At; !got.Equal(aws) {
		t.Errorf("a power-down is recorded at %s, want %s", got, aws)
	}

	opens := aws.Add(10 * time.Minute)
	begins := opens.Add(-ahead)
	notOpen := &Failure{Code: string(capacity.NotOpen), Message: "It opens later.", NotBefore: opens}
	fails := failing{settings: newFacts(nil).settings, outcome: outcome{group: pair(), failure: notOpen}}
	fails.jobs = []capacity.Job{batch(fails.jobs[0])}
	fails, _ = fails.next(at(Answer{}))
	fails, effects = fails.next(at(Answer{}))
	if got := effects[0].(Tell).Records[0].At; !got.Equal(aws) {
		t.Errorf("a failure is recorded at %s, want %s", got, aws)
	}
	fails, _ = fails.next(at(Answer{}))
	_, effects = fails.next(at(Answer{Jobs: []capacity.Job{queued(1)}}))
	if got, ok := effects[0].(Begin); !ok || !got.At.Equal(begins) {
		t.Errorf("after a failure: %+v, want a begin time of %s", effects[0], begins)
	}
}
