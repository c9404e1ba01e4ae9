package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/hookinstall"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// HooksInstallCmd writes scripts and settings.
type HooksInstallCmd struct {
	Hook string `arg:"" optional:"" enum:"cli_filter,job_submit,settings," default:"" help:"cli_filter: on every host where users submit. job_submit: on the host of a slurmctld that you run yourself. settings: those of slurm.conf, or of the PCS cluster. Default: all that the cluster needs."`
	forceFlag
	DryRun bool `help:"Show what would be done, and change nothing."`
}

func (HooksInstallCmd) Help() string {
	return `Without a HOOK, for self-managed Slurm: job_submit.lua, then the settings of slurm.conf
in a file that it includes, with nodes and partitions, then a restart of slurmctld. For AWS PCS:
cli_filter.lua of every Slurm version that is installed here, then the setting of the cluster that
switches it on. Settings are shown, and asked about, before they are written.

slurm.conf is the one that SLURM_CONF names, else that of each /etc/aws/pcs/scheduler/slurm-*, else
that of /etc/slurm. Slurm runs the programs of ../libexec/pcs-capacity, else those beside pcs-capacity.

Install cli_filter on every login and compute node before you switch it on: with the setting on
and the file missing, Slurm refuses every submission on that host. Nodes of setup --install-hooks
write it as they boot.
A script that pcs-capacity did not write is never replaced. Ours is written beside it, and the line
that loads it is shown. Yours then runs first.`
}

// Run plans, shows, asks and writes.
func (c *HooksInstallCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *config.Config) error {
	dirs, err := slurmFolders()
	if err != nil {
		return err
	}

	w := &hookWorld{cfg: cfg, dirs: dirs}
	plan := hookinstall.Plan{World: w}

	hook := hookinstall.JobSubmit
	if cfg.Cluster != "" {
		hook = hookinstall.CLIFilter
	}

	if c.Hook != "" {
		hook = c.Hook
	}

	var paths []string
	if c.Hook != settingsHook {
		paths = scriptPaths(ctx, cfg, hook, dirs)
	}

	if cfg.Cluster != "" || hook == hookinstall.CLIFilter {
		if running, err := slurm.New(cfg.Cluster).Config(ctx); err == nil {
			if err := hookinstall.FindPlugin(running, hookinstall.CLIFilter); err != nil {
				return err
			}
		}
	}

	for _, path := range paths {
		s, err := script(cfg, hook, path)
		if err == nil {
			err = plan.Install(s)
		}

		if err != nil {
			return err
		}
	}

	if c.Hook == "" || c.Hook == settingsHook {
		if err := c.settings(ctx, g, w, &plan); err != nil {
			return err
		}
	}

	question := "Write this?"
	if cfg.Cluster != "" {
		question = "Is cli_filter.lua on every login and compute node, and are these settings right?"
	}

	return applyPlan(ctx, t, cfg, plan, true, c.Hook == "" || c.Hook == settingsHook, question, c.DryRun)
}

func (c *HooksInstallCmd) settings(ctx context.Context, g *Globals, w *hookWorld, plan *hookinstall.Plan) error {
	if w.cfg.Cluster != "" {
		return switchHook(ctx, g, w, plan, true, c.Force)
	}

	in, err := include(ctx, g, w.cfg)
	if err != nil {
		return err
	}

	if err := checkBlocks(in.site, w.cfg.Domain(), in.version); err != nil {
		return err
	}

	plan.ByHand = append(plan.ByHand, in.notes...)

	return plan.InstallSettings(ctx, planSettings(ctx, w.cfg, in.site, true, c.Force), in.text, in.gres)
}

// checkBlocks refuses to restart slurmctld with blocks that keep it from starting.
func checkBlocks(site hookinstall.SlurmConf, left capacity.Settings, version slurm.Version) error {
	if small := site.CheckBlocks(left, version); len(small) > 0 {
		return errors.New(strings.Join(small, "\n"))
	}

	return nil
}

// slurmVersion returns the version of Slurm's commands on this host; zero if there are none.
func slurmVersion(ctx context.Context, cfg *config.Config) slurm.Version {
	version, _ := slurm.New(cfg.Cluster).Version(ctx)
	return version
}

// HooksRemoveCmd takes back what install wrote.
type HooksRemoveCmd struct {
	Hook string `arg:"" optional:"" enum:"cli_filter,job_submit,settings," default:"" help:"cli_filter, job_submit or settings. Default: all."`
	forceFlag
	DryRun bool `help:"Show what would be done, and change nothing."`
}

