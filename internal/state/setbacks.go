package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

const setbacksFile = "setbacks.json"

// Setback is why sync could not go on with the roll over of a node group. Times are AWS's.
type Setback struct {
	// Since is when it was met first, Tried when sync tried last.
	Since time.Time `json:"since"`
	Tried time.Time `json:"tried"`
	// Problem is a sentence.
	Problem string `json:"problem"`
}

// Setbacks are the remaining ones, by the step that failed; none if there is no file.
func (d Dir) Setbacks() (map[string]Setback, error) {
	text, err := d.ReadPrivate(setbacksFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all map[string]Setback
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("reading why a roll over waits, %s: %w; remove it", d.PrivatePath(setbacksFile), err)
	}
	return all, nil
}

// KeepSetbacks keeps them for the next pass.
func (d Dir) KeepSetbacks(all map[string]Setback) error {
	text, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = d.writePrivate(setbacksFile, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keeping why a roll over waits: %w", err)
	}
	return nil
}
