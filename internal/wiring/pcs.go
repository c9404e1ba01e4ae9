package wiring

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Cluster is a PCS cluster, whose settings PCS keeps.
type Cluster struct {
	pcs.Inventory
	Change func(ctx context.Context, change map[string]string) error
}

// pluginKey and pluginValue switch cli_filter.lua on: AWS PCS User Guide, "Slurm CLI filter
// plugins".
const pluginKey, pluginValue = "CliFilterPlugins", "cli_filter/lua"

// On reports whether the cluster runs cli_filter.lua.
func (c Cluster) On() bool {
	return runsLua(strings.Split(c.Cluster.SlurmSettings[pluginKey], ","), "cli_filter/")
}

// SwitchOn plans the settings of the cluster. programs is the folder of pcs-capacity-prolog,
// "" to leave Prolog and TaskProlog as they are.
func (p *Plan) SwitchOn(c Cluster, programs string) error {
	change := map[string]string{pluginKey: pluginValue}
	theirs := c.Cluster.SlurmSettings["CliFilterParameters"]
	if path := slurm.CLIFilterScript(theirs); path != "" && !p.puts(path) {
		p.ByHand = append(p.ByHand, fmt.Sprintf("the cluster has CliFilterParameters=%s: let the script there load ours, see `pcs-capacity hooks install cli_filter --as`", theirs))
	}
	for _, key := range []string{"Prolog", "TaskProlog"} {
		if programs == "" {
			continue
		}
		path := filepath.Join(programs, "pcs-capacity-prolog")
		if theirs := c.Cluster.SlurmSettings[key]; theirs != "" && theirs != path {
			p.ByHand = append(p.ByHand, fmt.Sprintf("%s is your own, %s: let it call %s", key, theirs, path))
			continue
		}
		change[key] = path
	}
	return p.set(c, change)
}

// puts reports whether ours is at a script's path, or will be once the plan is done.
func (p *Plan) puts(path string) bool {
	s := Script{Hook: CLIFilter, Path: path}
	for _, c := range p.Changes {
		if c.Do == "write" && (c.What == path || c.What == s.beside()) {
			return true
		}
	}
	now, err := s.State()
	return err == nil && (now == Installed || now == Loaded)
}

// SwitchOff plans the removal of the settings of SwitchOn.
func (p *Plan) SwitchOff(c Cluster, programs string) error {
	change := map[string]string{}
	if c.On() {
		change[pluginKey] = ""
	}
	for _, key := range []string{"Prolog", "TaskProlog"} {
		if c.Cluster.SlurmSettings[key] == filepath.Join(programs, "pcs-capacity-prolog") {
			change[key] = ""
		}
	}
	return p.set(c, change)
}

func (p *Plan) set(c Cluster, change map[string]string) error {
	before, after := pcs.SettingsLines(c.Cluster.SlurmSettings), pcs.SettingsLines(pcs.ChangedSettings(c.Cluster.SlurmSettings, change))
	if before == after && c.Cluster.Status == pcs.Active {
		return nil
	}
	if why, fix := c.NotSettled(); why != "" {
		return fmt.Errorf("%s, and PCS changes the settings of a cluster only while everything in it is ACTIVE; %s", why, fix)
	}
	p.Changes = append(p.Changes, Change{"set", "PCS cluster " + c.Cluster.Name, diff(before, after), func(ctx context.Context) error { return c.Change(ctx, change) }})
	return nil
}
