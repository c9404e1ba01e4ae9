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

-- What the filter is told about a job.
local FIELDS = { "partition", "account", "comment", "time", "time-min", "nodes", "ntasks", "constraint" }

-- The plan names the partitions that are ours. nil if there is none that this
-- script understands: then nothing is known, and every job goes through.
local function read_plan()
  local file = io.open(PLAN, "r")
  if not file then return nil end
  local text = file:read(256 * 1024)
  file:close()
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

local function concerns_us(partition, comment)
  local plan = read_plan()
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

-- The answer has one line for each thing to do and ends with "end"; without that
-- line the filter was cut off, and nothing of its answer counts.
local function parse_answer(text)
  if not text or not text:find("end\n$") then return nil end
  local answer = { set = {}, warnings = {} }
  for line in text:gmatch("([^\n]*)\n") do
    local field, value = line:match("^set ([%l-]+) (%x*)$")
    if field then answer.set[field] = unhex(value) end
    local warning = line:match("^warn (%x*)$")
    if warning then answer.warnings[#answer.warnings + 1] = unhex(warning) end
    local refusal = line:match("^refuse (%x*)$")
    if refusal then answer.refusal = unhex(refusal) end
  end
  return answer
end

-- Asks the filter about a job. Returns nil if the job is none of our business or is
-- left to Slurm. Raises an error if the filter gives no answer.
local function ask(job)
  local fields = {}
  for _, name in ipairs(FIELDS) do fields[name] = text_of(job[name]) end
  if not concerns_us(fields.partition, fields.comment) then return nil end
  if #fields.comment > MAX_COMMENT then return nil end
  local command = { "exec '" .. FILTER:gsub("'", "'\\''") .. "'", "state-dir=" .. hex(STATE_DIR) }
  for _, name in ipairs(FIELDS) do command[#command + 1] = name .. "=" .. hex(fields[name]) end
  -- The script of `sbatch < script` is on standard input: not for the filter.
  command = table.concat(command, " ") .. " </dev/null 2>/dev/null"
  if #command > MAX_COMMAND then return nil end
  local pipe = assert(io.popen(command, "r"))
  local text = pipe:read("*a")
  pipe:close()
  return parse_answer(text) or error(FILTER .. " gave no answer; see `pcs-capacity hooks status`", 0)
end
