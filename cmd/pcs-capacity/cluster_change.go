package main

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// clusterChange is a command that changes a cluster's set-up. One runs at a time: from reading
// to the end it has a lock of state_dir, but not while a person is asked. On PCS it keeps other
// hosts out besides, from when there is something to do.
type clusterChange[P any] struct {
	question string
	aws      *ec2.Client
	// of is the PCS cluster; without an id there is none.
	of func(P) pcs.Cluster
	// plan reads everything, from the settings as they are now.
	plan func(ctx context.Context, cfg *maybeConfig) (P, error)
	// show shows it, and reports whether there is anything to do.
	show func(P) (todo bool, err error)
	// underWay reports whether the plan has seen a change under way; nil for a plan that does not look.
	underWay func(P) bool
	// parts are what is compared of two plans.
	parts func(P) (setup.Effects, []capacity.Problem)
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
		switch {
		case err != nil:
			return err
		case lockErr != nil && todo: // what is wrong with state_dir is in the plan, where it can be told
			return lockErr
		case !todo:
			if lockErr == nil {
				c.endDead(ctx, t, cfg, p)
			}
			return nil
		}
		end, err := c.begin(ctx, t, cfg, p)
		if err != nil {
			return err
		}
		defer end()
		if c.of(p).ID != "" { // else nobody could change anything since
			same, err := c.again(ctx, cfg, &p)
			if err != nil {
				return err
			}
			if !same {
				t.Say(changedMeanwhile)
				if todo, err := c.show(p); err != nil || !todo {
					return err
				}
			}
		}
		return c.do(ctx, p)
	}
	p, err := c.plan(ctx, cfg)
	if err != nil {
		return err
	}
	for {
		todo, err := c.show(p)
		if err == nil && !todo {
			if unlock, err := state.Dir(cfg.StateDir).Lock(ctx, state.SetupLock, 0); err == nil {
				defer unlock()
				c.endDead(ctx, t, cfg, p)
			}
		}
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
	end, err := c.begin(ctx, t, cfg, *agreed)
	if err != nil {
		return false, err
	}
	defer end()
	if same, err = c.again(ctx, cfg, agreed); err != nil || !same {
		return false, err
	}
	return true, c.do(ctx, *agreed)
}

const changedMeanwhile = "Something has changed meanwhile. What is to be done now:"

// again plans again, and reports whether that is the same plan.
func (c clusterChange[P]) again(ctx context.Context, cfg *maybeConfig, p *P) (same bool, err error) {
	now, err := c.plan(ctx, cfg)
	if err != nil {
		return false, err
	}
	effects, mismatches := c.parts(*p)
	nowEffects, nowMismatches := c.parts(now)
	*p = now
	return reflect.DeepEqual(effects, nowEffects) && reflect.DeepEqual(mismatches, nowMismatches), nil
}

// begin keeps other hosts out, until end.
func (c clusterChange[P]) begin(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig,
	p P) (end func(), err error) {
	cluster := c.of(p)
	if cluster.ID == "" {
		return func() {}, nil
	}
	endChange, err := setup.BeginChange(ctx, c.aws, setup.Change(cfg.StateDir, cfg.Path, cluster))
	if err != nil {
		return nil, err
	}
	return func() {
		if err := endChange(); err != nil {
			t.Say("warning: %s; other hosts are kept out until this command is run again here", err)
		}
	}, nil
}

// endDead lets other hosts in again after a run that was killed at its end.
func (c clusterChange[P]) endDead(ctx context.Context, t *terminal.Terminal, cfg *maybeConfig, p P) {
	cluster := c.of(p)
	if cluster.ID == "" || c.underWay != nil && !c.underWay(p) {
		return
	}
	if err := c.aws.EndDeadChange(ctx, setup.Change(cfg.StateDir, cfg.Path, cluster)); err != nil {
		t.Say("warning: %s", err)
	}
}
