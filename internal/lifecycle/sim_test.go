package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// simSlurm is a model of slurmctld.
type simSlurm interface {
	Look(ctx context.Context) (*Cluster, error)
	Jobs(ctx context.Context, partitions []string, wanted func(capacity.Job) bool) (live, ended []capacity.Job, err error)
	Job(ctx context.Context, shown string) (capacity.Job, error)

	CreateReservation(ctx context.Context, r capacity.SlurmReservation) error
	UpdateReservation(ctx context.Context, r capacity.SlurmReservation) error
	DeleteReservation(ctx context.Context, name string) error
	SetTimeLimit(ctx context.Context, job string, minutes int) error
	Edit(ctx context.Context, edits map[string]capacity.Edits) map[string]error
	ResumeJob(ctx context.Context, job string) error
	Tasks(ctx context.Context, names []string) ([]capacity.Job, error)
	RequeueJob(ctx context.Context, before capacity.Job, hold bool) (after capacity.Job, err error)
	Begin(ctx context.Context, job string, at time.Time) error
	Notify(ctx context.Context, job, text string) error
	UserHold(ctx context.Context, jobs ...string) error
	Release(ctx context.Context, job string) error
	SetAdminComment(ctx context.Context, job, text string) error
	PowerDownForce(ctx context.Context, nodes []string, reason string) error
	PowerUp(ctx context.Context, nodes []string) error
	PowerDown(ctx context.Context, nodes []string, reason string) error
}

// simAWS is what effects change in AWS.
type simAWS interface {
	Terminate(ctx context.Context, ids []string) error
	Release(ctx context.Context, id string) error
}

// simulated is the simulated world behind the seam.
type simulated struct {
	simSlurm
	aws simAWS
	// setUp and remove are the roll over.
	rolls interface {
		SetUp(ctx context.Context, partition string, group capacity.NodeGroup, block capacity.Reservation, anew bool) ([]string, error)
		Remove(ctx context.Context, partition, slot string) ([]string, error)
	}
	now func() time.Time
}

// at has a model of Slurm and one of AWS in the place of the actual ones.
func (s Sources) at(slurm simSlurm, aws simAWS) Sources {
	s.World = simulated{simSlurm: slurm, aws: aws, now: s.MachineTime}
	return s
}

// Do does what an effect is for. The order of calls within one is the business of the actual world: see TestActual.
func (w simulated) Do(ctx context.Context, e capacity.Effect) Answer {
	var a Answer
	if e, one := e.(onJob); one {
		if now, err := w.Job(ctx, e.read().Shown); err != nil || !e.still(now) {
			return Answer{Err: err, NotTried: err == nil}
		}
	}
	switch e := e.(type) {
	case ChangeGuard:
		a.Err = w.changeGuard(ctx, e)
	case PowerUp:
		a.Err = w.PowerUp(ctx, e.Nodes)
	case PowerDown:
		a.Err = w.PowerDown(ctx, e.Nodes, e.Reason)
	case ReturnNodes:
		if e.StillOff {
			cluster, err := w.Look(ctx)
			if err != nil {
				return Answer{Err: err}
			}
			if e = e.off(cluster.Nodes); len(e.Nodes) == 0 {
				return Answer{NotTried: true}
			}
			a.Messages = []string{e.Sentence(capacity.Did)}
		}
		a.Err = w.PowerDownForce(ctx, e.Nodes, e.Reason)
	case EndInstance:
		a.Err = w.aws.Terminate(ctx, []string{e.Instance})
	case Release:
		return e.answer(w.aws.Release(ctx, e.ID))
	case SetUpSlot:
		return rolledTo(e.Rolling)(w.rolls.SetUp(ctx, e.Partition, e.group, e.Block, e.Setback.Problem != ""))
	case RemoveSlot:
		return rolledTo(e.Rolling)(w.rolls.Remove(ctx, e.Partition, e.Slot))
	case RequeueJob:
		a.also(w.SetAdminComment(ctx, e.Job.Shown, noteOf(e.Hold, w.now(), e.Note)))
		var after capacity.Job
		after, a.Err = w.RequeueJob(ctx, e.Job, e.Hold || e.Held)
		if a.Held = e.Held; a.Err == nil && after.Shown != "" {
			w.finish(ctx, after, e.Requeued, &a)
		}
	case FinishRequeue:
		w.finish(ctx, e.Job, e.Requeued, &a)
	case TellJob:
		if err := w.Notify(ctx, e.Job, e.Text); !e.Deaf {
			a.Err = err
		}
	case ResumeJob:
		a.Err = w.ResumeJob(ctx, e.Job.Shown)
	case SetLimit:
		a.Err = w.SetTimeLimit(ctx, e.Job.Shown, e.Minutes)
	case FitJobs:
		now, _, err := w.Jobs(ctx, nil, nil)
		edits := e.edits(now)
		failed := w.Edit(ctx, edits)
		for _, one := range e {
			job := one.Job.Shown
			each := Answer{Err: failed[job]}
			if _, tried := edits[job]; !tried {
				each = Answer{Err: err, NotTried: err == nil}
			} else if text := one.note(each.Err); text != "" {
				each.also(w.SetAdminComment(ctx, job, text))
			}
			a.Each = append(a.Each, each)
		}
	case TellOwner:
		a.Err = w.SetAdminComment(ctx, e.Job.Shown, e.Text)
	case EndHold:
		if e.Admin {
			a.Err = w.UserHold(ctx, e.Job.Shown)
		}
		if a.Err == nil && e.Over {
			a.Err = w.SetAdminComment(ctx, e.Job.Shown, e.Note)
		}
	default:
		a.Err = fmt.Errorf("the simulated world does not know %T", e)
	}
	return a
}

func (w simulated) changeGuard(ctx context.Context, e ChangeGuard) error {
	if e.R.Start.Before(w.now()) {
		e.R.Start = w.now()
	}
	switch e.Do {
	case "update":
		return w.UpdateReservation(ctx, e.R)
	case "delete":
		return w.DeleteReservation(ctx, e.R.Name)
	}
	if e.Occupied {
		if err := w.DeleteReservation(ctx, e.R.Name); err != nil {
			return err
		}
	}
	if err := w.CreateReservation(ctx, e.R); err != nil || e.Do == "create" {
		return err
	}
	return w.DeleteReservation(ctx, e.Old)
}

func (w simulated) finish(ctx context.Context, j capacity.Job, r Requeued, a *Answer) {
	if r.Limit > 0 {
		a.also(w.SetTimeLimit(ctx, j.Shown, r.Limit))
	}
	if j.Eligible.Before(r.Fence) && r.Fence.After(w.now()) {
		a.also(w.Begin(ctx, j.Shown, r.Fence))
	}
	if a.Held = false; r.Held && !hookHeld(j) {
		err := w.Release(ctx, j.Shown)
		a.also(err)
		a.Held = err != nil
	}
}

// rolledTo is the answer of a roll over.
func rolledTo(r Rolling) func(did []string, err error) Answer {
	return func(did []string, err error) Answer {
		if err != nil {
			return r.answer(did, err.Error())
		}
		return r.answer(did, "")
	}
}
