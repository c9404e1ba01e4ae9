package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// atFence is what a pass sees of jobs at a time: their block's fence is at 3h, KillWait is 30 s.
func atFence(now string, onEnd capacity.OnEnd, jobs ...capacity.Job) View {
	snap := oneSlot("ec2", []string{"cr-0"}, block("cr-0", "-1h", "3h40m", capacity.StateActive))
	snap.Partitions[0].OnEnd = onEnd
	snap.Partitions[0].MinTime.Duration = 30 * time.Minute
	snap.Partitions[0].Spare.Name = "scavenge"

	return View{
		Snap: snap,
		Cluster: &Cluster{
			Config: slurm.Config{KillWait: 30 * time.Second},
			slots:  map[string][]string{"gpu": {"gpu-1", "gpu-2"}},
		},
		Jobs:       jobs,
		JobRecords: map[string]state.JobRecord{},
		Now:        at(now),
	}
}

// What happens to a job whose fence is at 3h; KillWait is 30 s, so that jobs are requeued at 2h58m30s.
func TestEndings(t *testing.T) {
	job := capacity.Job{
		ID:        7,
		Shown:     "7",
		State:     "RUNNING",
		Nodes:     []string{"gpu-1"},
		Start:     noon,
		End:       at("3h1m"),
		TimeLimit: capacity.Minutes(181),
		Batch:     true,
		Requeue:   true,
	}

	with := func(change func(j *capacity.Job)) capacity.Job { j := job; change(&j); return j }
	ends := with(func(j *capacity.Job) { j.End, j.TimeLimit = at("3h"), capacity.Minutes(180) })
	once := with(func(j *capacity.Job) { j.Requeue = false })
	for name, c := range map[string]struct {
		job   capacity.Job
		onEnd capacity.OnEnd
		mark  state.JobRecord
		now   string
		want  string
	}{
		"the partition stops jobs":    {job, "stop", state.JobRecord{}, "2h59m", ""},
		"the partition requeues jobs": {job, "requeue", state.JobRecord{}, "2h58m30s", "requeue-job"},
		"a spare partition requeues jobs": {
			with(func(j *capacity.Job) { j.Partition = "scavenge" }), "stop", state.JobRecord{}, "2h58m30s", "requeue-job",
		},
		"the lender's own job": {
			with(func(j *capacity.Job) { j.Partition = "gpu" }), "stop", state.JobRecord{}, "2h58m30s", "",
		},
		"a second before":                     {job, "requeue", state.JobRecord{}, "2h58m29s", ""},
		"the fence has passed, it still runs": {job, "requeue", state.JobRecord{}, "3h1m", "requeue-job"},
		"the partition holds jobs":            {job, "hold", state.JobRecord{}, "2h58m30s", "hold-job"},
		"the job asks for a requeue": {
			job,
			"stop",
			state.JobRecord{Wanted: state.Wanted{OnEnd: "requeue"}},
			"2h58m30s",
			"requeue-job",
		},
		"the job asks to be stopped": {job, "requeue", state.JobRecord{Wanted: state.Wanted{OnEnd: "stop"}}, "2h58m30s", ""},
		"requeued four times": {
			job,
			"requeue",
			state.JobRecord{FenceRequeues: 4},
			"2h59m",
			"requeue-job",
		},
		"requeued five times, and its last run was short": {
			with(func(j *capacity.Job) { j.Start = at("2h35m") }),
			"requeue",
			state.JobRecord{FenceRequeues: 5},
			"2h59m",
			"hold-job",
		},
		"requeued five times, and it gets on": {job, "requeue", state.JobRecord{FenceRequeues: 5}, "2h59m", "requeue-job"},
		"ends before by a limit of its own that Slurm could have shortened": {
			ends,
			"requeue",
			state.JobRecord{Wanted: state.Wanted{Fit: true, Minutes: 180}},
			"2h59m",
			"",
		},
		"shortened to the fence": {
			ends,
			"requeue",
			state.JobRecord{Wanted: state.Wanted{Fit: true, Minutes: 600}},
			"2h59m",
			"requeue-job",
		},
		"an administrator holds it as it is": {
			with(func(j *capacity.Job) { j.Held, j.Reason = true, "JobHeldAdmin" }),
			"hold",
			state.JobRecord{FenceRequeues: 5},
			"2h59m",
			"requeue-job",
		},
		"its owner holds it as it is": {
			with(func(j *capacity.Job) { j.Held, j.Reason = true, "JobHeldUser" }),
			"hold",
			state.JobRecord{},
			"2h59m",
			"hold-job",
		},
		"started again before that fence": {
			job,
			"requeue",
			state.JobRecord{FenceRequeues: 5, LastFence: at("3h").Unix()},
			"2h59m",
			"requeue-job",
		},
		"its nodes still boot": {
			with(func(j *capacity.Job) { j.StateFlag = "CONFIGURING" }),
			"requeue",
			state.JobRecord{},
			"2h59m",
			"requeue-job",
		},
		"suspended": {
			with(func(j *capacity.Job) { j.State = "SUSPENDED" }),
			"requeue",
			state.JobRecord{},
			"2h58m30s",
			"resume-job",
		},
		"suspended, and it is to end": {
			with(func(j *capacity.Job) { j.State, j.End = "SUSPENDED", at("1h") }),
			"stop",
			state.JobRecord{},
			"2h58m30s",
			"resume-job",
		},
		"suspended a second before": {
			with(func(j *capacity.Job) { j.State = "SUSPENDED" }),
			"stop",
			state.JobRecord{},
			"2h58m29s",
			"",
		},
		"its owner's limit ends it":    {ends, "requeue", state.JobRecord{}, "2h59m", ""},
		"the same where jobs are held": {ends, "hold", state.JobRecord{}, "2h59m", ""},
		"a limit that sync has lowered": {
			ends,
			"requeue",
			state.JobRecord{Cut: &state.Cut{Minutes: 180, Own: capacity.Minutes(240)}},
			"2h59m",
			"requeue-job",
		},
		"a limit that the filter has set": {
			ends,
			"requeue",
			state.JobRecord{Wanted: state.Wanted{Fit: true}},
			"2h59m",
			"requeue-job",
		},
		"pending": {
			with(func(j *capacity.Job) { j.State = "PENDING" }),
			"requeue",
			state.JobRecord{},
			"2h59m",
			"",
		},
		"on other nodes": {
			with(func(j *capacity.Job) { j.Nodes = []string{"cpu-1"} }),
			"requeue",
			state.JobRecord{},
			"2h59m",
			"",
		},
		"--no-requeue is told": {once, "requeue", state.JobRecord{}, "2h", "tell 60"},
		"not yet":              {once, "requeue", state.JobRecord{}, "1h59m59s", ""},
		"has been told":        {once, "requeue", state.JobRecord{WarnedMinutes: 60}, "2h44m", ""},
		"told again":           {once, "requeue", state.JobRecord{WarnedMinutes: 60}, "2h45m", "tell 15"},
		"and again":            {once, "stop", state.JobRecord{WarnedMinutes: 15}, "2h55m", "tell 5"},
		"only once each":       {once, "stop", state.JobRecord{WarnedMinutes: 5}, "2h59m", ""},
		"late":                 {once, "stop", state.JobRecord{}, "2h56m", "tell 5"},
		"too late":             {once, "stop", state.JobRecord{}, "3h", ""},
		"of srun": {
			with(func(j *capacity.Job) { j.Batch = false }),
			"requeue",
			state.JobRecord{},
			"2h",
			"tell 60",
		},
		"it boots, so nobody would hear": {
			with(func(j *capacity.Job) { j.Requeue, j.StateFlag = false, "CONFIGURING" }),
			"stop",
			state.JobRecord{},
			"2h",
			"",
		},
		"its own limit ends it before": {
			with(func(j *capacity.Job) { j.Requeue, j.End = false, at("2h50m") }),
			"stop",
			state.JobRecord{},
			"2h",
			"",
		},
		"it has no limit": {
			with(func(j *capacity.Job) { j.Requeue, j.TimeLimit, j.End = false, capacity.NoLimit, time.Time{} }),
			"stop",
			state.JobRecord{},
			"2h",
			"tell 60",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			view := atFence(
				c.now,
				c.onEnd,
				with(func(j *capacity.Job) { j.Shown, j.Nodes = "6", []string{"cpu-2"} }),
				c.job,
			)
			view.JobRecords["7"] = c.mark
			for _, a := range decideRequeues(view) {
				if got += strings.TrimPrefix(a.Code, "keep-marks"); a.Code == "tell-job" {
					w := World{Slurm: &oneJob{}, Outcome: newOutcome()}
					if err := a.Do(t.Context(), w); err != nil {
						t.Fatal(err)
					}

					got = fmt.Sprintf("tell %d", w.Outcome.Records["7"].WarnedMinutes)
				}
			}

			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	// Both components of a het job are requeued by one call.
	het := []capacity.Job{
		with(func(j *capacity.Job) { j.Shown = "7+0" }),
		with(func(j *capacity.Job) { j.Shown = "7+1" }),
	}
	if got := decideRequeues(atFence("2h59m", "requeue", het...)); len(got) != 2 || got[1].About.Job != "7+0" {
		t.Errorf("a het job: %+v", got)
	}
}

// oneJob is a Slurm with one job, which has changed since a pass read it, and changes again when it is held. It writes
// down what it is asked to change.
type oneJob struct {
	Slurm
	now   capacity.Job
	then  string // its AdminComment once it is held
	fails map[string]error
	asked []string
}

func (o *oneJob) ask(verb string, args ...any) error {
	o.asked = append(o.asked, fmt.Sprint(append([]any{verb}, args...)...))
	return o.fails[verb]
}

func (o *oneJob) Job(context.Context, string) (capacity.Job, error) { return o.now, o.fails["read"] }

func (o *oneJob) JobsOf(context.Context, []string, func(capacity.Job) bool) (live, ended []capacity.Job, err error) {
	return []capacity.Job{o.now}, nil, o.fails["read"]
}

func (o *oneJob) Nodes(context.Context, ...string) ([]capacity.Node, error) {
	return []capacity.Node{{Name: "gpu-1", State: model.Off}, {Name: "gpu-2", State: model.Idle}}, nil
}

func (o *oneJob) SetTimeLimit(_ context.Context, _ string, minutes int) error {
	return o.ask("limit ", minutes)
}

func (o *oneJob) Edit(_ context.Context, edits map[string]capacity.Edits) map[string]error {
	if err := o.ask("edit ", len(edits)); err != nil {
		return map[string]error{"7": err}
	}
	return nil
}

func (o *oneJob) RequeueJob(context.Context, capacity.Job, bool) (capacity.Job, error) {
	return capacity.Job{Shown: "7", State: "PENDING", AdminComment: o.now.AdminComment}, o.ask("requeue")
}
func (o *oneJob) SetBeginTime(context.Context, string, time.Time) error { return o.ask("begin") }
func (o *oneJob) Release(context.Context, string) error                 { return o.ask("release") }
func (o *oneJob) SetAdminComment(_ context.Context, text string, _ ...string) error {
	return o.ask("comment ", text)
}
func (o *oneJob) Notify(context.Context, string, string) error           { return nil }
func (o *oneJob) PowerDownForce(context.Context, []string, string) error { return o.ask("power down") }

func (o *oneJob) UserHold(context.Context, ...string) error {
	if o.then != "" {
		o.now.AdminComment = o.then
	}
	return o.ask("uhold")
}

// An action reads its subject again first: changes that others made since the pass are kept.
func TestDoLooksAgain(t *testing.T) {
	later := noon.Add(time.Hour)
	job := capacity.Job{Shown: "7", State: "RUNNING", TimeLimit: capacity.NoLimit, Held: true}
	waits, held := job, job
	waits.State, held.State = "PENDING", "PENDING"
	held.AdminComment = capacity.AdminNote{Held: noon, Text: "refused"}.String()
	again := capacity.AdminNote{Held: later, Text: "refused again"}.String()

	const over = "pcs-capacity: over"

	note := capacity.AdminNote{Text: "over"}

	view := View{
		Snap:       &capacity.Snapshot{},
		Now:        noon,
		JobRecords: map[string]state.JobRecord{"7": {Ending: &state.Ending{}}},
	}
	requeues := requeue{
		fencedSlot: fencedSlot{slot: "gpu", fence: later},
		job:        job,
		record:     view.JobRecords["7"],
		rest:       afterRequeue{limit: 90, fence: later, held: true},
		note:       note,
	}.action(view)
	finish := func(j capacity.Job) Action {
		s := view
		s.Jobs = []capacity.Job{j}
		s.JobRecords = map[string]state.JobRecord{
			"7": {Ending: &state.Ending{Release: true}, LastFence: later.Unix()},
		}

		return decideUnfinished(s)[0]
	}
	long := capacity.Job{
		Shown:     "7",
		State:     "RUNNING",
		Nodes:     []string{"gpu-1"},
		Start:     noon,
		End:       at("5h"),
		TimeLimit: capacity.Minutes(300),
	}
	lower := decideLimits(atFence("1h", capacity.StopAtEnd, long))
	limit := limitChange{fencedSlot{fence: later}, job, 90}
	limits := jobAction("lower-limit", "gpu", job, "lower it", isSameRun, limit.apply)
	fit := func() Action {
		return setLimitActions([]editedJob{{job: waits, edits: capacity.Edits{TimeLimit: capacity.Minutes(90)}}})[0]
	}
	end := endHold(waits, true, true, note)

	completes := View{
		Snap: oneSlot(capacity.ProviderEC2, nil),
		Jobs: []capacity.Job{{Shown: "7", State: "COMPLETING", Nodes: []string{"gpu-1", "gpu-2"}}},
		Cluster: &Cluster{
			slots: map[string][]string{"gpu": {"gpu-1", "gpu-2"}},
			Nodes: []capacity.Node{{Name: "gpu-1", State: model.Off}, {Name: "gpu-2", State: model.Off}},
		},
	}
	but := func(j capacity.Job, change func(*capacity.Job)) capacity.Job { change(&j); return j }
	no := errors.New("no")
	for name, c := range map[string]struct {
		action Action
		now    capacity.Job
		then   string
		fails  string
		want   []string
		err    string // "" for none
	}{
		"a requeue": {
			action: requeues,
			now:    job,
			want:   []string{"comment " + over, "requeue", "limit 90", "begin", "release"},
		},
		"a requeue of which nobody is told": {
			action: requeues,
			now:    job,
			fails:  "comment ",
			want:   []string{"comment " + over, "requeue", "limit 90", "begin", "release"},
			err:    "no",
		},
		"a requeue that is refused": {
			action: requeues,
			now:    job,
			fails:  "requeue",
			want:   []string{"comment " + over, "requeue"},
			err:    "no",
		},
		"of a job that a hook has held": {
			action: requeues,
			now:    but(waits, func(j *capacity.Job) { j.AdminComment = again }),
			err:    errMoot.Error(),
		},
		"of a job that a hook is to hold": {
			action: requeues,
			now:    but(job, func(j *capacity.Job) { j.AdminComment = again }),
			err:    errMoot.Error(),
		},
		"of a job that has begun anew": {
			action: requeues,
			now:    but(job, func(j *capacity.Job) { j.Restarts = 1 }),
			err:    errMoot.Error(),
		},
		"of a job that an audit has marked": {
			action: requeues,
			now:    but(job, func(j *capacity.Job) { j.AdminComment = "audit" }),
			want:   []string{"comment " + over, "requeue", "limit 90", "begin", "release"},
		},
		"of a job that cannot be read": {action: requeues, now: job, fails: "read", err: "no"},

		"the rest of a requeue": {
			action: finish(waits),
			now:    waits,
			want:   []string{"begin", "release"},
		},
		"the rest that stays held": {
			action: finish(waits),
			now:    waits,
			fails:  "release",
			want:   []string{"begin", "release"},
			err:    "no",
		},
		"the rest, of a job that a hook holds": {action: finish(held), now: held, want: []string{"begin"}},
		"the rest, and a hook has held it since": {
			action: finish(waits),
			now:    but(waits, func(j *capacity.Job) { j.AdminComment = again }),
			err:    errMoot.Error(),
		},
		"a limit of a job without one": {
			action: limits,
			now: but(job, func(j *capacity.Job) {
				j.TimeLimit, j.End = capacity.Minutes(90), later.Add(70*time.Second)
			}),
			want: []string{"limit 90", "limit 88"},
		},
		"a limit of a job that waits again": {action: limits, now: waits, err: errMoot.Error()},
		"a limit that crosses the fence": {
			action: lower[len(lower)-1],
			now:    long,
			want:   []string{"limit 180"},
		},
		"a limit that somebody has set meanwhile": {
			action: lower[len(lower)-1],
			now:    but(long, func(j *capacity.Job) { j.TimeLimit = capacity.Minutes(240) }),
			err:    errMoot.Error(),
		},
		"a missing limit": {action: fit(), now: waits, want: []string{"edit 1"}},
		"a missing limit that is refused": {
			action: fit(),
			now:    waits,
			fails:  "edit ",
			want:   []string{"edit 1"},
			err:    "no",
		},
		"a missing limit of a job that runs": {action: fit(), now: job, err: errMoot.Error()},
		"a missing limit of a job with a new wish": {
			action: fit(),
			now:    but(waits, func(j *capacity.Job) { j.Comment = "another" }),
			err:    errMoot.Error(),
		},

		"an owner who is told": {
			action: noteAction(waits, note, "tell"),
			now:    waits,
			want:   []string{"comment " + over},
		},
		"an owner whose job a hook has held": {
			action: noteAction(waits, note, "tell"),
			now:    but(waits, func(j *capacity.Job) { j.AdminComment = again }),
			err:    errMoot.Error(),
		},
		"an owner whose job has a constraint": {
			action: noteAction(waits, note, "tell"),
			now:    but(waits, func(j *capacity.Job) { j.Constraint = "big" }),
			err:    errMoot.Error(),
		},
		"an owner whose job is for another place": {
			action: noteAction(waits, note, "tell"),
			now:    but(waits, func(j *capacity.Job) { j.Partition = "big" }),
			err:    errMoot.Error(),
		},
		"an owner whose job may be shorter": {
			action: noteAction(waits, note, "tell"),
			now:    but(waits, func(j *capacity.Job) { j.TimeMin = capacity.Minutes(30) }),
			err:    errMoot.Error(),
		},
		"an owner whose job was released": {
			action: noteAction(waits, note, "tell"),
			now:    but(waits, func(j *capacity.Job) { j.Held = false }),
			err:    errMoot.Error(),
		},
		"a hold that its owner gets": {
			action: end,
			now:    waits,
			want:   []string{"uhold", "comment " + over},
		},
		"a hold that its owner cannot get": {
			action: end,
			now:    waits,
			fails:  "uhold",
			want:   []string{"uhold"},
			err:    "no",
		},
		"a hold that a hook renews meanwhile":      {action: end, now: waits, then: again, want: []string{"uhold"}},
		"a hold of a job that Slurm has forgotten": {action: end, err: errMoot.Error()},
		"a hold of a job that has run meanwhile": {
			action: end,
			now:    but(waits, func(j *capacity.Job) { j.Restarts = 1 }),
			err:    errMoot.Error(),
		},
		"nodes, one of which is up by now": {action: decideNodeReturns(completes)[0], err: errMoot.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			o := &oneJob{now: c.now, then: c.then, fails: map[string]error{c.fails: no}}
			w := World{Slurm: o, MachineTime: func() time.Time { return noon }, Outcome: newOutcome()}
			err := c.action.Do(t.Context(), w)
			if diff := cmp.Diff(c.want, o.asked); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}

			if got := fmt.Sprint(err); got != c.err && (err != nil || c.err != "") {
				t.Errorf("error %s, want %q", got, c.err)
			}
		})
	}
}

