package slurm

import (
	"os"
	"path/filepath"
	"strings"
)

// siteWord begins a line of IncludeFile that keeps what the site's slurm.conf says itself of a setting
// of ours.
const siteWord = "# slurm.conf itself has "

// SiteLine is the line that keeps the site's value of a setting: ResumeProgram and SuspendProgram of
// ours call the site's for nodes that are not ours, and lists are merged.
func SiteLine(setting, value string) string { return siteWord + setting + "=" + value + "\n" }

// SiteValue is the value that a text of IncludeFile keeps for a setting; "" if none.
func SiteValue(text, setting string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, siteWord+setting+"="); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
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
	return SiteValue(string(text), setting)
}
