package market

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Intents is the folder of the intents in a state_dir, one file each.
type Intents struct{ StateDir state.Dir }

func (f Intents) dir() string { return filepath.Join(string(f.StateDir), "intents") }

// Path is the file of the intent of that id.
func (f Intents) Path(id string) string { return filepath.Join(f.dir(), id+".json") }

// Write writes one intent, to disk and not only to the cache, replacing what
// was known of it, and reads it back.
func (f Intents) Write(i Intent) error {
	text, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("recording %s: %w", i.Kind, err)
	}
	text = append(text, '\n')
	if err := errors.Join(f.StateDir.Create(), os.MkdirAll(f.dir(), 0o755)); err != nil {
		return fmt.Errorf("recording %s: %w", i.Kind, err)
	}
	if err := renameio.WriteFile(f.Path(i.ID), text, 0o644, renameio.WithTempDir(f.dir())); err != nil {
		return fmt.Errorf("recording %s: %w", i.Kind, err)
	}
	// The file is on disk; so must be its name, which the directory holds.
	for _, dir := range []string{f.dir(), string(f.StateDir)} {
		if err := syncDir(dir); err != nil {
			return fmt.Errorf("recording %s: %w", i.Kind, err)
		}
	}
	if err := readBack(f.Path(i.ID), text); err != nil {
		return fmt.Errorf("recording %s: %w", i.Kind, err)
	}
	return nil
}

// readBack makes sure that a file has what was written.
func readBack(path string, text []byte) error {
	has, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(has, text) {
		err = fmt.Errorf("%s does not have what was written", path)
	}
	return err
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// All reads all intents, oldest first. One that cannot be read is an error: it
// may stand for money.
func (f Intents) All() ([]Intent, error) {
	paths, err := filepath.Glob(filepath.Join(f.dir(), "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Intent
	for _, path := range paths {
		var i Intent
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(text, &i)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w; look at it before you buy anything", path, err)
		}
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b Intent) int { return a.At.Compare(b.At) })
	return all, nil
}

// Lock keeps other programs that buy out until the returned function is
// called or this program ends. It does not wait: somebody else buying is an error.
func (f Intents) Lock() (unlock func(), err error) {
	return f.StateDir.Lock(context.Background(), state.PurchaseLock, 0)
}
