package power

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// queued is a job of sbatch that waits again; batch is one that has its nodes.
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
func TestTakeDownStories(t *testing.T) {
	once := []state.Record{{At: noon.Add(-time.Minute), Hook: "resume", Code: "InsufficientInstanceCapacity", Jobs: []string{"1", "2"}}}
	full := failureOf(answers["no room"])
	later := *full
	later.NotBefore = noon.Add(10 * time.Minute)
	both := []capacity.Job{batch(nlp(1, "gpu-1")), nlp(2, "gpu-1")}                  // of sbatch and of srun
	apart := []capacity.Job{batch(nlp(0, "gpu-1", "gpu-2")), batch(nlp(1, "gpu-1"))} // they keep each other from a launch
	slow := queued(1)
	slow.Eligible = noon.Add(2 * time.Minute)
	const down = `
			record resume InsufficientInstanceCapacity gpu-[1-2];
			notify 2
			down gpu-[1-2]`
	for name, c := range map[string]struct {
		why     *Failure
		jobs    []capacity.Job
		records []state.Record
		queue   capacity.Job
		script  string
	}{
		"the second time": {full, both, once, queued(1), down + `
			ask-jobs
			begin 1 33s
			comment 1
			comment 2`},
		"the first time": {full, both, nil, queued(1), down + `
			ask-jobs
			begin 1 3s
			comment 1,2`},
		"Slurm starts it later anyway": {full, both, nil, slow, down + `
			ask-jobs
			comment 1,2`},
		"who spoils it comes later": {full, apart, nil, slow, strings.Replace(down, "notify 2", "", 1) + `
			ask-jobs
			begin 1 2m30s
			comment 0,1`},
		"of no use before": {&later, both, nil, queued(1), down + `
			ask-jobs
			begin 1 10m0s
			comment 1
			comment 2`},
		"Slurm keeps the nodes": {full, both, nil, queued(1), down + ` → unknown
			comment 1,2`},
		"Slurm does not tell its jobs": {full, both, nil, queued(1), down + `
			ask-jobs → unknown
			comment 1,2`},
		"nobody waits": {full, nil, nil, queued(1), strings.Replace(down, "notify 2", "", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				w.records, w.jobs = c.records, []capacity.Job{c.queue, nlp(5, "gpu-7")}
				err := takeDown(w, begun(w, newFacts(nil)), []outcome{{group: group{nodes: []string{"gpu-1", "gpu-2"}, jobs: c.jobs}, failure: c.why,
					launched: map[string]launched{"gpu-2": {instance: capacity.Instance{ID: "i-2"}, reservation: one}}}})
				if (err != nil) != (name == "Slurm keeps the nodes") {
					t.Errorf("taken down: %v", err)
				}
				if r := w.records[len(w.records)-1]; r.Reservation != one || strings.Join(r.Instances, " ") != "i-2" || r.Partition != "gpu" || r.EC2Code != c.why.EC2Code || len(r.Restarts) != len(c.jobs) {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// What failed for one reason is handled at once, the rest all the same.
func TestFailuresOfOneReasonAreMerged(t *testing.T) {
	why, other := failed("full"), failed("full")
	story(t, `
		record resume failed gpu-[1,3];
		notify 1
		notify 3
		down gpu-[1,3] → unknown
		comment 1,3
		record resume failed gpu-2;
		notify 2
		down gpu-2
		comment 2`, func(t *testing.T, w *fake) {
		err := takeDown(w, begun(w, newFacts(nil)), []outcome{{group: single(1), failure: why}, {group: single(2), failure: other}, {group: single(3), failure: why}})
		if err == nil || !strings.Contains(err.Error(), "nodes gpu-[1,3] are left to ResumeTimeout") {
			t.Error(err)
		}
	})
}

// What the owner reads: EC2's code and words, what to do, and when Slurm tries again (R12).
func TestR12_WordsOfAFailure(t *testing.T) {
	story(t, `
		record resume UnauthorizedOperation gpu-[1-2];
		down gpu-[1-2]
		ask-jobs
		begin 1 32s
		comment 1`, func(t *testing.T, w *fake) {
		w.records, w.jobs = []state.Record{{At: noon, Hook: "resume", Code: "failed", Jobs: []string{"1"}}}, []capacity.Job{queued(1)}
		why := failureOf(answers["refused"])
		why.Advice = "allow ec2:RunInstances"
		g := pair()
		g.jobs[0] = batch(g.jobs[0])
		if err := takeDown(w, begun(w, newFacts(nil)), []outcome{{group: g, failure: why}}); err != nil {
			t.Error(err)
		}
		if r := w.records[1]; r.Message != "You may not; allow ec2:RunInstances" || r.EC2Code != "UnauthorizedOperation" {
			t.Errorf("%+v", r)
		}
		if got := w.said["gpu-1"]; got != "UnauthorizedOperation: You may not; allow ec2:RunInstances" {
			t.Error(got)
		}
		want := "pcs-capacity: nodes gpu-[1-2] were not launched: UnauthorizedOperation: You may not; allow ec2:RunInstances; tried 2 times, Slurm tries again at 2000-01-01 00:00 UTC"
		if got := w.said["1"]; got != want {
			t.Error(got)
		}
	})
}

// Jobs that share nodes and failed together start apart the next time, unless they are alike.
func TestYoungerOthers(t *testing.T) {
	wish := nlp(2, "gpu-1")
	wish.Comment = "capacity_reservation_id=" + two
	component := func(j capacity.Job) capacity.Job { j.HetJobID = 1; return j }
	for name, c := range map[string]struct {
		jobs []capacity.Job
		want string
	}{
		"one":          {[]capacity.Job{nlp(1, "gpu-1")}, ""},
		"alike":        {[]capacity.Job{nlp(1, "gpu-1"), nlp(2, "gpu-1")}, ""},
		"another wish": {[]capacity.Job{nlp(1, "gpu-1"), wish}, "2"},
		"other nodes":  {[]capacity.Job{nlp(1, "gpu-1"), nlp(2, "gpu-1"), nlp(3, "gpu-1", "gpu-2")}, "3"},
		"of a het job": {[]capacity.Job{component(nlp(1, "gpu-1")), component(nlp(2, "gpu-1", "gpu-2"))}, ""},
	} {
		var got []string
		for id, later := range youngerOthers(c.jobs) {
			if later {
				got = append(got, id)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: later are %q, want %q", name, got, c.want)
		}
	}
}

// Jobs that are refused for good, each judged alone; a het job with all that is started of it.
func TestRefusedJobs(t *testing.T) {
	job := func(id int, comment string, nodes ...string) capacity.Job {
		j := nlp(id, nodes...)
		j.Comment = comment
		return j
	}
	stranger := func(id int, nodes ...string) capacity.Job {
		j := nlp(id, nodes...)
		j.Account = "vision"
		return j
	}
	component := func(j capacity.Job, of int) capacity.Job { j.HetJobID = of; return j }
	waits := func(j capacity.Job) capacity.Job { j.State = "PENDING"; return j }
	const for1, for2 = "1 gpu account-not-allowed", "2 gpu account-not-allowed"
	for name, c := range map[string]struct {
		jobs  []capacity.Job
		slots int
		want  []string
	}{
		"nobody":                          {jobs: []capacity.Job{nlp(1, "gpu-1"), nlp(2, "gpu-1")}},
		"for good":                        {jobs: []capacity.Job{stranger(1, "gpu-1"), nlp(2, "gpu-1")}, want: []string{for1}},
		"both":                            {jobs: []capacity.Job{stranger(1, "gpu-1"), stranger(2, "gpu-2")}, want: []string{for1, for2}},
		"once for two nodes":              {jobs: []capacity.Job{stranger(1, "gpu-1", "gpu-2")}, want: []string{for1}},
		"once for two slots":              {slots: 2, jobs: []capacity.Job{stranger(1, "gpu-a-1", "gpu-b-1")}, want: []string{for1}},
		"in the second slot":              {slots: 2, jobs: []capacity.Job{job(1, "", "gpu-a-1", "gpu-a-2", "gpu-b-1"), stranger(2, "gpu-b-1")}, want: []string{for2}},
		"beside a node of others":         {jobs: []capacity.Job{stranger(1, "cpu-1", "gpu-1")}, want: []string{for1}},
		"beside a node that is up":        {jobs: []capacity.Job{stranger(1, "gpu-8", "gpu-1")}, want: []string{for1}},
		"on nodes that are up":            {jobs: []capacity.Job{stranger(1, "gpu-8")}},
		"on nodes of others":              {jobs: []capacity.Job{stranger(1, "cpu-1")}},
		"that waits":                      {jobs: []capacity.Job{waits(stranger(1, "gpu-1")), stranger(2, "gpu-1")}, want: []string{for2}},
		"a het job":                       {jobs: []capacity.Job{component(stranger(1, "gpu-1"), 1), component(nlp(2, "gpu-2"), 1), nlp(3, "gpu-2")}, want: []string{for1, for2}},
		"a het job, by its second":        {jobs: []capacity.Job{component(nlp(1, "gpu-1"), 1), component(stranger(2, "gpu-2"), 1)}, want: []string{for2, for1}},
		"a het job that is not yet whole": {jobs: []capacity.Job{component(stranger(1, "gpu-1"), 1), component(waits(nlp(2)), 1), component(nlp(4, "gpu-3"), 1)}, want: []string{for1, "4 gpu account-not-allowed"}},
		"another het job":                 {jobs: []capacity.Job{component(stranger(1, "gpu-1"), 1), component(nlp(5, "gpu-2"), 5)}, want: []string{for1}},
	} {
		snap := twoReservations()
		f := newFacts(snap)
		if c.slots == 2 {
			snap.Partitions[0].Groups[0].Slots = []capacity.Slot{{Name: "gpu-a", ReservationIDs: []string{one}}, {Name: "gpu-b", ReservationIDs: []string{two}}}
			f.settings.Partitions[0].Groups[0].Slots = 2
		}
		nodes := []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-a-1", "gpu-a-2", "gpu-b-1"}
		var got []string
		for _, r := range (&call{facts: f, jobs: c.jobs}).refusedJobs(nodes) {
			got = append(got, fmt.Sprintf("%d %s %s", r.ID, r.partition, r.why.Code))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// Slurm keeps with the first component what sort of job it is.
	leader, second := component(batch(nlp(1, "gpu-1")), 1), component(stranger(2, "gpu-2"), 1)
	for _, jobs := range [][]capacity.Job{{leader, second}, {second, leader}} {
		refused := (&call{facts: newFacts(twoReservations()), jobs: jobs}).refusedJobs([]string{"gpu-1", "gpu-2"})
		if len(refused) != 2 || !refused[0].Batch || !refused[0].Requeue || !refused[1].Batch || refused[1].ID != 1 {
			t.Errorf("%+v", refused)
		}
	}
	if refused := (&call{facts: newFacts(twoReservations()), jobs: []capacity.Job{second}}).refusedJobs([]string{"gpu-2"}); len(refused) != 1 || refused[0].Batch {
		t.Errorf("without its first component: %+v", refused)
	}
}

// Of a group with a refused job nothing is launched: the other jobs go back into the queue with its nodes.
func TestWithoutRefused(t *testing.T) {
	never := refusal(capacity.BadComment, "what is that?")
	groups := []group{{nodes: []string{"gpu-1"}, jobs: []capacity.Job{nlp(1), nlp(2)}}, {nodes: []string{"gpu-2"}, jobs: []capacity.Job{nlp(3)}}, {nodes: []string{"gpu-3"}},
		{nodes: []string{"gpu-4"}, jobs: []capacity.Job{nlp(4)}}}
	without, failed := withoutRefused(groups, []refusedJob{{Job: nlp(2), why: never}, {Job: nlp(4), why: never}, {Job: nlp(9), why: never}})
	var got []string
	for _, o := range failed {
		got = append(got, fmt.Sprintf("%v %v %s", o.nodes, shown(o.jobs), o.failure.Error()))
	}
	want := []string{"[gpu-1] [1] shared-with-refused: job 2, which shares these nodes, is refused", "[gpu-4] [] bad-comment: job 4, for which they were powered up, is refused"}
	if len(without) != 2 || without[0].jobs[0].ID != 3 || !slices.Equal(got, want) {
		t.Errorf("%+v, failed %q", without, got)
	}
}

// Refused jobs are told, requeued and held; of srun they are cancelled; a het job is one. Nothing is written after a
// release: a launch in the other partitions may write its own.
func TestHoldJobsStories(t *testing.T) {
	never := refusal(capacity.BadComment, "what is that?")
	bad := func(j capacity.Job) refusedJob {
		j.Partition = "gpu"
		return refusedJob{Job: j, partition: "gpu", why: never}
	}
	component := func(j capacity.Job) capacity.Job { j.HetJobID = 1; return j }
	fixed := func(j capacity.Job) capacity.Job { j.Requeue = false; return j }
	in := func(j capacity.Job, partitions string) capacity.Job { j.Partition = partitions; return j }
	before := func(partition string) []state.Record {
		return []state.Record{{At: noon, Hook: "resume", Partition: partition, Code: "bad-comment", Jobs: []string{"1"}}}
	}
	first := batch(nlp(1, "gpu-1", "gpu-2"))
	const told = `
			record resume bad-comment gpu-[1-2];
			comment 1`
	for name, c := range map[string]struct {
		refused []refusedJob
		before  []state.Record
		after   []capacity.Job
		script  string
	}{
		"the first time": {[]refusedJob{bad(first)}, nil, []capacity.Job{in(queued(1), "gpu")}, told + `
			requeue 1
			ask-jobs
			user-hold 1`},
		"again": {[]refusedJob{bad(first)}, before("gpu"), []capacity.Job{in(queued(1), "gpu")}, told + `
			requeue 1
			ask-jobs
			hold 1`},
		"by another partition before": {[]refusedJob{bad(first)}, before("big"), []capacity.Job{in(queued(1), "gpu")}, told + `
			requeue 1
			ask-jobs
			user-hold 1`},
		"it has other partitions": {[]refusedJob{bad(first)}, nil, []capacity.Job{in(queued(1), "gpu,cpu")}, told + `
			requeue 1
			ask-jobs
			partition 1 cpu
			release 1`},
		"of --no-requeue": {[]refusedJob{bad(fixed(first))}, nil, []capacity.Job{in(queued(1), "gpu")}, told + `
			allow-requeue 1 true
			requeue 1
			allow-requeue 1 false
			ask-jobs
			user-hold 1`},
		"of srun": {[]refusedJob{bad(nlp(1, "gpu-1", "gpu-2"))}, nil, nil, strings.Replace(told, "comment 1", "notify 1\ncomment 1", 1) + `
			cancel 1
			ask-jobs`},
		"a het job, as one": {[]refusedJob{bad(component(first)), bad(component(batch(nlp(3, "gpu-2"))))}, nil,
			[]capacity.Job{in(component(queued(1)), "gpu"), in(component(queued(3)), "gpu")}, told + `
			record resume bad-comment gpu-2;
			comment 3
			requeue 1
			ask-jobs
			user-hold 1`},
		"it stays": {[]refusedJob{bad(first)}, nil, []capacity.Job{in(first, "gpu")}, told + `
			requeue 1 → unknown
			ask-jobs`},
		"Slurm does not say": {[]refusedJob{bad(first)}, nil, nil, told + `
			requeue 1
			ask-jobs → unknown`},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				w.records, w.jobs = c.before, c.after
				holdJobs(w, begun(w, newFacts(nil)), c.refused)
				if got := w.said["1"]; !strings.Contains(got, "partition gpu refuses this job: bad-comment: what is that?") {
					t.Error(got)
				}
			})
		})
	}
	story(t, "", func(t *testing.T, w *fake) { holdJobs(w, begun(w, newFacts(nil)), nil) })
}

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
		until, rest, ours := capacity.ReadHoldNote(c.job.note(now))
		if !until.Equal(c.until) || rest != c.rest || ours != c.job.Batch {
			t.Errorf("%s: %q", name, c.job.note(now))
		}
	}
}

// The reason on a node keeps its advice where it has to be cut.
func TestReasonKeepsItsAdvice(t *testing.T) {
	long := Failure{Code: "X", Message: strings.Repeat("long ", 100) + ".", Advice: "call AWS"}
	if reason := long.reason(); !strings.HasSuffix(reason, "; call AWS") || len(reason) > maxReason {
		t.Errorf("%d: %s", len(reason), reason)
	}
	short := Failure{Code: "X", Message: "No."}
	if reason := short.reason(); reason != "X: No." {
		t.Error(reason)
	}
	if f := refusalOf(capacity.Verdict{Code: capacity.NotOpen, Message: "later", NotBefore: noon}); !f.NotBefore.Equal(noon) || f.Message != "later" {
		t.Errorf("%+v", f)
	}
}
