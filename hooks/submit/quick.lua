-- Part of the Lua shims: what the plan alone decides about a job. Admit of package capacity
-- says the same; what is in doubt is left to it. Quick and QuickFit of that package have what
-- is written in the plan.
local part = ...

-- A value as Slurm gives it: a string, a number, or nil when it is not set.
local function text_of(value)
  if type(value) == "number" then return string.format("%.0f", value) end
  return value or ""
end

-- What the filter is told about a job.
local FIELDS = {
  "from", "partition", "account", "comment", "was", "started", "user", "qos", "time", "time-min", "begin", "deadline", "nodes", "ntasks",
  "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres", "constraint", "requeue", "nodelist", "exclude",
}

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

-- The keys that say, even alone, that a comment was meant for us.
local KEYS = { capacity_reservation_id = true, instance_type = true, subnet_id = true, on_end = true }

-- Whether a comment has nothing for us but, at most once, the mark of a fitted limit, and
-- whether it has that: every word for us has a "=", or should have one.
local function silent(comment)
  local fitted = false
  for word in comment:gmatch("[^ ,\t\n\r]+") do
    if word:find("=", 1, true) then
      if fitted or word ~= "time=fit" then return false end
      fitted = true
    elseif KEYS[word:lower()] then
      return false
    end
  end
  return true, fitted
end

-- The rest of each line of the plan that begins with a word and the name of a partition.
local function lines(plan, word, name)
  local prefix, at = "\n" .. word .. " " .. name .. " ", 1
  return function()
    local _, stop = plan:find(prefix, at, true)
    if not stop then return nil end
    at = stop
    return plan:match("^([^\n]*)\n", stop + 1)
  end
end

-- The answer about a job, as the filter would give it; nil if in doubt.
local function answer_of(fields, plan, now)
  local name = fields.partition ~= "" and fields.partition or plan:match("\ndefault (%S+)\n")
  if fields.from == "job_modify" or not name or name:find("[%s,]") then return nil end
  for _, other in ipairs({ "begin", "deadline", "gpus", "gpus-per-task", "nodelist", "exclude" }) do
    if not UNSET[fields[other]] then return nil end
  end
  local nodes, tasks, per_node = count_of(fields.nodes), count_of(fields.ntasks), count_of(fields["ntasks-per-node"])
  local gpus = part("gpus")(fields["gpus-per-node"], fields.gres)
  local need = minutes_of(fields.time)
  if not (nodes and tasks and per_node and gpus and (need or UNSET[fields.time] and fields.time ~= "0")) then return nil end
  -- With a floor the limit is ours to fit, if the comment says so already; else it must be
  -- made to say so.
  local nothing, fitted = silent(fields.comment)
  if not nothing then return nil end
  if not UNSET[fields["time-min"]] then
    local least = minutes_of(fields["time-min"])
    if not need or not least or least < need and not fitted then return nil end
    need = math.min(need, least)
  end
  if per_node > 0 then nodes = math.max(nodes, math.ceil(tasks / per_node)) end

  now = now + 1 -- the filter would start within this second
  local latest
  for line in lines(plan, "fits", name) do
    local accounts, from, last, most, each = line:match("^(%S+) (%d+) (%d+) (%d+) (%d+)$")
    if not accounts then return nil end
    from, last, most, each = tonumber(from), tonumber(last), tonumber(most), tonumber(each)
    local allowed = accounts == "-" or fields.from == "cli_filter" and fields.account == "" or
      fields.account:find("^[%w_.-]+$") and ("," .. accounts .. ","):find("," .. fields.account .. ",", 1, true)
    if allowed and from < now and nodes <= most and (each == 0 or gpus <= each) then
      if last == 0 or need and now + need * 60 <= last then return { set = {}, warnings = {} } end
      latest = math.max(latest or 0, last)
    end
  end
  if not latest then return nil end
  local job = { partition = name, comment = fields.comment, fitted = fitted, need = need, nodes = nodes, gpus = gpus }
  return part("rooms")(job, plan, lines, latest, now)
end

-- What the plan alone answers about a job that concerns us, and nil; nil and what the filter is
-- to be told of it: names in their order, and a text for each name.
return function(job, plan, now)
  local fields = {}
  for i, name in ipairs(FIELDS) do fields[i], fields[name] = name, text_of(job[name]) end
  local answer = answer_of(fields, plan, now)
  return answer, not answer and fields or nil
end