func (HooksRemoveCmd) Help() string {
	return `Settings go first, then scripts, because Slurm refuses every submission while a setting is on and its
script is gone. A script stays while slurmctld, slurm.conf or a script of yours still names it. Files
that pcs-capacity did not write stay. On PCS, once the setting is off, run it with cli_filter on all
other nodes.`
}

// Run plans, shows, asks and removes.
func (c *HooksRemoveCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *config.Config) error {
	dirs, err := slurmFolders()
	if err != nil {
		return err
	}

	w := &hookWorld{cfg: cfg, dirs: dirs}
	plan := hookinstall.Plan{World: w}

	all := c.Hook == "" || c.Hook == settingsHook
	job := hookinstall.Script{
		Hook: hookinstall.JobSubmit,
		Path: filepath.Join(dirs[0], hookinstall.JobSubmit+".lua"),
	}
	switch {
	case all && cfg.Cluster != "":
		if err := switchHook(ctx, g, w, &plan, false, c.Force); err != nil {
			return err
		}
	case all:
		site, err := readSite()
		if err != nil {
			return err
		}

		version := slurmVersion(ctx, cfg)
		if err := checkBlocks(site, capacity.Settings{}, version); err != nil {
			return err
		}

		if err := plan.RemoveSettings(ctx, planSettings(ctx, cfg, site, false, c.Force), job); err != nil {
			return err
		}

		stale, _ := site.CheckTopology(capacity.Settings{}, version)
		plan.ByHand = append(plan.ByHand, stale...)
	}

	if c.Hook == hookinstall.CLIFilter || c.Hook == "" && cfg.Cluster != "" {
		for _, path := range scriptPaths(ctx, cfg, hookinstall.CLIFilter, dirs) {
			if err := plan.Remove(ctx, hookinstall.Script{Hook: hookinstall.CLIFilter, Path: path}); err != nil {
				return err
			}
		}
	}

	if c.Hook == hookinstall.JobSubmit {
		if err := plan.Remove(ctx, job); err != nil {
			return err
		}
	}

	return applyPlan(ctx, t, cfg, plan, false, true, "Remove this?", c.DryRun)
}

// hookWorld is the World of hooks install and remove.
type hookWorld struct {
	hookinstall.Systemd
	pcs.Provisioner // zero until AWS has said what the settings of the PCS cluster are

	cfg  *config.Config
	dirs []string // of slurm.conf
}

// CheckUnused says why the script of a hook cannot go now: slurmctld runs it, or slurm.conf says so.
func (w *hookWorld) CheckUnused(ctx context.Context, hook string, waits bool) error {
	check := func() error { return w.checkUnused(ctx, hook) }
	if waits {
		return retryUntilRestarted(ctx, check)
	}

	return check()
}

