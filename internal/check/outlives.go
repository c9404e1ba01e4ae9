package check

import (
	"context"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// owner is whose this host is.
type owner int

const (
	ownersOwn    owner = iota // not PCS's
	ownerUnknown              // a host of a PCS cluster, which PCS may have launched
	ownerPCS                  // an instance of a compute node group
)

// outlives reports whether state_dir outlives its host.
func (r *run) outlives(ctx context.Context) {
	m := state.Dir(r.Config.StateDir).Mount()
	whose := ownersOwn
	if m.Local() && r.onPCS() {
		whose = r.owner(ctx)
	}
	lasting(&r.Findings, r.Config.StateDir, m, whose)
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

// owner asks the metadata of this host for its instance, and EC2 for the instance's tags.
func (r *run) owner(ctx context.Context) owner {
	if r.EC2 == nil {
		return ownerUnknown
	}
	here, err := r.EC2.OwnInstance(ctx)
	switch {
	case err != nil:
		return ownerUnknown
	case here.Tags[pcs.TagNodeGroupID] != "":
		return ownerPCS
	}
	return ownersOwn
}

const shareIt = "put state_dir on a shared file system, such as EFS or FSx: see Two hosts in docs/operations.md"

// lasting judges the file system of a state_dir.
func lasting(found *Findings, dir string, m state.Mount, whose owner) {
	const kept = "the record of purchases and the samples of report"
	switch {
	case m.Shared():
		found.ok("state-dir", "%s is on %s, and outlives this host", dir, m)
	case m.InMemory():
		found.warn("state-dir", "name a folder on a disk as state_dir", "%s is on %s: %s end with the next boot", dir, m, kept)
	case !m.Local():
		found.warn("state-dir", shareIt, "%s is on %s, which is not known to have locks", dir, m)
	case whose == ownerPCS:
		found.warn("state-dir", shareIt, "%s is on %s, a disk of an instance that PCS replaces when it is unhealthy: %s would end with it", dir, m, kept)
	case whose == ownerUnknown:
		found.warn("state-dir", shareIt+"; nothing needs to be done where this host is not of a compute node group",
			"%s is on %s, and whether PCS launched this host is not known: %s would end with it", dir, m, kept)
	default:
		found.ok("state-dir", "%s is on %s, and ends with this host", dir, m)
	}
}
