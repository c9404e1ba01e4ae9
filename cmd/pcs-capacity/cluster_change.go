package main

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// clusterChange is a command that changes a cluster's set-up. One with a state_dir runs at a time: it has a
// lock from reading to the end, but not while a person is asked.
type clusterChange[P any] struct {
	question string
	// plan reads everything, from the settings as they are now.
	plan func(ctx context.Context, cfg *maybeConfig) (P, error)
	// show shows it, and reports whether there is anything to do.
	show func(P) (todo bool, err error)
	// parts are what is compared of two plans.
	parts func(P) (setup.Steps, []capacity.Problem)
	do    func(context.Context, P) error
}

// changeWait is how long a command waits for another one, which waits for PCS.
const changeWait = 15 * time.Minute

func lockChanges(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig) (unlock func(), err error) {
	dir := state.Dir(cfg.StateDir)
	if unlock, err = dir.Lock(ctx, state.SetupLock, 0); errors.Is(err, state.ErrLocked) {
		t.Say("Waiting: %s", err)
		unlock, err = dir.Lock(ctx, state.SetupLock, changeWait)
	}
	return unlock, err
}

// run plans, shows, asks and does. What a person has agreed to is planned again under the lock;
// another plan is shown, and asked for, again.
func (c clusterChange[P]) run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig) error {
	if t.Yes {
		unlock, lockErr := lockChanges(ctx, t, cfg)
		switch {
		case lockErr == nil:
			defer unlock()
		case errors.Is(lockErr, state.ErrLocked):
			return lockErr
		}
		cfg, err := readConfigIfAny(g) // it may have changed until now
		if err != nil {
			return err
		}
		p, err := c.plan(ctx, cfg)
		if err != nil {
			return err
		}
		todo, err := c.show(p)
		if err != nil || !todo {
			return err
		}
		if lockErr != nil { // what is wrong with state_dir is in the plan, where it can be told
			return lockErr
		}
		return c.do(ctx, p)
	}
	p, err := c.plan(ctx, cfg)
	if err != nil {
		return err
	}
	for {
		todo, err := c.show(p)
		if err != nil || !todo {
			return err
		}
		if err := t.Confirm(c.question); err != nil {
			return err
		}
		same, err := c.locked(ctx, g, t, cfg, &p)
		if err != nil || same {
			return err
		}
		t.Say(changedMeanwhile)
	}
}

// locked does what was agreed to, unless it is another plan by now.
func (c clusterChange[P]) locked(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig,
	agreed *P) (same bool, err error) {
	unlock, err := lockChanges(ctx, t, cfg)
	if err != nil {
		return false, err
	}
	defer unlock()
	if cfg, err = readConfigIfAny(g); err != nil {
		return false, err
	}
	now, err := c.plan(ctx, cfg)
	if err != nil {
		return false, err
	}
	effects, mismatches := c.parts(*agreed)
	nowEffects, nowMismatches := c.parts(now)
	*agreed = now
	if !reflect.DeepEqual(effects, nowEffects) || !reflect.DeepEqual(mismatches, nowMismatches) {
		return false, nil
	}
	return true, c.do(ctx, now)
}

const changedMeanwhile = "Something has changed meanwhile. What is to be done now:"
