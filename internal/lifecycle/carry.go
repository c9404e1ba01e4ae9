package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Answer is the result of carrying out an effect.
type Answer struct {
	// Err is why the effect failed.
	Err error
	// NotTried: an earlier effect on which this one depends has failed. It is not reported.
	NotTried bool
	// Problem is the error of writing one of our files; the effect itself was carried out.
	Problem error
	// Also lists failures of parts that the effect can do without.
	Also []error
	// Job is the job that the effect submitted.
	Job string
	// Messages replace the effect's own sentence: the steps that setup began, or the nodes that were left. Nil for the
	// sentence.
	Messages []string
	// Setback is why setup cannot go on, in AWS's words: a problem until it is over, but not a failure of the pass,
	// which has done everything that jobs need now.
	Setback string
	// Held: the job is still held until its requeue is finished.
	Held bool
}

func (a *Answer) also(err error) {
	if err != nil {
		a.Also = append(a.Also, err)
	}
}

// Result is an effect with its answer, from which the pass learns.
type Result struct {
	Effect capacity.Effect
	Answer
}

// executor carries out the effects of one pass: the one place where a pass changes anything.
type executor struct {
	Sources
	// failed are the slots whose closing guards may be missing: nothing is removed from them.
	failed map[string]bool
}

// Do carries out one effect. By the effect's type it chooses deadlines, retries and the order of calls that belong
// together.
func (x *executor) Do(ctx context.Context, e capacity.Effect) Answer {
	switch e := e.(type) {
	case KeepOwner:
		if x.KeepOwner == nil {
			return Answer{}
		}
		return Answer{Err: x.KeepOwner()}
	case ChangeGuard:
		if e.Do == "delete" && e.kind() != "health" && x.failed[e.Slot] {
			return Answer{NotTried: true}
		}
		err := x.changeGuard(ctx, e)
		x.failed[e.Slot] = x.failed[e.Slot] || err != nil
		return Answer{Err: err}
	case DrainFailed:
		err := x.Slurm.Drain(ctx, []string{e.Node}, "pcs-capacity: "+e.why())
		if err != nil {
			return Answer{Err: err}
		}
		return Answer{Problem: x.State.KeepHealthCase(e.HealthCase)}
	case CheckNode:
		e.Output = x.State.HealthOutputPath(e.Node)
		if abs, err := filepath.Abs(e.Output); err == nil {
			e.Output = abs
		}
		forgot := x.State.ForgetHealthSaid(e.Node)
		job, err := x.Slurm.SubmitCheck(ctx, e.NodeCheck)
		return Answer{Err: err, Job: job, Problem: forgot}
	case CancelCheck:
		return Answer{Err: x.Slurm.Cancel(ctx, e.Job)}
	case Relaunch:
		if err := x.Slurm.Resume(ctx, []string{e.Node}); err != nil {
			return Answer{Err: err}
		}
		return Answer{Err: x.Slurm.PowerUp(ctx, []string{e.Node})}
	case KeepHealth:
		return Answer{Err: x.State.KeepHealth(e.Health)}
	case PowerUp:
		return Answer{Err: x.Slurm.PowerUp(ctx, e.Nodes)}
	case ReturnNodes:
		return x.returnNodes(ctx, e)
	case EndInstance:
		return Answer{Err: x.EC2.Terminate(ctx, []string{e.Instance})}
	case DrainMisplaced:
		if err := x.Slurm.Drain(ctx, []string{e.Node}, "pcs-capacity: "+e.Differs); err != nil {
			return Answer{Err: err}
		}
		return Answer{Problem: x.State.DropMisplaced(e.Node)}
	case KeepNotMisplaced:
		return Answer{Err: x.State.DropMisplaced(e.Node)}
	case Release:
		if e.Err = x.EC2.Release(ctx, e.ID); e.Err != nil {
			return Answer{Err: e.Err, Messages: []string{e.Sentence(capacity.Did)}}
		}
		return Answer{}
	case KeepReleased:
		return Answer{Err: x.State.Released(e.At, e.Names...)}
	case SetUpSlot:
		did, err := x.RollOver.SetUp(ctx, e.Partition, e.group, e.Block, e.Setback.Problem != "")
		return x.rolled(e.Rolling, did, err)
	case RemoveSlot:
		did, err := x.RollOver.Remove(ctx, e.Partition, e.Slot)
		return x.rolled(e.Rolling, did, err)
	case KeepSample:
		return Answer{Err: x.State.AppendSample(e.Sample, e.Last, e.Poll)}
	case KeepSnapshot:
		if err := e.Dir.WriteSnapshot(e.Snap); err != nil {
			return Answer{Err: fmt.Errorf("%s: %w", e.Setting, err)}
		}
		return Answer{}
	case KeepFacts:
		if err := x.State.WriteFacts(e.Facts); err != nil {
			return Answer{Err: fmt.Errorf("state_dir: %w", err)}
		}
		return Answer{}
	case KeepSetbacks:
		return Answer{Err: x.State.KeepSetbacks(e.Setbacks)}
	case PowerDown:
		return Answer{Err: x.Slurm.PowerDown(ctx, e.Nodes, e.Reason)}
	}
	return x.doJob(ctx, e)
}

