package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// The advice of setup and check keeps SLURM_CONF and what AWS is asked with, and shows no secret.
func TestWatchCommand(t *testing.T) {
	const run = "systemd-run --unit=pcs-capacity-watch -p Restart=always "
	keep := "(umask 077; env | grep -E '^(SLURM_CONF=|AWS_)' >/run/pcs-capacity-watch.env)"
	for name, test := range map[string]struct {
		packaged    bool
		path        string
		globals     Globals
		environment []string
		want        []string
	}{
		"the package's service":          {true, config.SystemPath, Globals{}, []string{"HOME=/root"}, []string{"systemctl enable --now pcs-capacity-sync"}},
		"no package":                     {false, config.SystemPath, Globals{}, []string{"HOME=/root"}, []string{run + "pcs-capacity sync --watch"}},
		"the service has other settings": {true, "/c.toml", Globals{}, nil, []string{run + "pcs-capacity --config /c.toml sync --watch"}},
		"region and profile":             {false, "/c.toml", Globals{Region: "us-east-2", Profile: "hpc"}, nil, []string{run + "pcs-capacity --config /c.toml --region us-east-2 --profile hpc sync --watch"}},
		"slurm.conf elsewhere": {false, "/c.toml", Globals{}, []string{"SLURM_CONF=/s/slurm.conf"},
			[]string{keep, run + "-p EnvironmentFile=/run/pcs-capacity-watch.env pcs-capacity --config /c.toml sync --watch"}},
		"credentials": {false, "/c.toml", Globals{}, []string{"AWS_ACCESS_KEY_ID=AKIA", "AWS_SECRET_ACCESS_KEY=hush"},
			[]string{keep, run + "-p EnvironmentFile=/run/pcs-capacity-watch.env pcs-capacity --config /c.toml sync --watch"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := watching(test.packaged, test.path, &test.globals, test.environment); !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}

	// The line as a shell runs it.
	file := filepath.Join(t.TempDir(), "env")
	sh := exec.Command("sh", "-c", strings.Replace(keep, watchEnvironment, file, 1))
	sh.Env = []string{"PATH=" + os.Getenv("PATH"), "SLURM_CONF=/s/slurm.conf", "AWS_SECRET_ACCESS_KEY=hush", "MY_AWS_THING=no"}
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	slices.Sort(lines)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || !slices.Equal(lines, []string{"AWS_SECRET_ACCESS_KEY=hush", "SLURM_CONF=/s/slurm.conf"}) {
		t.Errorf("%v, %v: %q", err, info.Mode(), lines)
	}
}
