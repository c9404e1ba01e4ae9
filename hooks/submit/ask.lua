-- What cli_filter.lua and job_submit.lua share. Both read the roster, a text file in which `pcs-capacity sync` names the
-- managed partitions. pcs-capacity-filter decides about their jobs, and about those whose comment names capacity.

local ROSTER = @ROSTER@
local STATE_DIR = @STATE_DIR@
local FILTER, QUOTED_FILTER = @FILTER@, @QUOTED_FILTER@
local MAX_ROSTER, MAX_COMMENT = 256 * 1024, 1024
local MAX_COMMAND = 100 * 1024 -- of io.popen; Linux takes 128 KB
local UNCHECKED = "pcs-capacity: %s; the job is let through unchecked; tell an administrator"

-- What the filter gets of a job.
local FIELDS = {
  "from", "partition", "account", "comment", "was", "started", "user", "qos", "time", "time-min", "begin", "deadline", "nodes",
  "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres", "tres-per-task", "cpus-per-task",
  "overcommit", "constraint", "reservation", "component", "together", "requeue", "signal",
  "whole",
}

-- The keys of a comment that name capacity.
local KEYS = { capacity_reservation_id = true, instance_type = true, subnet_id = true, capacity = true }

-- Returns whether one of a job's partitions is in the roster, or its comment names capacity.
local function concerns_us(job, roster)
  local partition, comment = job.partition, job.comment or ""
  if #comment > MAX_COMMENT or not roster:find("^version 1\n") then return false end -- Slurm refuses a longer one
  if not partition or partition == "" then partition = roster:match("\ndefault (%S+)\n") or "" end
  for name in partition:gmatch("[^,]+") do
    if roster:find("\npartition " .. name .. "\n", 1, true) then return true end
  end
  for word in comment:gmatch("[^%s,]+") do
    if KEYS[word:match("^([%l_]+)=")] then return true end
  end
  return false
end

-- Hex needs no quotes: nothing that a user typed reaches the shell.
local function hex(text)
  return (text:gsub(".", function(c) return string.format("%02x", c:byte()) end))
end

local function unhex(text)
  return (text:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end))
end

-- Asks the filter; run starts it. An answer counts if it ends with "end", else it was cut off, and if
-- each of its lines is known: another may be a refusal.
local function ask(job, run)
  local command = { run, QUOTED_FILTER, "state-dir=" .. hex(STATE_DIR) }
  for _, name in ipairs(FIELDS) do
    local value = job[name] or ""
    if type(value) == "number" then value = string.format("%.0f", value) end
    if value ~= "" then command[#command + 1] = name .. "=" .. hex(value) end
  end
  command = table.concat(command, " ") .. " </dev/null 2>/dev/null" -- `sbatch < script` has the script there
  if #command > MAX_COMMAND then return { set = {}, warnings = {} } end
  local pipe = assert(io.popen(command, "r"))
  local text = pipe:read("*a") or ""
  pipe:close()
  local answer, known = { set = {}, warnings = {} }, text:find("end\n$")
  for line in text:gsub("end\n$", ""):gmatch("([^\n]*)\n") do
    local word, field, value = line:match("^(%l+) ?([%l-]*) (%x*)$")
    if word == "set" and field ~= "" then
      answer.set[field] = unhex(value)
    elseif word == "warn" and field == "" then
      answer.warnings[#answer.warnings + 1] = unhex(value)
    elseif word == "needs" and field == "" then
      answer.needs = tonumber(unhex(value))
    elseif word == "whole" and field == "" then
      answer.whole = unhex(value)
    elseif word == "refuse" and field == "" then
      answer.refusal = unhex(value)
    elseif line:find("^code ") then
      answer.code = line:sub(6)
    else
      known = false
    end
  end
  return known and answer or error(FILTER .. " gave no answer that this script knows", 0)
end

-- A site's own script that loads this one may have defined a function: it runs first, and what it refuses is
-- refused. An error of ours is said, and the job is accepted.
local function guarded(site, ours, say, ...)
  local result = site and site(...)
  if type(result) == "number" and result ~= slurm.SUCCESS then return result end
  local ok, said = pcall(ours, ...)
  if ok then return said end
  pcall(say, UNCHECKED, tostring(said))
  return slurm.SUCCESS
end
