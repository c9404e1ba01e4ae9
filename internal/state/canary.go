package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// CanaryPath is the file of what `canary` has found out about a node group's block.
func (d Dir) CanaryPath(group string) string {
	return filepath.Join(string(d), "canary-"+group+".json")
}

// ReadCanary reads into report, which stays as it is if there is no file.
func (d Dir) ReadCanary(group string, report any) error {
	text, err := readRegular(d.CanaryPath(group))
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
		err = renameio.WriteFile(d.CanaryPath(group), append(text, '\n'), 0o644, renameio.WithTempDir(filepath.Dir(d.CanaryPath(group))))
	}
	if err != nil {
		return fmt.Errorf("writing what was found out: %w", err)
	}
	return nil
}
