package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestSlurm_RestartThatFails: slurmctld runs after hooks install and remove as it did before, or the site's line is
// named that keeps it from that: without the Lua plugin, with one that cannot be loaded, and with a line that slurmctld
// has not read yet.
func TestSlurm_RestartThatFails(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	w := newWiredOn(t, func(c *slurmlab.Config) {
		c.Extra = []string{"SuspendExcNodes=static-1,gpu-1", "Include site.conf"}
		c.GresConf = "NodeName=gpu-[1-4] AutoDetect=off\n"

		siteConf := filepath.Join(c.Dir, "etc", "site.conf")
		if err := errors.Join(os.Mkdir(filepath.Dir(siteConf), 0o755), os.WriteFile(siteConf, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	})
	siteConf := filepath.Join(w.etc, "site.conf")
	plugins := w.pluginsWithoutLua()
	w.write(siteConf, "PluginDir="+plugins+"\n")

	if err := w.restartSlurm(); err != nil {
		t.Fatal(err)
	}

	before := w.configuration()
	refused := func(want string, args ...string) {
		t.Helper()

		w.said = ""
		_, status := w.run(nil, append([]string{"hooks"}, args...)...)
		if status != 1 || !strings.Contains(w.said, want) || strings.Contains(w.said, "to continue") {
			t.Errorf("hooks %s: status %d: %s", args, status, w.said)
		}

		if now := w.configuration(); now != before {
			t.Errorf("hooks %s: slurm.conf and the files beside it were\n%s\nand are\n%s", args, before, now)
		}
	}
	answers := func() {
		t.Helper()

		if _, err := (&slurm.Client{}).Config(t.Context()); err != nil {
			t.Error(err)
		}
	}

	refused("this Slurm has no job_submit_lua.so in "+plugins, "install")
	answers()

	lua := filepath.Join(plugins, "job_submit_lua.so")
	w.write(lua, "not a library")
	refused("The former files are back, and slurmctld runs again", "install")
	answers()

	if err := os.Remove(lua); err != nil {
		t.Fatal(err)
	}

	w.write(siteConf, "")

	if err := w.restartSlurm(); err != nil {
		t.Fatal(err)
	}

	w.hooks("install")
	before = w.configuration()
	w.write(siteConf, "\nPartitionName=old Nodes=gone-[1-2]\n")
	refused("that pcs-capacity did not write: "+siteConf+":2: PartitionName=old Nodes=gone-[1-2]; correct it", "remove")

	w.write(siteConf, "")

	if err := w.restartSlurm(); err != nil {
		t.Fatal(err)
	}

	os.Remove(filepath.Join(w.dir, "down"))
	w.hooks("remove")
	answers()
}

// pluginsWithoutLua is a folder with Slurm's plugins but for job_submit_lua.so.
func (w *wired) pluginsWithoutLua() (folder string) {
	w.Helper()

	running, err := (&slurm.Client{}).Config(w.Context())
	if err != nil {
		w.Fatal(err)
	}

	folder = filepath.Join(w.dir, "plugins")
	err = os.Mkdir(folder, 0o755)
	for _, from := range running.PluginDirs {
		files, listErr := filepath.Glob(filepath.Join(from, "*.so"))
		err = errors.Join(err, listErr)
		for _, file := range files {
			if filepath.Base(file) != "job_submit_lua.so" {
				err = errors.Join(err, os.Symlink(file, filepath.Join(folder, filepath.Base(file))))
			}
		}
	}

	if err != nil {
		w.Fatal(err)
	}

	return folder
}

// configuration is the text of slurm.conf and of gres.conf, and the names of the files beside them.
func (w *wired) configuration() string {
	w.Helper()

	files, err := filepath.Glob(filepath.Join(w.etc, "*.*"))
	conf, confErr := os.ReadFile(w.cluster.Conf())
	gres, gresErr := os.ReadFile(filepath.Join(w.etc, "gres.conf"))
	if err := errors.Join(err, confErr, gresErr); err != nil {
		w.Fatal(err)
	}

	return strings.Join(files, "\n") + "\n" + string(conf) + "\n" + string(gres)
}
