package site

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Host checks the host that setup runs on: a queue must not be left without settings, fence or
// filter.
type Host struct {
	// Config is the settings, or the defaults where there are none yet.
	Config *config.Config
	Slurm  *slurm.Client
	// Cluster is the PCS cluster; nil on self-managed Slurm, and where it is not known.
	Cluster *pcs.Cluster
	// Hooks and Filter are as in Sources.
	Hooks  []Hook
	Filter string
	// NewQueue: the queue is new to users.
	NewQueue bool
}

// hostTime is how long slurmctld may take to answer.
const hostTime = 20 * time.Second

// Missing tries the steps that setup will take on this host, and returns the ones that fail. It
// changes nothing. For a queue that users already have, a missing filter is only a warning.
func (h Host) Missing(ctx context.Context) (missing []capacity.Problem, warnings []string) {
	r := run{Sources: Sources{Config: h.Config, Slurm: h.Slurm, Hooks: h.Hooks, Filter: h.Filter}, cluster: h.Cluster}
	const another = "run this as a user who may write there, such as root, "
	if err := config.TryFolder(filepath.Dir(config.PartitionPath(h.Config.Path, "try"))); err != nil {
		r.lacks(capacity.ConfigFolder, another+"or name other settings with --config", "the settings cannot be written: %s", err)
	}
	if err := config.TryFolder(h.Config.StateDir); err != nil {
		r.lacks(capacity.StateDir, another+"or name another folder as state_dir", "state_dir cannot be written: %s", err)
	}
	ctx, cancel := context.WithTimeout(ctx, hostTime)
	defer cancel()
	if r.askSlurm(ctx); r.slurmConfig == nil {
		r.silent()
	} else {
		r.rights(ctx)
	}
	filter := len(r.Findings)
	if h.Cluster != nil {
		r.submitFilter()
	}
	for i, f := range r.Findings {
		switch {
		case f.Status != Fail:
		case i >= filter && !h.NewQueue:
			warnings = append(warnings, f.What+"; "+f.Fix)
		default:
			missing = append(missing, capacity.Problemf(cmp.Or(f.Code, capacity.Code(f.Check)), capacity.Subject{}, f.Fix, "%s", f.What))
		}
	}
	return missing, warnings
}

// submitFilter checks that the filter is on this host, and switched on.
func (r *run) submitFilter() {
	r.runs(string(capacity.FilterMissing), r.Filter)
	there := false
	on := r.cluster.SlurmSettings["CliFilterPlugins"] == "cli_filter/lua" || r.slurmConfig != nil && slices.Contains(r.slurmConfig.CliFilterPlugins, "lua")
	for _, h := range r.Hooks {
		if h.Name == string(capacity.ScriptMissing) {
			r.script(h, on, true)
			there = true
		}
	}
	if !there {
		r.lacks(capacity.ScriptMissing, "run this on a login node, or write slurm.conf's path into SLURM_CONF, and run `pcs-capacity hooks install`", "no folder with slurm.conf is here, and so no submit filter")
	}
}
