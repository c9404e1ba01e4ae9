package site

import (
	"context"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// outlives reports whether state_dir outlives its host.
func (r *run) outlives(ctx context.Context) {
	m := state.Dir(r.Config.StateDir).Mount()
	lasting(&r.Findings, r.Config.StateDir, m, m.Local() && r.onPCS() && r.replaced(ctx))
	if c := r.slurmConfig; c != nil && len(c.Backups) > 0 && r.onEC2() {
		backedUp(&r.Findings, r.Config.StateDir, m, strings.Join(c.Backups, ", "))
	}
}

// backedUp judges what the backup of slurmctld has of a state_dir. What else it needs cannot be seen from here.
func backedUp(found *Findings, dir string, m state.Mount, backup string) {
	if !m.Shared() {
		found.warn("backup", shareIt, "%s is on %s: when %s takes slurmctld over, its hooks know no reservation, and launch nothing", dir, m, backup)
		return
	}
	found.ok("backup", "%s takes slurmctld over, and needs the package, the settings, job_submit.lua, pcs-capacity.conf and AWS credentials, as this host", backup)
}

// replaced reports whether PCS may have launched this host: metadata and EC2 do not say otherwise.
func (r *run) replaced(ctx context.Context) bool {
	if r.EC2 == nil {
		return true
	}
	here, err := r.EC2.OwnInstance(ctx)
	return err != nil || here.Tags[pcs.TagNodeGroupID] != ""
}

const shareIt = "put state_dir on a shared file system, such as EFS or FSx: see Two hosts in docs/operations.md"

// lasting judges the file system of a state_dir.
func lasting(found *Findings, dir string, m state.Mount, replaced bool) {
	const kept = "the record of purchases and the samples of report"
	switch {
	case m.Shared():
		found.ok("state-dir", "%s is on %s, and outlives this host", dir, m)
	case m.InMemory():
		found.warn("state-dir", "name a folder on a disk as state_dir", "%s is on %s: %s end with the next boot", dir, m, kept)
	case !m.Local():
		found.warn("state-dir", shareIt, "%s is on %s; locking may not work there", dir, m)
	case replaced:
		found.warn("state-dir", shareIt, "%s is on %s, a disk of a host that PCS replaces when it is unhealthy, if it has launched it: %s would end with it", dir, m, kept)
	default:
		found.ok("state-dir", "%s is on %s, and ends with this host", dir, m)
	}
}
