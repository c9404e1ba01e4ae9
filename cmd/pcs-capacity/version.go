package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// What the linker sets in packages; elsewhere the build information says what it knows.
var version, commit, date = "", "", ""

// VersionCmd shows the version.
type VersionCmd struct{}

type versionRow struct {
	Version string `json:"version" col:"VERSION"`
	Commit  string `json:"commit" col:"COMMIT"`
	// Date is that of the commit, in UTC.
	Date string `json:"date" col:"DATE"`
	Go   string `json:"go" col:"GO"`
}

func newVersionRow() versionRow {
	row := versionRow{Version: version, Commit: commit, Date: date, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				row.Commit = cmp.Or(row.Commit, s.Value)
			case "vcs.time":
				row.Date = cmp.Or(row.Date, s.Value)
			}
		}
	}
	row.Version = cmp.Or(row.Version, "devel")
	row.Commit = cmp.Or(row.Commit, "unknown")
	row.Date = cmp.Or(row.Date, "unknown")
	return row
}

func (r versionRow) String() string {
	return fmt.Sprintf("pcs-capacity %s (commit %s, %s)", r.Version, r.Commit, r.Date)
}

// Run shows the version as one line, or as fields.
func (VersionCmd) Run(t *terminal.Terminal) error {
	row := newVersionRow()
	if t.Format != terminal.Table {
		return t.Show(row, []versionRow{row})
	}
	_, err := fmt.Fprintln(t.Out, row)
	return err
}
