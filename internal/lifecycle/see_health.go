package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// seeHealth reads the records of the nodes' health.
func (p *pass) seeHealth(ctx context.Context) {
	if p.Health.Path == "" {
		return
	}
	p.seen.Checks = Checks{
		HealthCommand: p.Health,
		Files:         map[string]*state.Health{},
		Exits:         map[string]Exit{},
		Said:          map[string]string{},
		Time:          p.Settings.Timing.BootAllowance.Duration + p.Health.JobTime + 2*p.Poll,
	}
	s := p.seen
	var open []string // jobs of unchecked nodes
	any := false
	for _, v := range s.checked() {
		h, err := p.State.Health(v.slot.Name)
		if err != nil {
			p.problem(capacity.StateFile, err)
		}
		p.seen.Checks.Files[v.slot.Name] = h
		if h = s.known(v); h == nil {
			continue
		}
		for _, name := range s.launched(v) {
			if n := h.Nodes[name]; n != nil && n.State == state.HealthOpen {
				any = true
				open = append(open, n.Job)
				p.seen.Checks.Said[name] = p.State.HealthSaid(name)
			}
		}
	}
	if !any {
		return
	}
	live, ended, err := p.World.Jobs(ctx, p.seen.Cluster.Ours(p.seen.Snap), isCheck)
	if err != nil {
		p.problem(capacity.HealthUnanswered, fmt.Errorf("asking what the health command found: %w", err))
		return
	}
	by := func(jobs []capacity.Job) map[string]capacity.Job {
		all := map[string]capacity.Job{}
		for _, j := range jobs {
			all[j.Shown] = j
		}
		return all
	}
	p.seen.Checks.Live, p.seen.Checks.Ended = by(live), by(ended)
	for _, job := range open {
		if p.seen.Checks.Ended[job].State == "FAILED" {
			status, signal, err := p.World.ExitStatus(ctx, job)
			p.seen.Checks.Exits[job] = Exit{status, signal, err}
		}
	}
}

// judgeHealth drains the nodes on which the health command failed, and saves the records.
func (p *pass) judgeHealth(ctx context.Context) {
	verdicts, effects, problems := health(p.seen)
	p.seen.Snap.Add(problems...)
	p.learnHealth(ctx, p.seen.Checks.Files, verdicts, effects)
	p.decide(ctx, healthProblems)
}

// checkNodes runs the health command.
func (p *pass) checkNodes(ctx context.Context) {
	verdicts, effects := healthChecks(p.seen)
	p.learnHealth(ctx, p.seen.Health, verdicts, effects)
}

func (p *pass) learnHealth(ctx context.Context, before, verdicts map[string]*state.Health, effects []capacity.Effect) {
	p.seen.learnHealth(verdicts, p.carryOut(ctx, effects))
	p.seen.Health = verdicts
	for _, slot := range slices.Sorted(maps.Keys(verdicts)) {
		if !reflect.DeepEqual(before[slot], verdicts[slot]) {
			p.carryOut(ctx, []capacity.Effect{KeepHealth{verdicts[slot]}})
		}
	}
}
