package wiring

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/pcs"
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
	for _, key := range []string{"Prolog", "TaskProlog"} {
		if programs == "" {
			continue
		}
		path := filepath.Join(programs, "pcs-capacity-prolog")
		if theirs := c.Cluster.SlurmSettings[key]; theirs != "" && theirs != path {
			p.byHand("%s is your own, %s: let it call %s", key, theirs, path)
		} else {
			change[key] = path
		}
	}
	return p.set(c, change)
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
