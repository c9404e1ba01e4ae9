package power

import (
	"strings"
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
	beside := *full
	beside.LetGo = []string{"gpu-7", "gpu-8"}
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
		"nodes beside it are let go": {&beside, both, nil, `
			ask-records
			tell resume InsufficientInstanceCapacity gpu-[1-2]; notify 2
			send-down gpu-[1-2]
			ask-jobs → queue
			power-down gpu-8
			begin 1 4s
			admin-comment 1
			admin-comment 2`},
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

// Jobs are taken out of nodes that they share: told first, then requeued, and looked at again.
func TestTakeOutStories(t *testing.T) {
	never := refusal(capacity.BadComment, "what is that?")
	now := refusal(capacity.NotOpen, "it opens later")
	now.NotBefore = noon.Add(time.Hour)
	full := failures["no room"]
	bad := func(j capacity.Job) refusedJob { return refusedJob{Job: j, partition: "gpu", why: never} }
	later := func(j capacity.Job) refusedJob { return refusedJob{Job: j, partition: "gpu", why: now, later: true} }
	component := func(j capacity.Job) capacity.Job { j.HetJobID = 1; return j }
	fixed := func(j capacity.Job) capacity.Job { j.Requeue = false; return j }
	first, other := batch(nlp(1, "gpu-1", "gpu-2")), nlp(2, "gpu-2")
	besides := later(first)
	besides.why = refusal(capacity.NoPlaceBeside, "the rest cannot be launched there")
	besides.why.LetGo = []string{"gpu-2", "gpu-7"}
	spoils := later(first)
	spoils.why, spoils.behind = full, true
	for name, c := range map[string]struct {
		refused []refusedJob
		script  string
		groups  string
		failed  string
		kept    int
	}{
		"for good": {[]refusedJob{bad(first)}, `
			ask-records
			tell resume bad-comment gpu-[1-2];
			admin-comment 1
			requeue 1 held
			ask-jobs → the other`, "gpu-2", "gpu-1 bad-comment", 1},
		"not now": {[]refusedJob{later(first)}, `
			ask-records
			tell resume not-open gpu-[1-2];
			admin-comment 1
			requeue 1
			ask-jobs → the other`, "gpu-2", "gpu-1 not-open", 1},
		"charged alone": {[]refusedJob{spoils}, `
			ask-records
			tell resume InsufficientInstanceCapacity gpu-[1-2];
			admin-comment 1
			requeue 1
			ask-jobs → the other`, "gpu-2", "gpu-1 InsufficientInstanceCapacity", 1},
		"of --no-requeue": {[]refusedJob{bad(fixed(first))}, `
			ask-records
			tell resume bad-comment gpu-[1-2];
			admin-comment 1
			allow-requeue 1 true
			requeue 1 held
			allow-requeue 1 false
			ask-jobs → the other`, "gpu-2", "gpu-1 bad-comment", 1},
		"of srun": {[]refusedJob{bad(nlp(1, "gpu-1", "gpu-2"))}, `
			ask-records
			tell resume bad-comment gpu-[1-2]; notify 1
			admin-comment 1
			cancel 1
			ask-jobs → the other`, "gpu-2", "gpu-1 bad-comment", 1},
		"a het job, as one": {[]refusedJob{bad(component(first)), bad(component(batch(nlp(3, "gpu-2"))))}, `
			ask-records
			tell resume bad-comment gpu-[1-2];
			admin-comment 1
			requeue 1 held
			ask-jobs → the other`, "gpu-2", "gpu-1 bad-comment", 1},
		"nodes beside it are let go": {[]refusedJob{besides}, `
			ask-records
			tell resume no-place-beside gpu-[1-2];
			admin-comment 1
			requeue 1
			ask-jobs → the other
			power-down gpu-7`, "gpu-2", "gpu-1 no-place-beside", 1},
		"it stays": {[]refusedJob{bad(first)}, `
			ask-records
			tell resume bad-comment gpu-[1-2];
			admin-comment 1
			requeue 1 held → unknown
			ask-jobs → it stays
			note`, "", "gpu-1,gpu-2 not-taken-out", 0},
		"Slurm does not say": {[]refusedJob{bad(first)}, `
			ask-records
			tell resume bad-comment gpu-[1-2];
			admin-comment 1
			requeue 1 held
			ask-jobs → unknown`, "", "gpu-1 not-taken-out; gpu-2 not-taken-out", 0},
		"another one comes, which is refused": {[]refusedJob{bad(first)}, `
			ask-records
			tell resume bad-comment gpu-[1-2];
			admin-comment 1
			requeue 1 held
			ask-jobs → another
			ask-records
			tell resume bad-comment gpu-1;
			admin-comment 3
			requeue 3 held
			ask-jobs → the other`, "gpu-2", "gpu-1 bad-comment", 2},
		"others come for ever": {[]refusedJob{bad(first)}, `
			ask-records
			tell resume bad-comment gpu-[1-2];
			admin-comment 1
			requeue 1 held
			ask-jobs → another` + strings.Repeat(`
			ask-records
			tell resume bad-comment gpu-1;
			admin-comment 3
			requeue 3 held
			ask-jobs → another, once more
			note
			ask-records
			tell resume bad-comment gpu-1;
			admin-comment 3
			requeue 3 held
			ask-jobs → another
			note`, 2), "", "gpu-1 not-taken-out; gpu-2 not-taken-out", 5},
	} {
		t.Run(name, func(t *testing.T) {
			third := batch(nlp(3, "gpu-1"))
			third.Comment = "capacity_reservation_id=x"
			anew := third
			anew.Restarts++
			answers := map[string]Answer{"the other": {Jobs: []capacity.Job{other}}, "it stays": {Jobs: []capacity.Job{first, other}},
				"another": {Jobs: []capacity.Job{other, third}}, "another, once more": {Jobs: []capacity.Job{other, anew}}}
			s := session(t, takingOut{facts: newFacts(onDemand()), nodes: []string{"gpu-2", "gpu-1"}, refused: c.refused}, answers, c.script)
			var groups, failed []string
			for _, g := range s.groups {
				groups = append(groups, strings.Join(g.nodes, ","))
			}
			for _, o := range s.failed {
				failed = append(failed, strings.Join(o.nodes, ",")+" "+o.failure.Code)
			}
			if strings.Join(groups, "; ") != c.groups || strings.Join(failed, "; ") != c.failed || len(s.out) != c.kept {
				t.Errorf("groups %q, failed %q, %d rounds", groups, failed, len(s.out))
			}
		})
	}
}

// What is wrong with jobs that were taken out goes into the log.
func TestTakenOutOtherwise(t *testing.T) {
	first := batch(nlp(1, "gpu-1"))
	first.Requeue = false
	s := takingOut{facts: newFacts(onDemand()), nodes: []string{"gpu-1"}, refused: []refusedJob{{Job: first, partition: "gpu", why: refusal(capacity.BadComment, "what is that?")}}}
	comment, allowed := queued(1), queued(1)
	comment.Requeue = false
	for _, c := range []struct {
		job  capacity.Job
		says string
	}{{comment, "the AdminComment of a refused job is not ours: "}, {allowed, "a job of --no-requeue can be requeued now"}} {
		s, _ := s.next(Answer{At: noon})
		s, _ = s.next(Answer{At: noon})
		_, effects := s.next(Answer{At: noon, Jobs: []capacity.Job{c.job}})
		if note, ok := effects[0].(Note); !ok || note.Text != c.says || !note.Alarm || note.Job != "1" || len(effects) != 1 {
			t.Errorf("%+v, want %q", effects, c.says)
		}
	}
}

// Refused jobs wait, go on elsewhere, or are held, each het job once.
func TestKeepStories(t *testing.T) {
	never := refusal(capacity.BadComment, "what is that?")
	job := func(id, times int) refusedJob {
		r := refusedJob{Job: batch(nlp(id)), partition: "gpu", why: never, times: times}
		r.Partition = "gpu"
		return r
	}
	elsewhere, waits, behind, leader, component := job(3, 1), job(4, 2), job(5, 2), job(6, 2), job(7, 1)
	waits.later, waits.begin = true, noon.Add(time.Hour)
	behind.later, behind.begin, behind.behind = true, noon, true
	leader.HetJobID, component.HetJobID = 6, 6
	was := map[int]capacity.Job{3: {Partition: "gpu,cpu"}, 1: {Partition: "gpu"}}
	queue := map[string]Answer{"queue": {Jobs: []capacity.Job{queued(4), queued(5)}}}
	session(t, keeping{refused: []refusedJob{job(1, 1), job(2, 2), elsewhere, waits, behind, leader, component}, was: was}, queue, `
		go-on 3 cpu
		ask-jobs → queue
		begin 4 1h0m0s
		begin 5 30s
		hold-jobs 2,6 by admin
		hold-jobs 1`)
	session(t, keeping{refused: []refusedJob{waits, job(1, 1)}, was: was}, nil, `
		ask-jobs → unknown
		hold-jobs 1`)
	_, effects := keeping{refused: []refusedJob{elsewhere}, was: was}.next(Answer{At: noon})
	if until, _, ours := capacity.ReadHoldNote(effects[0].(GoOn).Text); !ours || !until.Equal(noon) || len(effects) != 1 {
		t.Errorf("if the hook dies now, nobody releases the job: %+v", effects)
	}
	session(t, keeping{refused: []refusedJob{{Job: nlp(8), partition: "gpu", why: never, times: 1}}}, nil, "") // of srun
}

// The reason of a job that is held says so, and is longer valid each time.
func TestTakenOutAgain(t *testing.T) {
	r := refusedJob{Job: batch(nlp(1, "gpu-1")), partition: "gpu", why: refusal(capacity.BadComment, "what is that?")}
	records := []state.Record{{At: noon, Hook: "resume", Partition: "gpu", Code: "bad-comment", Jobs: []string{"1"}}, {At: noon, Hook: "resume", Partition: "big", Code: "bad-comment", Jobs: []string{"1"}},
		{At: noon, Hook: "resume", Partition: "gpu", Code: "no-place", Jobs: []string{"1"}}}
	s := takingOut{facts: newFacts(onDemand()), nodes: []string{"gpu-1"}, refused: []refusedJob{r}}
	s, _ = s.next(Answer{At: noon})
	after, effects := s.next(Answer{At: noon, Records: records})
	text := "pcs-capacity: its owner can release it from 2026-11-20 12:00:30 UTC on: refused 2 times; partition gpu refuses this job: bad-comment: what is that?; change it before you release it"
	if c := effects[1].(Comment); c.Text != text || after.refused[0].times != 2 || s.refused[0].times != 0 {
		t.Errorf("%s\n%+v", c.Text, after.refused)
	}
	// What another power-up has recorded of this run is no earlier refusal.
	for i := range records {
		records[i].Restarts = []int{0}
	}
	if same, _ := s.next(Answer{At: noon, Records: records}); same.refused[0].times != 1 {
		t.Errorf("refused %d times", same.refused[0].times)
	}
	for i := range records {
		records[i].Restarts = nil
	}
	s.refused[0].later = true
	after, _ = s.next(Answer{At: noon, Records: records})
	if got := after.refused[0]; got.times != 2 || !got.begin.Equal(noon.Add(firstPause)) {
		t.Errorf("%+v", got)
	}
}