func (x *executor) returnNodes(ctx context.Context, e ReturnNodes) Answer {
	answer := Answer{}
	if e.StillOff {
		again, err := x.Slurm.Look(ctx)
		if err != nil {
			return Answer{Err: err}
		}
		if e.Nodes = again.those(e.Nodes, func(n capacity.Node) bool { return n.PoweredDown() }); len(e.Nodes) == 0 {
			return Answer{NotTried: true}
		}
		answer.Messages = []string{e.Sentence(capacity.Did)}
	}
	answer.Err = x.Slurm.PowerDownForce(ctx, e.Nodes, e.Reason)
	return answer
}

// rolled is setup's answer: the steps that it began, and the setback.
func (x *executor) rolled(r Rolling, did []string, err error) Answer {
	answer := Answer{Messages: []string{}}
	for _, sentence := range did {
		answer.Messages = append(answer.Messages, r.doing()+": "+sentence)
	}
	if err != nil {
		answer.Setback, _ = x.EC2.Explain(err)
	}
	return answer
}

func (x *executor) changeGuard(ctx context.Context, e ChangeGuard) error {
	r := e.R
	if now := x.MachineTime(); r.Start.Before(now) { // Slurm refuses a start in the past
		r.Start = now
	}
	switch e.Do {
	case "create":
		return x.Slurm.CreateReservation(ctx, r)
	case "update":
		return x.Slurm.UpdateReservation(ctx, r)
	case "delete":
		return x.Slurm.DeleteReservation(ctx, r.Name)
	}
	// A stop between the two calls would leave neither guard until the next pass.
	ctx = context.WithoutCancel(ctx)
	if e.Occupied {
		if err := x.Slurm.DeleteReservation(ctx, r.Name); err != nil {
			return err
		}
	}
	if err := x.Slurm.CreateReservation(ctx, r); err != nil {
		return err
	}
	return x.Slurm.DeleteReservation(ctx, e.Old)
}

// decide runs a decision and carries out its effects.
func (p *pass) decide(ctx context.Context, decision func(Seen) ([]capacity.Effect, []capacity.Problem)) []Result {
	effects, problems := decision(p.seen)
	p.seen.Snap.Add(problems...)
	return p.carryOut(ctx, effects)
}

// carryOut carries out effects in order, all of them even if one fails, and notes each in the report. In a dry run it
// changes nothing and every effect succeeds.
func (p *pass) carryOut(ctx context.Context, effects []capacity.Effect) []Result {
	x := executor{p.Sources, map[string]bool{}}
	before := len(p.results)
	for len(effects) > 0 {
		answers := []Answer{{}}
		switch {
		case p.DryRun:
		case !p.mayChange():
			answers[0].NotTried = true
		default:
			answers = x.first(ctx, effects)
		}
		for i, a := range answers {
			p.results = append(p.results, Result{effects[i], a})
			p.note(Result{effects[i], a})
		}
		effects = effects[len(answers):]
	}
	return p.results[before:]
}

// mayChange reports whether this pass still has its lock. It says once that it has not.
func (p *pass) mayChange() bool {
	if p.overtaken || p.Still == nil {
		return !p.overtaken
	}
	err := p.Still()
	if err == nil {
		return true
	}
	p.overtaken = true
	p.say(capacity.PassOvertaken, capacity.Subject{}, "", "%v; this pass changes nothing more", err)
	p.fail(err)
	return false
}

// first carries out the first effect, together with the following ones that share its call.
func (x *executor) first(ctx context.Context, effects []capacity.Effect) []Answer {
	n := 0
	for n < len(effects) && effects[n].Code() == (FitJob{}).Code() {
		n++
	}
	if n == 0 {
		return []Answer{x.Do(ctx, effects[0])}
	}
	return x.fitJobs(ctx, effects[:n])
}

// note writes a result into the report. An effect without a sentence is noted only if it failed. A failed write to
// state_dir is a failure of the pass.
func (p *pass) note(r Result) {
	if r.Problem != nil {
		p.problem(capacity.StateFile, r.Problem)
	}
	tense := capacity.Did
	if p.DryRun {
		tense = capacity.Will
	}
	about, messages := r.Effect.About(), r.Messages
	if sentence := r.Effect.Sentence(tense); messages == nil && sentence != "" {
		messages = []string{sentence}
	}
	switch {
	case r.NotTried:
	case messages != nil:
		for _, m := range messages {
			p.did(Done{Do: r.Effect.Code(), Slot: about.Slot, Job: cmp.Or(about.Job, r.Job), Message: m}, r.Err)
		}
	case r.Err != nil && strings.HasPrefix(r.Effect.Code(), "keep-"):
		p.problem(capacity.StateFile, r.Err)
		p.fail(r.Err)
	case r.Err != nil:
		p.say(capacity.ChangeFailed, about, "", "%v", r.Err)
	}
	for _, err := range r.Also {
		p.say(capacity.ChangeFailed, about, "", "%v", err)
	}
}
