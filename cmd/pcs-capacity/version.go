package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// version is set by the linker in a release.
var version = ""

// VersionCmd shows the version.
type VersionCmd struct{}

type versionRow struct {
	Version string `json:"version" col:"VERSION"`
	Commit  string `json:"commit" col:"COMMIT"`
	Go      string `json:"go" col:"GO"`
}

func newVersionRow() versionRow {
	row := versionRow{Version: version, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				row.Commit = s.Value
			}
		}
	}
	if row.Version == "" {
		row.Version = "devel"
	}
	return row
}

// Run shows the version as one line, or as fields.
func (VersionCmd) Run(t *terminal.Terminal) error {
	row := newVersionRow()
	if t.Format != terminal.Table {
		return t.Show(row, []versionRow{row})
	}
	_, err := fmt.Fprintf(t.Out, "pcs-capacity %s %s\n", row.Version, row.Commit)
	return err
}
