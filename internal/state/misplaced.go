package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Misplaced is what the Prolog of a node found when the instance behind it was not what its
// slot's reservation is. There is a file for each such node, which only root can write.
type Misplaced struct {
	Node string `json:"node"`
	// At is AWS's time.
	At       time.Time         `json:"at"`
	Metadata capacity.Metadata `json:"metadata"`
}

func (d Dir) misplacedDir() Dir { return Dir(filepath.Join(string(d), "misplaced")) }

func (d Dir) misplacedPath(node string) string {
	return filepath.Join(string(d.misplacedDir()), node+".json")
}

// KeepMisplaced writes down what a Prolog found, for sync. It makes no state_dir: one that
// is not there is not shared with this machine.
func (d Dir) KeepMisplaced(m Misplaced) error {
	if _, err := os.Stat(string(d)); err != nil {
		return fmt.Errorf("telling sync of a node: %w", err)
	}
	text, err := json.Marshal(m)
	if err == nil {
		err = d.misplacedDir().Create()
	}
	if err == nil {
		err = renameio.WriteFile(d.misplacedPath(m.Node), append(text, '\n'), 0o644, renameio.IgnoreUmask(), renameio.WithTempDir(string(d.misplacedDir())))
	}
	if err != nil {
		return fmt.Errorf("telling sync of a node: %w", err)
	}
	return nil
}

// DropMisplaced forgets what was found of a node, if anything was.
func (d Dir) DropMisplaced(node string) error {
	if err := os.Remove(d.misplacedPath(node)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting what a Prolog found: %w", err)
	}
	return nil
}

// Misplaced is what the Prologs found, in the order of the names of nodes. The error joins
// the files that cannot be read.
func (d Dir) Misplaced() ([]Misplaced, error) {
	entries, err := os.ReadDir(string(d.misplacedDir()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	errs := []error{err}
	var all []Misplaced
	for _, e := range entries {
		node, ours := strings.CutSuffix(e.Name(), ".json")
		if !ours || strings.HasPrefix(node, ".") {
			continue // of a Prolog that was killed while it wrote
		}
		text, err := readRegular(d.misplacedPath(node))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var m Misplaced
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err == nil && m.Node != node {
			err = fmt.Errorf("%s is about node %q; remove it", d.misplacedPath(node), m.Node)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, m)
	}
	if err := errors.Join(errs...); err != nil {
		return all, fmt.Errorf("reading what Prologs found: %w", err)
	}
	return all, nil
}
