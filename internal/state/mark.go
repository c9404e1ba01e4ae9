package state

import (
	"fmt"
	"strings"
)

// markFile has the cluster's mark, one line.
const markFile = "mark"

// Mark is the value of our mark as a hook last learned it on the controller. The error wraps
// fs.ErrNotExist if none has.
func (d Dir) Mark() (string, error) {
	text, err := d.ReadPublic(markFile)
	if err != nil {
		return "", fmt.Errorf("reading the cluster's mark: %w", err)
	}
	mark := strings.TrimSpace(string(text))
	if mark == "" {
		return "", fmt.Errorf("reading the cluster's mark: %s is empty", d.path(markFile))
	}
	return mark, nil
}

// KeepMark writes the mark, if it is new, for hooks that find no slurmctld, and for a sync on
// another machine.
func (d Dir) KeepMark(mark string) error {
	if kept, err := d.Mark(); err == nil && kept == mark {
		return nil
	}
	if err := d.WritePublic(markFile, []byte(mark+"\n")); err != nil {
		return fmt.Errorf("keeping the cluster's mark: %w", err)
	}
	return nil
}
