package lifecycle

import (
	"context"
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Answer is what came of an effect.
type Answer struct {
	// Err is why it was not carried out.
	Err error
}

// Result is an effect with its answer, from which the pass learns.
type Result struct {
	Effect capacity.Effect
	Answer
}

// executor carries out effects: the one place where a pass changes anything.
type executor struct{ Sources }

// Do carries out one effect. Deadlines, retries and the order of calls that must not be
// separated are decided here, by the type of the effect.
func (x executor) Do(ctx context.Context, e capacity.Effect) Answer {
	switch e := e.(type) {
	case PowerUp:
		return Answer{Err: x.Slurm.PowerUp(ctx, e.Nodes)}
	case PowerDown:
		return Answer{Err: x.Slurm.PowerDown(ctx, e.Nodes, e.Reason)}
	}
	return Answer{Err: fmt.Errorf("pcs-capacity: nobody carries out %T", e)}
}

// carryOut carries out effects in their order, all of them even if one fails, and notes each in
// the report.
func (p *pass) carryOut(ctx context.Context, effects []capacity.Effect) []Result {
	x := executor{p.Sources}
	results := make([]Result, len(effects))
	for i, e := range effects {
		results[i] = Result{e, x.Do(ctx, e)}
		p.note(results[i])
	}
	return results
}

// note writes a result into the report. An effect without a sentence is noted only if it failed.
func (p *pass) note(r Result) {
	sentence := r.Effect.Sentence(capacity.Did)
	if sentence != "" {
		about := r.Effect.About()
		p.did(Done{Do: r.Effect.Code(), Slot: about.Slot, Job: about.Job, Message: sentence}, r.Err)
	} else if r.Err != nil {
		p.say(capacity.ChangeFailed, r.Effect.About(), "", "%v", r.Err)
	}
}
