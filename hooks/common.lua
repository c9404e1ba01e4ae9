-- Written by `pcs-capacity hooks install`; do not edit, it is written anew.
-- Runs on Lua 5.1 to 5.4, inside sbatch, srun and salloc or inside slurmctld.
local PLAN, STATE_DIR, FILTER = @PLAN@, @STATE_DIR@, @FILTER@

-- The keys of a comment that concern us, wherever the job goes.
local KEYS = {
  capacity_reservation_id = true, instance_type = true, subnet_id = true,
}

-- Slurm refuses longer comments itself.
local MAX_COMMENT = 1024
local MAX_PLAN = 256 * 1024

-- What the filter is told about a job.
local FIELDS = {
  "from", "partition", "account", "comment", "was", "started", "user", "qos", "time", "time-min", "begin", "deadline", "nodes", "ntasks",
  "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres", "constraint",
}

-- What only jobs in our partitions need is compiled when it is needed: that takes longer
-- than all else that this script does, and sbatch compiles it each time.
local PARTS = {
  -- Judges a job by the plan alone.
  quick = @QUICK@,
  -- Fits its limit, or refuses it, by the plan alone.
  rooms = @ROOMS@,
  -- Asks the filter.
  ask = @ASK@,
}

local function part(name)
  if type(PARTS[name]) == "string" then PARTS[name] = assert((loadstring or load)(PARTS[name], "=" .. name))() end
  return PARTS[name]
end

-- The plan names the partitions that are ours. nil if there is none that this
-- script understands: then nothing is known, and every job goes through.
local function parse_plan(text)
  return text and text:find("^version 1\n") and text or nil
end

-- A value as Slurm gives it: a string, a number, or nil when it is not set.
local function text_of(value)
  if type(value) == "number" then return string.format("%.0f", value) end
  return value or ""
end

local function concerns_us(plan, partition, comment)
  if partition == "" then partition = plan:match("\ndefault (%S+)\n") or "" end
  for name in partition:gmatch("[^,]+") do
    if not name:find("%s") and plan:find("\npartition " .. name .. "\n", 1, true) then return true end
  end
  for word in comment:gmatch("[^%s,]+") do
    local key = word:match("^([%l_]+)=")
    if key and KEYS[key] then return true end
  end
  return false
end

-- What the plan alone answers about a job, and nil; nil and what the filter is to be told of
-- it; nil and nil if it is none of our business or left to Slurm.
local function judge_here(job, plan, now)
  local comment = text_of(job.comment)
  if not plan or #comment > MAX_COMMENT or not concerns_us(plan, text_of(job.partition), comment) then return nil end
  local fields = {}
  for _, name in ipairs(FIELDS) do fields[name] = text_of(job[name]) end
  local answer = part("quick")(fields, plan, now, part)
  return answer, not answer and fields or nil
end

-- For paths, which come from the settings.
local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- Asks the filter, which run starts. Raises an error if it gives no answer.
local function ask(fields, run)
  return part("ask")(fields, FIELDS, run .. " " .. quoted(FILTER), FILTER, STATE_DIR)
end

-- What is told when we cannot judge a job.
local function unchecked(problem)
  return "pcs-capacity: " .. tostring(problem) .. "; the job is let through unchecked; tell an administrator"
end
