// Package installed makes root file systems into which tests really install the packages that `make packages` builds,
// as on a user's machine, but without touching this one. The tests of packaging use it.
package installed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// FolderVariable is the environment variable that names the folder of the packages.
const FolderVariable = "PCS_CAPACITY_PACKAGES"

// DEB is the pattern of the DEB's file name for this machine, and InstallDEB the command that installs or upgrades it.
var (
	DEB        = "pcs-capacity_*_" + runtime.GOARCH + ".deb"
	InstallDEB = []string{"dpkg", "--root=ROOT", "--force-confold", "--install"}
)

// Package returns the one file in the folder that has the pattern.
func Package(folder, pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%s/%s: found %q, want one package; run `make packages`", folder, pattern, found)
	}

	_, err = os.Stat(found[0]) // another package is another test: no cached answer

	return found[0], err
}

// Later builds the package of a later release into a folder: the same programs and another
// config.toml, from what `make packages` left in dist. top is the folder of the repository.
func Later(ctx context.Context, top, dist, dir, form, version string) (string, error) {
	settings, err := os.ReadFile(filepath.Join(dist, "config.toml"))
	if err != nil {
		return "", err
	}

	recipe, err := os.ReadFile(filepath.Join(top, "nfpm.yaml"))
	if err != nil {
		return "", err
	}

	changed := filepath.Join(dir, "config.toml")
	path := filepath.Join(dir, "nfpm.yaml")
	text := strings.NewReplacer("dist/config.toml", changed, "compression: xz", "compression: gzip").
		Replace(string(recipe))

	settings = append(settings, "# new in "+version+"\n"...)
	if err := errors.Join(os.WriteFile(changed, settings, 0o644), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		return "", err
	}

	built := filepath.Join(dir, "later."+form)

	cmd := exec.CommandContext(
		ctx,
		filepath.Join(dist, "tools", "nfpm"),
		"package",
		"-f",
		path,
		"-p",
		form,
		"-t",
		built,
	)
	cmd.Dir = top

	cmd.Env = append(os.Environ(), "ARCH="+runtime.GOARCH, "VERSION="+version)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("nfpm: %w: %s", err, out)
	}

	return built, nil
}

// Root is the folder of a root file system.
type Root string

// New makes one that has the programs which the packages' scripts call, a systemctl that writes
// what it is told to /systemctl.log, the given users (lines of /etc/passwd), and nothing else.
func New(dir, users string) (Root, error) {
	r := Root(dir)

	var errs []error
	for _, folder := range []string{"bin", "sbin", "lib", "lib64"} {
		errs = append(errs, os.MkdirAll(r.At("usr/"+folder), 0o755), os.Symlink("usr/"+folder, r.At(folder)))
	}

	for _, name := range []string{"sh", "mkdir", "rm", "id", "chown", "timeout", "grep"} {
		errs = append(errs, r.program(name))
	}

	for path, text := range map[string]string{
		"run/systemd/system/.keep":   "",
		"systemctl.log":              "",
		"tmp/.keep":                  "",
		"etc/passwd":                 users,
		"etc/group":                  strings.ReplaceAll(users, "::/", ":"),
		"var/lib/dpkg/status":        "",
		"var/lib/dpkg/available":     "",
		"var/lib/dpkg/info/.keep":    "",
		"var/lib/dpkg/updates/.keep": "",
	} {
		errs = append(errs, r.Write(path, text, 0o644))
	}

	errs = append(
		errs,
		r.Write("dev/null", "", 0o666),
		r.Write("usr/bin/systemctl", "#!/bin/sh\necho \"$@\" >>/systemctl.log\n", 0o755),
	)

	return r, errors.Join(errs...)
}

// At returns the path outside of the root of one inside.
func (r Root) At(path string) string { return filepath.Join(string(r), path) }

// Write writes a file and makes its folder.
func (r Root) Write(path, text string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(r.At(path)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(r.At(path), []byte(text), mode)
}

// program copies one of this machine, with its libraries.
func (r Root) program(name string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return err
	}

	libraries, err := exec.Command("ldd", path).Output()
	if err != nil {
		return fmt.Errorf("ldd %s: %w", path, err)
	}

	files := map[string]string{path: "usr/bin/" + name}
	for _, library := range regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1) {
		files[library] = library
	}

	for from, to := range files {
		text, err := os.ReadFile(from)
		if err == nil {
			err = r.Write(to, string(text), 0o755)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// Manage runs a package manager, in whose arguments ROOT stands for the root, and returns what it said. It runs as
// root, also where we are another user: then in a user namespace, where that user is root.
func (r Root) Manage(ctx context.Context, command []string, what string) (string, error) {
	command = append(slices.Clone(command), what)
	for n := range command {
		command[n] = strings.ReplaceAll(command[n], "ROOT", string(r))
	}

	if os.Getuid() != 0 {
		command = append([]string{"unshare", "--map-root-user"}, command...)
	}

	cmd := exec.CommandContext(ctx, command[0], command[1:]...)

	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin", "DEBIAN_FRONTEND=noninteractive")

	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf(
			"%q: %w (where users may make no namespaces, only root can run this): %s",
			command,
			err,
			out,
		)
	}

	return string(out), nil
}
