package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// clusterChange is a command that changes a cluster's set-up. One with a state_dir runs at a time: it has a
// lock from reading to the end, but not while a person is asked.
type clusterChange struct {
	question string
	// plan reads everything, from the settings as they are now.
	plan func(ctx context.Context, cfg *maybeConfig) (*setup.Plan, error)
	// show shows it, and reports whether there is anything to do.
	show func(*setup.Plan) (todo bool, err error)
	do   func(context.Context, *setup.Plan) error
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
func (c clusterChange) run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig) error {
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
func (c clusterChange) locked(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig,
	agreed **setup.Plan) (same bool, err error) {
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
	before := *agreed
	*agreed = now
	if !reflect.DeepEqual(before.Steps(), now.Steps()) || !reflect.DeepEqual(before.Mismatches, now.Mismatches) {
		return false, nil
	}
	return true, c.do(ctx, now)
}

const changedMeanwhile = "Something has changed meanwhile. What is to be done now:"

const (
	// serviceUnit is there where a package is installed.
	serviceUnit = "/usr/lib/systemd/system/pcs-capacity-sync.service"
	// watchEnvironment lasts as long as the unit of systemd-run: until the next boot.
	watchEnvironment = "/run/pcs-capacity-watch.env"
)

// watchCommand keeps `sync --watch` running, in lines of shell: by the package's service, or,
// where there is none or it has other settings, until the next boot.
func watchCommand(g *Globals, cfg *config.Config) []string {
	_, err := os.Stat(serviceUnit)
	path, absErr := filepath.Abs(cfg.Path)
	if absErr != nil {
		path = cfg.Path
	}
	return watching(err == nil, path, g, os.Environ())
}

// watching is watchCommand by what it depends on. A service has nothing of the shell's environment,
// and every user can read the variables that systemd-run gives it, but not those of a file.
func watching(packaged bool, path string, g *Globals, environment []string) []string {
	if packaged && path == config.SystemPath {
		return []string{"systemctl enable --now pcs-capacity-sync"}
	}
	var lines []string
	run := "systemd-run --unit=pcs-capacity-watch -p Restart=always"
	if slices.ContainsFunc(environment,
		func(v string) bool { return strings.HasPrefix(v, "SLURM_CONF=") || strings.HasPrefix(v, "AWS_") }) {
		lines = append(lines, "(umask 077; env | grep -E '^(SLURM_CONF=|AWS_)' >"+watchEnvironment+")")
		run += " -p EnvironmentFile=" + watchEnvironment
	}
	run += " pcs-capacity"
	for _, flag := range []struct{ name, value string }{{"--config", path}, {"--region", g.Region}, {"--profile", g.Profile}} {
		if flag.value != "" && flag.value != config.SystemPath {
			run += " " + flag.name + " " + flag.value
		}
	}
	return append(lines, run+" sync --watch")
}
