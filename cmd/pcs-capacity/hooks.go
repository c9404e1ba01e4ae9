package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/hooks"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/internal/wiring"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// HooksCmd is about what Slurm has to have to run our hooks.
type HooksCmd struct {
	Print   HooksPrintCmd   `cmd:"" help:"Print a hook's script, the settings, or the user data of nodes."`
	Install HooksInstallCmd `cmd:"" help:"Write scripts and settings where Slurm looks for them."`
	Remove  HooksRemoveCmd  `cmd:"" help:"Take back what install wrote."`
	Status  HooksStatusCmd  `cmd:"" help:"Show which scripts and settings are there."`
}

// settingsHook stands for the settings that name the hooks: on self-managed Slurm those in
// a file that slurm.conf includes, on PCS custom settings of the cluster.
const settingsHook = "settings"

// programFlags say where the programs are.
type programFlags struct {
	Filter string `help:"Path of pcs-capacity-filter; the other programs are beside it. Default: in ../libexec/pcs-capacity, else beside this program." type:"path" placeholder:"FILE" predictor:"file"`
	Dir    string `help:"Folder of slurm.conf. Default: that of SLURM_CONF, else every /etc/aws/pcs/scheduler/slurm-*, else /etc/slurm." type:"existingdir" xor:"where" predictor:"file"`
	Prolog bool   `help:"With the settings: Prolog and TaskProlog too. The programs have to be on every compute node."`
}

// script is what the hook's file in the folder is to be with these settings.
func (f programFlags) script(cfg *config.Config, hook, dir string) (wiring.Script, error) {
	filter, err := findFilter(f.Filter)
	if err != nil {
		return wiring.Script{}, err
	}
	text, folder := hooks.CLIFilter, cfg.StateDir
	if hook == wiring.JobSubmit { // runs inside slurmctld, which must not wait for a file server
		text, folder = hooks.JobSubmit, cfg.LocalDir
	}
	from, err := filepath.Abs(folder)
	if err != nil {
		return wiring.Script{}, err
	}
	return wiring.Script{Hook: hook, Path: filepath.Join(dir, hook+".lua"), Text: text(state.Dir(from).PlanPath(), from, filter)}, nil
}

// filterPlaces are where the program can be that the scripts call, the likeliest first.
func filterPlaces(given string) []string {
	if given != "" {
		return []string{given}
	}
	self, err := os.Executable()
	if err != nil {
		self = "/usr/bin/pcs-capacity"
	}
	dir := filepath.Dir(self)
	return []string{filepath.Join(dir, "../libexec/pcs-capacity/pcs-capacity-filter"), filepath.Join(dir, "pcs-capacity-filter")}
}

// findFilter finds the program that the scripts call; it must be there and run.
func findFilter(given string) (string, error) {
	places := filterPlaces(given)
	for _, path := range places {
		if runs(path) {
			return path, nil
		}
	}
	return "", usage("no program at %s: the script would have nothing to call; name it with --filter", strings.Join(places, " or "))
}

