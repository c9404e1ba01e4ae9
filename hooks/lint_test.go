package hooks

import (
	"os/exec"
	"strings"
	"testing"
)

// Slurm tells nobody of a name that a Lua script misspells: it is nil, and the job goes through.
func TestLuacheck(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"cli_filter": CLIFilter("/state/plan", "/state", "/filter"),
		"job_submit": JobSubmit("/state/plan", "/state", "/filter"),
		"quick":      quickLua, // in both as a string
		"fit":        fitLua,
		"ask":        askLua,
	} {
		c := exec.CommandContext(t.Context(), "luacheck", "--no-color", "--codes", "--std", "lua51", "--max-line-length", "140", "-",
			"--read-globals", "slurm", "--globals", "slurm_cli_pre_submit", "slurm_cli_setup_defaults", "slurm_cli_post_submit", "slurm_job_submit", "slurm_job_modify")
		c.Stdin = strings.NewReader(script)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
