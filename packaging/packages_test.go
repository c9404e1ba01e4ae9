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
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/installed"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// newer is the version of the package that is upgraded to.
const newer = "99.0.0"

// form is a form of package, and how its manager is called on a root of its own.
type form struct {
	name, pattern string
	// install also upgrades.
	install, remove, purge []string
	// keptAside is the ending of a new conffile that is not put in the place of an edited one.
	keptAside string
	only      []string // files that only this form has
}

var forms = []form{
	{name: "deb", pattern: installed.DEB, install: installed.InstallDEB, remove: []string{"dpkg", "--root=ROOT", "--remove"},
		purge: []string{"dpkg", "--root=ROOT", "--purge"}, keptAside: ".dpkg-dist",
		only: []string{"usr/share/doc/pcs-capacity/changelog.Debian.gz", "usr/share/doc/pcs-capacity/copyright",
			"usr/share/doc/pcs-capacity/third-party-licences.gz", "usr/share/lintian/overrides/pcs-capacity", "usr/share/zsh/vendor-completions/_pcs-capacity"}},
	{name: "rpm", pattern: "pcs-capacity-[0-9]*." + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + ".rpm",
		install: []string{"rpm", "--root", "ROOT", "--upgrade"}, remove: []string{"rpm", "--root", "ROOT", "--erase"}, keptAside: ".rpmnew",
		only: []string{"usr/share/licenses/pcs-capacity/LICENSE", "usr/share/licenses/pcs-capacity/third-party-licences.gz", "usr/share/zsh/site-functions/_pcs-capacity"}},
}

// files are those of both forms; the manual pages of commands and docs/ come on top.
var files = []string{
	"etc/logrotate.d/pcs-capacity", "etc/pcs-capacity/config.toml",
	"usr/bin/pcs-capacity", "usr/libexec/pcs-capacity/pcs-capacity-filter", "usr/libexec/pcs-capacity/pcs-capacity-prolog", "usr/libexec/pcs-capacity/pcs-capacity-resume", "usr/libexec/pcs-capacity/pcs-capacity-suspend",
	"usr/lib/systemd/system/pcs-capacity-sync.service", "usr/lib/tmpfiles.d/pcs-capacity.conf",
	"usr/share/bash-completion/completions/pcs-capacity", "usr/share/fish/vendor_completions.d/pcs-capacity.fish",
	"usr/share/doc/pcs-capacity/sbom.cdx.json", "usr/share/man/man5/pcs-capacity-config.toml.5.gz", "usr/share/pcs-capacity/motd",
}

const world = `
account = "111122223333"
[[instance_type]]
name = "p5.48xlarge"
usage_classes = ["capacity-block"]
[[region]]
name = "us-east-2"
zone = [{ name = "us-east-2a", id = "use2-az1" }]
vpc = [{ id = "vpc-0e2000000000000a1", cidr = "10.2.0.0/16" }]
subnet = [{ id = "subnet-0e200000000000a01", vpc = "vpc-0e2000000000000a1", zone = "us-east-2a", cidr = "10.2.16.0/20" }]
reservation = [{ id = "cr-0e2000000000000a1", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 4, start = "-1h", end = "+8h" }]
`

const partition = `
[[partition]]
name = "gpu"
provider = "ec2"
  [[partition.node_group]]
  name = "gpu"
  instance_type = "p5.48xlarge"
  subnet_ids = ["subnet-0e200000000000a01"]
  capacity_reservation_ids = ["cr-0e2000000000000a1"]
  max_nodes = 4
  launch_template = "unused"
`

// installation is a root file system with a shell in it, a Slurm outside, and a package.
type installation struct {
	*testing.T
	form
	root    installed.Root
	cluster *slurmlab.Cluster
	slurm   slurmlab.Config
	aws     []string // the environment in which the simulated AWS is AWS
	// slurmUser is the id of the user slurm of the root; 0 if it has none.
	slurmUser int
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
	return filepath.Join(filepath.Dir(path), strings.Replace(filepath.Base(path), "pcs-capacity", "pcs-capacity-lab", 1))
}

