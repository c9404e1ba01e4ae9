// Package packaging tests the packages that `make packages` builds: they are really
// installed, by dpkg and by rpm, into root file systems of their own, beside a real Slurm.
package packaging

import (
	"context"
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/installed"
)

// newer is the version of the package that is upgraded to.
const newer = "99.0.0"

// form is a form of package, and how its manager is called on a root of its own.
type form struct {
	name, pattern string
	// install also upgrades.
	install, remove, purge []string
	keptAside              string   // the ending of a new conffile that is not put in the place of an edited one
	only                   []string // files that only this form has
}

var forms = []form{
	{
		name:      "deb",
		pattern:   installed.DEB,
		install:   installed.InstallDEB,
		remove:    []string{"dpkg", "--root=ROOT", "--remove"},
		purge:     []string{"dpkg", "--root=ROOT", "--purge"},
		keptAside: ".dpkg-dist",
		only: []string{
			"usr/share/doc/pcs-capacity/changelog.Debian.gz",
			"usr/share/doc/pcs-capacity/copyright",
			"usr/share/doc/pcs-capacity/third-party-licences.gz",
			"usr/share/lintian/overrides/pcs-capacity",
			"usr/share/zsh/vendor-completions/_pcs-capacity",
		},
	},
	{
		name: "rpm",
		pattern: "pcs-capacity-[0-9]*." + map[string]string{
			"amd64": "x86_64",
			"arm64": "aarch64",
		}[runtime.GOARCH] + ".rpm",
		install: []string{
			"rpm",
			"--root",
			"ROOT",
			"--upgrade",
		},
		remove:    []string{"rpm", "--root", "ROOT", "--erase"},
		keptAside: ".rpmnew",
		only: []string{
			"usr/share/licenses/pcs-capacity/LICENSE",
			"usr/share/licenses/pcs-capacity/third-party-licences.gz",
			"usr/share/zsh/site-functions/_pcs-capacity",
		},
	},
}

// files are those of both forms; the manual pages of commands and docs/ come on top.
var files = []string{
	"etc/logrotate.d/pcs-capacity",
	"etc/pcs-capacity/config.toml",
	"etc/pcs-capacity/environment",
	"usr/bin/pcs-capacity",
	"usr/libexec/pcs-capacity/pcs-capacity-filter",
	"usr/libexec/pcs-capacity/pcs-capacity-prolog",
	"usr/libexec/pcs-capacity/pcs-capacity-resume",
	"usr/libexec/pcs-capacity/pcs-capacity-suspend",
	"usr/lib/systemd/system/pcs-capacity-sync.service",
	"usr/lib/tmpfiles.d/pcs-capacity.conf",
	"usr/share/bash-completion/completions/pcs-capacity",
	"usr/share/fish/vendor_completions.d/pcs-capacity.fish",
	"usr/share/doc/pcs-capacity/sbom.cdx.json",
	"usr/share/man/man5/pcs-capacity-config.toml.5.gz",
	"usr/share/pcs-capacity/python/pcs_capacity.py",
}

// installation is a root file system with a shell in it, a Slurm outside, and a package.
type installation struct {
	*testing.T
	form
	root      installed.Root
	slurmUser int // the id of the user slurm of the root; 0 if it has none
}

// packages is the folder of the packages.
func packages(t *testing.T) string {
	t.Helper()

	dist := os.Getenv(installed.FolderVariable)
	if dist == "" {
		t.Skip(installed.FolderVariable + " is the folder of the packages; `make test` builds them and sets it")
	}

	return dist
}

// TestSlurmPackages installs the packages, and takes the README's way to a first job with those of one form.
func TestSlurmPackages(t *testing.T) {
	dist := packages(t)
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			first, err := installed.Package(dist, f.pattern)
			if err != nil {
				t.Fatal(err)
			}

			i := &installation{T: t, form: f}
			i.makeRoot(filepath.Join(t.TempDir(), f.name))
			i.isInstalled(first)
			lab := labOf(first)
			i.manage(i.install, lab)

			if f.name == "deb" {
				i.firstJob()
			}

			i.manage(i.remove, "pcs-capacity-lab")
			i.manage(i.remove, "pcs-capacity")
		})
	}
}

// labOf is the package of the lab beside a package.
func labOf(path string) string {
	return filepath.Join(
		filepath.Dir(path),
		strings.Replace(filepath.Base(path), "pcs-capacity", "pcs-capacity-lab", 1),
	)
}

// TestRarePackages upgrades and removes the packages, with settings that both sides have changed.
func TestRarePackages(t *testing.T) {
	dist := packages(t)
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			first, err := installed.Package(dist, f.pattern)
			if err != nil {
				t.Fatal(err)
			}

			i := &installation{T: t, form: f}
			i.makeRoot(filepath.Join(t.TempDir(), f.name))
			i.isInstalled(first)
			i.life(i.build(dist))
		})
	}
}

