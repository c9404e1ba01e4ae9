package config

import (
	"errors"
	"os"
	"path/filepath"
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
		"as installed":           {"config.toml", 0o644, 0, ""},
		"of one reader":          {"config.toml", 0o600, 0, ""},
		"open to all":            {"config.toml", 0o666, 0, "config.toml has mode 0666: everyone can write it, and name the commands that sync runs; chmod go-w "},
		"open to others":         {"config.toml", 0o602, 0, "config.toml has mode 0602: everyone can write it"},
		"its owner's group":      {"config.toml", 0o664, 0, ""},
		"another group":          {"config.toml", 0o664, 12, "config.toml has mode 0664: its group can write it, and name the commands that sync runs; chmod g-w "},
		"another group reads":    {"config.toml", 0o644, 12, ""},
		"folder":                 {"", 0o777, 0, "has mode 0777: everyone can put settings into it, and name the commands that sync runs; chmod go-w "},
		"folder, sticky":         {"", os.ModeSticky | 0o777, 0, "has mode 0777: everyone can put settings into it"},
		"conf.d":                 {"conf.d", 0o757, 0, "conf.d has mode 0757: everyone can put settings into it, and name the commands that sync runs; chmod o-w "},
		"conf.d, another group":  {"conf.d", 0o775, 12, "conf.d has mode 0775: its group can put settings into it"},
		"a file of conf.d":       {"conf.d/gpu.toml", 0o666, 0, "conf.d/gpu.toml has mode 0666: everyone can write it"},
		"a file of conf.d, fine": {"conf.d/gpu.toml", 0o644, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.group != 0 && os.Geteuid() != 0 {
				t.Skip("only root can give a file to another group")
			}
			dir := t.TempDir()
			path, changed := filepath.Join(dir, "config.toml"), filepath.Join(dir, c.of)
			err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "conf.d"), 0o755), os.WriteFile(path, nil, 0o644),
				os.WriteFile(filepath.Join(dir, "conf.d", "gpu.toml"), nil, 0o644))
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
			if c.want != "" && err != nil && strings.Contains(c.want, "chmod") && !strings.HasSuffix(err.Error(), changed) {
				t.Errorf("%v does not end with the chmod of %s", err, changed)
			}
		})
	}
}
