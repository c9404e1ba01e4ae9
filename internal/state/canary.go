package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

func canaryFile(group string) string { return "canary-" + group + ".json" }

// CanaryPath is the file with the answers of `canary` about a node group's block.
func (d Dir) CanaryPath(group string) string {
	return d.PrivatePath(canaryFile(group))
}

// ReadCanary reads into report, which stays as it is if there is no file.
func (d Dir) ReadCanary(group string, report any) error {
	text, err := d.ReadPrivate(canaryFile(group))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, report)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w; move it away to begin anew", d.CanaryPath(group), err)
	}
	return nil
}

// WriteCanary replaces the file as a whole.
func (d Dir) WriteCanary(group string, report any) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err == nil {
		err = d.writePrivate(canaryFile(group), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing what was found out: %w", err)
	}
	return nil
}