// runs reports whether a file can be run.
func runs(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func (f programFlags) folders() ([]string, error) {
	dirs := wiring.Folders(f.Dir)
	if len(dirs) == 0 {
		return nil, usage("no folder with slurm.conf was found; name it with --dir")
	}
	return dirs, nil
}

// include is the settings for slurm.conf, and what it says itself.
func (f programFlags) include(ctx context.Context, g *Globals, cfg *config.Config) (conf string, site wiring.Conf, text string, notes []string, err error) {
	fail := func(err error) (string, wiring.Conf, string, []string, error) { return "", site, "", nil, err }
	dirs, err := f.folders()
	if err != nil {
		return fail(err)
	}
	conf = filepath.Join(dirs[0], "slurm.conf")
	if site, err = wiring.ReadConf(conf); err != nil {
		return fail(err)
	}
	filter, err := findFilter(f.Filter)
	if err != nil {
		return fail(err)
	}
	for _, program := range []string{"pcs-capacity-resume", "pcs-capacity-suspend"} {
		if path := filepath.Join(filepath.Dir(filter), program); !runs(path) {
			return fail(fmt.Errorf("no program at %s, which Slurm would have to run; install the package, or name the filter beside it with --filter", path))
		}
	}
	version, err := (&slurm.Client{}).Version(ctx)
	if err != nil {
		return fail(err)
	}
	settings := cfg.Domain()
	types, err := instanceTypes(ctx, g, cfg, settings)
	if err != nil {
		return fail(err)
	}
	text, notes, err = wiring.Include{Settings: settings, Site: site, Version: version, Programs: filepath.Dir(filter), Types: types, Prolog: f.Prolog}.Text()
	return conf, site, text, notes, err
}

// instanceTypes are those of the node groups that we launch.
func instanceTypes(ctx context.Context, g *Globals, cfg *config.Config, settings capacity.Settings) (map[string]ec2.InstanceType, error) {
	var names []string
	for _, p := range settings.Partitions {
		for _, group := range p.Groups {
			if p.Provider == capacity.ProviderEC2 {
				names = append(names, group.InstanceType)
			}
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	aws, err := newEC2(ctx, g, &maybeConfig{cfg, true})
	if err != nil {
		return nil, err
	}
	types, err := aws.InstanceTypes(ctx, names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if types[name].VCPUs == 0 {
			return nil, fmt.Errorf("EC2 has no instance type %s in %s; check instance_type and the region", name, aws.Region())
		}
	}
	return types, nil
}

// HooksPrintCmd prints a script.
type HooksPrintCmd struct {
	Hook string `arg:"" enum:"cli_filter,job_submit,settings,user-data,install" help:"cli_filter, job_submit or settings; or user-data, the script that starts slurmd on nodes of provider ec2; or install, the script that installs the package on a node."`
	From string `help:"With install: the package, as setup --install-from takes it. Default: the script's first argument." placeholder:"URL"`
	programFlags
}

// Run prints the script with this site's paths, or the settings.
func (c *HooksPrintCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *config.Config) error {
	var text string
	if c.From != "" {
		if why := setup.CheckInstallFrom(c.From); why != "" || c.Hook != "install" {
			return usage("--from %s: it goes with install and names a package: %s", c.From, cmp.Or(why, "this prints "+c.Hook))
		}
	}
	switch {
	case c.Hook == "user-data":
		text = setup.NodeScript("")
	case c.Hook == "install":
		text = setup.InstallScript(c.From)
	case c.Hook != settingsHook:
		s, err := c.script(cfg, c.Hook, "")
		if err != nil {
			return err
		}
		text = s.Text
	case cfg.Cluster != "":
		var plan wiring.Plan
		if err := plan.SwitchOn(wiring.Cluster{Inventory: pcs.Inventory{Cluster: pcs.Cluster{Status: pcs.Active}}}, c.prologs()); err != nil {
			return err
		}
		for line := range strings.Lines(plan.Changes[0].Diff) {
			text += strings.TrimPrefix(line, "+")
		}
	default:
		var err error
		if _, _, text, _, err = c.include(ctx, g, cfg); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(t.Out, text)
	return err
}

// prologs is the folder of the Prolog if it is to be wired; "" if not.
func (f programFlags) prologs() string {
	if !f.Prolog {
		return ""
	}
	filter, err := findFilter(f.Filter)
	if err != nil {
		return ""
	}
	return filepath.Dir(filter)
}

// HooksInstallCmd writes scripts and settings.
type HooksInstallCmd struct {
	Hook string `arg:"" optional:"" enum:"cli_filter,job_submit,settings," default:"" help:"cli_filter: on every host where users submit. job_submit: on slurmctld's, where you run that yourself. settings: of slurm.conf, or of the PCS cluster. Default: all that the cluster needs."`
	programFlags
	As     string `help:"Write the script to this file, for one of the site's own to load with its last line." type:"path" placeholder:"FILE" xor:"where" predictor:"file"`
	DryRun bool   `help:"Show what would be done, and change nothing."`
}

// Help is shown below the flags.
func (HooksInstallCmd) Help() string {
	return `Without a HOOK, for Slurm that you run yourself: job_submit.lua, then the settings of slurm.conf
in a file that it includes, with nodes and partitions, then a restart of slurmctld. For AWS PCS:
cli_filter.lua of every Slurm version that is installed here, then the setting of the cluster that
switches it on. Settings are shown, and asked about, before they are written.

Install cli_filter on every login and compute node before you switch it on: with the setting on
and the file missing, Slurm refuses every submission on that host.
A script that pcs-capacity did not write is never replaced: ours goes beside it, and the line
that loads it is shown. Yours then runs first.`
}

// Run plans, shows, asks and writes.
func (c *HooksInstallCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *config.Config) error {
	if c.As != "" {
		return c.installAs(ctx, t, cfg)
	}
	dirs, err := c.folders()
	if err != nil {
		return err
	}
	var plan wiring.Plan
	script := wiring.JobSubmit
	if cfg.Cluster != "" {
		script = wiring.CLIFilter
	}
	for _, dir := range dirs {
		put := plan.Write // a script that was asked for has its place, or none
		switch c.Hook {
		case settingsHook:
			continue
		case "":
			put = plan.Install
		default:
			script = c.Hook
		}
		s, err := c.script(cfg, script, dir)
		if err != nil {
			return err
		}
		err = put(s)
		if errors.Is(err, wiring.ErrForeign) {
			err = fmt.Errorf("%w; install ours beside it with --as FILE", err)
		}
		if err != nil {
			return err
		}
	}
	if c.Hook == "" || c.Hook == settingsHook {
		if err := c.settings(ctx, g, cfg, &plan); err != nil {
			return err
		}
	}
	question := "Write this?"
	if cfg.Cluster != "" {
		question = "Is cli_filter.lua on every login and compute node, and are these settings right?"
	}
	err = c.apply(ctx, t, plan, there, c.Hook == "" || c.Hook == settingsHook, question, c.DryRun)
	if err == nil && plan.Restarts() && !c.DryRun {
		err = restarted(ctx, cfg, true)
	}
	return err
}

func (c *HooksInstallCmd) settings(ctx context.Context, g *Globals, cfg *config.Config, plan *wiring.Plan) error {
	if cfg.Cluster != "" {
		cluster, err := readCluster(ctx, g, cfg)
		if err != nil {
			return err
		}
		before := len(plan.Changes)
		if err := plan.SwitchOn(cluster.Cluster, c.prologs()); err != nil || len(plan.Changes) == before {
			return err
		}
		return cluster.closed(ctx, cfg)
	}
	conf, site, text, notes, err := c.include(ctx, g, cfg)
	if err != nil {
		return err
	}
	plan.ByHand = append(plan.ByHand, notes...)
	return plan.InstallSettings(ctx, slurmSettings(ctx, cfg, conf, true), site, text)
}

// slurmSettings are those of slurm.conf, beside what slurmctld runs with: it may not have been
// restarted since they were written, when a run of ours was cut off.
func slurmSettings(ctx context.Context, cfg *config.Config, conf string, installed bool) wiring.Settings {
	s := wiring.Settings{Conf: conf}
	running, ours, err := runsOurs(ctx, cfg)
	if err == nil {
		s.Restarts = sameFile(running, conf)
		s.Pending = s.Restarts && ours != installed
	}
	return s
}

// runsOurs reports whether slurmctld runs with our settings, and which slurm.conf it has.
func runsOurs(ctx context.Context, cfg *config.Config) (conf string, ours bool, err error) {
	client := &slurm.Client{}
	running, err := client.Config(ctx)
	if err != nil {
		return "", false, err
	}
	if filepath.Base(running.ResumeProgram) != "pcs-capacity-resume" || !slices.Contains(running.JobSubmitPlugins, "lua") {
		return running.ConfPath, false, nil
	}
	partitions, err := client.Partitions(ctx)
	if err != nil {
		return "", false, err
	}
	for _, p := range cfg.Partitions {
		if !slices.ContainsFunc(partitions, func(there slurm.Partition) bool { return there.Name == p.Name }) {
			return running.ConfPath, false, nil
		}
	}
	return running.ConfPath, true, nil
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(one, other)
}

// restartTime is how long slurmctld may take to answer after its restart.
const restartTime = 30 * time.Second

// restarted waits until slurmctld answers, with the settings if they are installed.
func restarted(ctx context.Context, cfg *config.Config, installed bool) error {
	ctx, cancel := context.WithTimeout(ctx, restartTime)
	defer cancel()
	for {
		_, ours, err := runsOurs(ctx, cfg)
		if err == nil && (ours || !installed) { // slurm.conf may have them by hand as well
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = errors.New("it has other settings than were written")
			}
			return fmt.Errorf("slurmctld after its restart: %w; see its log, and take the settings back with `pcs-capacity hooks remove` if it does not start", err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (c *HooksInstallCmd) installAs(ctx context.Context, t *terminal.Terminal, cfg *config.Config) error {
	if c.Hook != wiring.CLIFilter && c.Hook != wiring.JobSubmit {
		return usage("--as is for a script; name it: cli_filter or job_submit")
	}
	s, err := c.script(cfg, c.Hook, "")
	if err != nil {
		return err
	}
	s.Path = c.As
	var plan wiring.Plan
	if err := plan.Write(s); err != nil {
		return fmt.Errorf("%w; name another file", err)
	}
	plan.ByHand = []string{fmt.Sprintf("Make this the last line of your own %s.lua, or the last one before a final return:\n  %s", c.Hook, hooks.LoadLine(c.As))}
	return c.apply(ctx, t, plan, there, false, "", c.DryRun)
}

const there = "Everything is there already"

// apply shows the plan, asks where it changes settings, and does it.
func (programFlags) apply(ctx context.Context, t *terminal.Terminal, plan wiring.Plan, nothing string, ask bool, question string, dryRun bool) error {
	if ask || dryRun {
		for _, change := range plan.Changes {
			t.Say("%s %s", change.Do, change.What)
			if change.Diff != "" {
				t.Say("  %s", strings.ReplaceAll(strings.TrimSuffix(change.Diff, "\n"), "\n", "\n  "))
			}
		}
	}
	switch {
	case len(plan.Changes) == 0:
		t.Say("%s; nothing to do.", nothing)
	case dryRun:
		t.Say("Dry run: nothing was changed.")
	default:
		if plan.Restarts() {
			question = "Write this, and restart slurmctld? Jobs go on."
		}
		if ask {
			if err := t.Confirm(question); err != nil {
				return err
			}
		}
		done := map[string]string{"write": "Wrote", "remove": "Removed", "set": "Changed", "restart": "Restarted"}
		err := plan.Apply(ctx, func(c wiring.Change) { t.Say("%s %s.", done[c.Do], c.What) })
		if err != nil {
			return fmt.Errorf("%w; run this again to go on from here", err)
		}
	}
	for _, sentence := range plan.ByHand {
		t.Say("By hand: %s", sentence)
	}
	return nil
}

// wiredCluster is a PCS cluster with its node groups and queues.
type wiredCluster struct {
	wiring.Cluster
	aws *ec2.Client
}

func readCluster(ctx context.Context, g *Globals, cfg *config.Config) (*wiredCluster, error) {
	aws, err := newEC2(ctx, g, &maybeConfig{cfg, true})
	if err != nil {
		return nil, err
	}
	p := pcs.Provisioner{PCS: newPCS(aws), EC2: aws}
	inv, err := p.PCS.Inventory(ctx, cfg.Cluster)
	if err != nil {
		return nil, err
	}
	change := func(ctx context.Context, change map[string]string) error {
		return p.ChangeClusterSettings(ctx, inv.Cluster.ID, change)
	}
	return &wiredCluster{wiring.Cluster{Inventory: inv, Change: change}, aws}, nil
}

// closed refuses to touch the cluster while a block is open: paid hours are not for changes
// of slurmctld.
func (c wiredCluster) closed(ctx context.Context, cfg *config.Config) error {
	var ids []string
	for _, p := range cfg.Domain().Partitions {
		for _, g := range p.Groups {
			ids = append(ids, g.ReservationIDs...)
		}
	}
	found, _, err := c.aws.Reservations(ctx, ids)
	if err != nil {
		return err
	}
	for _, r := range found {
		if r.Kind == capacity.CapacityBlock && r.LiveAt(c.aws.Now()) && !r.Start.After(c.aws.Now()) {
			return fmt.Errorf("block %s is open until %s, and PCS changes the settings of a cluster by restarting its slurmctld; run this again before a block opens or after it ended",
				r.ID, capacity.FormatUTC(r.End))
		}
	}
	return nil
}

// HooksRemoveCmd takes back what install wrote.
type HooksRemoveCmd struct {
	Hook string `arg:"" optional:"" enum:"cli_filter,job_submit,settings," default:"" help:"cli_filter, job_submit or settings. Default: all."`
	programFlags
	DryRun bool `help:"Show what would be done, and change nothing."`
}

// Help is shown below the flags.
func (HooksRemoveCmd) Help() string {
	return `Settings first, scripts after them: Slurm refuses every submission while a setting is on and its
script is gone. Files that pcs-capacity did not write stay. On PCS, run it with cli_filter on all
other nodes once the setting is off.`
}

// Run plans, shows, asks and removes.
func (c *HooksRemoveCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *config.Config) error {
	dirs, err := c.folders()
	if err != nil {
		return err
	}
	var plan wiring.Plan
	all := c.Hook == "" || c.Hook == settingsHook
	job := wiring.Script{Hook: wiring.JobSubmit, Path: filepath.Join(dirs[0], wiring.JobSubmit+".lua")}
	switch {
	case all && cfg.Cluster != "":
		cluster, err := readCluster(ctx, g, cfg)
		if err != nil {
			return err
		}
		filter, _ := findFilter(c.Filter) // without programs there is no Prolog of ours
		if err := plan.SwitchOff(cluster.Cluster, filepath.Dir(filter)); err != nil {
			return err
		}
		if len(plan.Changes) > 0 {
			if err := cluster.closed(ctx, cfg); err != nil {
				return err
			}
		}
	case all:
		conf := filepath.Join(dirs[0], "slurm.conf")
		site, err := wiring.ReadConf(conf)
		if err != nil {
			return err
		}
		if err := plan.RemoveSettings(ctx, slurmSettings(ctx, cfg, conf, false), site, job); err != nil {
			return err
		}
	default:
		if err := switchedOff(ctx, c.Hook); err != nil {
			return err
		}
	}
	if c.Hook == wiring.CLIFilter || c.Hook == "" && cfg.Cluster != "" {
		for _, dir := range dirs {
			if err := plan.Remove(wiring.Script{Hook: wiring.CLIFilter, Path: filepath.Join(dir, wiring.CLIFilter+".lua")}); err != nil {
				return err
			}
		}
	}
	if c.Hook == wiring.JobSubmit {
		if err := plan.Remove(job); err != nil {
			return err
		}
	}
	err = c.apply(ctx, t, plan, "Nothing of ours is there", true, "Remove this?", c.DryRun)
	if err == nil && plan.Restarts() && !c.DryRun {
		err = restarted(ctx, cfg, false)
	}
	return err
}

// switchedOff refuses to take a script away that Slurm is told to run.
func switchedOff(ctx context.Context, hook string) error {
	running, err := (&slurm.Client{}).Config(ctx)
	if err != nil {
		return fmt.Errorf("whether Slurm runs the script is not known: %w", err)
	}
	key, plugins := "CliFilterPlugins", running.CliFilterPlugins
	if hook == wiring.JobSubmit {
		key, plugins = "JobSubmitPlugins", running.JobSubmitPlugins
	}
	for _, one := range plugins {
		if one == "lua" {
			return fmt.Errorf("%s=lua is set, so that Slurm would refuse every submission without the script; take that out first, with `pcs-capacity hooks remove settings` if install wrote it", key)
		}
	}
	return nil
}

// HooksStatusCmd shows what is installed.
type HooksStatusCmd struct {
	Dir string `help:"Folder of slurm.conf. Default: as for install." type:"existingdir" predictor:"file"`
}

type hookRow struct {
	Hook string `json:"hook" col:"HOOK"`
	File string `json:"file" col:"FILE"`
	// State is installed, loaded (by the site's own script), old, missing or foreign.
	State wiring.State `json:"state" col:"STATE"`
}

// Run looks at the files. Whether Slurm is told to run them, check says. Settings of ours
// that cannot be read do not hide what is there.
func (c *HooksStatusCmd) Run(g *Globals, t *terminal.Terminal) error {
	cfg, err := readConfigIfAny(g)
	if err != nil {
		t.Say("Which scripts are old is not known: %s", err)
		cfg = &maybeConfig{config.Default(), false}
	}
	rows, err := hookRows(programFlags{Dir: c.Dir}, cfg)
	if err != nil {
		return err
	}
	return t.Rows(rows)
}

// hookRows look at the scripts, and at the settings of self-managed Slurm. Without settings
// of ours, or without the filter, nobody knows what is old.
func hookRows(f programFlags, cfg *maybeConfig) ([]hookRow, error) {
	rows := []hookRow{}
	for _, dir := range wiring.Folders(f.Dir) {
		for _, hook := range []string{wiring.CLIFilter, wiring.JobSubmit} {
			s := wiring.Script{Hook: hook, Path: filepath.Join(dir, hook+".lua")}
			if full, err := f.script(cfg.Config, hook, dir); err == nil && cfg.Found {
				s = full
			}
			now, err := s.State()
			if err != nil {
				return nil, err
			}
			if hook == wiring.JobSubmit && cfg.Cluster != "" && now == wiring.Missing {
				continue // PCS runs slurmctld, and lets nobody have a script there
			}
			rows = append(rows, hookRow{hook, s.Path, now})
		}
		conf := filepath.Join(dir, "slurm.conf")
		if _, err := os.Stat(conf); err == nil && cfg.Cluster == "" {
			now, err := wiring.Settings{Conf: conf}.State("")
			if err != nil {
				return nil, err
			}
			rows = append(rows, hookRow{settingsHook, filepath.Join(dir, wiring.IncludeFile), now})
		}
	}
	return rows, nil
}
