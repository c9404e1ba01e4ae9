package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

const noticesFile = "notices.json"

// Notices is what people have been told, with the times when; none if there is no file.
func (d Dir) Notices() (map[string]time.Time, error) {
	text, err := d.ReadPrivate(noticesFile)
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
		err = d.writePrivate(noticesFile, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keeping what people were told: %w", err)
	}
	return nil
}
