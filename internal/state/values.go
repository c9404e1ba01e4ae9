package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Facts are the facts about the reservation behind its nodes that a job may read while it runs.
// Unlike the job's environment, they follow an extension. Times are AWS's.
type Facts struct {
	ReservationID string `json:"reservation_id"`
	InstanceType  string `json:"instance_type"`
	Partition     string `json:"partition"`
	Slot          string `json:"slot"`
	// At Requeue jobs are requeued that on_end requeues, at Fence jobs must be gone, Reclaim is
	// when EC2 takes the first instance, End when it has all; all are absent where the reservation has no end.
	Requeue time.Time `json:"requeue,omitzero"`
	Fence   time.Time `json:"fence,omitzero"`
	Reclaim time.Time `json:"reclaim,omitzero"`
	End     time.Time `json:"end,omitzero"`
}

const factsFolder = "facts"

func (d Dir) facts(slot string) File[Facts] {
	return File[Facts]{d, filepath.Join(factsFolder, slot+".json"), "facts for jobs", true}
}

// FactsPath is the file of facts of a slot.
func (d Dir) FactsPath(slot string) string { return d.path(d.facts(slot).name) }

// WriteFacts writes the changed files of facts of slots, and removes the files of all other slots.
func (d Dir) WriteFacts(bySlot map[string]Facts) error {
	names, err := list(d.open, factsFolder)
	errs := []error{err}
	for slot, facts := range bySlot {
		errs = append(errs, d.facts(slot).Keep(facts))
	}

	for _, name := range names {
		slot, ours := strings.CutSuffix(name, ".json")
		if _, there := bySlot[slot]; ours && !there {
			errs = append(errs, d.remove(d.facts(slot).name))
		}
	}

	return errors.Join(errs...)
}

// Misplaced is a Prolog's finding that the instance behind its node differs from its slot's
// reservation. There is a file for each such node, which only root can write.
type Misplaced struct {
	Node     string            `json:"node"`
	At       time.Time         `json:"at"` // AWS's time
	Metadata capacity.Metadata `json:"metadata"`
}

const misplacedFolder = "misplaced"

func (d Dir) misplaced(node string) File[Misplaced] {
	return File[Misplaced]{d, filepath.Join(misplacedFolder, node+".json"), "what a Prolog found", true}
}

// KeepMisplaced writes a Prolog's finding, for sync. It makes no state_dir: a missing one is not
// shared with this machine.
func (d Dir) KeepMisplaced(m Misplaced) error {
	if _, err := os.Stat(string(d)); err != nil {
		return fmt.Errorf("telling sync of a node: %w", err)
	}
	return d.misplaced(m.Node).write(m)
}

// DropMisplaced forgets the finding about a node, if there is one.
func (d Dir) DropMisplaced(node string) error { return d.remove(d.misplaced(node).name) }

// Misplaced reads the Prologs' findings, in the order of the names of nodes. The error joins the
// files that cannot be read.
func (d Dir) Misplaced() ([]Misplaced, error) {
	names, err := list(d.open, misplacedFolder)
	errs := []error{err}

	var all []Misplaced
	for _, name := range names {
		node, ours := strings.CutSuffix(name, ".json")
		if !ours || strings.HasPrefix(node, ".") {
			continue // of a Prolog that was killed while it wrote
		}

		m, err := d.misplaced(node).Read()
		errs = append(errs, err)
		if err == nil && m.Node != "" { // else it has been forgotten
			all = append(all, m)
		}
	}

	if err := errors.Join(errs...); err != nil {
		return all, fmt.Errorf("reading what Prologs found: %w", err)
	}

	return all, nil
}

// Notices keeps what people have been told, with the times when.
func (d Dir) Notices() File[map[string]time.Time] {
	return File[map[string]time.Time]{d, "notices.json", "what people were told", false}
}

// Setback explains why sync could not go on with the roll over of a node group. Times are AWS's.
type Setback struct {
	// Since is the time of the first failure, Tried that of the last.
	Since   time.Time `json:"since"`
	Tried   time.Time `json:"tried"`
	Problem string    `json:"problem"` // a sentence
}

// Setbacks are the remaining ones, by the step that failed.
func (d Dir) Setbacks() File[map[string]Setback] {
	return File[map[string]Setback]{d, "setbacks.json", "why a roll over waits", false}
}

const heldFile = "held.json"

func (d Dir) held() File[[]capacity.Hold] {
	return File[[]capacity.Hold]{d, heldFile, "what is held", false}
}

// Held is the ledger of the capacity that the programs of this state folder hold now; none if there
// is no file. EC2 shows it too, but not at once.
func (d Dir) Held(now time.Time) ([]capacity.Hold, error) {
	held, err := d.held().Read()
	return slices.DeleteFunc(held, func(h capacity.Hold) bool { return !h.Until.After(now) }), err
}

// Enlist enters an ODCR into the ledger, or completes its entry, and returns the entry. What a token has ordered before
// keeps its end: EC2 binds a token to it. allowed may refuse one that does not exist yet, and gets it and the others.
// The entry is durable before Enlist returns: the order may follow.
func (d Dir) Enlist(
	h capacity.Hold,
	now time.Time,
	allowed func(more capacity.Hold, others []capacity.Hold) error,
) (capacity.Hold, error) {
	err := d.changeHeld(now, func(held []capacity.Hold) ([]capacity.Hold, error) {
		if i := slices.IndexFunc(held, func(o capacity.Hold) bool { return o.Token == h.Token }); i >= 0 {
			h.Until = held[i].Until
			held = slices.Delete(held, i, i+1)
		}

		if h.ReservationID == "" {
			if err := allowed(h, held); err != nil {
				return nil, err
			}
		}

		return append(held, h), nil
	})

	return h, err
}