// isInstalled: files, and nothing else happens.
func (i *installation) isInstalled(first string) {
	i.Helper()

	said := i.manage(i.install, first)
	if !strings.Contains(said, "Continue with the quick start") {
		i.Errorf("the installation does not say what to do next:\n%s", said)
	}

	i.hasFiles(first)
	i.called("daemon-reload")
	i.isStatic()
	i.unitIsValid()

	if out, err := i.command("usr/bin/pcs-capacity", "--version").CombinedOutput(); err != nil ||
		strings.Count(string(out), "unknown") > 0 ||
		strings.Contains(string(out), "devel") {
		i.Errorf("--version: %s", out)
	}
	// As it comes, config.toml changes nothing.
	none := filepath.Join(i.TempDir(), "none.toml")
	if err := os.WriteFile(none, []byte("# no settings\n"), 0o644); err != nil {
		i.Fatal(err)
	}

	var shown [2]string
	for n, path := range []string{i.at("etc/pcs-capacity/config.toml"), none} {
		out, err := i.command("usr/bin/pcs-capacity", "--config", path, "config").CombinedOutput()
		if err != nil {
			i.Errorf("config: %s", out)
		}

		_, shown[n], _ = strings.Cut(string(out), "\n") // after the path
	}

	if shown[0] != shown[1] {
		i.Errorf("config.toml has other settings than a file without any:\n%s", shown[0])
	}

	i.listsItsModules()
}

func (i *installation) life(second string) {
	mine := i.read("etc/pcs-capacity/config.toml") + "# mine\n"
	i.write("etc/pcs-capacity/config.toml", mine, 0o644)
	i.manage(i.install, second)
	i.called("daemon-reload", "try-restart pcs-capacity-sync.service")

	if now := i.read("etc/pcs-capacity/config.toml"); now != mine {
		i.Errorf("the upgrade changed the settings to\n%s", now)
	}

	if theirs := i.read("etc/pcs-capacity/config.toml" + i.keptAside); !strings.Contains(theirs, "# new in "+newer) {
		i.Errorf("the new settings are not kept aside: %q", theirs)
	}

	// Removed, with the wiring still in Slurm.
	said := i.manage(i.remove, "pcs-capacity")
	i.called("--quiet disable --now pcs-capacity-sync.service", "daemon-reload")

	for _, program := range []string{"usr/bin/pcs-capacity", "usr/libexec/pcs-capacity"} {
		if _, err := os.Stat(i.at(program)); err == nil {
			i.Errorf("%s is left", program)
		}
	}

	if !strings.Contains(said, "/etc/slurm/cli_filter.lua stays") {
		i.Errorf("the removal does not say that a script stays:\n%s", said)
	}

	if !strings.Contains(said, "Take them out now") || !strings.Contains(said, "\nProlog = ") ||
		strings.Contains(said, "Epilog") {
		i.Errorf("the removal does not say what Slurm still calls:\n%s", said)
	}

	if i.purge == nil {
		return
	}

	i.manage(i.purge, "pcs-capacity")

	for _, folder := range []string{"etc", "usr", "var/lib", "var/cache", "var/log"} {
		err := filepath.WalkDir(i.at(folder), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && strings.Contains(entry.Name(), "pcs-capacity") {
				i.Errorf("%s is left after the purge", path)
			}
			return err
		})
		if err != nil {
			i.Error(err)
		}
	}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (i *installation) at(path string) string { return i.root.At(path) }

func (i *installation) read(path string) string {
	i.Helper()

	text, err := os.ReadFile(i.at(path))
	if err != nil {
		i.Error(err)
	}

	return string(text)
}

func (i *installation) write(path, text string, mode fs.FileMode) {
	i.Helper()

	if err := i.root.Write(path, text, mode); err != nil {
		i.Fatal(err)
	}
}

// makeRoot makes the root, with a /etc/slurm that has a script of ours, and a scontrol that names our Prolog.
func (i *installation) makeRoot(dir string) {
	i.Helper()

	users := "root:x:0:0::/root:/bin/sh\n"
	if i.name == "rpm" && os.Getuid() == 0 { // another user's namespace has root alone
		i.slurmUser = 64030
		users += "slurm:x:64030:64030::/:/bin/sh\n"
	}

	var err error
	if i.root, err = installed.New(dir, users); err != nil {
		i.Fatal(err)
	}

	i.write(
		"usr/bin/scontrol",
		"#!/bin/sh\necho 'Prolog = /usr/libexec/pcs-capacity/pcs-capacity-prolog'\necho 'Epilog = (null)'\n",
		0o755,
	)
	i.write("etc/slurm/cli_filter.lua", "-- Written by `pcs-capacity hooks install`\n", 0o644)
}

// manage runs the package manager.
func (i *installation) manage(command []string, what string) string {
	i.Helper()

	said, err := i.root.Manage(deadline(i.T), command, what)
	if err != nil {
		i.Fatal(err)
	}

	return said
}

