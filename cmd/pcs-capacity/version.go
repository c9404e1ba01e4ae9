package main

import (
	"cmp"
	"fmt"
	"runtime/debug"
)

// What the linker sets in packages; elsewhere the build information says what it knows.
var version, commit, date = "", "", ""

// versionLine has the version, the commit and the commit's date, in UTC.
func versionLine() string {
	revision, at := commit, date
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				revision = cmp.Or(revision, s.Value)
			case "vcs.time":
				at = cmp.Or(at, s.Value)
			}
		}
	}
	return fmt.Sprintf("pcs-capacity %s (commit %s, %s)", cmp.Or(version, "devel"), cmp.Or(revision, "unknown"), cmp.Or(at, "unknown"))
}
