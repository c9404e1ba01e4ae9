package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

const offeringsFile = "offerings.json"

// Offerings is the answer to the last `pcs-capacity offerings`. EC2 cannot look an
// offering up by its id, so `purchase` needs the question to find it again.
type Offerings struct {
	InstanceType string            `json:"instance_type"`
	Count        int               `json:"count"`
	Duration     capacity.Duration `json:"duration"`
	StartAfter   time.Time         `json:"start_after,omitzero"`
	EndBy        time.Time         `json:"end_by,omitzero"`
	// Region is the own one; offerings of other regions name theirs.
	Region string `json:"region"`
	// At is AWS's time of the answer.
	At    time.Time           `json:"at"`
	Found []capacity.Offering `json:"found"`
}

// WriteOfferings remembers an answer, in place of the one before.
func (d Dir) WriteOfferings(o Offerings) error {
	text, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return fmt.Errorf("remembering offerings: %w", err)
	}
	if err := d.Create(); err != nil {
		return fmt.Errorf("remembering offerings: %w", err)
	}
	if err := renameio.WriteFile(filepath.Join(string(d), offeringsFile), append(text, '\n'), 0o644, renameio.WithTempDir(string(d))); err != nil {
		return fmt.Errorf("remembering offerings: %w", err)
	}
	return nil
}

// ReadOfferings is the answer remembered last; the zero value if there is none.
func (d Dir) ReadOfferings() (Offerings, error) {
	var o Offerings
	text, err := os.ReadFile(filepath.Join(string(d), offeringsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return Offerings{}, fmt.Errorf("reading remembered offerings: %w", err)
	}
	return o, nil
}
