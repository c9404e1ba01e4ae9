package wiring

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// pluginKeys are the settings that have Slurm run a script, and what stands before the name
// of a plugin there.
var pluginKeys = map[string]struct{ key, kind string }{
	CLIFilter: {"CliFilterPlugins", "cli_filter/"},
	JobSubmit: {"JobSubmitPlugins", "job_submit/"},
}

// InUse says who has Slurm run the script of a hook: slurmctld, of which running is what it
// says (nil if it does not answer), or slurm.conf, whose path is conf. "" is nobody.
func InUse(hook string, running *slurm.Config, conf string, site Conf) string {
	p := pluginKeys[hook]
	if running != nil {
		plugins := running.CliFilterPlugins
		if hook == JobSubmit {
			plugins = running.JobSubmitPlugins
		}
		if slices.Contains(plugins, "lua") {
			return fmt.Sprintf("slurmctld has %s=lua", p.key)
		}
		if hook == JobSubmit {
			return "" // only slurmctld reads that
		}
	}
	if runsLua(site.list(p.key), p.kind) {
		return fmt.Sprintf("%s has %s=lua", conf, p.key)
	}
	if hook == JobSubmit && site.Included {
		return fmt.Sprintf("%s has %s, with %s=lua", conf, IncludeLine, p.key)
	}
	return ""
}

// ScriptPaths are where Slurm reads the script of a hook on this host, of which the folders of
// slurm.conf are given. running is what slurmctld says, nil if it does not answer; then
// slurm.conf counts.
func ScriptPaths(hook string, running *slurm.Config, dirs []string) []string {
	var paths []string
	for _, dir := range dirs {
		path := filepath.Join(dir, hook+".lua")
		if hook == CLIFilter {
			named := ""
			if running != nil {
				named = running.CliFilterScript
			} else if site, err := ReadConf(filepath.Join(dir, "slurm.conf")); err == nil {
				named = slurm.CLIFilterScript(site.Value("CliFilterParameters"))
			}
			if named != "" {
				path = named
			}
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// runsLua reports whether lua is among plugins, each of which may have its kind before it.
func runsLua(plugins []string, kind string) bool {
	return slices.ContainsFunc(plugins, func(name string) bool { return strings.TrimPrefix(strings.TrimSpace(name), kind) == "lua" })
}

// StillOn is the refusal to remove a script that Slurm runs; who is what InUse says.
func StillOn(who string) error {
	return fmt.Errorf("%s, and Slurm refuses every submission without the script; take lua out first (`pcs-capacity hooks remove settings` does, if install wrote it), and restart slurmctld", who)
}

// demands reports whether a site's script breaks without the file: it names it in code,
// other than in the line that LoadLine gives.
func demands(text []byte, path string) bool {
	for line := range strings.Lines(string(text)) {
		code, _, _ := strings.Cut(strings.TrimSpace(line), "--")
		named := strings.Contains(code, path) || strings.Contains(code, `"`+strings.TrimSuffix(filepath.Base(path), ".lua")+`"`)
		if named && !strings.HasPrefix(code, "pcall(dofile, ") {
			return true
		}
	}
	return false
}
