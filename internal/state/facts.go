package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Facts are the facts about the reservation behind its nodes that a job may read while it runs.
// Unlike the job's environment, they follow an extension. Times are AWS's.
type Facts struct {
	ReservationID string `json:"reservation_id"`
	InstanceType  string `json:"instance_type"`
	Partition     string `json:"partition"`
	Slot          string `json:"slot"`
	// Requeue is when jobs are requeued that on_end requeues, Fence when jobs must be gone, Reclaim
	// when EC2 takes the first instance, End when it has all; all are absent where the reservation has no end. The numbers are the same in
	// Unix seconds, for shell scripts.
	Requeue     time.Time `json:"requeue,omitzero"`
	Fence       time.Time `json:"fence,omitzero"`
	Reclaim     time.Time `json:"reclaim,omitzero"`
	End         time.Time `json:"end,omitzero"`
	RequeueUnix int64     `json:"requeue_unix,omitempty"`
	FenceUnix   int64     `json:"fence_unix,omitempty"`
	ReclaimUnix int64     `json:"reclaim_unix,omitempty"`
	EndUnix     int64     `json:"end_unix,omitempty"`
}

const factsFolder = "facts"

func factsFile(slot string) string { return filepath.Join(factsFolder, slot+".json") }

// FactsPath is the file of facts of a slot.
func (d Dir) FactsPath(slot string) string { return d.path(factsFile(slot)) }

// WriteFacts writes the changed files of facts of slots, and removes the files of all other slots.
// Each file is replaced as a whole: a reader sees the old one or the new one.
func (d Dir) WriteFacts(bySlot map[string]Facts) error {
	fail := func(err error) error { return fmt.Errorf("writing facts for jobs: %w", err) }
	var errs []error
	for slot, facts := range bySlot {
		text, err := json.MarshalIndent(facts, "", "  ")
		if err != nil {
			return fail(err)
		}
		text = append(text, '\n')
		if was, err := d.ReadPublic(factsFile(slot)); err == nil && bytes.Equal(was, text) {
			continue
		}
		if err := d.WritePublic(factsFile(slot), text); err != nil {
			errs = append(errs, fail(err))
		}
	}
	names, err := d.listPublic(factsFolder)
	if err != nil {
		errs = append(errs, fail(err))
	}
	for _, name := range names {
		slot, ours := strings.CutSuffix(name, ".json")
		if _, there := bySlot[slot]; !ours || there {
			continue
		}
		if err := d.removePublic(factsFile(slot)); err != nil {
			errs = append(errs, fail(err))
		}
	}
	return errors.Join(errs...)
}
