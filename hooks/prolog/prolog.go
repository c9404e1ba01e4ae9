// Package prolog is what slurmd and slurmstepd run before a job starts: the Prolog, which compares
// an instance with its reservation, and the TaskProlog, which sets the variables of the job.
// It links no AWS SDK, and keeps no job from starting.
package prolog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// PrologDeadline is how long a Prolog may take in all, TaskPrologDeadline a TaskProlog; then
// they end, and the job starts without what they would have done. MetadataDeadline is how
// long the metadata of the instance may take. All normally take milliseconds.
const (
	PrologDeadline     = 1200 * time.Millisecond
	TaskPrologDeadline = 800 * time.Millisecond
	MetadataDeadline   = time.Second
)

// jobVariables are those that a job may find in its environment.
var jobVariables = []string{"PCS_CAPACITY_RESERVATION_ID", "PCS_CAPACITY_FENCE", "PCS_CAPACITY_RECLAIM", "PCS_CAPACITY_END", "PCS_CAPACITY_FACTS"}

// JobEnvironment is what a TaskProlog prints for slurmstepd: the reservation behind a node
// of a slot, and when it ends, in Unix seconds. What is not known, or does not exist, is
// unset: a job that was submitted from another one has inherited its variables. The times are
// those of the start; the file of facts, which sync keeps in dir, follows an extension. snap may
// be nil. Where several reservations share the slot, nobody but EC2 knows which one it is.
func JobEnvironment(dir state.Dir, snap *capacity.Snapshot, slot string, now time.Time) string {
	values := map[string]string{}
	if snap != nil {
		if found, ok := snap.Slot(slot); ok {
			if current := snap.Standing(found, now).Current; len(current) == 1 {
				values[jobVariables[0]] = current[0].Reservation.ID
				values[jobVariables[4]] = dir.FactsPath(slot)
				w := current[0].Window
				for i, at := range []time.Time{w.Fence, w.Reclaim, w.End} {
					if !w.Unbounded() {
						values[jobVariables[i+1]] = fmt.Sprint(at.Unix())
					}
				}
			}
		}
	}
	var b strings.Builder
	for _, name := range jobVariables {
		if value := values[name]; value != "" {
			fmt.Fprintf(&b, "export %s=%s\n", name, value)
		} else {
			fmt.Fprintf(&b, "unset %s\n", name)
		}
	}
	return b.String()
}

// Prolog looks at the instance behind a node before a job starts there. It has no error: a
// Prolog that fails drains the node and holds the job.
type Prolog struct {
	State state.Dir
	// Metadata asks the instance metadata.
	Metadata    func(ctx context.Context) (capacity.Metadata, error)
	MachineTime func() time.Time
	Log         *slog.Logger
}

// Run compares the instance with the reservation of the node's slot, by nothing that a user
// can write. What differs is logged, and kept for sync. What cannot be learned is not
// compared.
func (p Prolog) Run(ctx context.Context, node, slot, job string) {
	began := time.Now()
	log := p.Log.With("node", node, "slot", slot, "job", job)
	snap, err := p.State.ReadSnapshot()
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // a state_dir that is not shared is no fault
			log.Info("the instance is not compared with its reservation", "err", err)
		}
		return
	}
	now := p.MachineTime().Add(snap.ClockOffset.Duration)
	found, ok := snap.Slot(slot)
	if !ok || snap.Stale(now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, MetadataDeadline)
	defer cancel()
	m, err := p.Metadata(ctx)
	if err != nil {
		log.Info("the instance is not compared with its reservation", "err", err)
		return
	}
	differs := snap.Misplaced(found, m, now)
	log = log.With("instance", m.InstanceID, "ms", time.Since(began).Milliseconds())
	if differs == "" {
		log.Info("the instance is what its reservation is")
		err = p.State.DropMisplaced(node)
	} else {
		log.Warn("the instance is not what its reservation is", "differs", differs)
		err = p.State.KeepMisplaced(state.Misplaced{Node: node, At: now.UTC().Truncate(time.Second), Metadata: m})
	}
	if err != nil {
		log.Info("sync does not hear of it", "err", err)
	}
}