func TestNextBoundary(t *testing.T) {
	snap := oneSlot("ec2", []string{"cr-0", "cr-1"},
		block("cr-0", "1h", "24h", capacity.StateScheduled), block("cr-1", "30h", "48h", capacity.StateScheduled))
	snap.KillWait.Duration = 30 * time.Second
	for _, c := range []struct{ now, next, what string }{
		{"0s", "1h", "opens"},
		{"1h", "22h20m", "fence"},
		{"22h20m", "23h5m", "fence"},
		{"23h5m", "23h15m", "fence"},
		{"23h15m", "23h18m30s", "fence"},
		{"23h18m30s", "23h20m", "fence"},
		{"23h20m", "23h30m", "EC2 takes instances back"},
		{"23h30m", "24h", "ends"},
		{"24h", "30h", "opens"},
		{"47h45m", "48h", "ends"},
	} {
		got, ok := NextBoundary(snap, at(c.now))
		if what := snap.SlotStates(at(c.now))[0].Event(at(c.now)).What; !ok || !got.Equal(at(c.next)) ||
			what != c.what {
			t.Errorf("at %s: %s %s, want %s %s", c.now, got, what, at(c.next), c.what)
		}
	}

	if last := snap.SlotStates(at("49h"))[0]; last.Reservation.ID != "" || !last.Last.End.Equal(at("48h")) ||
		last.Event(at("49h")) != (capacity.Event{}) {
		t.Errorf("after the end, people still see when it was: %+v", last)
	}

	if got, ok := NextBoundary(snap, at("48h")); ok {
		t.Errorf("after the end: %s", got)
	}
}