// TestRarePackages follows a package from before its installation until nothing is left of it.
// sbatch works all the time.
func TestRarePackages(t *testing.T) {
	dist := packages(t)
	dir, err := os.MkdirTemp("", "pkg") // Slurm's sockets need a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cfg := slurmlab.Config{Dir: filepath.Join(dir, "lab"), CloudGroups: []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 4, Partition: "gpu", Features: "gpu"}}}
	cluster, err := slurmlab.Start(deadline(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	scenario, err := awssim.ParseScenario("packages", []byte(world))
	if err != nil {
		t.Fatal(err)
	}
	sim, err := awssim.New(scenario, awssim.MachineClock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	if _, err := sim.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			first, err := installed.Package(dist, f.pattern)
			if err != nil {
				t.Fatal(err)
			}
			i := &installation{T: t, form: f, cluster: cluster, slurm: cfg, aws: sim.Env()}
			i.makeRoot(filepath.Join(dir, f.name))
			i.life(first, i.build(dist))
			i.forgetFences()
		})
	}
}

// isInstalled: files, and nothing else happens.
func (i *installation) isInstalled(first string) {
	i.Helper()
	said := i.manage(i.install, first)
	if !strings.Contains(said, "systemctl enable --now pcs-capacity-sync") {
		i.Errorf("the installation does not say what to do next:\n%s", said)
	}
	i.hasFiles(first)
	i.called("daemon-reload")
	i.isStatic()
	i.unitIsValid()
	if out, err := i.command("usr/bin/pcs-capacity", "--version").CombinedOutput(); err != nil || strings.Count(string(out), "unknown") > 0 || strings.Contains(string(out), "devel") {
		i.Errorf("--version: %s", out)
	}
	// As it comes, config.toml changes nothing.
	empty := filepath.Join(i.TempDir(), "empty.toml")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		i.Fatal(err)
	}
	var shown [2]string
	for n, path := range []string{i.at("etc/pcs-capacity/config.toml"), empty} {
		out, err := i.command("usr/bin/pcs-capacity", "--config", path, "config").CombinedOutput()
		if err != nil {
			i.Errorf("config: %s", out)
		}
		_, shown[n], _ = strings.Cut(string(out), "\n") // after the path
	}
	if shown[0] != shown[1] {
		i.Errorf("config.toml has other settings than an empty file:\n%s", shown[0])
	}

	i.listsItsModules()
}

