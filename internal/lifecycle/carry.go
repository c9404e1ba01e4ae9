package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Answer is the result of carrying out an effect.
type Answer struct {
	// Err is why the effect failed.
	Err error
	// NotTried: an earlier effect on which this one depends has failed, or the effect no longer fits: what it is about
	// has changed since it was read. It is not reported; the next pass reads anew.
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
	// Each are the answers to the parts of FitJobs.
	Each []Answer
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

// decide runs a decision and carries out its effects.
func (p *pass) decide(ctx context.Context, decision func(Seen) ([]capacity.Effect, []capacity.Problem)) []Result {
	effects, problems := decision(p.seen)
	p.seen.Snap.Add(problems...)
	return p.carryOut(ctx, effects)
}

// carryOut carries out effects in order, all of them even if one fails, and notes each in the report. In a dry run it
// changes nothing and every effect succeeds.
func (p *pass) carryOut(ctx context.Context, effects []capacity.Effect) []Result {
	open := map[string]bool{} // slots whose closing guards may be missing: nothing is removed from them
	before := len(p.results)
	for len(effects) > 0 {
		answers := []Answer{{}}
		guard, isGuard := effects[0].(ChangeGuard)
		switch jobs := leading(effects); {
		case p.DryRun:
		case isGuard && guard.Do == "delete" && open[guard.Slot]:
			answers[0].NotTried = true
		case len(jobs) > 0:
			answers = p.World.Do(ctx, jobs).Each
		default:
			answers[0] = p.do(ctx, effects[0])
		}
		if isGuard {
			open[guard.Slot] = open[guard.Slot] || answers[0].Err != nil
		}
		for i, a := range answers {
			p.results = append(p.results, Result{effects[i], a})
			p.note(Result{effects[i], a})
		}
		effects = effects[len(answers):]
	}
	return p.results[before:]
}

// leading are the first effects, as far as they share a call.
func leading(effects []capacity.Effect) (jobs FitJobs) {
	for _, e := range effects {
		fit, is := e.(FitJob)
		if !is {
			break
		}
		jobs = append(jobs, fit)
	}
	return jobs
}

// do carries out an effect, with what it does in our own files.
func (p *pass) do(ctx context.Context, e capacity.Effect) Answer {
	switch e := e.(type) {
	case KeepNotMisplaced:
		return Answer{Err: p.State.DropMisplaced(e.Node)}
	case KeepReleased:
		return Answer{Err: p.State.Released(e.At, e.Names...)}
	case KeepSample:
		return Answer{Err: p.State.AppendSample(e.Sample, e.Last, e.Poll)}
	case KeepSnapshot:
		if err := e.Dir.WriteSnapshot(e.Snap); err != nil {
			return Answer{Err: fmt.Errorf("%s: %w", e.Setting, err)}
		}
		return Answer{}
	case KeepFacts:
		if err := p.State.WriteFacts(e.Facts); err != nil {
			return Answer{Err: fmt.Errorf("state_dir: %w", err)}
		}
		return Answer{}
	case KeepSetbacks:
		return Answer{Err: p.State.KeepSetbacks(e.Setbacks)}
	case KeepMarks:
		return Answer{Err: p.State.KeepMarks(e.Marks, e.Before)}
	}
	return p.World.Do(ctx, e)
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
