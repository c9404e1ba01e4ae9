package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// Setback is why sync could not go on with the roll over of a node group. Times are AWS's.
type Setback struct {
	// Since is when it was met first, Tried when sync tried last.
	Since time.Time `json:"since"`
	Tried time.Time `json:"tried"`
	// Problem is a sentence.
	Problem string `json:"problem"`
}

func (d Dir) setbacksPath() string { return filepath.Join(string(d), "setbacks.json") }

// Setbacks are those that are left, by what is to be done; none if there is no file.
func (d Dir) Setbacks() (map[string]Setback, error) {
	text, err := readRegular(d.setbacksPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all map[string]Setback
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("reading why a roll over waits, %s: %w; remove it", d.setbacksPath(), err)
	}
	return all, nil
}

// KeepSetbacks keeps them for the next pass.
func (d Dir) KeepSetbacks(all map[string]Setback) error {
	text, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = renameio.WriteFile(d.setbacksPath(), append(text, '\n'), 0o644, renameio.IgnoreUmask(), renameio.WithTempDir(string(d)))
	}
	if err != nil {
		return fmt.Errorf("keeping why a roll over waits: %w", err)
	}
	return nil
}