// build makes the package of a later release, with other default settings.
func (i *installation) build(dist string) string {
	i.Helper()

	built, err := installed.Later(deadline(i.T), "..", dist, i.TempDir(), i.name, newer)
	if err != nil {
		i.Fatal(err)
	}

	return built
}

// hasFiles compares what is there with what is to be there: paths, modes, owner.
func (i *installation) hasFiles(name string) {
	i.Helper()

	want := slices.Sorted(slices.Values(slices.Concat(files, i.only)))

	var got []string

	pages, docs := 0, 0
	for _, folder := range []string{
		"etc",
		"usr",
		"var/lib/pcs-capacity",
		"var/cache/pcs-capacity",
		"var/log/pcs-capacity",
	} {
		err := filepath.WalkDir(i.at(folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}

			info, err := entry.Info()
			if err != nil {
				return err
			}

			path = strings.TrimPrefix(path, i.at("")+"/")
			if !strings.Contains(path, "pcs-capacity") {
				return nil
			}

			mode := fs.FileMode(0o644)
			if entry.IsDir() || strings.HasPrefix(path, "usr/bin/") || strings.HasPrefix(path, "usr/libexec/") {
				mode = 0o755
			}

			secret := path == "etc/pcs-capacity/environment" // it may have keys
			if secret {
				mode = 0o640
			}

			if info.Mode().Perm() != mode {
				i.Errorf("%s has mode %s, want %s", path, info.Mode().Perm(), mode)
			}

			uid, gid := os.Getuid(), os.Getgid()
			if i.slurmUser != 0 && (strings.HasPrefix(path, "var/lib/") || strings.HasPrefix(path, "var/log/")) {
				uid, gid = i.slurmUser, i.slurmUser
			}

			if secret && i.slurmUser != 0 {
				gid = i.slurmUser
			}

			if owner := info.Sys().(*syscall.Stat_t); int(owner.Uid) != uid || int(owner.Gid) != gid {
				i.Errorf("%s belongs to %d:%d, want %d:%d", path, owner.Uid, owner.Gid, uid, gid)
			}

			switch {
			case entry.IsDir():
			case strings.HasPrefix(path, "usr/share/man/man1/pcs-capacity"):
				pages++
			case strings.HasPrefix(path, "usr/share/doc/pcs-capacity/") &&
				slices.Contains([]string{".md", ".svg", ".json"}, filepath.Ext(path)) &&
				!strings.Contains(path, "sbom"):
				docs++
			default:
				got = append(got, path)
			}

			return nil
		})
		if err != nil {
			i.Error(err)
		}
	}

	slices.Sort(got)

	if !slices.Equal(got, want) {
		i.Errorf("%s installs\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	if pages < 15 || docs < 9 {
		i.Errorf("%d manual pages of commands and %d pages of docs", pages, docs)
	}
}

// isStatic holds the programs to what runs with any C library, or none, and to their size.
func (i *installation) isStatic() {
	i.Helper()

	for _, path := range files {
		if !strings.HasPrefix(path, "usr/bin/") && !strings.HasPrefix(path, "usr/libexec/") {
			continue
		}

		program, err := elf.Open(i.at(path))
		if err != nil {
			i.Fatal(err)
		}

		libraries, err := program.ImportedLibraries()
		if dynamic := program.Section(".interp") != nil; err != nil || dynamic || len(libraries) > 0 {
			i.Errorf("%s is not static: it wants %q, %v", path, libraries, err)
		}

		program.Close()
		// 25 MB; 75 where the linker keeps every operation of EC2 (see api in package ec2).
		if info, err := os.Stat(i.at(path)); err != nil || info.Size() > 30<<20 {
			i.Errorf("%s has more than 30 MiB: %v, %v", path, info.Size(), err)
		}
	}
}

// unitIsValid asks systemd, where the machine has it.
func (i *installation) unitIsValid() {
	i.Helper()

	const name = "pcs-capacity-sync.service"
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		i.Logf("%s is not verified: there is no systemd-analyze", name)
		return
	}

	unit := strings.Replace(i.read("usr/lib/systemd/system/"+name), "ExecStart=/", "ExecStart="+i.at("")+"/", 1)
	path := filepath.Join(i.TempDir(), name)
	if err := os.WriteFile(path, []byte(unit), 0o644); err != nil {
		i.Fatal(err)
	}

	out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), name) {
		i.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
}

// called compares what systemctl has been told since the last time.
func (i *installation) called(want ...string) {
	i.Helper()

	if got := strings.Split(strings.TrimSpace(i.read("systemctl.log")), "\n"); !slices.Equal(got, want) {
		i.Errorf("systemctl was told %q, want %q", got, want)
	}

	i.write("systemctl.log", "", 0o644)
}

// command is a program of the package.
func (i *installation) command(path string, args ...string) *exec.Cmd {
	return exec.CommandContext(deadline(i.T), i.at(path), args...)
}
