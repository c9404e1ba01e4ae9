package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What SlurmUser cannot read is found, with the folders above it, whoever looks.
func TestUnreadableByHooks(t *testing.T) {
	slurmUser := os.Geteuid()
	if slurmUser == 0 {
		slurmUser = 65534
	}

	for name, c := range map[string]struct {
		closed string // gets no mode at all
		gone   string
		group  bool // is 0640 of SlurmUser's group instead
		want   string
	}{
		"all": {},
		"settings": {
			closed: "config.toml",
			want:   "SlurmUser cannot read DIR/config.toml; chmod 644 DIR/config.toml",
		},
		"a partition": {
			closed: "conf.d/gpu.toml",
			want:   "SlurmUser cannot read DIR/conf.d/gpu.toml; chmod 644 DIR/conf.d/gpu.toml",
		},
		"the folder of partitions": {
			closed: "conf.d",
			want:   "SlurmUser cannot read DIR/conf.d; chmod 755 DIR/conf.d",
		},
		"the folder": {
			closed: ".",
			want:   "SlurmUser cannot read DIR/conf.d, because DIR is closed to it; chmod 755 DIR",
		},
		"the environment": {
			closed: "environment",
			want: "SlurmUser cannot read DIR/environment; give it to SlurmUser's group, such as with `chgrp slurm " +
				"DIR/environment`, and chmod 640 DIR/environment",
		},
		"the environment of a group": {closed: "environment", group: true},
		"without an environment":     {gone: "environment"},
		"without partitions":         {gone: "conf.d"},
	} {
		t.Run(name, func(t *testing.T) {
			etc := t.TempDir()

			dir := filepath.Join(etc, "pcs-capacity")
			err := errors.Join(
				os.Chmod(filepath.Dir(etc), 0o755),
				os.Chmod(etc, 0o755),
				os.MkdirAll(filepath.Join(dir, "conf.d"), 0o755),
			)
			for _, file := range []string{
				"../slurm.conf",
				"config.toml",
				"conf.d/gpu.toml",
				"conf.d/README",
				"environment",
			} {
				mode := os.FileMode(0o644)
				if file == "conf.d/README" {
					mode = 0
				}

				err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), nil, mode))
			}

			if c.gone != "" {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, c.gone)))
			}

			if c.closed != "" {
				path := filepath.Join(dir, c.closed)
				mode := os.FileMode(0)
				if c.group {
					mode = 0o640
					err = errors.Join(err, os.Chown(path, -1, groupOf(slurmUser)))
				}

				err = errors.Join(err, os.Chmod(path, mode))
				t.Cleanup(func() { os.Chmod(path, 0o755) })
			}

			if err != nil {
				t.Fatal(err)
			}

			said := CheckHookAccess(filepath.Join(etc, "slurm.conf"), slurmUser)
			first := ""
			if len(said) > 0 {
				first = strings.ReplaceAll(said[0].Error(), dir, "DIR")
			}

			if first != c.want || len(said) > 1 && c.closed != "." {
				t.Errorf("%v", said)
			}
		})
	}
}

func groupOf(uid int) int {
	gid, _ := groupsOf(uid)

	return gid
}

// Another user than root and SlurmUser does not know, and nobody does on another host than slurmctld's.
func TestUnreadableIsNotGuessed(t *testing.T) {
	if said := CheckHookAccess(filepath.Join(t.TempDir(), "slurm.conf"), os.Geteuid()); said != nil {
		t.Errorf("on another host: %v", said)
	}
}
