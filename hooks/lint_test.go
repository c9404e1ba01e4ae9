package hooks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
		"rooms":      roomsLua,
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

// luas are the oldest and the newest Lua that Slurm is built with. Debian's is built with 5.1;
// whose is built on another distribution has what that calls Lua.
var luas = []string{"lua5.1", "lua5.4"}

// The scripts as sbatch and slurmctld call them, with a filter that refuses or edits, on each Lua.
func TestShimsOnEachLua(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plan := write("plan", "version 1\npartition gpu\n", 0o644)
	filter := write("it's a filter", fmt.Sprintf(`#!/bin/sh
case "$*" in *" comment=%x"*) printf 'code too-long\nrefuse %x\nend\n';; *) printf 'set time %x\nwarn %x\nend\n';; esac
`, "no", "it's too long", "90", "fitted"), 0o755)
	const driver = `local said = ""
local function say(form, ...) said = said .. form:format(...) .. "\n" end
slurm = { SUCCESS = 0, ERROR = -1, ESLURM_INVALID_TIME_LIMIT = 2051, log_info = say, log_error = say, log_user = say }
dofile(arg[1])
local judge = arg[2] == "cli" and slurm_cli_pre_submit or slurm_job_submit
local job = { partition = "gpu", comment = "x=no" }
assert(judge(job, 0, 0) == 0 and job[arg[3]] == (arg[2] == "cli" and "90" or 90), said)
assert(said == "pcs-capacity: fitted\n", said)
said = ""
assert(judge({ partition = "gpu", comment = "no" }, 0, 0) == (arg[2] == "cli" and -1 or 2051), said)
assert(said == "pcs-capacity: it's too long\n", said)
said = ""
assert(judge({ partition = "cpu" }, 0, 0) == 0 and said == "", said)
`
	script := write("driver.lua", driver, 0o644)
	cli := write("cli_filter.lua", CLIFilter(plan, dir, filter), 0o644)
	submit := write("job_submit.lua", JobSubmit(plan, dir, filter), 0o644)
	for _, lua := range luas {
		for _, args := range [][]string{{script, cli, "cli", "time"}, {script, submit, "job", "time_limit"}} {
			if out, err := exec.CommandContext(t.Context(), lua, args...).CombinedOutput(); err != nil {
				t.Errorf("%s %s: %v: %s", lua, filepath.Base(args[1]), err, out)
			}
		}
	}
}
