package config

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// The settings are read by users' commands, so that a secret has to be elsewhere: in the environment of hooks, or, the
// URL of a webhook, in a file that webhook = "file:///PATH" names.

// Redacted returns the settings without what may be a secret.
func (c *Config) Redacted() *Config {
	shown := *c
	if u, secret := secretURL(c.Notify.Webhook); secret {
		shown.Notify.Webhook = u.Scheme + "://" + u.Host + "/(not shown)"
	}

	return &shown
}

// secretURL parses a URL, and reports whether it has more than a host: who knows the rest may post there.
func secretURL(text string) (u *url.URL, secret bool) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return u, false
	}

	return u, u.User != nil || len(u.Path) > 1 || u.RawQuery != ""
}

// secretVariable matches a line of the environment that has a secret: by its name, or a password in a URL.
var secretVariable = regexp.MustCompile(
	`(?m)^\s*(?:[A-Za-z0-9_]*(?:SECRET|TOKEN|PASSWORD)[A-Za-z0-9_]*=.|[A-Za-z0-9_]+=\S*://[^/\s]*:[^/\s]*@)`)

// CheckSecrets returns which secrets others than root and SlurmUser can read, each with its remedy.
func (c *Config) CheckSecrets(slurmUser int) (errs []error) {
	readable := func(path string) bool {
		info, err := os.Stat(path)

		return err == nil && isReadableByOthers(info, slurmUser)
	}

	if _, secret := secretURL(c.Notify.Webhook); secret && readable(c.Path) {
		// A relative path if the working directory is unknown.
		file, _ := filepath.Abs(filepath.Join(filepath.Dir(c.Path), "webhook"))
		errs = append(errs, fmt.Errorf(
			`all users can read webhook in %s, and post there; write the URL into %s, with mode 0600, and set `+
				`webhook = "file://%s"`,
			c.Path, file, file))
	}

	if file, is := strings.CutPrefix(c.Notify.Webhook, "file://"); is && readable(file) {
		errs = append(errs, fmt.Errorf(
			"others can read %s, which has the URL of the webhook; chown root %s; chmod 600 %s", file, file, file))
	}

	environment := EnvironmentPath(c.Path)
	text, err := os.ReadFile(environment)
	if err == nil && secretVariable.Match(text) && readable(environment) {
		errs = append(errs, fmt.Errorf(
			"others can read %s, which has a secret; give it to SlurmUser's group, such as with `chgrp slurm %s`, "+
				"and chmod 640 %s",
			environment, environment, environment))
	}

	return errs
}

// isReadableByOthers reports whether more than root, SlurmUser and their groups may read a file.
func isReadableByOthers(info os.FileInfo, slurmUser int) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	gid, _ := groupsOf(slurmUser)

	switch {
	case mode&0o004 != 0:
		return true
	case !ok:
		return false
	case mode&0o040 != 0 && !slices.Contains([]int{0, gid}, int(owner.Gid)):
		return true
	default:
		return mode&0o400 != 0 && !slices.Contains([]int{0, slurmUser}, int(owner.Uid))
	}
}
