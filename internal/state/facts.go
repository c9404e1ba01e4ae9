package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
)

// Facts are what a job may read of the reservation behind its nodes while it runs. They follow
// an extension, which its environment cannot. Times are AWS's.
type Facts struct {
	ReservationID string `json:"reservation_id"`
	InstanceType  string `json:"instance_type"`
	Partition     string `json:"partition"`
	Slot          string `json:"slot"`
	// Fence is when jobs must be gone, Reclaim when EC2 takes the first instance, End when
	// it has all; all are absent where the reservation has no end. The numbers are the same in
	// Unix seconds, for shell scripts.
	Fence       time.Time `json:"fence,omitzero"`
	Reclaim     time.Time `json:"reclaim,omitzero"`
	End         time.Time `json:"end,omitzero"`
	FenceUnix   int64     `json:"fence_unix,omitempty"`
	ReclaimUnix int64     `json:"reclaim_unix,omitempty"`
	EndUnix     int64     `json:"end_unix,omitempty"`
}

func (d Dir) factsFolder() string { return filepath.Join(string(d), "facts") }

// FactsPath is the file of facts of a slot.
func (d Dir) FactsPath(slot string) string { return filepath.Join(d.factsFolder(), slot+".json") }

// WriteFacts writes the files of facts of slots, those that have changed, and removes those of
// all other slots. Each is replaced as a whole: who reads it sees the old one or the new one.
func (d Dir) WriteFacts(bySlot map[string]Facts) error {
	fail := func(err error) error { return fmt.Errorf("writing facts for jobs: %w", err) }
	dir := d.factsFolder()
	if len(bySlot) > 0 {
		// Whatever the umask is: jobs read it as their users.
		if err := errors.Join(d.Create(), os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
			return fail(err)
		}
	}
	var errs []error
	for slot, facts := range bySlot {
		text, err := json.MarshalIndent(facts, "", "  ")
		if err != nil {
			return fail(err)
		}
		text = append(text, '\n')
		if was, err := readRegular(d.FactsPath(slot)); err == nil && bytes.Equal(was, text) {
			continue
		}
		if err := renameio.WriteFile(d.FactsPath(slot), text, 0o644, renameio.IgnoreUmask(), renameio.WithTempDir(dir)); err != nil {
			errs = append(errs, fail(err))
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fail(err))
	}
	for _, e := range entries {
		slot, ours := strings.CutSuffix(e.Name(), ".json")
		if _, there := bySlot[slot]; !ours || there {
			continue
		}
		if err := os.Remove(d.FactsPath(slot)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fail(err))
		}
	}
	return errors.Join(errs...)
}
