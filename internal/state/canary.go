package state

import (
	"errors"
	"fmt"
	"io/fs"
)

func (d Dir) canary(group string) file[any] {
	return file[any]{dir: d, name: "canary-" + group + ".json", indent: true, keeping: "writing what was found out"}
}

// CanaryPath is the file with the answers of `canary` about a node group's block.
func (d Dir) CanaryPath(group string) string { return d.canary(group).path() }

// ReadCanary reads into report, which stays as it is if there is no file.
func (d Dir) ReadCanary(group string, report any) error {
	if err := d.canary(group).load(report); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading %s: %w; move it away to begin anew", d.CanaryPath(group), err)
	}
	return nil
}

// WriteCanary replaces the file as a whole.
func (d Dir) WriteCanary(group string, report any) error { return d.canary(group).write(report) }
