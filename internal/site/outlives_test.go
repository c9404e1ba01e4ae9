package site

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// TestLasting: what check says of the file system of state_dir.
func TestLasting(t *testing.T) {
	disk := state.Mount{Point: "/", Type: "xfs", Source: "/dev/nvme0n1p1"}
	for name, c := range map[string]struct {
		mount    state.Mount
		replaced bool
		status   Status
		says     string
	}{
		"EFS":               {state.Mount{Point: "/efs", Type: "nfs4", Source: "fs-0.efs.us-east-2.amazonaws.com:/"}, false, OK, "is on nfs4 of fs-0.efs.us-east-2.amazonaws.com:/, and outlives this host"},
		"FSx for Lustre":    {state.Mount{Point: "/fsx", Type: "lustre", Source: "10.0.0.1@tcp:/a"}, false, OK, "outlives this host"},
		"a bucket":          {state.Mount{Point: "/s3", Type: "fuse.mount-s3", Source: "mountpoint-s3"}, false, Warn, "locking may not work there"},
		"memory":            {state.Mount{Point: "/run", Type: "tmpfs", Source: "tmpfs"}, true, Warn, "end with the next boot"},
		"a login node":      {disk, true, Warn, "xfs at /, a disk of a host that PCS replaces when it is unhealthy, if it has launched it: the record of purchases and the samples of report would end with it"},
		"a controller":      {disk, false, OK, "ends with this host"},
		"no mountinfo here": {state.Mount{}, false, Warn, "an unrecognized file system"},
	} {
		var found Findings
		lasting(&found, "/s", c.mount, c.replaced)
		if len(found) != 1 || found[0].Status != c.status || !strings.Contains(found[0].What, c.says) || (found[0].Fix == "") != (c.status == OK) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// A backup of slurmctld sees state_dir only on a shared file system.
func TestBackedUp(t *testing.T) {
	for fix, m := range map[string]state.Mount{shareIt: {Point: "/", Type: "xfs", Source: "/dev/nvme0n1p1"}, "": {Point: "/efs", Type: "nfs4", Source: "efs:/"}} {
		var found Findings
		backedUp(&found, "/s", m, "head2")
		if len(found) != 1 || found[0].Fix != fix || !strings.Contains(found[0].What, "head2 takes slurmctld over") {
			t.Errorf("%s: %+v", m, found)
		}
	}
}
