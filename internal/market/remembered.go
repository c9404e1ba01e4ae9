package market

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

const rememberedFile = "offerings.json"

// Remembered is the answer to the last search. EC2 cannot look up an offering by its id: a purchase
// repeats the search to find it.
type Remembered struct {
	InstanceType string            `json:"instance_type"`
	Count        int               `json:"count"`
	Duration     capacity.Duration `json:"duration"`
	StartAfter   time.Time         `json:"start_after,omitzero"`
	EndBy        time.Time         `json:"end_by,omitzero"`
	// Region is the client's own; offerings of other regions name theirs.
	Region string `json:"region"`
	// At is AWS's time of the answer.
	At    time.Time           `json:"at"`
	Found []capacity.Offering `json:"found"`
}

// question returns the search that found the offerings.
func (r Remembered) question() ec2.OfferingQuery {
	return ec2.OfferingQuery{
		InstanceType: r.InstanceType,
		Count:        r.Count,
		Duration:     r.Duration.Duration,
		StartAfter:   r.StartAfter,
		EndBy:        r.EndBy,
	}
}

// offering returns the offering of an id.
func (r Remembered) offering(id string) (capacity.Offering, bool) {
	i := slices.IndexFunc(r.Found, func(o capacity.Offering) bool { return o.ID == id })
	if i < 0 {
		return capacity.Offering{}, false
	}
	return r.Found[i], true
}

// Remember writes an answer into a state_dir, replacing the previous one.
func Remember(dir state.Dir, r Remembered) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("remembering offerings: %w", err)
	}
	if err := dir.WritePublic(rememberedFile, append(text, '\n')); err != nil {
		return fmt.Errorf("remembering offerings: %w", err)
	}
	return nil
}

// ReadRemembered returns the remembered answer; zero if there is none.
func ReadRemembered(dir state.Dir) (Remembered, error) {
	var r Remembered
	path := filepath.Join(string(dir), rememberedFile)
	text, err := dir.ReadPublic(rememberedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return Remembered{}, fmt.Errorf(
			"reading the offerings that were shown last, %s: %w; run `pcs-capacity offerings` again", path, err)
	}
	return r, nil
}
