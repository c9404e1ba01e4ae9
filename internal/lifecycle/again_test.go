package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

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
func (o *oneJob) Begin(context.Context, string, time.Time) error { return o.ask("begin") }
func (o *oneJob) Release(context.Context, string) error          { return o.ask("release") }
func (o *oneJob) SetAdminComment(_ context.Context, _, text string) error {
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

// What an action is about is read again first: what others have changed since the pass read it stays as they have it.
func TestDoLooksAgain(t *testing.T) {
	later := noon.Add(time.Hour)
	job := capacity.Job{Shown: "7", State: "RUNNING", TimeLimit: capacity.NoLimit, Held: true}
	waits, held := job, job
	waits.State, held.State = "PENDING", "PENDING"
	held.AdminComment = capacity.HoldNote(noon, "refused")
	again := capacity.HoldNote(later, "refused again")
	goesOn := capacity.GoOnNote("big", noon, "refused")
	const over = "pcs-capacity: over"
	seen := Seen{Snap: &capacity.Snapshot{}, Now: noon, Marks: map[string]state.Mark{"7": {Ending: true}}}
	rest := remaining{limit: 90, fence: later, held: true}
	f := fenced{slot: "gpu", fence: later}
	requeues := requeue(seen, job, f, rest, false, "over")
	finish := func(j capacity.Job) Action {
		s := seen
		s.Jobs, s.Marks = []capacity.Job{j}, map[string]state.Mark{"7": {Ending: true, Release: true, EndedAt: later.Unix()}}
		return unfinished(s)[0]
	}
	limit := limitChange{job: job, minutes: 90, fence: later}
	limits := onJob("lower-limit", "gpu", job, "lower it", inRun, limit.set)
	fit := func() Action {
		return fitAll([]unfit{{job: waits, edits: capacity.Edits{TimeLimit: capacity.Minutes(90)}}})[0]
	}
	end := endHold(waits, true, true, over)
	completes := Seen{Snap: oneSlot(capacity.ProviderEC2, nil), Jobs: []capacity.Job{{Shown: "7", State: "COMPLETING", Nodes: []string{"gpu-1", "gpu-2"}}},
		Cluster: &Cluster{slots: map[string][]string{"gpu": {"gpu-1", "gpu-2"}}, Nodes: []capacity.Node{{Name: "gpu-1", State: model.Off}, {Name: "gpu-2", State: model.Off}}}}
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
		"a requeue":                         {action: requeues, now: job, want: []string{"comment " + over, "requeue", "limit 90", "begin", "release"}},
		"a requeue of which nobody is told": {action: requeues, now: job, fails: "comment ", want: []string{"comment " + over, "requeue", "limit 90", "begin", "release"}, err: "no"},
		"a requeue that is refused":         {action: requeues, now: job, fails: "requeue", want: []string{"comment " + over, "requeue"}, err: "no"},
		"of a job that a hook has held":     {action: requeues, now: but(waits, func(j *capacity.Job) { j.AdminComment = again }), err: errMoot.Error()},
		"of a job that a hook is to hold":   {action: requeues, now: but(job, func(j *capacity.Job) { j.AdminComment = again }), err: errMoot.Error()},
		"of a job that has begun anew":      {action: requeues, now: but(job, func(j *capacity.Job) { j.Restarts = 1 }), err: errMoot.Error()},
		"of a job that an audit has marked": {action: requeues, now: but(job, func(j *capacity.Job) { j.AdminComment = "audit" }), want: []string{"comment " + over, "requeue", "limit 90", "begin", "release"}},
		"of a job that cannot be read":      {action: requeues, now: job, fails: "read", err: "no"},

		"the rest of a requeue":                    {action: finish(waits), now: waits, want: []string{"begin", "release"}},
		"the rest that stays held":                 {action: finish(waits), now: waits, fails: "release", want: []string{"begin", "release"}, err: "no"},
		"the rest, of a job that a hook holds":     {action: finish(held), now: held, want: []string{"begin"}},
		"the rest, and a hook has held it since":   {action: finish(waits), now: but(waits, func(j *capacity.Job) { j.AdminComment = again }), err: errMoot.Error()},
		"a limit of a job without one":             {action: limits, now: but(job, func(j *capacity.Job) { j.TimeLimit, j.End = capacity.Minutes(90), later.Add(70*time.Second) }), want: []string{"limit 90", "limit 88"}},
		"a limit of a job that waits again":        {action: limits, now: waits, err: errMoot.Error()},
		"a missing limit":                          {action: fit(), now: waits, want: []string{"edit 1"}},
		"a missing limit that is refused":          {action: fit(), now: waits, fails: "edit ", want: []string{"edit 1", "comment " + neverWords + ": no"}, err: "no"},
		"a missing limit of a job that runs":       {action: fit(), now: job, err: errMoot.Error()},
		"a missing limit of a job with a new wish": {action: fit(), now: but(waits, func(j *capacity.Job) { j.Comment = "another" }), err: errMoot.Error()},

		"an owner who is told":                     {action: tellOwner(waits, over, "tell"), now: waits, want: []string{"comment " + over}},
		"an owner whose job a hook has held":       {action: tellOwner(waits, over, "tell"), now: but(waits, func(j *capacity.Job) { j.AdminComment = again }), err: errMoot.Error()},
		"an owner whose job has a constraint":      {action: tellOwner(waits, over, "tell"), now: but(waits, func(j *capacity.Job) { j.Constraint = "big" }), err: errMoot.Error()},
		"an owner whose job is for another place":  {action: tellOwner(waits, over, "tell"), now: but(waits, func(j *capacity.Job) { j.Partition = "big" }), err: errMoot.Error()},
		"an owner whose job may be shorter":        {action: tellOwner(waits, over, "tell"), now: but(waits, func(j *capacity.Job) { j.TimeMin = capacity.Minutes(30) }), err: errMoot.Error()},
		"an owner whose job was released":          {action: tellOwner(waits, over, "tell"), now: but(waits, func(j *capacity.Job) { j.Held = false }), err: errMoot.Error()},
		"a hold that its owner gets":               {action: end, now: waits, want: []string{"uhold", "comment " + over}},
		"a hold that its owner cannot get":         {action: end, now: waits, fails: "uhold", want: []string{"uhold"}, err: "no"},
		"a hold of a job that goes on by now":      {action: end, now: waits, then: goesOn, want: []string{"uhold", "release"}},
		"a hold that a hook renews meanwhile":      {action: end, now: waits, then: again, want: []string{"uhold"}},
		"a hold of a job that Slurm has forgotten": {action: end, err: errMoot.Error()},
		"a hold of a job that has run meanwhile":   {action: end, now: but(waits, func(j *capacity.Job) { j.Restarts = 1 }), err: errMoot.Error()},
		"nodes, one of which is up by now":         {action: completing(completes)[0], err: errMoot.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			o := &oneJob{now: c.now, then: c.then, fails: map[string]error{c.fails: no}}
			err := c.action.Do(t.Context(), World{Slurm: o, MachineTime: func() time.Time { return noon }})
			if diff := cmp.Diff(c.want, o.asked); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got := fmt.Sprint(err); got != c.err && (err != nil || c.err != "") {
				t.Errorf("error %s, want %q", got, c.err)
			}
		})
	}
}
