package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/installed"
)

// TestRareRepository installs and upgrades from the folder of `make repository`, by apt and by dnf,
// and sees both refuse what another key has signed.
func TestRareRepository(t *testing.T) {
	dist := os.Getenv(installed.FolderVariable)
	if dist == "" {
		t.Skip("without " + installed.FolderVariable)
	}

	if os.Getuid() != 0 {
		t.Skip("apt and dnf change a root file system as root only")
	}

	for _, f := range forms {
		for _, key := range []string{"", "ours"} {
			t.Run(f.name+map[string]string{"": "-unsigned", "ours": "-signed"}[key], func(t *testing.T) {
				dir, err := os.MkdirTemp("", "repo") // gpg-agent's socket needs a short path
				if err != nil {
					t.Fatal(err)
				}

				t.Cleanup(func() { os.RemoveAll(dir) })

				r := &repository{T: t, form: f, dist: filepath.Join(dir, "dist"), keys: filepath.Join(dir, "keys")}
				first := map[string]string{}
				for _, g := range forms {
					if first[g.name], err = installed.Package(dist, g.pattern); err != nil {
						t.Fatal(err)
					}

					r.add(first[g.name], filepath.Base(first[g.name]))
				}

				for _, name := range []string{"ours", "theirs"} {
					r.key(name)
				}

				t.Cleanup(func() { exec.Command("gpgconf", "--homedir", r.keys, "--kill", "all").Run() })
				r.make(key)

				if r.root, err = installed.New(filepath.Join(dir, "root"), "root:x:0:0::/root:/bin/sh\n"); err != nil {
					t.Fatal(err)
				}

				r.subscribe(key)
				r.manage("install")
				r.is(first[f.name])

				second, err := installed.Later(deadline(t), "..", dist, t.TempDir(), f.name, newer)
				if err != nil {
					t.Fatal(err)
				}

				r.add(second, "pcs-capacity_"+newer+"-1_"+runtime.GOARCH+"."+f.name)

				if key != "" {
					r.make("theirs")
					out, err := r.try("upgrade") // dnf leaves such a repository out, and succeeds
					t.Logf("signed by another key: %v: %s", err, out)
					r.is(first[f.name])
				}

				r.make(key)
				r.manage("upgrade")
				r.is(second)
			})
		}
	}
}

// repository is one of a form, and a root file system that is installed from it.
type repository struct {
	*testing.T
	form
	dist, keys string
	root       installed.Root
}

// run runs a program with the keys.
func (r *repository) run(program string, args ...string) (string, error) {
	cmd := exec.CommandContext(deadline(r.T), program, args...)
	cmd.Env = append(os.Environ(), "GNUPGHOME="+r.keys, "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *repository) must(program string, args ...string) string {
	r.Helper()

	out, err := r.run(program, args...)
	if err != nil {
		r.Fatalf("%s %q: %v: %s", program, args, err, out)
	}

	return out
}

// key makes a GPG key.
func (r *repository) key(name string) {
	if err := os.MkdirAll(r.keys, 0o700); err != nil {
		r.Fatal(err)
	}

	r.must(
		"gpg",
		"--batch",
		"--quiet",
		"--passphrase",
		"",
		"--quick-generate-key",
		name+" <"+name+"@example.org>",
		"rsa3072",
		"sign",
		"never",
	)
}

// add puts a package beside those that the repository has.
func (r *repository) add(archive, name string) {
	if err := os.MkdirAll(r.dist, 0o755); err != nil {
		r.Fatal(err)
	}

	r.must("cp", archive, filepath.Join(r.dist, name))
}

func (r *repository) make(key string) {
	r.Helper()

	args := []string{"repository.sh", r.dist, r.url()}
	if key != "" {
		args = append(args, key)
	}

	said := r.must("sh", args...)
	if strings.Contains(said, "not signed") != (key == "") {
		r.Errorf("with key %q it says %q", key, said)
	}
}

func (r *repository) folder() string { return filepath.Join(r.dist, "repository") }
func (r *repository) url() string    { return "file://" + r.folder() }

// subscribe puts the repository's own file of settings, and its key, where docs/installing.md does.
func (r *repository) subscribe(key string) {
	for _, folder := range []string{
		"etc/apt/apt.conf.d",
		"etc/apt/preferences.d",
		"var/lib/apt/lists/partial",
		"var/cache/apt/archives/partial",
		"var/log/apt",
		"etc/apt/trusted.gpg.d",
	} {
		if err := os.MkdirAll(r.root.At(folder), 0o755); err != nil {
			r.Fatal(err)
		}
	}

	for at, name := range map[string]string{
		"etc/apt/sources.list.d/": "pcs-capacity.list", "etc/yum.repos.d/": "pcs-capacity.repo",
		"etc/apt/keyrings/": "pcs-capacity.asc", "etc/pki/rpm-gpg/": "pcs-capacity.asc",
	} {
		if name == "pcs-capacity.asc" && key == "" {
			continue
		}

		text, err := os.ReadFile(filepath.Join(r.folder(), name))
		if err != nil {
			r.Fatal(err)
		}

		inRoot := strings.NewReplacer("/etc/apt/", r.root.At("etc/apt")+"/", "/etc/pki/", r.root.At("etc/pki")+"/").
			Replace(string(text))
		if err := r.root.Write(at+name, inRoot, 0o644); err != nil {
			r.Fatal(err)
		}
	}
}

// try installs or upgrades by name.
func (r *repository) try(what string) (string, error) {
	root := string(r.root)
	if r.name == "rpm" {
		return r.run("dnf", "--assumeyes", "--installroot="+root, "--releasever=9", "--refresh", what, "pcs-capacity")
	}

	apt := []string{
		"-qq",
		"-y",
		"-o",
		"Dir=" + root,
		"-o",
		"Dir::State::status=" + root + "/var/lib/dpkg/status",
		"-o",
		"APT::Sandbox::User=root",
		"-o",
		"Dpkg::Options::=--root=" + root,
		"-o",
		"Dpkg::Use-Pty=0",
	}
	if out, err := r.run("apt-get", append(apt, "--error-on=any", "update")...); err != nil {
		return out, err
	}

	return r.run("apt-get", append(apt, "install", "pcs-capacity")...) // which upgrades too
}

func (r *repository) manage(what string) {
	r.Helper()

	if out, err := r.try(what); err != nil {
		r.Fatalf("%s: %v: %s", what, err, out)
	}
}

// is looks whether the installed package has the version of an archive.
func (r *repository) is(archive string) {
	r.Helper()

	var want, got string
	if r.name == "rpm" {
		want = r.must("rpm", "-qp", "--queryformat", "%{VERSION}", archive)
		got = r.must("rpm", "--root", string(r.root), "-q", "--queryformat", "%{VERSION}", "pcs-capacity")
	} else {
		want = strings.TrimSpace(r.must("dpkg-deb", "--field", archive, "Version"))
		got = r.must("dpkg-query", "--admindir="+
			r.root.At("var/lib/dpkg"), "--show", "--showformat=${Version}", "pcs-capacity")
	}

	if strings.TrimPrefix(got, "warning: ") != want {
		r.Errorf("version %q is installed, want %q", got, want)
	}
}
