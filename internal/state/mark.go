package state

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

// markPath is where the cluster's mark lies, one line.
func (d Dir) markPath() string { return filepath.Join(string(d), "mark") }

// Mark is the value of our mark as a hook last learned it on the controller. The error wraps
// fs.ErrNotExist if none has.
func (d Dir) Mark() (string, error) {
	text, err := readRegular(d.markPath())
	if err != nil {
		return "", fmt.Errorf("reading the cluster's mark: %w", err)
	}
	mark := strings.TrimSpace(string(text))
	if mark == "" {
		return "", fmt.Errorf("reading the cluster's mark: %s is empty", d.markPath())
	}
	return mark, nil
}

// KeepMark writes the mark down, if it is new, for hooks that find no slurmctld, and for a
// sync on another machine.
func (d Dir) KeepMark(mark string) error {
	if kept, err := d.Mark(); err == nil && kept == mark {
		return nil
	}
	if err := renameio.WriteFile(d.markPath(), []byte(mark+"\n"), 0o644, renameio.IgnoreUmask(), renameio.WithTempDir(string(d))); err != nil {
		return fmt.Errorf("keeping the cluster's mark: %w", err)
	}
	return nil
}
