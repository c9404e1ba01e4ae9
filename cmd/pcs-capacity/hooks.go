package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/hookinstall"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// HooksCmd groups the commands for the scripts and settings with which Slurm runs our hooks.
type HooksCmd struct {
	Print   HooksPrintCmd   `cmd:"" help:"Print a hook's script, the settings, or the user data of nodes."`
	Install HooksInstallCmd `cmd:"" help:"Write scripts and settings where Slurm looks for them."`
	Remove  HooksRemoveCmd  `cmd:"" help:"Remove what install wrote."`
}

// settingsHook stands for the settings that name the hooks: on self-managed Slurm those in
// a file that slurm.conf includes, on PCS custom settings of the cluster.
const settingsHook = "settings"

// forceFlag serves sites whose blocks leave no time between them, and the removal of nodes with jobs.
type forceFlag struct {
	Force bool `help:"Continue even if jobs run on nodes, or wait in partitions, that are removed; they end with them. On PCS: change the cluster's settings even while a block is open. PCS restarts slurmctld; jobs keep running."`
}

// script returns the text of the hook's file with these settings.
func script(cfg *config.Config, hook, path string) (hookinstall.Script, error) {
	filter, err := findFilter()
	if err != nil {
		return hookinstall.Script{}, err
	}

	text := submit.CLIFilter
	folder := cfg.StateDir
	if hook == hookinstall.JobSubmit { // runs inside slurmctld, which must not wait for a file server
		text = submit.JobSubmit
		folder = cfg.LocalDir
	}

	from, err := filepath.Abs(folder)
	if err != nil {
		return hookinstall.Script{}, err
	}

	return hookinstall.Script{Hook: hook, Path: path, Text: text(state.Dir(from).RosterPath(), from, filter)}, nil
}

// scriptPaths lists where Slurm reads the hook's script on this host.
func scriptPaths(ctx context.Context, cfg *config.Config, hook string, dirs []string) []string {
	var running *slurm.Config

	client := slurm.New(cfg.Cluster)
	if version, err := client.Version(ctx); hook == hookinstall.CLIFilter && err == nil && version.NamesCLIFilter() {
		if now, err := client.Config(ctx); err == nil {
			running = &now
		}
	}

	return hookinstall.ScriptPaths(hook, running, dirs)
}

// filterPlaces lists where the program can be that the scripts call, the likeliest first.
func filterPlaces() []string {
	self, err := os.Executable()
	if err != nil {
		self = "/usr/bin/pcs-capacity"
	}

	dir := filepath.Dir(self)

	return []string{
		filepath.Join(dir, "../libexec/pcs-capacity/pcs-capacity-filter"),
		filepath.Join(dir, "pcs-capacity-filter"),
	}
}

// findFilter finds the program that the scripts call, or the likeliest place if it is not there or cannot be run.
func findFilter() (string, error) {
	places := filterPlaces()
	for _, path := range places {
		if isExecutable(path) {
			return path, nil
		}
	}

	at := slices.IndexFunc(places, func(path string) bool { _, err := os.Stat(path); return err == nil })

	return places[max(at, 0)], usage(
		"no program at %s: the script would have nothing to call; install the package",
		strings.Join(places, " or "),
	)
}

// isExecutable reports whether a file can be run.
func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func slurmFolders() ([]string, error) {
	dirs := hookinstall.Folders()
	if len(dirs) == 0 {
		return nil, usage("no folder with slurm.conf was found; name the file with SLURM_CONF")
	}

	return dirs, nil
}

// included are the settings for Slurm that the site runs itself: text for slurm.conf, gres for
// gres.conf, notes for a person.
type included struct {
	site       hookinstall.SlurmConf
	version    slurm.Version
	text, gres string
	notes      []string
}

