package slurm

import (
	"os"
	"path/filepath"
	"strings"
)

// siteWord begins a line of IncludeFile that has a program of the site's, behind the setting
// that named it.
const siteWord = "# The site's own "

// SiteProgramLine is the line that keeps the program of the site's that a setting named before:
// ours calls it for nodes that are not ours.
func SiteProgramLine(setting, program string) string {
	return siteWord + setting + ", for its own nodes, is " + program + "\n"
}

// SiteProgram is the program that is kept beside the slurm.conf for a setting; "" if none.
func SiteProgram(conf, setting string) string {
	if conf == "" {
		conf = DefaultConf
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(conf), IncludeFile))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if program, ok := strings.CutPrefix(line, siteWord+setting+", for its own nodes, is "); ok {
			return strings.TrimSpace(program)
		}
	}
	return ""
}
