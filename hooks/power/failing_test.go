package power

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// queued is a job of sbatch that waits again; running one that has its nodes.
func queued(id int) capacity.Job {
	j := nlp(id)
	j.State, j.Batch, j.Requeue, j.Eligible = "PENDING", true, true, noon
	return j
}

func batch(j capacity.Job) capacity.Job {
	j.Batch, j.Requeue = true, true
	return j
}

// The owners are told before the nodes are gone; who waits again has a begin time, later each time.
func TestFailureStories(t *testing.T) {
	once := state.Record{At: noon.Add(-time.Minute), Hook: "resume", Code: "InsufficientInstanceCapacity", Jobs: []string{"1", "2"}}
	full := failures["no room"]
	later := *full
	later.NotBefore = noon.Add(10 * time.Minute)
	both := []capacity.Job{batch(nlp(1, "gpu-1")), nlp(2, "gpu-1")} // of sbatch and of srun
	for name, c := range map[string]struct {
		why    *Failure
		jobs   []capacity.Job
		behind map[string]bool
		script string
	}{
		"the second time": {full, both, nil, `
			ask-records → once
			tell resume InsufficientInstanceCapacity gpu-[1-2]; notify 2
			send-down gpu-[1-2]
			ask-jobs → queue
			begin 1 34s
			admin-comment 1
			admin-comment 2`},
		"the first time": {full, both, nil, `
			ask-records
			tell resume InsufficientInstanceCapacity gpu-[1-2]; notify 2
			send-down gpu-[1-2]
			ask-jobs → queue
			begin 1 4s
			admin-comment 1
			admin-comment 2`},
		"Slurm starts it later anyway": {full, both, nil, `
			ask-records
			tell resume InsufficientInstanceCapacity gpu-[1-2]; notify 2
			send-down gpu-[1-2]
			ask-jobs → slow queue
			admin-comment 1
			admin-comment 2`},
		"who spoils it comes later": {full, both, map[string]bool{"1": true}, `
			ask-records
			tell resume InsufficientInstanceCapacity gpu-[1-2]; notify 2
			send-down gpu-[1-2]
			ask-jobs → slow queue
			begin 1 2m30s
			admin-comment 1
			admin-comment 2`},
		"of no use before": {&later, both, nil, `
			ask-records
			tell resume InsufficientInstanceCapacity gpu-[1-2]; notify 2
			send-down gpu-[1-2]
			ask-jobs → queue
			begin 1 10m0s
			admin-comment 1
			admin-comment 2`},
		"Slurm keeps the nodes": {full, both, nil, `
			ask-records
			tell resume InsufficientInstanceCapacity gpu-[1-2]; notify 2
			send-down gpu-[1-2] → unknown
			admin-comment 1
			admin-comment 2`},
		"Slurm does not tell its jobs": {full, both, nil, `
			ask-records → unknown
			tell resume InsufficientInstanceCapacity gpu-[1-2]; notify 2
			send-down gpu-[1-2]
			ask-jobs → unknown
			admin-comment 1
			admin-comment 2`},
		"nobody waits": {full, nil, nil, `
			ask-records
			tell resume InsufficientInstanceCapacity gpu-[1-2];
			send-down gpu-[1-2]`},
	} {
		t.Run(name, func(t *testing.T) {
			slow := queued(1)
			slow.Eligible = noon.Add(2 * time.Minute)
			o := outcome{group: group{nodes: []string{"gpu-1", "gpu-2"}, jobs: c.jobs}, failure: c.why, behind: c.behind,
				launched: map[string]launched{"gpu-2": {instance: capacity.Instance{ID: "i-2"}, reservation: one}}}
			s := session(t, failing{settings: newFacts(nil).settings, outcome: o}, map[string]Answer{"once": {Records: []state.Record{once}},
				"queue": {Jobs: []capacity.Job{queued(1), nlp(5, "gpu-7")}}, "slow queue": {Jobs: []capacity.Job{slow}}}, c.script)
			if (s.sent != nil) != (name == "Slurm keeps the nodes") {
				t.Errorf("sent down: %v", s.sent)
			}
		})
	}
}

// What the owner reads: EC2's code and words, what to do, and when Slurm tries again.
func TestWordsOfAFailure(t *testing.T) {
	f := &Failure{Code: "UnauthorizedOperation", EC2Code: "UnauthorizedOperation", Message: "You may not.", Advice: "allow ec2:RunInstances"}
	s := failing{settings: newFacts(nil).settings, outcome: outcome{group: pair(), failure: f}}
	s.jobs = []capacity.Job{batch(s.jobs[0])}
	records := []state.Record{{At: noon, Hook: "resume", Code: "failed", Jobs: []string{"1"}}}
	s, _ = s.next(Answer{At: noon})
	s, effects := s.next(Answer{At: noon, Records: records})
	record := effects[0].(Tell).Records[0]
	if record.Message != "You may not; allow ec2:RunInstances" || record.EC2Code != f.EC2Code || record.Partition != "gpu" || record.Nodes != "gpu-[1-2]" {
		t.Errorf("%+v", record)
	}
	if down := effects[1].(SendDown); down.Reason != "UnauthorizedOperation: You may not; allow ec2:RunInstances" {
		t.Error(down.Reason)
	}
	s, _ = s.next(Answer{At: noon})
	_, effects = s.next(Answer{At: noon, Jobs: []capacity.Job{}})
	want := "pcs-capacity: nodes gpu-[1-2] were not launched: UnauthorizedOperation: You may not; allow ec2:RunInstances; tried 2 times, Slurm tries again at 2026-11-20 12:00 UTC"
	if c := effects[0].(Comment); c.Text != want {
		t.Error(c.Text)
	}
}
