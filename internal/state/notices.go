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

func (d Dir) noticesPath() string { return filepath.Join(string(d), "notices.json") }

// Notices is what people have been told, with the times when; none if there is no file.
func (d Dir) Notices() (map[string]time.Time, error) {
	text, err := readRegular(d.noticesPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var told map[string]time.Time
	if err == nil {
		err = json.Unmarshal(text, &told)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what people were told: %w", err)
	}
	return told, nil
}

// KeepNotices keeps what people have been told.
func (d Dir) KeepNotices(told map[string]time.Time) error {
	text, err := json.Marshal(told)
	if err == nil {
		err = renameio.WriteFile(d.noticesPath(), append(text, '\n'), 0o644, renameio.IgnoreUmask(), renameio.WithTempDir(string(d)))
	}
	if err != nil {
		return fmt.Errorf("keeping what people were told: %w", err)
	}
	return nil
}
