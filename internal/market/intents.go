package market

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Intents is the folder of the intents in a state_dir, one file each.
type Intents struct{ StateDir state.Dir }

const intentsFolder = "intents"

func (f Intents) name(id string) string { return filepath.Join(intentsFolder, id+".json") }

// Path returns the file of the intent of that id.
func (f Intents) Path(id string) string { return f.StateDir.PrivatePath(f.name(id)) }

// Write writes one intent, to disk and not only to the cache, replacing its file, and reads it back.
func (f Intents) Write(i Intent) error {
	text, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("recording %s: %w", i.Kind, err)
	}

	text = append(text, '\n')

	err = f.StateDir.WritePrivate(f.name(i.ID), text)
	if err == nil {
		err = f.readBack(i.ID, text)
	}

	if err != nil {
		return fmt.Errorf("recording %s: %w", i.Kind, err)
	}

	return nil
}

// readBack makes sure that a file has the written text.
func (f Intents) readBack(id string, text []byte) error {
	has, err := f.StateDir.ReadPrivate(f.name(id))
	if err == nil && !bytes.Equal(has, text) {
		err = fmt.Errorf("%s does not contain what was written", f.Path(id))
	}

	return err
}

// All reads all intents, oldest first. An unreadable one is an error: it may stand for money.
func (f Intents) All() ([]Intent, error) {
	names, err := f.StateDir.ListPrivate(intentsFolder)
	if err != nil {
		return nil, fmt.Errorf("reading what was bought: %w", err)
	}

	var all []Intent
	for _, name := range names {
		id, is := strings.CutSuffix(name, ".json")
		if !is || strings.HasPrefix(id, ".") {
			continue
		}

		var i Intent

		text, err := f.StateDir.ReadPrivate(f.name(id))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err == nil {
			err = json.Unmarshal(text, &i)
		}

		if err != nil {
			return nil, fmt.Errorf("reading %s: %w; look at it before you buy anything", f.Path(id), err)
		}

		all = append(all, i)
	}

	slices.SortFunc(all, func(a, b Intent) int { return a.At.Compare(b.At) })

	return all, nil
}

// Lock keeps other buyers out until the returned function is called or this program ends. It does not
// wait: another buyer is an error.
func (f Intents) Lock() (unlock func(), err error) {
	return f.StateDir.Lock(context.Background(), state.PurchaseLock, 0)
}
