package submit

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

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
	for path, text := range map[string]string{script: driver, shim: JobSubmit(filepath.Join(dir, "plan"), dir, filepath.Join(dir, "filter"))} {
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
