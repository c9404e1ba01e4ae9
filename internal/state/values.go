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

// JobFacts are the facts about the reservation behind its nodes that a job may read while it runs. Unlike the job's
// environment, they follow an extension. Times are AWS's.
type JobFacts struct {
	ReservationID string `json:"reservation_id"`
	InstanceType  string `json:"instance_type"`
	Partition     string `json:"partition"`
	Slot          string `json:"slot"`
	// The next four are absent where the reservation has no end.
	Requeue time.Time `json:"requeue,omitzero"` // when jobs with on_end=requeue or hold are requeued
	Fence   time.Time `json:"fence,omitzero"`   // when jobs must be gone
	Reclaim time.Time `json:"reclaim,omitzero"` // when EC2 takes the first instance back
	End     time.Time `json:"end,omitzero"`     // when EC2 has taken all of them
}

const factsFolder = "facts"

func (d Dir) jobFacts(slot string) File[JobFacts] {
	return File[JobFacts]{d, filepath.Join(factsFolder, slot+".json"), "facts for jobs", true}
}

// JobFactsPath returns the file of facts of a slot.
func (d Dir) JobFactsPath(slot string) string { return d.path(d.jobFacts(slot).name) }

// WriteJobFacts writes the changed files of facts of slots, and removes the files of all other slots.
func (d Dir) WriteJobFacts(bySlot map[string]JobFacts) error {
	names, err := list(d.open, factsFolder)
	errs := []error{err}
	for slot, facts := range bySlot {
		errs = append(errs, d.jobFacts(slot).Save(facts))
	}

	for _, name := range names {
		slot, ours := strings.CutSuffix(name, ".json")
		if _, there := bySlot[slot]; ours && !there {
			errs = append(errs, d.remove(d.jobFacts(slot).name))
		}
	}

	return errors.Join(errs...)
}

// Misplaced is a Prolog's finding that the instance behind its node differs from its slot's reservation. There is a
// file for each such node, which only root can write.
type Misplaced struct {
	Node     string            `json:"node"`
	At       time.Time         `json:"at"` // AWS's time
	Metadata capacity.Metadata `json:"metadata"`
}

const misplacedFolder = "misplaced"

func (d Dir) misplaced(node string) File[Misplaced] {
	return File[Misplaced]{d, filepath.Join(misplacedFolder, node+".json"), "what a Prolog found", true}
}

// SaveMisplaced writes a Prolog's finding, for sync. It makes no state_dir: a missing one is not shared with this
// machine.
func (d Dir) SaveMisplaced(m Misplaced) error {
	if _, err := os.Stat(string(d)); err != nil {
		return fmt.Errorf("reporting a node to sync: %w", err)
	}
	return d.misplaced(m.Node).write(m)
}

// RemoveMisplaced forgets the finding about a node, if there is one.
func (d Dir) RemoveMisplaced(node string) error { return d.remove(d.misplaced(node).name) }

// Misplaced reads the Prologs' findings, in the order of the names of nodes. The error joins the files that cannot be
// read.
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
	Since   time.Time `json:"since"`   // the first failure
	Tried   time.Time `json:"tried"`   // the last failure
	Problem string    `json:"problem"` // a sentence
}

// Setbacks keeps the setbacks that remain, by Rolling.key of package lifecycle.
func (d Dir) Setbacks() File[map[string]Setback] {
	return File[map[string]Setback]{d, "setbacks.json", "why a roll over waits", false}
}

// NodeTests has what sync knows of the tests of a slot's nodes in one block.
type NodeTests struct {
	Block string             `json:"block"`
	Runs  []capacity.TestRun `json:"runs,omitempty"`
	// Replaced has the nodes that failed and were launched again, each with the time, AWS's, of its power-down.
	Replaced map[string]time.Time `json:"replaced,omitempty"`
}

// NodeTests keeps the tests of nodes by slot.
func (d Dir) NodeTests() File[map[string]NodeTests] {
	return File[map[string]NodeTests]{d, "tests.json", "the tests of nodes", false}
}

const holdsFile = "held.json"

func (d Dir) holds() File[[]capacity.Hold] {
	return File[[]capacity.Hold]{d, holdsFile, "what is held", false}
}

// Holds returns the ledger of the capacity that the programs of this state folder hold now; none if there
// is no file. EC2 shows it too, but not at once.
func (d Dir) Holds(now time.Time) ([]capacity.Hold, error) {
	held, err := d.holds().Read()
	return slices.DeleteFunc(held, func(h capacity.Hold) bool { return !h.Until.After(now) }), err
}

// AddHold enters an ODCR into the ledger, or completes its entry, and returns the entry. What a token has ordered
// before keeps its end: EC2 binds a token to it. allowed may refuse one that does not exist yet, and gets it and the
// others. The entry is durable before AddHold returns: the order may follow.
func (d Dir) AddHold(
	h capacity.Hold,
	now time.Time,
	allowed func(more capacity.Hold, others []capacity.Hold) error,
) (capacity.Hold, error) {
	err := d.updateHolds(now, func(held []capacity.Hold) ([]capacity.Hold, error) {
		// An order that is sent again.
		if i := slices.IndexFunc(held, func(o capacity.Hold) bool { return o.Token == h.Token }); i >= 0 {
			h.Until = held[i].Until
			held = slices.Delete(held, i, i+1)
		}

		// It does not exist yet, so it may still be refused.
		if h.ReservationID == "" {
			if err := allowed(h, held); err != nil {
				return nil, err
			}
		}

		return append(held, h), nil
	})

	return h, err
}

// RemoveHolds removes entries from the ledger, by token or id.
func (d Dir) RemoveHolds(now time.Time, names ...string) error {
	// There may be no state folder yet.
	if held, err := d.Holds(now); err == nil && len(held) == 0 {
		return nil
	}

	return d.updateHolds(now, func(held []capacity.Hold) ([]capacity.Hold, error) {
		return slices.DeleteFunc(held, func(h capacity.Hold) bool {
			return slices.Contains(names, h.Token) || h.ReservationID != "" && slices.Contains(names, h.ReservationID)
		}), nil
	})
}

// ledgerWait bounds the wait for others that change the ledger: a part of a hook's time.
var ledgerWait = 10 * time.Second

// updateHolds lets one program at a time change the ledger; that takes it milliseconds.
func (d Dir) updateHolds(now time.Time, change func([]capacity.Hold) ([]capacity.Hold, error)) error {
	unlock, err := d.Lock(context.Background(), LedgerLock, ledgerWait)
	if err != nil {
		return fmt.Errorf("changing the ledger of holds: %w", err)
	}
	defer unlock()

	held, err := d.Holds(now)
	if err != nil {
		return err
	}

	held, err = change(held)
	if err != nil {
		return err
	}

	return d.holds().write(held)
}