// Released removes entries from the ledger, by token or id.
func (d Dir) Released(now time.Time, names ...string) error {
	if held, err := d.Held(now); err == nil && len(held) == 0 {
		return nil // there may be no state folder yet
	}

	return d.changeHeld(now, func(held []capacity.Hold) ([]capacity.Hold, error) {
		return slices.DeleteFunc(held, func(h capacity.Hold) bool {
			return slices.Contains(names, h.Token) || h.ReservationID != "" && slices.Contains(names, h.ReservationID)
		}), nil
	})
}

// ledgerWait bounds the wait for others that change the ledger: a part of a hook's time.
var ledgerWait = 10 * time.Second

// changeHeld lets one program at a time change the ledger; that takes it milliseconds.
func (d Dir) changeHeld(now time.Time, change func([]capacity.Hold) ([]capacity.Hold, error)) error {
	unlock, err := d.Lock(context.Background(), LedgerLock, ledgerWait)
	if err != nil {
		return fmt.Errorf("noting what is held: %w", err)
	}
	defer unlock()

	held, err := d.Held(now)
	if err != nil {
		return err
	}

	held, err = change(held)
	if err != nil {
		return err
	}

	return d.held().write(held)
}

const marksFile = "marks.json"

// Mark is the memory of a pass about a job: above all its comment before it started.
type Mark struct {
	Restarts int `json:"restarts,omitempty"` // counts the runs before: each start has a mark of its own
	// Fit: the limit is ours to fit to the fence, up to UpTo minutes if that is not 0.
	Fit  bool `json:"fit,omitempty"`
	UpTo int  `json:"up_to,omitempty"`
	// Saw is the limit in minutes that the pass saw, Set the one that it gave the job then; 0 for none. Any other is
	// somebody else's. Started: it is that of the run; at a start, Slurm itself may shorten a limit.
	Saw     int            `json:"saw,omitempty"`
	Set     int            `json:"set,omitempty"`
	Started bool           `json:"started,omitempty"`
	OnEnd   capacity.OnEnd `json:"on_end,omitempty"` // the job's request for the fence; "" leaves it to its partition
	// Told counts the minutes before the fence at which the job got its last message about it; 0 for none yet.
	Told int `json:"told,omitempty"`
	// Ends counts the fences at which the job has been requeued since its owner released it,
	// EndedAt is the last of them, in Unix seconds of Slurm's clock.
	Ends    int   `json:"ends,omitempty"`
	EndedAt int64 `json:"ended_at,omitempty"`
	Ending  bool  `json:"ending,omitempty"`  // it is being requeued at a fence, and some steps of that are left
	Release bool  `json:"release,omitempty"` // it is held only while that is done
	// Cut is the limit in minutes to which sync has lowered it, From the one before: -1 for none. Zero while the limit
	// is the owner's.
	Cut  int `json:"cut,omitempty"`
	From int `json:"from,omitempty"`
}

// EndAt counts a fence at which the job is requeued, once. A job that starts again in front of
// the same fence, within a minute of it, is not counted again.
func (m *Mark) EndAt(fence time.Time) {
	if !m.EndedBy(fence) {
		m.Ends, m.EndedAt = m.Ends+1, fence.Unix()
	}
}

// EndedBy reports whether the fence is the one that was counted last.
func (m Mark) EndedBy(fence time.Time) bool {
	return time.Unix(m.EndedAt, 0).Sub(fence).Abs() < time.Minute
}

// CutTo notes a new limit of a job that had another: what the job had at first counts.
func (m *Mark) CutTo(minutes int, had capacity.Limit) {
	if m.From == 0 {
		m.From = had.Minutes
		if !had.Bounded() {
			m.From = -1
		}
	}

	m.Cut = minutes
	if minutes == m.From {
		m.Cut, m.From = 0, 0
	}
}

// SetByOthers reports whether somebody else has set this limit since the pass saw the job in the same state.
func (m Mark) SetByOthers(limit capacity.Limit, restarts int, started bool) bool {
	known := m.Fit && m.Saw != 0 && m.Restarts == restarts && m.Started == started
	return known && limit.Minutes != m.Saw && limit.Minutes != m.Set
}

// Stated is the limit that a job's owner stated, if it has this one now; none where the limit is ours to set.
func (m Mark) Stated(limit capacity.Limit) capacity.Limit {
	switch {
	case m.Fit || m.From < 0:
		return capacity.Limit{}
	case m.From > 0:
		return capacity.Minutes(m.From)
	}

	return limit
}

// Cuts reports whether a limit is the one that sync has set. That of a job that had none may be shorter: Slurm counts it
// from when the limit was taken off.
func (m Mark) Cuts(limit capacity.Limit) bool {
	return m.From != 0 && limit.Bounded() && (limit.Minutes == m.Cut || m.From < 0 && limit.Minutes < m.Cut)
}

// Marks keeps the marks that the last pass knew, by job.
func (d Dir) Marks() File[map[string]Mark] {
	return File[map[string]Mark]{d, marksFile, "the marks of jobs", false}
}
