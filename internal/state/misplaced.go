package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Misplaced is a Prolog's finding that the instance behind its node differs from its slot's
// reservation. There is a file for each such node, which only root can write.
type Misplaced struct {
	Node string `json:"node"`
	// At is AWS's time.
	At       time.Time         `json:"at"`
	Metadata capacity.Metadata `json:"metadata"`
}

const misplacedFolder = "misplaced"

func (d Dir) misplaced(node string) file[Misplaced] {
	return file[Misplaced]{dir: d, name: filepath.Join(misplacedFolder, node+".json"), public: true, keeping: "telling sync of a node"}
}

// KeepMisplaced writes a Prolog's finding, for sync. It makes no state_dir: a missing one is not
// shared with this machine.
func (d Dir) KeepMisplaced(m Misplaced) error {
	if _, err := os.Stat(string(d)); err != nil {
		return fmt.Errorf("telling sync of a node: %w", err)
	}
	return d.misplaced(m.Node).write(m)
}

// DropMisplaced forgets the finding about a node, if there is one.
func (d Dir) DropMisplaced(node string) error {
	if err := d.removePublic(d.misplaced(node).name); err != nil {
		return fmt.Errorf("forgetting what a Prolog found: %w", err)
	}
	return nil
}

// Misplaced reads the Prologs' findings, in the order of the names of nodes. The error joins the
// files that cannot be read.
func (d Dir) Misplaced() ([]Misplaced, error) {
	names, err := d.listPublic(misplacedFolder)
	errs := []error{err}
	var all []Misplaced
	for _, name := range names {
		node, ours := strings.CutSuffix(name, ".json")
		if !ours || strings.HasPrefix(node, ".") {
			continue // of a Prolog that was killed while it wrote
		}
		var m Misplaced
		err := d.misplaced(node).load(&m)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && m.Node != node {
			err = fmt.Errorf("%s is about node %q; remove it", d.misplaced(node).path(), m.Node)
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
