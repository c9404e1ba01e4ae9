package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

const (
	// serviceUnit is there where a package is installed.
	serviceUnit = "/usr/lib/systemd/system/pcs-capacity-sync.service"
	// watchEnvironment lasts as long as the unit of systemd-run: until the next boot.
	watchEnvironment = "/run/pcs-capacity-watch.env"
)

// watchCommand keeps `sync --watch` running, in lines of shell: by the package's service, or,
// where there is none or it has other settings, until the next boot.
func watchCommand(g *Globals, cfg *config.Config) []string {
	_, err := os.Stat(serviceUnit)
	path, absErr := filepath.Abs(cfg.Path)
	if absErr != nil {
		path = cfg.Path
	}
	return watching(err == nil, path, g, os.Environ())
}

// watching is watchCommand by what it depends on. A service has nothing of the shell's environment,
// and every user can read the variables that systemd-run gives it, but not those of a file.
func watching(packaged bool, path string, g *Globals, environment []string) []string {
	if packaged && path == config.SystemPath {
		return []string{"systemctl enable --now pcs-capacity-sync"}
	}
	var lines []string
	run := "systemd-run --unit=pcs-capacity-watch -p Restart=always"
	if slices.ContainsFunc(environment,
		func(v string) bool { return strings.HasPrefix(v, "SLURM_CONF=") || strings.HasPrefix(v, "AWS_") }) {
		lines = append(lines, "(umask 077; env | grep -E '^(SLURM_CONF=|AWS_)' >"+watchEnvironment+")")
		run += " -p EnvironmentFile=" + watchEnvironment
	}
	run += " pcs-capacity"
	for _, flag := range []struct{ name, value string }{{"--config", path}, {"--region", g.Region}, {"--profile", g.Profile}} {
		if flag.value != "" && flag.value != config.SystemPath {
			run += " " + flag.name + " " + flag.value
		}
	}
	return append(lines, run+" sync --watch")
}
