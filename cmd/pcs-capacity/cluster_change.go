package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/sources"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// clusterChange is a command that changes a cluster's set-up. One with a state_dir runs at a time: it has a
// lock from reading to the end, but not while a person is asked.
type clusterChange struct {
	g      *Globals
	t      *terminal.Terminal
	setup  setup.Setup
	dryRun bool
	// plan reads everything, from the settings as they are now.
	plan func(context.Context, *maybeConfig) (*setup.Plan, error)
	// question is asked; doing, nothing and outcome say what is going on, that all is done, and what came of a plan
	// that something is in the way of.
	question, doing, nothing, outcome string
	applied                           bool // the plan was carried out
}

// run plans, shows, asks and does. What a person has agreed to is planned again under the lock;
// another plan is shown, and asked for, again. The plan is the last one.
func (c *clusterChange) run(ctx context.Context, cfg *maybeConfig) (p *setup.Plan, err error) {
	var agreed *setup.Plan
	for {
		p, err = c.attempt(ctx, cfg, agreed)
		if err != nil || c.applied || c.dryRun || p.Done() {
			return p, err
		}

		if err := c.t.Confirm(c.question); err != nil {
			return p, err
		}

		agreed = p
	}
}

// changeWait bounds a command's wait for another one, which waits for PCS.
const changeWait = 15 * time.Minute

// attempt plans, and carries out what was agreed to; with --yes that is any plan.
func (c *clusterChange) attempt(ctx context.Context, cfg *maybeConfig, agreed *setup.Plan) (p *setup.Plan, err error) {
	does := !c.dryRun && (c.t.Yes || agreed != nil)

	var lockErr error
	if does {
		var unlock func()

		dir := state.Dir(cfg.StateDir)
		unlock, lockErr = dir.Lock(ctx, state.SetupLock, 0)
		if errors.Is(lockErr, state.ErrLocked) {
			c.t.Say("Waiting: %s", lockErr)
			unlock, lockErr = dir.Lock(ctx, state.SetupLock, changeWait)
		}

		switch {
		case lockErr == nil:
			defer unlock()
		case errors.Is(lockErr, state.ErrLocked):
			return nil, lockErr
		}

		cfg, err = readConfigIfAny(c.g)
		if err != nil { // it may have changed until now
			return nil, err
		}
	}

	p, err = c.plan(ctx, cfg)
	if err != nil {
		return nil, err
	}

	same := agreed != nil && reflect.DeepEqual(agreed.Steps(), p.Steps()) &&
		reflect.DeepEqual(agreed.Mismatches(), p.Mismatches())
	if !same {
		if agreed != nil {
			c.t.Say("The plan has changed in the meantime:")
		}

		if err := c.show(p); err != nil || c.dryRun || p.Done() || !c.t.Yes {
			return p, err
		}
	}

	if !does {
		return p, nil
	}

	if lockErr != nil { // what is wrong with state_dir is in the plan, where it can be told
		return p, lockErr
	}

	c.applied = true
	progress := c.t.Start(c.doing)
	c.setup.Progress = func(what, name, status string) { progress.Now(fmt.Sprintf("%s %s: %s", what, name, status)) }
	err = c.setup.Apply(ctx, p)

	progress.Done()

	if err != nil {
		return p, fmt.Errorf("%w; run the same command again to continue", err)
	}

	return p, nil
}

// stepRow is one line of the plan.
type stepRow struct {
	Action  setup.Verb `json:"action"`
	What    string     `json:"what"`
	Name    string     `json:"name"`
	Details string     `json:"details"`
}

