package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// state looks at the files that sync has written, and whether sync runs.
func (r *run) state(ctx context.Context) {
	start := "start it: " + r.Watch
	dir := state.Dir(r.Config.StateDir)
	info, err := os.Stat(r.Config.StateDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.fail("state-dir", start, "%s is not there yet", dir)
		return
	case err != nil:
		r.fail("state-dir", "mend it, or name another folder as state_dir", "%s", err)
		return
	case !info.IsDir():
		r.fail("state-dir", "name a folder as state_dir", "%s is not a folder", dir)
		return
	case info.Mode().Perm()&0o005 != 0o005:
		r.fail("state-dir", fmt.Sprintf("chmod 755 %s", dir), "%s has mode %04o, so that the commands of users cannot read the snapshot", dir, info.Mode().Perm())
	default:
		r.ok("state-dir", "%s can be read by all", dir)
	}
	r.outlives(ctx)
	snap, err := dir.ReadSnapshot()
	now := time.Now().Add(r.offset)
	fresh := err == nil && !snap.Stale(now)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.fail("snapshot", start, "%s is not there: every job is let through unchecked", dir.SnapshotPath())
	case err != nil:
		r.failWords("snapshot", err.Error(), "run `pcs-capacity sync` to write it anew")
	case !fresh:
		r.fail("snapshot", "see `journalctl -u 'pcs-capacity-*'`", "sync last saw AWS %s ago, more than %s", capacity.FormatDuration(now.Sub(snap.TakenAt)), capacity.FormatDuration(snap.Submit.StaleAfter.Duration))
	default:
		r.ok("snapshot", "sync last saw AWS %s ago", capacity.FormatDuration(max(0, now.Sub(snap.TakenAt))))
	}
	service, runs, err := dir.Watcher()
	switch {
	case runs:
		r.ok("service", "`pcs-capacity sync --watch` runs: %s", service)
	case err != nil:
		r.warn("service", "run this as root", "whether `pcs-capacity sync --watch` runs here is not known: %s", err)
	default:
		if fresh {
			r.warn("service", "if no other host runs it, "+start, "`pcs-capacity sync --watch` does not run on this host")
		} else {
			r.fail("service", start, "`pcs-capacity sync --watch` does not run")
		}
	}
}