// checkUnused asks once. A slurmctld that is down starts with what slurm.conf says, and on PCS with what AWS has said.
func (w *hookWorld) checkUnused(ctx context.Context, hook string) error {
	running, unknown := slurm.New(w.cfg.Cluster).Config(ctx)
	read := w.PCS != nil
	for _, dir := range w.dirs {
		site, err := hookinstall.ReadSlurmConf(filepath.Join(dir, "slurm.conf"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}

		if err := site.CheckHookOff(hook, running); err != nil {
			return err
		}

		read = read || err == nil && errors.Is(unknown, slurm.ErrUnreachable)
	}

	if unknown != nil && !read {
		return fmt.Errorf(
			"it is unknown whether Slurm runs %s.lua, without which it would refuse every submission: %w",
			hook,
			unknown,
		)
	}

	return nil
}

// switchHook plans the setting of the PCS cluster that runs cli_filter.lua, or its end.
func switchHook(ctx context.Context, g *Globals, w *hookWorld, plan *hookinstall.Plan, on, force bool) error {
	aws, err := newEC2(ctx, g, &maybeConfig{w.cfg, true})
	if err != nil {
		return err
	}

	w.Provisioner = pcs.Provisioner{PCS: newPCS(aws), EC2: aws}

	cluster, err := w.PCS.Inventory(ctx, w.cfg.Cluster)
	if err != nil {
		return err
	}

	before := len(plan.Changes)
	err = plan.SetPlugin(cluster, on)
	if err != nil || len(plan.Changes) == before || force {
		return err
	}

	return checkNoBlockOpen(ctx, w.cfg, aws)
}

// checkNoBlockOpen refuses to touch the cluster while a block is open: paid hours are not for changes of slurmctld.
func checkNoBlockOpen(ctx context.Context, cfg *config.Config, aws *ec2.Client) error {
	all, err := aws.FindReservations(ctx, ec2.ReservationQuery{})
	if err != nil {
		return err
	}

	own := ownedOf(&maybeConfig{cfg, true}, aws, all, idleNodes{})
	for _, r := range all {
		if _, ours := own.byID[r.ID]; ours && r.Kind.IsBlock() && r.IsLiveAt(aws.Now()) && !r.Start.After(aws.Now()) {
			return fmt.Errorf(
				"block %s is open until %s, and PCS changes the settings of a cluster by restarting its slurmctld; "+
					"run this again when no block is open, or with --force",
				r.ID,
				capacity.FormatUTC(r.End),
			)
		}
	}

	return nil
}

// applyPlan shows the plan, asks where it changes settings, and does it.
func applyPlan(
	ctx context.Context,
	t *terminal.Terminal,
	cfg *config.Config,
	plan hookinstall.Plan,
	installs, ask bool,
	question string,
	dryRun bool,
) error {
	if ask || dryRun {
		for _, change := range plan.Changes {
			t.Say("%s", change.Text)

			if change.Diff != "" {
				// Lines of files, which are as long as they are.
				fmt.Fprintf(t.Err, "  %s\n", strings.ReplaceAll(strings.TrimSuffix(change.Diff, "\n"), "\n", "\n  "))
			}
		}
	}

	switch {
	case len(plan.Changes) == 0 && installs:
		t.Say("Everything is set up already; nothing to do.")
	case len(plan.Changes) == 0:
		t.Say("Nothing is installed; nothing to do.")
	case dryRun:
		t.Say("Dry run: nothing was changed.")
	default:
		if plan.Restarts() {
			question = "Write this, and restart slurmctld? Jobs keep running, except on nodes that are removed."
		}

		if ask {
			if err := t.Confirm(question); err != nil {
				return err
			}
		}

		done := map[string]string{"write": "Wrote", "remove": "Removed", "set": "Changed", "restart": "Restarted"}

		report := func(c hookinstall.Change) { t.Say("%s%s.", done[c.Code], strings.TrimPrefix(c.Text, c.Code)) }
		if err := plan.Apply(ctx, report); err != nil {
			return err
		}
	}

	for _, sentence := range plan.ByHand {
		t.Say("By hand: %s", sentence)
	}

	if !plan.Restarts() || dryRun {
		return nil
	}

	err := retryUntilRestarted(ctx, func() error {
		_, ours, err := readRunning(ctx, cfg)
		if err == nil && installs && !ours { // without ours, slurm.conf may have the same by hand
			err = errors.New("it does not run with the settings that were written")
		}

		return err
	})
	if err != nil {
		return fmt.Errorf("slurmctld after its restart: %w; see its log", err)
	}

	return nil
}

// restartTime bounds the wait for slurmctld after its restart.
const restartTime = 30 * time.Second

// retryUntilRestarted tries for the time of a restart of slurmctld until it succeeds.
func retryUntilRestarted(ctx context.Context, try func() error) error {
	for end := time.Now().Add(restartTime); ; {
		err := try()
		if err == nil || time.Now().After(end) {
			return err
		}

		select {
		case <-ctx.Done():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// planSettings returns those of slurm.conf, beside what slurmctld runs with: it may not have been
// restarted since they were written, when a run of ours was cut off.
func planSettings(ctx context.Context, cfg *config.Config, site hookinstall.SlurmConf, installed, force bool) hookinstall.Settings {
	s := hookinstall.Settings{SlurmConf: site, Force: force}

	running, ours, err := readRunning(ctx, cfg)
	if err == nil {
		s.Slurm = slurm.New(cfg.Cluster)

		s.Running = running
		s.Restarts = sameFile(running.ConfPath, site.Path)
		s.Pending = s.Restarts && ours != installed
		if !installed { // whatever partitions it has, a script that it runs has to stay
			s.Pending = s.Restarts && slices.Contains(running.JobSubmitPlugins, "lua")
		}
	}

	return s
}

// readRunning returns what slurmctld runs with, and whether that is our settings.
func readRunning(ctx context.Context, cfg *config.Config) (running slurm.Config, ours bool, err error) {
	client := slurm.New(cfg.Cluster)

	running, err = client.Config(ctx)
	if err != nil {
		return running, false, err
	}

	launches := !cfg.Domain().IsGuest()
	if launches && filepath.Base(running.ResumeProgram) != "pcs-capacity-resume" ||
		!slices.Contains(running.JobSubmitPlugins, "lua") {
		return running, false, nil
	}

	partitions, err := client.Partitions(ctx)
	if err != nil {
		return running, false, err
	}

	for _, p := range cfg.Partitions {
		for _, name := range p.SlurmNames() {
			is := func(there capacity.SlurmPartition) bool { return there.Name == name }
			if p.Provider.Launches() && !slices.ContainsFunc(partitions, is) {
				return running, false, nil
			}
		}
	}

	return running, true, nil
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(one, other)
}
