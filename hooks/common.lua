-- Written by `pcs-capacity hooks install`; do not edit, it is written anew.
-- Runs on Lua 5.1, inside sbatch, srun and salloc or inside slurmctld.
local PLAN, STATE_DIR, FILTER = @PLAN@, @STATE_DIR@, @FILTER@

-- The keys of a comment that concern us, wherever the job goes.
local KEYS = {
  capacity_reservation_id = true, instance_type = true, subnet_id = true,
}

-- io.popen passes the command to `sh -c` as one string, and Linux takes at most
-- 131072 bytes of that (MAX_ARG_STRLEN). Slurm refuses longer comments itself.
local MAX_COMMAND = 100 * 1024
local MAX_COMMENT = 1024
local MAX_PLAN = 256 * 1024

-- What the filter is told about a job.
local FIELDS = {
  "from", "partition", "account", "comment", "was", "started", "user", "qos", "time", "time-min", "begin", "deadline", "nodes", "ntasks",
  "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres", "constraint",
}

-- The plan names the partitions that are ours. nil if there is none that this
-- script understands: then nothing is known, and every job goes through.
local function parse_plan(text)
  if not text or not text:find("^version 1\n") then return nil end
  local plan = { partitions = {} }
  for word, value in text:gmatch("(%S+) (%S+)\n") do
    if word == "default" then plan.default = value end
    if word == "partition" then plan.partitions[value] = true end
  end
  return plan
end

-- A value as Slurm gives it: a string, a number, or nil when it is not set.
local function text_of(value)
  if type(value) == "number" then return string.format("%.0f", value) end
  return value or ""
end

local function concerns_us(plan, partition, comment)
  if not plan then return false end
  if partition == "" then partition = plan.default or "" end
  for name in partition:gmatch("[^,]+") do
    if plan.partitions[name] then return true end
  end
  for word in comment:gmatch("[^%s,]+") do
    local key = word:match("^([%l_]+)=")
    if key and KEYS[key] then return true end
  end
  return false
end

-- Hex needs no quoting: nothing that a user typed reaches the shell.
local function hex(text)
  return (text:gsub(".", function(c) return string.format("%02x", c:byte()) end))
end

local function unhex(text)
  return (text:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end))
end

-- For paths, which come from the settings.
local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- The answer has one line for each thing to do and ends with "end"; without that
-- line the filter was cut off, and nothing of its answer counts. Nor does it if there
-- is a line that this script does not know: that may be a refusal.
local function parse_answer(text)
  if not text or not text:find("end\n$") then return nil end
  local answer = { set = {}, warnings = {} }
  for line in text:sub(1, -5):gmatch("([^\n]*)\n") do
    local word, rest = line:match("^(%l+) (.*)$")
    local field, value = (rest or ""):match("^([%l-]+) (%x*)$")
    local text = (rest or ""):match("^(%x*)$")
    if word == "set" and field then
      answer.set[field] = unhex(value)
    elseif word == "code" then
      answer.code = rest
    elseif word == "warn" and text then
      answer.warnings[#answer.warnings + 1] = unhex(text)
    elseif word == "refuse" and text then
      answer.refusal = unhex(text)
    else
      return nil
    end
  end
  return answer
end

-- Asks the filter about a job, which run starts. Returns nil if the job is none of our
-- business or is left to Slurm. Raises an error if the filter gives no answer.
local function ask(job, plan, run)
  local fields = {}
  for _, name in ipairs(FIELDS) do fields[name] = text_of(job[name]) end
  if not concerns_us(plan, fields.partition, fields.comment) then return nil end
  if #fields.comment > MAX_COMMENT then return nil end
  local command = { run, quoted(FILTER), "state-dir=" .. hex(STATE_DIR) }
  for _, name in ipairs(FIELDS) do
    if fields[name] ~= "" then command[#command + 1] = name .. "=" .. hex(fields[name]) end
  end
  -- The script of `sbatch < script` is on standard input: not for the filter.
  command = table.concat(command, " ") .. " </dev/null 2>/dev/null"
  if #command > MAX_COMMAND then return nil end
  local pipe = assert(io.popen(command, "r"))
  local text = pipe:read("*a")
  pipe:close()
  return parse_answer(text) or error(FILTER .. " gave no answer that this script knows", 0)
end

-- What is told when we cannot judge a job.
local function unchecked(problem)
  return "pcs-capacity: " .. tostring(problem) .. "; the job is let through unchecked; tell an administrator"
end
