package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

const tornFile = "torn-down.json"

// TornDown are the queues, and node groups as QUEUE/NAME, that a teardown has begun to remove;
// none if there is no file.
func (d Dir) TornDown() ([]string, error) {
	text, err := d.ReadPrivate(tornFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	if err == nil {
		err = json.Unmarshal(text, &names)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what was torn down, %s: %w; remove it", d.PrivatePath(tornFile), err)
	}
	return names, nil
}

// KeepTornDown adds a name to them.
func (d Dir) KeepTornDown(name string) error {
	names, err := d.TornDown()
	if err != nil || slices.Contains(names, name) {
		return err
	}
	text, err := json.Marshal(append(names, name))
	if err == nil {
		err = d.writePrivate(tornFile, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keeping what was torn down: %w", err)
	}
	return nil
}