func include(ctx context.Context, g *Globals, cfg *config.Config) (in included, err error) {
	in.site, err = readSite()
	if err != nil {
		return in, err
	}

	filter, err := findFilter()
	if err != nil {
		return in, err
	}

	programs := []string{"pcs-capacity-resume", "pcs-capacity-suspend"}
	if cfg.Domain().IsGuest() {
		programs = nil
	}

	for _, program := range programs {
		if path := filepath.Join(filepath.Dir(filter), program); !isExecutable(path) {
			return in, fmt.Errorf("no program at %s, which Slurm would have to run; install the package", path)
		}
	}

	of := hookinstall.Include{Settings: cfg.Domain(), Conf: in.site, Programs: filepath.Dir(filter)}
	client := slurm.New(cfg.Cluster)

	of.Version, err = client.Version(ctx)
	if err != nil {
		return in, err
	}

	of.Slurm, err = client.Folder(ctx)
	if err != nil {
		return in, err
	}

	unread, err := readNodeTypes(ctx, g, cfg, &of)
	if err != nil {
		return in, err
	}

	text, notes := of.Text()
	gres, more := of.Gres()
	unplaced, said := in.site.CheckTopology(cfg.Domain(), of.Version)

	in.version = of.Version
	in.text = text
	in.gres = gres
	in.notes = slices.Concat(notes, more, unread, unplaced, said)

	return in, nil
}

// readSite reads slurm.conf.
func readSite() (hookinstall.SlurmConf, error) {
	dirs, err := slurmFolders()
	if err != nil {
		return hookinstall.SlurmConf{}, err
	}

	return hookinstall.ReadSlurmConf(filepath.Join(dirs[0], "slurm.conf"))
}

// readNodeTypes fills in the instance types and launch templates of the node groups that we launch.
// notes name templates that cannot be read.
func readNodeTypes(ctx context.Context, g *Globals, cfg *config.Config,
	in *hookinstall.Include,
) (notes []string, err error) {
	var names []string
	for _, p := range in.Settings.Partitions {
		for _, group := range p.Groups {
			if p.Provider.Launches() {
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

	in.Types, err = aws.InstanceTypes(ctx, names)
	if err != nil {
		return nil, err
	}

	for _, name := range names {
		if in.Types[name].VCPUs == 0 {
			return nil, fmt.Errorf(
				"EC2 has no instance type %s in %s; check instance_type and the region",
				name,
				aws.Region(),
			)
		}
	}

	in.Templates = map[string]capacity.LaunchTemplate{}
	for _, reference := range in.Settings.LaunchTemplates() {
		t, found, err := aws.TemplateVersion(ctx, reference)
		switch {
		case err != nil:
			notes = append(
				notes,
				fmt.Sprintf(
					"cannot tell whether nodes get slurm.conf from slurmctld: %s. If they do, SlurmctldParameters "+
						"needs enable_configless",
					err,
				),
			)
		case found:
			in.Templates[reference] = t
		}
	}

	return notes, nil
}

// HooksPrintCmd prints a script.
type HooksPrintCmd struct {
	Hook string `arg:"" enum:"cli_filter,job_submit,settings,user-data,install" help:"cli_filter, job_submit or settings; or user-data, the script that starts slurmd on nodes of provider ec2; or install, the script with which a node gets cli_filter.lua and the package."`
}

// Run prints the script with this site's paths, or the settings.
func (c *HooksPrintCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *config.Config) error {
	var text string
	switch {
	case c.Hook == "user-data":
		// Of a slurmctld that does not answer nobody knows where nodes find it.
		running, err := slurm.New(cfg.Cluster).Config(ctx)
		if err != nil {
			t.Say(
				"warning: %s; add --conf-server HOST to the line with -N, unless nodes have a slurm.conf of their own",
				err,
			)
		}

		text = setup.NodeScript(running.ConfServer)
	case c.Hook == "install":
		text = setup.InstallScript
	case c.Hook != settingsHook:
		s, err := script(cfg, c.Hook, "")
		if err != nil {
			return err
		}

		text = s.Text
	case cfg.Cluster != "":
		text = hookinstall.Plugin + "\n"
	default:
		in, err := include(ctx, g, cfg)
		if err != nil {
			return err
		}

		text = in.text
		if in.gres != "" { // as comments: the two files may not be mixed up
			text += "# " + hookinstall.GresFile + ", which gres.conf includes:\n"
			for line := range strings.Lines(in.gres) {
				text += "# " + line
			}
		}
	}

	_, err := fmt.Fprint(t.Out, text)

	return err
}
