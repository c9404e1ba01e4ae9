package power

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// The program that the site had gets the nodes that are not ours, in the environment that Slurm
// made; ours are left for us.
func TestSitesProgramGetsItsNodes(t *testing.T) {
	dir := t.TempDir()
	said := filepath.Join(dir, "said")
	theirs := filepath.Join(dir, "resume.py")
	t.Setenv("SLURM_CONF", filepath.Join(dir, "slurm.conf"))
	t.Setenv("SLURM_RESUME_FILE", "/proc/1/fd/9")
	for path, text := range map[string]string{
		theirs:                                "#!/bin/sh\necho \"$1 $SLURM_RESUME_FILE $AWS_PROFILE\" >>" + said + "\n[ \"$1\" != aws-9 ]\n",
		filepath.Join(dir, slurm.IncludeFile): "# ours\n" + slurm.SiteLine("ResumeProgram", theirs),
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2,
		Groups: []capacity.GroupSettings{{Name: "gpu", MaxNodes: 4, Slots: 1}}},
		{Name: "lent", Provider: capacity.ProviderNone, Groups: []capacity.GroupSettings{{Name: "lent", MaxNodes: 4}}}}}
	for _, c := range []struct {
		hostlist, ours, theirs string
		fails                  bool
	}{
		{"gpu-[1-2]", "gpu-[1-2]", "", false},
		{"aws-[1-3],gpu-[1-2]", "gpu-[1-2]", "aws-[1-3]", false},
		{"aws-[1-3]", "", "aws-[1-3]", false},
		{"aws-9", "", "aws-9", true},
		{"gpu-1,lent-[1-2]", "gpu-1", "lent-[1-2]", false},
	} {
		_ = os.Remove(said)
		s := newSite("ResumeProgram")
		s.log = slog.New(slog.DiscardHandler)
		t.Setenv("AWS_PROFILE", "of-our-hooks")
		ours, err := s.start(settings, c.hostlist)
		err = s.wait(err)
		os.Unsetenv("AWS_PROFILE")
		text, _ := os.ReadFile(said)
		want := ""
		if c.theirs != "" {
			want = c.theirs + " /proc/1/fd/9 \n"
		}
		if ours != c.ours || string(text) != want || (err != nil) != c.fails {
			t.Errorf("%s: ours are %q, theirs got %q, %v", c.hostlist, ours, text, err)
		}
	}
	if s := newSite("SuspendProgram"); s.program != "" {
		t.Errorf("SuspendProgram is %s", s.program)
	}
}

// The programs read the environment of hooks for themselves, and the site's do not get it.
func TestProgramsReadTheirEnvironment(t *testing.T) {
	for setting, program := range map[string]func([]string) int{"ResumeProgram": Resume, "SuspendProgram": Suspend} {
		dir := t.TempDir()
		said, theirs := filepath.Join(dir, "said"), filepath.Join(dir, "theirs")
		t.Setenv("SLURM_CONF", filepath.Join(dir, "slurm.conf"))
		t.Setenv("PCS_TEST_HOOKS", "")
		os.Unsetenv("PCS_TEST_HOOKS")
		if err := os.Mkdir(filepath.Join(dir, "pcs-capacity"), 0o755); err != nil {
			t.Fatal(err)
		}
		for path, text := range map[string]string{
			theirs:                                "#!/bin/sh\necho \"$1 $PCS_TEST_HOOKS\" >" + said + "\n",
			filepath.Join(dir, slurm.IncludeFile): "# ours\n" + slurm.SiteLine(setting, theirs),
			filepath.Join(dir, "pcs-capacity", "config.toml"): fmt.Sprintf("region = \"us-east-2\"\nstate_dir = %q\n[log]\ndir = %q\n", dir+"/state", dir+"/log"),
			filepath.Join(dir, "pcs-capacity", "environment"): "PCS_TEST_HOOKS=ours\n",
		} {
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		status := program([]string{"aws-1"})
		if text, err := os.ReadFile(said); status != 0 || err != nil || string(text) != "aws-1 \n" {
			t.Errorf("%s: status %d, the site's got %q, %v", setting, status, text, err)
		}
		if got := os.Getenv("PCS_TEST_HOOKS"); got != "ours" {
			t.Errorf("%s: PCS_TEST_HOOKS is %q", setting, got)
		}
	}
}
