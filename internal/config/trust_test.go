package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Settings that others can write, or replace, name no command for root's service.
func TestSettingsOfOthersAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		of    string // under the folder of the settings
		mode  os.FileMode
		group int // 0: as it is
		want  string
	}{
		"as installed":  {"config.toml", 0o644, 0, ""},
		"of one reader": {"config.toml", 0o600, 0, ""},
		"open to all": {
			"config.toml",
			0o666,
			0,
			"config.toml has mode 0666: everyone can write it, and name the commands that sync runs; chmod go-w ",
		},
		"open to others":    {"config.toml", 0o602, 0, "config.toml has mode 0602: everyone can write it"},
		"its owner's group": {"config.toml", 0o664, 0, ""},
		"another group": {
			"config.toml",
			0o664,
			12,
			"config.toml has mode 0664: its group can write it, and name the commands that sync runs; chmod g-w ",
		},
		"another group reads": {"config.toml", 0o644, 12, ""},
		"folder": {
			"",
			0o777,
			0,
			"has mode 0777: everyone can put settings into it, and name the commands that sync runs; chmod go-w ",
		},
		"folder, sticky": {"", os.ModeSticky | 0o777, 0, "has mode 0777: everyone can put settings into it"},
		"conf.d": {
			"conf.d",
			0o757,
			0,
			"conf.d has mode 0757: everyone can put settings into it, and name the commands that sync runs; chmod o-w ",
		},
		"conf.d, another group":  {"conf.d", 0o775, 12, "conf.d has mode 0775: its group can put settings into it"},
		"a file of conf.d":       {"conf.d/gpu.toml", 0o666, 0, "conf.d/gpu.toml has mode 0666: everyone can write it"},
		"a file of conf.d, fine": {"conf.d/gpu.toml", 0o644, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.group != 0 && os.Geteuid() != 0 {
				t.Skip("only root can give a file to another group")
			}

			none := []byte("# none\n")
			dir := t.TempDir()

			path, changed := filepath.Join(dir, "config.toml"), filepath.Join(dir, c.of)
			err := errors.Join(
				os.Chmod(dir, 0o755),
				os.Mkdir(filepath.Join(dir, "conf.d"), 0o755),
				os.WriteFile(path, none, 0o644),
				os.WriteFile(filepath.Join(dir, "conf.d", "gpu.toml"), none, 0o644),
			)
			if c.group != 0 {
				err = errors.Join(err, os.Chown(changed, -1, c.group))
			}

			if err := errors.Join(err, os.Chmod(changed, c.mode)); err != nil {
				t.Fatal(err)
			}

			_, err = Load(path)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}

			if c.want != "" && err != nil && strings.Contains(c.want, "chmod") &&
				!strings.HasSuffix(err.Error(), changed) {
				t.Errorf("%v does not end with the chmod of %s", err, changed)
			}
		})
	}
}

// Nobody else owns settings, or can replace them anywhere on the way there; a sticky folder such as
// /tmp lets nobody replace what is root's.
func TestSettingsOnTheWayOfOthersAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}

	const other = 65533
	for name, c := range map[string]struct {
		of    string      // under the top folder, which has site/etc/config.toml, site/etc/conf.d/gpu.toml and links to them
		mode  os.FileMode // 0: as it is
		owner int
		read  string // the path that is read; "": site/etc/config.toml
		slurm int    // owner of the slurm.conf of SLURM_CONF
		want  string
	}{
		"all root's": {want: ""},
		"the file": {
			of:    "site/etc/config.toml",
			owner: other,
			want: "site/etc/config.toml belongs to user 65533, who can write it, and name the commands that sync " +
				"runs; chown -h root ",
		},
		"its folder": {
			of:    "site/etc",
			owner: other,
			want: "site/etc belongs to user 65533, who can put settings into it, and name the commands that sync " +
				"runs; chown -h root ",
		},
		"a folder above": {
			of:    "site",
			owner: other,
			want: "site belongs to user 65533, who can replace what is in it, and name the commands that sync " +
				"runs; chown -h root ",
		},
		"conf.d": {
			of:    "site/etc/conf.d",
			owner: other,
			want:  "site/etc/conf.d belongs to user 65533, who can put settings into it",
		},
		"a file of conf.d": {
			of:    "site/etc/conf.d/gpu.toml",
			owner: other,
			want:  "site/etc/conf.d/gpu.toml belongs to user 65533, who can write it",
		},
		"open above": {
			of:   "site",
			mode: 0o777,
			want: "site has mode 0777: everyone can replace what is in it, and name the commands that sync runs; " +
				"chmod go-w ",
		},
		"sticky above": {of: "site", mode: os.ModeSticky | 0o777, want: ""},
		"sticky above, another's": {
			of:    "site",
			mode:  os.ModeSticky | 0o777,
			owner: other,
			want:  "site belongs to user 65533",
		},
		"by a link": {read: "link/config.toml", want: ""},
		"by another's link": {
			read:  "link/config.toml",
			of:    "link",
			owner: other,
			want:  "link belongs to user 65533, who can replace what is in it",
		},
		"by a link, behind it": {read: "link/config.toml", of: "site", mode: 0o777, want: "site has mode 0777"},
		"SlurmUser's":          {of: "site/etc", owner: other, slurm: other, want: ""},
		"another one's than Slurm": {
			of:    "site/etc",
			owner: other,
			slurm: other - 1,
			want:  "site/etc belongs to user 65533",
		},
		"a device": {read: "/dev/null", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()

			in := func(path string) string {
				if filepath.IsAbs(path) {
					return path
				}
				return filepath.Join(top, path)
			}
			conf := filepath.Join(t.TempDir(), "slurm.conf")
			err := errors.Join(
				os.MkdirAll(in("site/etc/conf.d"), 0o755),
				os.WriteFile(in("site/etc/config.toml"), []byte("# none\n"), 0o644),
				os.WriteFile(
					in("site/etc/conf.d/gpu.toml"),
					[]byte("# none\n"),
					0o644,
				),
				os.Symlink("site/etc", in("link")),
				os.WriteFile(conf, nil, 0o644),
				os.Chown(conf, c.slurm, -1),
			)
			if c.owner != 0 {
				err = errors.Join(err, os.Lchown(in(c.of), c.owner, -1))
			}

			if c.mode != 0 {
				err = errors.Join(err, os.Chmod(in(c.of), c.mode))
			}

			if err != nil {
				t.Fatal(err)
			}

			t.Setenv("SLURM_CONF", conf)

			read := c.read
			if read == "" {
				read = "site/etc/config.toml"
			}

			_, err = Load(in(read))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A user's own settings are the user's.
func TestSettingsOfOnesOwn(t *testing.T) {
	t.Setenv("SLURM_CONF", "")

	for owner, ok := range map[int]bool{os.Geteuid(): true, 0: true, 65533: os.Geteuid() == 65533} {
		if got := slices.Contains(trustedOwners(), owner); got != ok {
			t.Errorf("user %d: %t", owner, got)
		}
	}
}
