package submit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Slurm tells nobody of a name that a Lua script misspells: it is nil, and the job goes through.
func TestLuacheck(t *testing.T) {
	t.Parallel()

	scripts := map[string]string{
		"cli_filter": CLIFilter("/state/plan", "/state", "/filter"),
		"job_submit": JobSubmit("/state/plan", "/state", "/filter"),
	}
	for name, script := range scripts {
		c := exec.CommandContext(
			t.Context(),
			"luacheck",
			"--no-color",
			"--codes",
			"--std",
			"lua51",
			"--max-line-length",
			"130",
			"-",
			"--read-globals",
			"slurm",
			"--globals",
			"slurm_cli_pre_submit",
			"slurm_cli_setup_defaults",
			"slurm_cli_post_submit",
			"slurm_job_submit",
			"slurm_job_modify",
		)
		c.Stdin = strings.NewReader(script)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// luas are the oldest and the newest Lua that Slurm is built with. Debian's is built with 5.1;
// whose is built on another distribution has what that calls Lua.
var luas = []string{"lua5.1", "lua5.4"}

// Patient is job_submit.lua with deadlines that no busy machine misses.
func Patient(script string) string {
	const deadlines = "READ_SECONDS, FILTER_SECONDS, REST_SECONDS = "
	return strings.Replace(script, deadlines+"1, 2, 60", deadlines+"60, 60, 60", 1)
}

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
	plan := write("it's a -- plan", "version 1\npartition gpu\n", 0o644)
	filter := write("it's a -- filter", fmt.Sprintf(`#!/bin/sh
case "$*" in *" comment=%x"*) printf 'code too-long\nrefuse %x\nend\n';; *) printf 'set time %x\nwarn %x\nend\n';; esac
`, "no", "it's too long", "90", "fitted"), 0o755)

	const driver = `local said = ""
local function say(form, ...) said = said .. form:format(...) .. "\n" end
slurm = { SUCCESS = 0, ERROR = -1, ESLURM_INVALID_TIME_LIMIT = 2051, log_info = say, log_error = say, log_user = say }
function slurm_cli_setup_defaults() return 7 end -- the site's
dofile(arg[1])
assert(slurm_cli_setup_defaults() == 7 and (arg[2] ~= "cli" or slurm_cli_post_submit() == 0))
local judge = arg[2] == "cli" and slurm_cli_pre_submit or slurm_job_submit
local job = { partition = "gpu", comment = "x=no" }
assert(judge(job, 0, 0) == 0 and job[arg[3]] == (arg[2] == "cli" and "90" or 90), said)
assert(said == (arg[2] == "cli" and "pcs-capacity: fitted\n" or ""), said)
said = ""
assert(judge({ partition = "gpu", comment = "x=no", parsable = "set" }, 0, 0) == 0 and said == "", said)
said = ""
assert(judge({ partition = "gpu", comment = "no" }, 0, 0) == (arg[2] == "cli" and -1 or 2051), said)
assert(said == "pcs-capacity: it's too long\n", said)
said = ""
assert(judge({ partition = "cpu" }, 0, 0) == 0 and said == "", said)
local long = ("x"):rep(60 * 1024) -- too long for the filter's command line
assert(judge({ partition = "gpu", comment = "no", constraint = long, features = long }, 0, 0) == 0 and said == "", said)
if arg[2] == "job" then -- a change is judged like a submission; root may change everything
  local record = { partition = "cpu", account = "nlp", comment = "x=no" }
  assert(slurm_job_modify({ partition = "gpu", comment = "no" }, record, 0, 7) == 2051, said)
  assert(slurm_job_modify({ partition = "gpu", comment = "no" }, record, 0, 0) == 0, said)
  assert(slurm_job_modify({ time_limit = 5 }, { partition = "gpu", comment = "no" }, 0, 7) == 0, said)
end
if arg[2] == "cli" then
  assert(judge({ type = "srun", jobid = "0", partition = "gpu", comment = "no" }, 0, 0) == -1, said)
  said, io.open = "", nil -- a step reads no plan
  assert(judge({ type = "srun", jobid = "7", partition = "gpu", comment = "no" }, 0, 0) == 0 and said == "", said)
end
`
	// Whatever is wrong with a function of ours, the job is let through or judged by the filter.
	const broken = `local said = ""
local function say(form, ...) said = said .. form:format(...) .. "\n" end
slurm = { SUCCESS = 0, ERROR = -1, log_info = say, log_error = say, log_user = say }
dofile(arg[1])
local judge = slurm_cli_pre_submit or slurm_job_submit
for _, job in ipairs({ { type = "srun", partition = "cpu", comment = "a comment", jobid = "0" }, { type = "sbatch", partition = "cpu", comment = "x=1" },
  { type = "srun", partition = "gpu", ["gpus-per-node"] = "8", tres_per_node = "8" } }) do
  said = ""
  assert(judge(job, 0, 0) == 0, said)
  assert(said == "" or said == "pcs-capacity: fitted\n" or said:find("^pcs%-capacity: .*let through unchecked; tell an administrator\n"), said)
end
assert(not slurm_job_modify or slurm_job_modify({ partition = "gpu" }, { account = "nlp" }, 0, 7) == 0, said)
`

	script := write("driver.lua", driver, 0o644)
	cli := write("cli_filter.lua", CLIFilter(plan, dir, filter), 0o644)
	submit := write("job_submit.lua", Patient(JobSubmit(plan, dir, filter)), 0o644)
	for _, lua := range luas {
		for _, args := range [][]string{{script, cli, "cli", "time"}, {script, submit, "job", "time_limit"}} {
			if out, err := exec.CommandContext(t.Context(), lua, args...).CombinedOutput(); err != nil {
				t.Errorf("%s %s: %v: %s", lua, filepath.Base(args[1]), err, out)
			}
		}

		for name, text := range map[string]string{
			"cli_filter": CLIFilter(plan, dir, filter),
			"job_submit": Patient(JobSubmit(plan, dir, filter)),
		} {
			heads := regexp.MustCompile(`(?m)^local function (\w+)\(.*?\)`).FindAllStringSubmatchIndex(text, -1)
			if len(heads) < 9 {
				t.Fatalf("%s has %d functions", name, len(heads))
			}

			for _, at := range heads {
				function := text[at[2]:at[3]]
				if function == "guarded" || function == "success" { // they run before ours are guarded
					continue
				}

				bad := text[:at[1]] + ` do error("broken") end ` + text[at[1]:]
				if out, err := exec.CommandContext(t.Context(), lua, write("broken.lua", broken, 0o644),
					write(name+"_bad.lua", bad, 0o644)).CombinedOutput(); err != nil {
					t.Errorf("%s, %s whose %s is broken: %v: %s", lua, name, function, err, out)
				}
			}
		}
	}
}

// Who may not read the plan is told that nothing was checked, and the job goes on, whether state_dir or the plan alone
// is closed: a user at once, slurmctld in its log, once a minute. A plan that is not there is no fault of anybody.
func TestR6_UnreadablePlanIsSaid(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("root gives up its rights here")
	}

	top, err := os.MkdirTemp("", "pcs-capacity-") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)

	dir, none := filepath.Join(top, "it's a state"), filepath.Join(top, "none")
	plan, script, driver := filepath.Join(
		dir,
		"plan",
	), filepath.Join(
		top,
		"script.lua",
	), filepath.Join(
		top,
		"driver.lua",
	)
	if err := errors.Join(os.Chmod(top, 0o755), os.Mkdir(dir, 0o755),
		os.WriteFile(plan, []byte("version 1\npartition gpu\n"), 0o600)); err != nil {
		t.Fatal(err)
	}

	log := "log: pcs-capacity: " + plan + ": Permission denied; jobs are let through unchecked: let SlurmUser read it\n"
	for _, shim := range []struct{ script, driver, says string }{
		{
			CLIFilter(plan, dir, none),
			`slurm = { SUCCESS = 0, ERROR = -1, log_info = function(form, ...) io.write(form:format(...)) end }
dofile(arg[1])
assert(slurm_cli_pre_submit({ type = "sbatch", partition = "gpu", nodes = "9", time = "2-00:00:00" }, 0) == 0)
assert(slurm_cli_pre_submit({ type = "srun", jobid = "7", partition = "gpu" }, 0) == 0) -- a step
`,
			"pcs-capacity: " + plan + ": Permission denied; the job is let through unchecked; tell an administrator",
		},
		{
			Patient(JobSubmit(plan, dir, none)),
			`local function say(who) return function(form, ...) io.write(who, form:format(...), "\n") end end
slurm = { SUCCESS = 0, ERROR = -1, log_info = function() end, log_error = say("log: "), log_user = say("user: ") }
local now = 1000000
os.time = function() return now end
dofile(arg[1])
for _, after in ipairs({ 0, 1, 30, 40 }) do
  now = now + after
  assert(slurm_job_submit({ partition = "cpu" }, 0, 0) == 0)
end
`,
			log + log,
		},
	} {
		if err := errors.Join(os.WriteFile(script, []byte(shim.script), 0o644),
			os.WriteFile(driver, []byte(shim.driver), 0o644)); err != nil {
			t.Fatal(err)
		}

		for _, lua := range luas {
			for _, c := range []struct {
				dir, plan os.FileMode
				there     bool
				want      string
			}{{0o700, 0o644, true, shim.says}, {0o755, 0o600, true, shim.says}, {0o755, 0, false, ""}} {
				at := map[bool]string{true: plan, false: plan + ".not"}[c.there]
				if err := errors.Join(os.Chmod(dir, c.dir), os.Chmod(plan, c.plan), os.Rename(plan, at)); err != nil {
					t.Fatal(err)
				}

				run := exec.CommandContext(t.Context(), lua, driver, script)
				run.Dir = "/"
				run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
				if out, err := run.CombinedOutput(); err != nil || string(out) != c.want {
					t.Errorf("%s, %04o and %04o: %v: %s, want %s", lua, c.dir, c.plan, err, out, c.want)
				}

				if err := os.Rename(at, plan); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// Inside slurmctld nothing may wait twice for what has just hung: the plan and the filter are
// left alone for 60 seconds, and no longer, also when the clock is set back meanwhile.
func TestJobSubmitRestsAfterAHang(t *testing.T) {
	t.Parallel()
	// The driver has a clock and processes of its own: plans and filters are started by io.popen.
	const driver = `
local clock, started, hangs, text = 100000, {}, {}, "version 1\npartition gpu\n"
os.time = function() return clock end
io.popen = function(command)
  local what = command:find("cat", 1, true) and "plan" or "filter"
  started[#started + 1] = what
  return { close = function() end, read = function()
    if hangs[what] then clock = clock + (what == "plan" and 1 or 2) return nil end
    return what == "plan" and text or "end\n"
  end }
end
local said = ""
local function say(form, ...) said = said .. form:format(...) .. "\n" end
slurm = { SUCCESS = 0, ERROR = -1, log_info = say, log_user = say }
dofile(arg[1])
-- submits after so many seconds, and says what was started for it.
local function submit(seconds)
  clock, started, said = clock + seconds, {}, ""
  assert(slurm_job_submit({ partition = "gpu" }, 0, 0) == 0)
  return table.concat(started, " ")
end
local function expect(what, want) assert(what == want, ("%q, want %q; %s"):format(what, want, said)) end

expect(submit(0), "plan filter")
expect(submit(4), "filter")      -- the plan is kept for 5 seconds
expect(submit(1), "plan filter")

hangs.plan = true
expect(submit(5), "plan filter") -- the partitions are as they were
assert(said:find("hangs; the partitions are as they were for 60 s", 1, true), said)
expect(submit(5), "filter")
expect(submit(54), "filter")     -- 59 s after the hang
hangs.plan = nil
expect(submit(1), "plan filter")
hangs.plan = true
expect(submit(5), "plan filter")
hangs.plan = nil
expect(submit(-3600), "plan filter") -- the clock went back: else for an hour and a minute
expect(submit(0), "filter")

hangs.filter = true
expect(submit(5), "plan filter")
assert(said:find("gave no answer", 1, true), said)
hangs.filter = nil
expect(submit(5), "plan")
assert(said:find("hung a moment ago", 1, true) and said:find("let through unchecked", 1, true), said)
expect(submit(54), "plan")       -- 59 s after the hang
expect(submit(1), "filter")
hangs.filter = true
expect(submit(0), "filter")
hangs.filter = nil
expect(submit(-3600), "plan filter")
`

	dir := t.TempDir()
	script, shim := filepath.Join(dir, "driver.lua"), filepath.Join(dir, "job_submit.lua")
	for path, text := range map[string]string{
		script: driver,
		shim:   JobSubmit(filepath.Join(dir, "plan"), dir, filepath.Join(dir, "filter")),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	for _, lua := range luas {
		if out, err := exec.CommandContext(t.Context(), lua, script, shim).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", lua, err, out)
		}
	}
}
