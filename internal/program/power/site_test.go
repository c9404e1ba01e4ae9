package power

import (
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
		filepath.Join(dir, slurm.IncludeFile): "# ours\n" + slurm.SiteProgramLine("ResumeProgram", theirs),
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2,
		Groups: []capacity.GroupSettings{{Name: "gpu", MaxNodes: 4, Slots: 1}}}}}
	for _, c := range []struct {
		hostlist, ours, theirs string
		fails                  bool
	}{
		{"gpu-[1-2]", "gpu-[1-2]", "", false},
		{"aws-[1-3],gpu-[1-2]", "gpu-[1-2]", "aws-[1-3]", false},
		{"aws-[1-3]", "", "aws-[1-3]", false},
		{"aws-9", "", "aws-9", true},
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
