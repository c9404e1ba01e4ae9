package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The search order for Slurm's programs.
func TestPlaceFolders(t *testing.T) {
	usual := "/usr/bin /usr/local/bin /opt/slurm/bin"
	for name, c := range map[string]struct {
		place ProgramHints
		want  string
	}{
		"nothing known": {ProgramHints{}, usual},
		"PATH":          {ProgramHints{Path: []string{"", "here", "/a", "/usr/bin"}}, "/a " + usual},
		"the release before PATH": {
			ProgramHints{Path: []string{"/pcs/slurm-25.05/bin"}, Release: "/pcs/slurm-25.11/bin"},
			"/pcs/slurm-25.11/bin /pcs/slurm-25.05/bin " + usual,
		},
		"newest of PCS": {
			ProgramHints{PCS: []string{"/pcs/slurm-24.11/bin", "/pcs/slurm-25.11/bin", "/pcs/slurm-25.05/bin"}},
			usual + " /pcs/slurm-25.11/bin /pcs/slurm-25.05/bin /pcs/slurm-24.11/bin",
		},
		"slurmctld's program": {
			ProgramHints{Parent: "/opt/slurm-25.11/sbin/slurmctld"},
			"/opt/slurm-25.11/bin " + usual,
		},
		"slurmctld was replaced": {
			ProgramHints{Parent: "/opt/slurm-25.11/sbin/slurmctld (deleted)"},
			"/opt/slurm-25.11/bin " + usual,
		},
		"a shell's program":        {ProgramHints{Parent: "/opt/tools/bin/bash"}, usual},
		"written down":             {ProgramHints{Recorded: "/opt/slurm-25.11/bin"}, "/opt/slurm-25.11/bin " + usual},
		"distribution's slurmctld": {ProgramHints{Parent: "/usr/sbin/slurmctld"}, usual},
		"PATH before all that": {
			ProgramHints{Path: []string{"/a"}, Parent: "/b/sbin/slurmctld", Recorded: "/c"},
			"/a /b/bin /c " + usual,
		},
	} {
		if diff := cmp.Diff(strings.Fields(c.want), c.place.Folders()); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// installPCS has the host look as AWS PCS leaves it, with several releases, for a cluster of one
// of them. slurmctld refuses newer programs, as 25.05 does, and ones that are too old.
func installPCS(t *testing.T, cluster string, releases ...string) {
	t.Helper()

	was := pcsPrograms
	t.Cleanup(func() { pcsPrograms = was })

	pcsPrograms = t.TempDir()
	for i, release := range releases {
		dir := filepath.Join(pcsPrograms, "slurm-"+release, "bin")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}

		text := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] && echo slurm %s.1 && exit\n", release)
		if tooOld := i == 0 && cluster != release && len(releases) > 2; tooOld || release > cluster {
			text += "echo 'slurm_load_ctl_conf error: Protocol authentication error' >&2; exit 1\n"
		} else {
			text += fmt.Sprintf("echo 'SLURM_VERSION = %s.8'\n", cluster)
		}

		if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// On PCS the programs are those of the cluster's release, whatever else is installed.
func TestPCSRelease(t *testing.T) {
	for _, c := range []struct {
		cluster   string
		installed []string
		want      string
	}{
		{"25.05", []string{"25.05"}, "25.05.1"},
		{"25.05", []string{"25.05", "25.11"}, "25.05.1"},
		{"25.11", []string{"25.05", "25.11"}, "25.11.1"},
		{"25.05", []string{"23.11", "25.05", "25.11"}, "25.05.1"},
		{"25.11", []string{"23.11", "25.05", "25.11"}, "25.11.1"},
	} {
		installPCS(t, c.cluster, c.installed...)
		t.Setenv("PATH", "/usr/bin:/bin") // as systemd has it

		client := &Client{PCS: true}
		if v, err := client.Version(t.Context()); err != nil || v.String() != c.want {
			t.Errorf("cluster %s, installed %s: %s, %v", c.cluster, c.installed, v, err)
		}

		if running, err := client.Config(t.Context()); err != nil || running.Version.Release() != c.cluster {
			t.Errorf("cluster %s, installed %s: %+v, %v", c.cluster, c.installed, running, err)
		}
	}
}

// Programs that slurmctld starts find scontrol under any prefix: beside slurmctld, or where `hooks install` noted it.
func TestHookFolder(t *testing.T) {
	prefix := t.TempDir()
	conf := filepath.Join(prefix, "etc", "slurm.conf")
	for _, dir := range []string{"etc", "bin", "sbin"} {
		if err := os.Mkdir(filepath.Join(prefix, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	bin := filepath.Join(prefix, "bin")
	if err := os.WriteFile(filepath.Join(bin, "scontrol"), nil, 0o755); err != nil {
		t.Fatal(err)
	}

	if got, err := HookFolder(conf, filepath.Join(prefix, "sbin/slurmctld")); err != nil || got != bin {
		t.Errorf("%q, %v", got, err)
	}

	if got, _ := HookFolder(conf, ""); got == bin {
		t.Error("nothing names it")
	}

	if err := os.WriteFile(filepath.Join(prefix, "etc", IncludeFile),
		[]byte("# ours\n"+FolderLine(bin)+"ResumeProgram=/x\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	if got, err := HookFolder(conf, ""); err != nil || got != bin {
		t.Errorf("%q, %v", got, err)
	}

	t.Setenv("SLURM_CONF", conf)
	t.Setenv("PATH", "")

	if got, err := (&Client{}).Folder(t.Context()); err != nil || got != bin {
		t.Errorf("a hook's client: %q, %v", got, err)
	}
}
