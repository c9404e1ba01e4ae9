package power

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

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
		for _, r := range f.refusedJobs(nodes, c.jobs) {
			got = append(got, fmt.Sprintf("%d %s %s", r.ID, r.partition, r.why.Code))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// Slurm keeps with the first component what sort of job it is.
	leader, second := component(batch(nlp(1, "gpu-1")), 1), component(stranger(2, "gpu-2"), 1)
	for _, jobs := range [][]capacity.Job{{leader, second}, {second, leader}} {
		refused := newFacts(twoReservations()).refusedJobs([]string{"gpu-1", "gpu-2"}, jobs)
		if len(refused) != 2 || !refused[0].Batch || !refused[0].Requeue || !refused[1].Batch || refused[1].ID != 1 {
			t.Errorf("%+v", refused)
		}
	}
	if refused := newFacts(twoReservations()).refusedJobs([]string{"gpu-2"}, []capacity.Job{second}); len(refused) != 1 || refused[0].Batch {
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
		got = append(got, fmt.Sprintf("%v %v %s", o.nodes, o.shown(), o.failure.Error()))
	}
	want := []string{"[gpu-1] [1] shared-with-refused: job 2, which shares these nodes, is refused", "[gpu-4] [] bad-comment: job 4, for which they were powered up, is refused"}
	if len(without) != 2 || without[0].jobs[0].ID != 3 || !slices.Equal(got, want) {
		t.Errorf("%+v, failed %q", without, got)
	}
}

// Refused jobs are told, requeued and held; of srun they are cancelled; a het job is one.
func TestRefusingStories(t *testing.T) {
	never := refusal(capacity.BadComment, "what is that?")
	bad := func(j capacity.Job) refusedJob {
		j.Partition = "gpu"
		return refusedJob{Job: j, partition: "gpu", why: never}
	}
	component := func(j capacity.Job) capacity.Job { j.HetJobID = 1; return j }
	fixed := func(j capacity.Job) capacity.Job { j.Requeue = false; return j }
	in := func(j capacity.Job, partitions string) capacity.Job { j.Partition = partitions; return j }
	first := batch(nlp(1, "gpu-1", "gpu-2"))
	const told = `
			ask-records → before
			tell resume bad-comment gpu-[1-2];
			admin-comment 1`
	for name, c := range map[string]struct {
		refused []refusedJob
		before  []state.Record
		after   []capacity.Job
		script  string
	}{
		"the first time": {[]refusedJob{bad(first)}, nil, []capacity.Job{in(queued(1), "gpu")}, told + `
			requeue 1
			ask-jobs → after
			hold-jobs 1`},
		"again": {[]refusedJob{bad(first)}, []state.Record{{At: noon, Hook: "resume", Partition: "gpu", Code: "bad-comment", Jobs: []string{"1"}}}, []capacity.Job{in(queued(1), "gpu")}, told + `
			requeue 1
			ask-jobs → after
			hold-jobs 1 by admin`},
		"by another partition before": {[]refusedJob{bad(first)}, []state.Record{{At: noon, Hook: "resume", Partition: "big", Code: "bad-comment", Jobs: []string{"1"}}}, []capacity.Job{in(queued(1), "gpu")}, told + `
			requeue 1
			ask-jobs → after
			hold-jobs 1`},
		"it has other partitions": {[]refusedJob{bad(first)}, nil, []capacity.Job{in(queued(1), "gpu,cpu")}, told + `
			requeue 1
			ask-jobs → after
			go-on 1 cpu`},
		"of --no-requeue": {[]refusedJob{bad(fixed(first))}, nil, []capacity.Job{in(queued(1), "gpu")}, told + `
			allow-requeue 1 true
			requeue 1
			allow-requeue 1 false
			ask-jobs → after
			hold-jobs 1`},
		"of srun": {[]refusedJob{bad(nlp(1, "gpu-1", "gpu-2"))}, nil, nil, `
			ask-records → before
			tell resume bad-comment gpu-[1-2]; notify 1
			admin-comment 1
			cancel 1
			ask-jobs → after`},
		"a het job, as one": {[]refusedJob{bad(component(first)), bad(component(batch(nlp(3, "gpu-2"))))}, nil,
			[]capacity.Job{in(component(queued(1)), "gpu"), in(component(queued(3)), "gpu")}, told + `
			tell resume bad-comment gpu-2;
			admin-comment 3
			requeue 1
			ask-jobs → after
			hold-jobs 1`},
		"it stays": {[]refusedJob{bad(first)}, nil, []capacity.Job{in(first, "gpu")}, told + `
			requeue 1 → unknown
			ask-jobs → after
			note`},
		"Slurm does not say": {[]refusedJob{bad(first)}, nil, nil, told + `
			requeue 1
			ask-jobs → unknown`},
	} {
		t.Run(name, func(t *testing.T) {
			session(t, refusing{refused: c.refused}, map[string]Answer{"before": {Records: c.before}, "after": {Jobs: c.after}}, c.script)
		})
	}
}