func (i *installation) life(first, second string) {
	i.submits("before", false)
	i.isInstalled(first)
	i.submits("installed", false)

	// Set up, wired and started.
	i.configure()
	for _, hook := range []string{"cli_filter", "job_submit"} {
		out, err := i.command("usr/bin/pcs-capacity", "hooks", "install", hook).CombinedOutput()
		if err != nil {
			i.Fatalf("hooks install: %s", out)
		}
		script, err := os.ReadFile(filepath.Join(i.cluster.Dir(), "etc", hook+".lua"))
		if filter := i.at("usr/libexec/pcs-capacity/pcs-capacity-filter"); err != nil || !strings.Contains(string(script), filter) {
			i.Errorf("%s.lua does not call %s (%v):\n%s", hook, filter, err, script)
		}
	}
	i.wire("CliFilterPlugins=lua", "JobSubmitPlugins=lua",
		"ResumeProgram="+i.at("usr/libexec/pcs-capacity/pcs-capacity-resume"), "SuspendProgram="+i.at("usr/libexec/pcs-capacity/pcs-capacity-suspend"))
	i.submits("wired, and not started", false)
	// What the watchdog does to one that hangs. With status 2 systemd would not start it again.
	i.startService()(syscall.SIGABRT)
	stop := i.startService()
	i.submits("wired", true)

	// Upgraded, with settings that both sides have changed.
	mine := i.read("etc/pcs-capacity/config.toml")
	quit, quiet := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(quiet)
		for n := 0; ; n++ {
			select {
			case <-quit:
				i.Logf("%d submissions while it was upgraded", n)
				return
			default:
				i.submits("during the upgrade", true)
			}
		}
	}()
	i.manage(i.install, second)
	close(quit)
	<-quiet
	i.called("daemon-reload", "try-restart pcs-capacity-sync.service")
	if now := i.read("etc/pcs-capacity/config.toml"); now != mine {
		i.Errorf("the upgrade changed the settings to\n%s", now)
	}
	if theirs := i.read("etc/pcs-capacity/config.toml" + i.keptAside); !strings.Contains(theirs, "# new in "+newer) {
		i.Errorf("the new settings are not kept aside: %q", theirs)
	}
	if out, _ := i.command("usr/bin/pcs-capacity", "config").CombinedOutput(); !strings.Contains(string(out), "cr-0e2000000000000a1") {
		i.Errorf("after the upgrade the settings are %s", out)
	}
	i.submits("upgraded", true)
	stop(syscall.SIGTERM)

	script, err := i.command("usr/bin/pcs-capacity", "hooks", "print", "install").Output()
	if err != nil {
		i.Fatal(err)
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
	if !strings.Contains(said, "Take them out now") || !strings.Contains(said, "\nProlog = ") || strings.Contains(said, "Epilog") {
		i.Errorf("the removal does not say what Slurm still calls:\n%s", said)
	}
	i.submits("removed, and still wired", true) // by the plan, which is fresh
	i.wire()
	i.submits("unwired", false)

	i.bootstraps(string(script), first)
	i.manage(i.remove, "pcs-capacity")

	if i.purge == nil {
		return
	}
	i.wire("CliFilterPlugins=lua", "JobSubmitPlugins=lua")
	i.manage(i.purge, "pcs-capacity")
	i.submits("purged, and still wired", false)
	i.wire()
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

// forgetFences deletes the fences of this installation: the next one has settings of its own on
// the same cluster, and would leave them and all else alone.
func (i *installation) forgetFences() {
	out, err := i.cluster.Command(deadline(i.T), "scontrol", "-o", "show", "reservation")
	if err != nil {
		i.Fatal(out, err)
	}
	for _, name := range regexp.MustCompile(`ReservationName=(pcs-capacity-\S+)`).FindAllStringSubmatch(out, -1) {
		if out, err := i.cluster.Command(deadline(i.T), "scontrol", "delete", "reservationname="+name[1]); err != nil {
			i.Error(out, err)
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

// makeRoot makes the root, with a /etc/slurm that has a script of ours, and a scontrol that
// names our Prolog.
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
	i.write("usr/bin/scontrol", "#!/bin/sh\necho 'Prolog = /usr/libexec/pcs-capacity/pcs-capacity-prolog'\necho 'Epilog = (null)'\n", 0o755)
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

// bootstraps runs what a node runs to install the package, as its user data or a node
// lifecycle action of PCS do, with the package managers on this root.
func (i *installation) bootstraps(script, archive string) {
	i.Helper()
	bin, pcs := i.TempDir(), i.TempDir()
	folder := filepath.Join(pcs, "slurm-25.11")
	if err := os.Mkdir(folder, 0o755); err != nil {
		i.Fatal(err)
	}
	namespace := ""
	if os.Getuid() != 0 {
		namespace = "unshare --map-root-user "
	}
	for name, command := range map[string]string{
		"dpkg":         namespace + "/usr/bin/dpkg --root=" + i.at("") + " --force-confold",
		"rpm":          namespace + "/usr/bin/rpm --root " + i.at(""),
		"pcs-capacity": i.at("usr/bin/pcs-capacity") + " --config " + i.at("etc/pcs-capacity/config.toml"),
		"logger":       ":",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+command+" \"$@\"\n"), 0o755); err != nil {
			i.Fatal(err)
		}
	}
	cmd := exec.CommandContext(deadline(i.T), "sh", "-s", archive)
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")+":/usr/sbin:/sbin", "PCS_CAPACITY_PCS_FOLDER="+pcs, "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "installed "+archive) {
		i.Fatalf("%v: %s", err, out)
	}
	lua, err := os.ReadFile(filepath.Join(folder, "cli_filter.lua"))
	if err != nil || !strings.Contains(string(lua), i.at("usr/libexec/pcs-capacity/pcs-capacity-filter")) {
		i.Errorf("cli_filter.lua: %v\n%s\n%s", err, lua, out)
	}
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
	for _, folder := range []string{"etc", "usr", "var/lib/pcs-capacity", "var/cache/pcs-capacity", "var/log/pcs-capacity"} {
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
			if entry.IsDir() || strings.HasPrefix(path, "usr/bin/") || strings.HasPrefix(path, "usr/libexec/") || path == "usr/share/pcs-capacity/motd" {
				mode = 0o755
			}
			if info.Mode().Perm() != mode {
				i.Errorf("%s has mode %s, want %s", path, info.Mode().Perm(), mode)
			}
			uid, gid := os.Getuid(), os.Getgid()
			if i.slurmUser != 0 && (strings.HasPrefix(path, "var/lib/") || strings.HasPrefix(path, "var/log/")) {
				uid, gid = i.slurmUser, i.slurmUser
			}
			if owner := info.Sys().(*syscall.Stat_t); int(owner.Uid) != uid || int(owner.Gid) != gid {
				i.Errorf("%s belongs to %d:%d, want %d:%d", path, owner.Uid, owner.Gid, uid, gid)
			}
			switch {
			case entry.IsDir():
			case strings.HasPrefix(path, "usr/share/man/man1/pcs-capacity"):
				pages++
			case strings.HasPrefix(path, "usr/share/doc/pcs-capacity/") && filepath.Ext(path) == ".md":
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

// command is a program of the package, in the environment of the cluster and of AWS.
func (i *installation) command(path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(deadline(i.T), i.at(path), args...)
	if i.cluster != nil {
		cmd.Env = append(i.cluster.Env(), i.aws...)
	}
	return cmd
}

// configure edits the conffile, as an administrator does. The folders are those of the
// root; the file is found beside slurm.conf.
func (i *installation) configure() {
	i.Helper()
	text := i.read("etc/pcs-capacity/config.toml")
	for _, setting := range []string{`state_dir = "/var/lib/pcs-capacity"`, `local_dir = "/var/cache/pcs-capacity"`, `dir = "/var/log/pcs-capacity"`} {
		if !strings.Contains(text, "#"+setting) {
			i.Fatalf("config.toml does not have %s in a comment:\n%s", setting, text)
		}
		text = strings.Replace(text, "#"+setting, strings.Replace(setting, `"`, `"`+i.at(""), 1), 1)
	}
	i.write("etc/pcs-capacity/config.toml", text+partition, 0o644)
	link := filepath.Join(i.cluster.Dir(), "etc", "pcs-capacity")
	os.Remove(link)
	if err := os.Symlink(i.at("etc/pcs-capacity"), link); err != nil {
		i.Fatal(err)
	}
}

// wire makes these the lines of slurm.conf that are ours.
func (i *installation) wire(lines ...string) {
	i.Helper()
	cfg := i.slurm
	cfg.Extra = lines
	if err := i.cluster.Reload(deadline(i.T), cfg); err != nil {
		i.Fatal(err)
	}
}

// startService runs what the unit says, and waits for the first pass. SIGTERM stops it in
// good order; of another signal it dies.
func (i *installation) startService() (stop func(syscall.Signal)) {
	i.Helper()
	unit := i.read("usr/lib/systemd/system/pcs-capacity-sync.service")
	_, line, _ := strings.Cut(unit, "\nExecStart=/")
	line, _, found := strings.Cut(line, "\n")
	if words := strings.Fields(line); found && len(words) > 1 {
		cmd := i.command(words[0], words[1:]...)
		for line := range strings.Lines(unit) {
			if variable, is := strings.CutPrefix(strings.TrimSpace(line), "Environment="); is {
				cmd.Env = append(cmd.Env, variable)
			}
		}
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			i.Fatal(err)
		}
		stop = func(signal syscall.Signal) {
			i.Helper()
			_ = cmd.Process.Signal(signal)
			err := cmd.Wait()
			if died := cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled(); died != (signal != syscall.SIGTERM) || !died && err != nil {
				i.Errorf("after %s the service ended with %v: %s", signal, err, said.String())
			}
		}
		if err := slurmlab.Until(deadline(i.T), func() bool {
			_, err := os.Stat(i.at("var/lib/pcs-capacity/plan"))
			return err == nil
		}); err != nil {
			stop(syscall.SIGTERM)
			i.Fatalf("no pass: %s", said.String())
		}
		return stop
	}
	i.Fatalf("the unit has no ExecStart:\n%s", unit)
	return nil
}

// submits submits to a partition of ours and to another. Where jobs are judged, one that
// ends after the block is refused; elsewhere it is let through.
func (i *installation) submits(when string, judged bool) {
	i.Helper()
	submit := func(args ...string) (string, error) {
		return i.cluster.Command(deadline(i.T), "sbatch", append([]string{"--hold", "--output=/dev/null", "--wrap=true"}, args...)...)
	}
	for _, partition := range []string{"static", "gpu"} {
		if out, err := submit("-p", partition, "-t", "10"); err != nil || judged && strings.Contains(out, "pcs-capacity") {
			i.Errorf("%s: sbatch -p %s: %v: %s", when, partition, err, out)
		}
	}
	out, err := submit("-p", "gpu", "-t", "1-00:00:00")
	if refused := err != nil && strings.Contains(out, "Use --time="); refused != judged || err != nil && !refused {
		i.Errorf("%s: a job that is too long: %v: %s", when, err, out)
	}
}
