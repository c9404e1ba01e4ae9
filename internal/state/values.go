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
		return fmt.Errorf("telling sync of a node: %w", err)
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

// RemoveHolds removes entries from the ledger, by token or id.
func (d Dir) RemoveHolds(now time.Time, names ...string) error {
	if held, err := d.Holds(now); err == nil && len(held) == 0 {
		return nil // there may be no state folder yet
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
		return fmt.Errorf("noting what is held: %w", err)
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

const jobRecordsFile = "marks.json"

// JobRecord keeps what a pass must know about a job in later passes, above all its comment from before it started.
// Limits are in minutes.
type JobRecord struct {
	// Restarts counts the runs before this one; each start has a record of its own.
	Restarts int `json:"restarts,omitempty"`

	// Fit: sync fits the job's limit to the fence.
	Fit bool `json:"fit,omitempty"`
	// MaxMinutes is the longest limit that sync gives a job with Fit; 0 for no bound.
	MaxMinutes int `json:"up_to,omitempty"`
	// SeenMinutes is the limit that the pass saw; 0 for none. A limit that is neither this nor SetMinutes was set by
	// somebody else.
	SeenMinutes int `json:"saw,omitempty"`
	// SetMinutes is the limit that the pass then set; 0 for none.
	SetMinutes int `json:"set,omitempty"`
	// Started: SeenMinutes is the limit of the run. At a start, Slurm itself may shorten a limit.
	Started bool `json:"started,omitempty"`

	// OnEnd is what the job's comment asked for at the fence; "" leaves it to the partition.
	OnEnd capacity.OnEnd `json:"on_end,omitempty"`
	// WarnedMinutes says how many minutes before the fence the job got its last warning; 0 for none yet.
	WarnedMinutes int `json:"told,omitempty"`

	// FenceRequeues counts the fences at which the job was requeued since its owner last released it.
	FenceRequeues int `json:"ends,omitempty"`
	// LastFence is the last of these fences, in Unix seconds of Slurm's clock.
	LastFence int64 `json:"ended_at,omitempty"`
	// Requeuing: the job is being requeued at a fence, and some steps of that remain.
	Requeuing bool `json:"ending,omitempty"`
	// Release: the job is held only until these steps are done.
	Release bool `json:"release,omitempty"`

	// CutMinutes is the limit to which sync lowered the job; 0 while it has the owner's.
	CutMinutes int `json:"cut,omitempty"`
	// OwnMinutes is the limit from before that: -1 for none, 0 while the job has it.
	OwnMinutes int `json:"from,omitempty"`
}

// CountFence counts a fence at which the job is requeued, once. A job that starts again in front of
// the same fence, within a minute of it, is not counted again.
func (m *JobRecord) CountFence(fence time.Time) {
	if !m.HasCounted(fence) {
		m.FenceRequeues, m.LastFence = m.FenceRequeues+1, fence.Unix()
	}
}

// HasCounted reports whether the fence is the one that was counted last.
func (m JobRecord) HasCounted(fence time.Time) bool {
	return time.Unix(m.LastFence, 0).Sub(fence).Abs() < time.Minute
}

// RecordCut records a new limit for a job that had another. The limit that the job had first stays in OwnMinutes.
func (m *JobRecord) RecordCut(minutes int, had capacity.Limit) {
	if m.OwnMinutes == 0 {
		m.OwnMinutes = had.Minutes
		if !had.Bounded() {
			m.OwnMinutes = -1
		}
	}

	m.CutMinutes = minutes
	if minutes == m.OwnMinutes {
		m.CutMinutes, m.OwnMinutes = 0, 0
	}
}

// ChangedByOthers reports whether somebody else has set this limit since the pass saw the job in the same state.
func (m JobRecord) ChangedByOthers(limit capacity.Limit, restarts int, started bool) bool {
	known := m.Fit && m.SeenMinutes != 0 && m.Restarts == restarts && m.Started == started
	return known && limit.Minutes != m.SeenMinutes && limit.Minutes != m.SetMinutes
}

// StatedLimit returns the limit that the job's owner stated, if limit is its present one; unset if sync chooses it.
func (m JobRecord) StatedLimit(limit capacity.Limit) capacity.Limit {
	switch {
	case m.Fit || m.OwnMinutes < 0:
		return capacity.Limit{}
	case m.OwnMinutes > 0:
		return capacity.Minutes(m.OwnMinutes)
	}

	return limit
}

// IsOwnCut reports whether a limit is the one that sync has set. That of a job that had none may be shorter: Slurm
// counts it from when the limit was taken off.
func (m JobRecord) IsOwnCut(limit capacity.Limit) bool {
	return m.OwnMinutes != 0 && limit.Bounded() &&
		(limit.Minutes == m.CutMinutes || m.OwnMinutes < 0 && limit.Minutes < m.CutMinutes)
}

// JobRecords keeps the job records that the last pass knew, by job.
func (d Dir) JobRecords() File[map[string]JobRecord] {
	return File[map[string]JobRecord]{d, jobRecordsFile, "the marks of jobs", false}
}