// lendAll makes the ended jobs those of a spare partition.
func lendAll(s *View) {
	s.Snap.Partitions[0].OnEnd = capacity.StopAtEnd
	s.Snap.Partitions[0].Spare = capacity.Spare{Name: "scavenge"}
	for i := range s.Ended {
		s.Ended[i].Partition = "scavenge"
	}
}

// A job is requeued after its end only where its limit was made shorter than it had been, and should have been raised.
func TestCutShort(t *testing.T) {
	ended := capacity.Job{
		Shown: "7", State: "TIMEOUT", Partition: "gpu", Batch: true, Requeue: true,
		TimeMin: capacity.Minutes(31), TimeLimit: capacity.Minutes(31),
	}
	waited := state.JobRecord{Wanted: state.Wanted{Fit: true}, Seen: state.Seen{SeenMinutes: 600}}
	stated := state.JobRecord{Wanted: state.Wanted{Fit: true, Minutes: 600}, Seen: state.Seen{SeenMinutes: 600}}
	chosen := state.JobRecord{Wanted: state.Wanted{Fit: true}, Seen: state.Seen{SeenMinutes: 31}}
	metered := func(s *View) { s.Snap.Walls.QOS = map[string]capacity.Wall{capacity.NormalQOS: {Metered: true}} }

	for name, c := range map[string]struct {
		record state.JobRecord
		change func(*View)
		want   bool
	}{
		"it waited with a longer limit":                  {record: waited, want: true},
		"it stated a longer limit":                       {record: stated, want: true},
		"sync chose this limit, and no longer one":       {record: chosen},
		"no pass has seen it":                            {},
		"its use over time is limited":                   {record: waited, change: metered},
		"so, and it stated a limit":                      {record: stated, change: metered},
		"it failed":                                      {record: stated, change: func(s *View) { s.Ended[0].State = "FAILED" }},
		"it ended in a spare partition by its own limit": {record: chosen, change: lendAll},
		"it ended there by a shorter one":                {record: stated, change: lendAll, want: true},
		"it is stopped":                                  {record: stated, change: func(s *View) { s.Snap.Partitions[0].OnEnd = capacity.StopAtEnd }},
	} {
		s := atFence("1h", capacity.RequeueAtEnd)
		s.Ended = []capacity.Job{ended}
		s.SavedRecords = map[string]state.JobRecord{"7": c.record}
		if c.change != nil {
			c.change(&s)
		}

		if got := len(decideCutShort(s)) > 0; got != c.want {
			t.Errorf("%s: requeued %t, want %t", name, got, c.want)
		}
	}
}
