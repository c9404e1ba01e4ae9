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
  local head = text:find("\nfits ", 1, true) or #text
  local plan = { partitions = {}, fits = text:sub(head) }
  for word, value in text:sub(1, head):gmatch("(%S+) (%S+)\n") do
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

-- What stands for a value that is not set: in slurmctld, and as a time in sbatch of
-- Slurm 22.05.
local UNSET = { [""] = true, ["0"] = true, ["4294967294"] = true, ["2982616-04:14:00"] = true, ["Unknown"] = true }

-- A least number of nodes or tasks, 0 if none is given; nil for what is left to the filter.
local function count_of(text)
  if UNSET[text] or text == "65534" or text == "-2" or text == "1-0" then return 0 end
  local digits = text:match("^(%d+)$") or text:match("^(%d+)%-[1-9]%d*$")
  if digits and #digits < 6 and digits ~= "65534" then return tonumber(digits) end
end

-- A time limit in whole minutes, rounded up; nil for what is left to the filter.
local function minutes_of(text)
  local days, hours, minutes, seconds = text:match("^(%d+)%-(%d+):(%d+):(%d+)$")
  if not days then
    days, hours, minutes, seconds = "0", text:match("^(%d+):(%d+):(%d+)$")
    if not hours then
      hours, minutes, seconds = "0", text:match("^(%d+):(%d+)$")
      if not minutes then minutes, seconds = text:match("^(%d+)$"), "0" end
    end
  end
  if not minutes or #days > 4 or #hours > 4 or #minutes > 6 or #seconds > 4 then return nil end
  local total = tonumber(days) * 1440 + tonumber(hours) * 60 + tonumber(minutes) + math.ceil(tonumber(seconds) / 60)
  if total > 0 and total ~= 65534 then return total end
end

-- The GPUs of each node, 0 if none are asked for; nil for what is left to the filter.
local function gpus_of(per_node, gres)
  local most = 0
  for _, text in ipairs({ per_node, gres }) do
    if text ~= "" then
      local kind = text:gsub("^gres[:/]", ""):gsub("^gpu:", "")
      if text == gres and kind == text then return nil end -- not of GPUs
      local digits = kind:match("^(%d+)$") or kind:match("^%a[%w_]*:(%d+)$")
      if not digits or #digits > 5 then return nil end
      most = math.max(most, tonumber(digits))
    end
  end
  return most
end

-- Whether a comment has nothing for us but, at most once, the mark of a fitted limit, and
-- whether it has that: every word for us has a "=".
local function silent(comment)
  local fitted = false
  for word in comment:gmatch("[^ ,\t\n\r]+") do
    if word:find("=", 1, true) then
      if fitted or word ~= "time=fit" then return false end
      fitted = true
    end
  end
  return true, fitted
end

-- Whether the plan says that a job fits as it is; false if in doubt: then the filter
-- judges it. capacity.Quicks has what is written there.
local function fits(fields, plan, now)
  local name = fields.partition ~= "" and fields.partition or plan.default
  if fields.from == "job_modify" or not name or not plan.partitions[name] then return false end
  for _, other in ipairs({ "begin", "deadline", "gpus", "gpus-per-task" }) do
    if not UNSET[fields[other]] then return false end
  end
  local nodes, tasks, per_node = count_of(fields.nodes), count_of(fields.ntasks), count_of(fields["ntasks-per-node"])
  local gpus = gpus_of(fields["gpus-per-node"], fields.gres)
  local need = minutes_of(fields.time)
  if not (nodes and tasks and per_node and gpus and (need or UNSET[fields.time] and fields.time ~= "0")) then return false end
  -- With a floor the limit is ours to fit, if the comment says so already; else it must be
  -- made to say so.
  local nothing, fitted = silent(fields.comment)
  if not nothing then return false end
  if not UNSET[fields["time-min"]] then
    local least = minutes_of(fields["time-min"])
    if not need or not least or least < need and not fitted then return false end
    need = math.min(need, least)
  end
  if per_node > 0 then nodes = math.max(nodes, math.ceil(tasks / per_node)) end

  local prefix, at = "\nfits " .. name .. " ", 1
  while true do
    local _, stop = plan.fits:find(prefix, at, true)
    if not stop then return false end
    local accounts, from, last, most, each = plan.fits:match("^(%S+) (%d+) (%d+) (%d+) (%d+)\n", stop + 1)
    if not accounts then return false end
    from, last, most, each = tonumber(from), tonumber(last), tonumber(most), tonumber(each)
    local allowed = accounts == "-" or fields.from == "cli_filter" and fields.account == "" or
      fields.account:find("^[%w_.-]+$") and ("," .. accounts .. ","):find("," .. fields.account .. ",", 1, true)
    local open = from <= now and (last == 0 or need and now + 1 + need * 60 <= last)
    if allowed and open and nodes <= most and (each == 0 or gpus <= each) then
      return true
    end
    at = stop
  end
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
    local said = (rest or ""):match("^(%x*)$")
    if word == "set" and field then
      answer.set[field] = unhex(value)
    elseif word == "code" then
      answer.code = rest
    elseif word == "warn" and said then
      answer.warnings[#answer.warnings + 1] = unhex(said)
    elseif word == "refuse" and said then
      answer.refusal = unhex(said)
    else
      return nil
    end
  end
  return answer
end

-- What the filter is to be told about a job; nil if it is none of our business, is left to
-- Slurm, or needs no filter.
local function to_ask(job, plan, now)
  local fields = {}
  for _, name in ipairs(FIELDS) do fields[name] = text_of(job[name]) end
  if not concerns_us(plan, fields.partition, fields.comment) then return nil end
  if #fields.comment > MAX_COMMENT or fits(fields, plan, now) then return nil end
  return fields
end

-- Asks the filter, which run starts. Raises an error if it gives no answer.
local function ask(fields, run)
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