// show shows a plan as the result of the command: what is in the way, each with its fix, or the steps.
func (c *clusterChange) show(p *setup.Plan) error {
	wrong := p.Mismatches()
	if len(wrong) > 0 { // it cannot be carried out
		p.Actions = []setup.Step{}
		p.Problems = wrong
	}

	rows := []stepRow{}
	for _, s := range p.Actions {
		var details []string
		for _, d := range s.Details {
			details = append(details, d.Key+": "+d.Value)
		}

		row := stepRow{s.Verb, s.What, s.Name, strings.Join(details, "; ")}
		if c.t.Format == terminal.Table {
			// Beside a long name there is no room for the details.
			row.Name = strings.Join(append([]string{s.Name}, details...), "\n  ")
		}

		rows = append(rows, row)
	}
	// With nothing planned there is nothing to show but what is in the way.
	if len(rows) > 0 || c.t.Format != terminal.Table {
		if err := c.t.Show(p, rows, "DO: Action; WHAT: What; NAME, AND DETAILS: Name wrap"); err != nil {
			return err
		}
	}

	for _, w := range p.Texts(capacity.Note) {
		c.t.Say("warning: %s", w)
	}

	for _, m := range wrong {
		c.t.Say("pcs-capacity: %s\n  fix: %s", m.Sentence, m.Fix)
	}

	switch n := len(wrong); {
	case n == 1:
		c.t.Say("1 problem found; %s.", c.outcome)
		return errReported
	case n > 1:
		c.t.Say("%d problems found; %s.", n, c.outcome)
		return errReported
	case c.dryRun:
		for _, answer := range p.Texts(capacity.Good) {
			c.t.Say("%s.", answer)
		}

		c.t.Say("Dry run: nothing was changed.")
	case p.Done():
		c.t.Say("%s; nothing to do.", c.nothing)
	}

	return nil
}

// pass makes a pass with the settings as they are now.
func pass(
	ctx context.Context,
	g *Globals,
	aws *ec2.Client,
	pcsClient *pcs.Client,
	rollOver bool,
) (lifecycle.Report, error, error) {
	cfg, err := readConfig(g)
	if err != nil {
		return lifecycle.Report{}, nil, fmt.Errorf("reading the new settings: %w", err)
	}

	from := sources.New(cfg, aws, pcsClient)
	if !rollOver {
		from.RollOver = nil
	}

	_, report, failed := lifecycle.Pass(ctx, from)

	return report, failed, nil
}

// firstPass makes a pass with the new settings. What it could not do is said; complete
// is false then. What is expected is not said; it may be nil.
func firstPass(ctx context.Context, g *Globals, t *terminal.Terminal, aws *ec2.Client, pcsClient *pcs.Client,
	expected func(capacity.Problem) bool,
) (complete bool, err error) {
	warnIncomplete(t, aws) // a pass has its own

	report, passErr, err := pass(ctx, g, aws, pcsClient, true)
	if err != nil {
		return false, err
	}

	for _, d := range report.Done {
		t.Say("%s", d)
	}

	var failed []string
	if passErr != nil {
		t.Say("Slurm or AWS did not accept every change. Run `pcs-capacity sync` on a host with Slurm:")

		failed = strings.Split(passErr.Error(), "\n")
	}

	for _, line := range failed {
		t.Say("  %s", line)
	}

	for _, p := range report.All() {
		if (expected == nil || !expected(p)) &&
			!slices.ContainsFunc(failed, func(line string) bool { return strings.HasPrefix(p.Sentence, line) }) {
			t.Say("%s", p)
		}
	}

	return passErr == nil, nil
}

// serviceUnit is there where a package is installed.
const serviceUnit = "/usr/lib/systemd/system/pcs-capacity-sync.service"

// watchCommand keeps `sync --watch` running: by the package's service where that has these settings.
func watchCommand(g *Globals, cfg *config.Config) string {
	if _, err := os.Stat(serviceUnit); err == nil && cfg.Path == config.SystemPath {
		return "systemctl enable --now pcs-capacity-sync"
	}

	run := "pcs-capacity"
	for _, flag := range []struct{ name, value string }{
		{"--config", cfg.Path},
		{"--region", g.Region},
		{"--profile", g.Profile},
	} {
		if flag.value != "" && flag.value != config.SystemPath {
			run += " " + flag.name + " " + flag.value
		}
	}

	return run + " sync --watch"
}
