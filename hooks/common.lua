-- Written by `pcs-capacity hooks install`; do not edit, it is written anew.
-- Runs on Lua 5.1 to 5.4, inside sbatch, srun and salloc or inside slurmctld.
local PLAN = @PLAN@

-- The keys of a comment that concern us, wherever the job goes.
local KEYS = {
  capacity_reservation_id = true, instance_type = true, subnet_id = true,
}

-- Slurm refuses longer comments itself.
local MAX_COMMENT = 1024
local MAX_PLAN = 256 * 1024

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

local function concerns_us(job, plan)
  local partition, comment = text_of(job.partition), text_of(job.comment)
  if not plan or #comment > MAX_COMMENT then return false end
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

-- What only jobs that concern us need is compiled when it is needed: that takes longer
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
  if type(PARTS[name]) == "string" then
    PARTS[name] = assert((loadstring or load)(PARTS[name], "=" .. name))(part, text_of)
  end
  return PARTS[name]
end

-- What is told when we cannot judge a job.
local function unchecked(problem)
  return "pcs-capacity: " .. tostring(problem) .. "; the job is let through unchecked; tell an administrator"
end
