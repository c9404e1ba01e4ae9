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
	once := []state.Record{
		{
			At:       noon.Add(-time.Minute),
			Hook:     "resume",
			Code:     "InsufficientInstanceCapacity",
			Jobs:     []string{"1", "2"},
			Restarts: []int{1, 1},
		},
	}
	full := answers["no room"]

	later := &refusal{
		Verdict: capacity.Verdict{
			Problem:   capacity.Problem{Code: capacity.NotOpen, Sentence: "It opens later."},
			NotBefore: noon.Add(10 * time.Minute),
		},
	}
	both := []capacity.Job{batch(nlp(1, "gpu-1")), nlp(2, "gpu-2")} // of sbatch and of srun

	const down = `
			record resume InsufficientInstanceCapacity gpu-[1-2]
			notify 2
			power down by force gpu-[1-2]`
	for name, c := range map[string]struct {
		why     error
		jobs    []capacity.Job
		records []state.Record
		delay   time.Duration // of Slurm, for what it requeues
		script  string
	}{
		"the second time": {full, both, once, 0, down + `
			jobs
			begin 1 44s
			admin comment 2
			admin comment 1`},
		"the first time": {full, both, nil, 0, down + `
			jobs
			begin 1 17s
			admin comment 2
			admin comment 1`},
		"AWS has not decided": {
			answers["throttled"],
			both,
			once,
			0,
			strings.Replace(down, "InsufficientInstanceCapacity", "RequestLimitExceeded", 1) + `
			jobs
			begin 1 17s
			admin comment 2
			admin comment 1`,
		},
		"there was no time": {
			errNoTime,
			both,
			once,
			0,
			strings.Replace(down, "InsufficientInstanceCapacity", "interrupted", 1) + `
			jobs
			begin 1 17s
			admin comment 2
			admin comment 1`,
		},
		"Slurm starts it later anyway, all jobs at once": {full, both, once, 2 * time.Minute, down + `
			jobs
			begin 1 2m17s
			admin comment 2
			admin comment 1`},
		"of no use before": {
			later,
			both,
			nil,
			0,
			strings.Replace(down, "InsufficientInstanceCapacity", "not-open", 1) + `
			jobs
			begin 1 10m14s
			admin comment 2
			admin comment 1`,
		},
		"Slurm keeps the nodes": {
			full, both, nil, 0, down + strings.Repeat(" → unknown\npower down by force gpu-[1-2]", 4) + ` → unknown
			admin comment 1,2`,
		},
		"Slurm does not tell its jobs": {full, both, nil, 0, down + `
			jobs → unknown
			admin comment 1,2`},
		"nobody waits": {full, nil, nil, 0, strings.Replace(down, "notify 2", "", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				w.remember(t, c.records...)
				w.RequeueDelay = c.delay
				w.queue(append(c.jobs, nlp(5, "gpu-7"))...)

				err := begun(w, newFacts(nil)).takeDown(failedGroup{
					group{nodes: []string{"gpu-1", "gpu-2"}, jobs: c.jobs},
					c.why,
					map[string]launched{"gpu-2": {instance: capacity.Instance{ID: "i-2"}, reservation: one}},
				})
				if (err != nil) != (name == "Slurm keeps the nodes") {
					t.Errorf("taken down: %v", err)
				}

				if len(c.jobs) > 0 &&
					strings.HasSuffix(w.said("1"), " UTC, or once AWS answers") != isUndecided(c.why) {
					t.Errorf("the owner reads %q", w.said("1"))
				}

				if all := w.kept(t); len(all) == 0 {
					t.Error("nothing is recorded")
				} else if r := all[len(all)-1]; r.Reservation != one || strings.Join(r.Instances, " ") != "i-2" ||
					r.Partition != "gpu" || !isUndecided(c.why) && len(r.Restarts) != len(c.jobs) ||
					isUndecided(c.why) && r.Restarts != nil {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// What the owner reads: EC2's code and words, and when Slurm tries again (R12). The limit that the owner stated may be
// nowhere else yet, as Slurm has shortened it.
func TestR12_WordsOfAFailure(t *testing.T) {
	story(t, `
		record resume UnauthorizedOperation gpu-[1-2]
		power down by force gpu-[1-2]
		jobs
		begin 1 38s
		admin comment 1`, func(t *testing.T, w *fake) {
		w.remember(t, state.Record{At: noon, Hook: "resume", Code: "failed", Jobs: []string{"1"}, Restarts: []int{1}})

		g := pair()
		g.jobs[0] = batch(g.jobs[0])
		g.jobs[0].AdminComment = capacity.AdminNote{Kind: capacity.NoteStated, Stated: capacity.Minutes(90)}.String()
		w.queue(g.jobs...)

		if err := begun(w, newFacts(nil)).takeDown(failedGroup{group: g, err: answers["refused"]}); err != nil {
			t.Error(err)
		}

		if r := w.kept(t)[1]; r.Message != "You may not" || r.EC2Code != "UnauthorizedOperation" {
			t.Errorf("%+v", r)
		}

		if got := w.said("gpu-1"); got != "UnauthorizedOperation: You may not" {
			t.Error(got)
		}

		want := "pcs-capacity: nodes gpu-[1-2] were not launched: UnauthorizedOperation: You may not; tried 2 times; " +
			"its own limit is 01:30:00; Slurm tries again at 2000-01-01 00:00 UTC"
		if got := w.said("1"); got != want {
			t.Error(got)
		}
	})
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

	unknown := nlp(1, "gpu-1")
	unknown.Comment = "capacity_reservation_id=cr-0ffffffffffffffff"
	for name, c := range map[string]struct {
		jobs  []capacity.Job
		slots int
		soon  bool // both reservations end
		want  []string
	}{
		"nobody": {jobs: []capacity.Job{nlp(1, "gpu-1"), nlp(2, "gpu-1")}},
		"for good": {
			jobs: []capacity.Job{stranger(1, "gpu-1"), nlp(2, "gpu-1")},
			want: []string{for1},
		},
		"both": {
			jobs: []capacity.Job{stranger(1, "gpu-1"), stranger(2, "gpu-2")},
			want: []string{for1, for2},
		},
		"once for two nodes": {jobs: []capacity.Job{stranger(1, "gpu-1", "gpu-2")}, want: []string{for1}},
		"once for two slots": {
			slots: 2,
			jobs:  []capacity.Job{stranger(1, "gpu-a-1", "gpu-b-1")},
			want:  []string{for1},
		},
		"in the second slot": {
			slots: 2,
			jobs:  []capacity.Job{job(1, "", "gpu-a-1", "gpu-a-2", "gpu-b-1"), stranger(2, "gpu-b-1")},
			want:  []string{for2},
		},
		"beside a node of others":  {jobs: []capacity.Job{stranger(1, "cpu-1", "gpu-1")}, want: []string{for1}},
		"beside a node that is up": {jobs: []capacity.Job{stranger(1, "gpu-8", "gpu-1")}, want: []string{for1}},
		"on nodes that are up":     {jobs: []capacity.Job{stranger(1, "gpu-8")}},
		"on nodes of others":       {jobs: []capacity.Job{stranger(1, "cpu-1")}},
		"that waits": {
			jobs: []capacity.Job{waits(stranger(1, "gpu-1")), stranger(2, "gpu-1")},
			want: []string{for2},
		},
		"a het job": {
			jobs: []capacity.Job{component(stranger(1, "gpu-1"), 1), component(nlp(2, "gpu-2"), 1), nlp(3, "gpu-2")},
			want: []string{"1+2 gpu account-not-allowed"},
		},
		"a het job, by its second": {
			jobs: []capacity.Job{component(nlp(1, "gpu-1"), 1), component(stranger(2, "gpu-2"), 1)},
			want: []string{"1+2 gpu account-not-allowed"},
		},
		"a het job that is not yet whole": {
			jobs: []capacity.Job{
				component(stranger(1, "gpu-1"), 1),
				component(waits(nlp(2)), 1),
				component(nlp(4, "gpu-3"), 1),
			},
			want: []string{"1+2+4 gpu account-not-allowed"},
		},
		"another het job": {
			jobs: []capacity.Job{component(stranger(1, "gpu-1"), 1), component(nlp(5, "gpu-2"), 5)},
			want: []string{for1},
		},
		"until settings have the id": {jobs: []capacity.Job{unknown, stranger(2, "gpu-2")}, want: []string{for2}},
		"until the next block": {
			soon: true,
			jobs: []capacity.Job{nlp(1, "gpu-1"), stranger(2, "gpu-2")},
			want: []string{for2},
		},
	} {
		snap := twoReservations()
		f := newFacts(snap)
		if c.slots == 2 {
			snap.Partitions[0].Groups[0].Slots = []capacity.Slot{
				{Name: "gpu-a", ReservationIDs: []string{one}},
				{Name: "gpu-b", ReservationIDs: []string{two}},
			}
			f.settings.Partitions[0].Groups[0].Slots = 2
		}

		if c.soon {
			snap.Partitions[0].MinTime.Duration = 2 * time.Hour
			for i := range snap.Reservations {
				snap.Reservations[i].End = noon.Add(time.Hour)
			}
		}

		nodes := []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-a-1", "gpu-a-2", "gpu-b-1"}

		var got []string

		for _, r := range f.refusedJobs(c.jobs, nodes) {
			p, _ := problemOf(r.err)
			got = append(got, fmt.Sprintf("%s %s %s", strings.Join(jobNames(r.jobs), "+"), r.partition, p.Code))
		}

		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Of a group with a refused job nothing is launched: the other jobs go back into the queue with its nodes.
func TestWithoutRefused(t *testing.T) {
	never := refuse(capacity.BadComment, "what is that?")

	groups := []group{
		{nodes: []string{"gpu-1"}, jobs: []capacity.Job{nlp(1), nlp(2)}},
		{nodes: []string{"gpu-2"}, jobs: []capacity.Job{nlp(3)}},
		{nodes: []string{"gpu-3"}},
		{nodes: []string{"gpu-4"}, jobs: []capacity.Job{nlp(4)}},
	}
	without, failed := splitRefused(
		groups,
		[]refusedJob{{jobs: []capacity.Job{nlp(2)}, err: never}, {jobs: []capacity.Job{nlp(4), nlp(9)}, err: never}},
	)

	var got []string
	for _, o := range failed {
		got = append(got, fmt.Sprintf("%v %v %s", o.nodes, jobNames(o.jobs), o.err.Error()))
	}

	want := []string{
		"[gpu-1] [1] shared-with-refused: job 2, which shares these nodes, is refused",
		"[gpu-4] [] bad-comment: job 4, for which they were powered up, is refused",
	}
	if len(without) != 2 || without[0].jobs[0].ID != 3 || !slices.Equal(got, want) {
		t.Errorf("%+v, failed %q", without, got)
	}
}

// Refused jobs are told, requeued and held; what Slurm cannot requeue is cancelled; a het job is one.
func TestHoldJobStories(t *testing.T) {
	component := func(j capacity.Job) capacity.Job { j.HetJobID = 1; return j }

	fixed := func(j capacity.Job) capacity.Job { j.Requeue = false; return j }
	first, srun := batch(nlp(1, "gpu-1", "gpu-2")), nlp(1, "gpu-1", "gpu-2")

	const told = `
			record resume bad-comment gpu-[1-2]
			admin comment 1`
	for name, c := range map[string]struct {
		jobs   []capacity.Job
		script string
	}{
		"of sbatch":       {[]capacity.Job{first}, told + "\nrequeue and hold 1\nuser hold 1"},
		"of --no-requeue": {[]capacity.Job{fixed(first)}, told + "\ncancel 1"},
		"of srun": {
			[]capacity.Job{srun},
			strings.Replace(told, "admin comment 1", "notify 1\nadmin comment 1", 1) + "\ncancel 1",
		},
		"Slurm keeps it": {[]capacity.Job{first}, told + "\nrequeue and hold 1 → unknown"},
		"a het job, by its kind": {[]capacity.Job{component(first), component(nlp(3, "gpu-2"))}, `
			record resume bad-comment gpu-[1-2]
			notify 3
			admin comment 1,3
			requeue and hold 1
			user hold 1`},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				w.queue(c.jobs...)
				begun(w, newFacts(nil)).holdJobs([]refusedJob{
					{"1", c.jobs, "gpu", refuse(capacity.BadComment, "what is that?")},
				})

				says, _ := capacity.ParseAdminNote(w.said("1"))

				want := "partition gpu refuses this job: bad-comment: what is that?"
				held := strings.Contains(c.script, "requeue and hold 1")
				if held {
					want += "; change it before you release it"
				}

				if says.Text != want || held != !says.Held.Before(noon) {
					t.Errorf("since %s: %s", says.Held, says)
				}
			})
		})
	}
}

// The reason on a node keeps what to do where it has to be cut.
func TestReasonKeepsTheFix(t *testing.T) {
	got := nodeReason(capacity.Problem{Code: "X", Sentence: strings.Repeat("long ", 100), Fix: "call AWS"})
	if !strings.HasSuffix(got, "; call AWS") || len(got) > maxReason {
		t.Errorf("%d: %s", len(got), got)
	}

	if got := nodeReason(capacity.Problem{Code: "X", Sentence: "No."}); got != "X: No." {
		t.Error(got)
	}
}
