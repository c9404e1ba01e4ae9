-- The judgement that cli_filter.lua and job_submit.lua share. Both read the plan, a text file that
-- `pcs-capacity sync` writes: partitions, reservations ("rooms") and sentences. The plan alone decides
-- about most jobs, in the words of pcs-capacity-filter. The filter is asked about all others: to start
-- it takes far longer than to read this script.

local PLAN = @PLAN@
local STATE_DIR = @STATE_DIR@
local FILTER, QUOTED_FILTER = @FILTER@, @QUOTED_FILTER@
local MAX_PLAN, MAX_COMMENT = 256 * 1024, 1024
local MAX_COMMAND = 100 * 1024 -- of io.popen; Linux takes 128 KB
local UNCHECKED = "pcs-capacity: %s; the job is let through unchecked; tell an administrator"

-- What the filter gets of a job.
local FIELDS = {
  "from", "partition", "account", "comment", "was", "started", "user", "qos", "time", "time-min", "begin", "deadline", "nodes",
  "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres", "tres-per-task", "cpus-per-task",
  "overcommit", "constraint", "component", "requeue", "nodelist", "exclude", "signal",
}

-- How sbatch and slurmctld show an option that was not given.
local UNSET = { [""] = true, ["65534"] = true, ["4294967294"] = true, ["2982616-04:14:00"] = true, ["Unknown"] = true,
  ["UNLIMITED"] = true, ["4294967295"] = true }

-- These read a field; they return nil for what is left to the filter.
local function count_of(text)
  if UNSET[text] or text == "-2" or text == "1-0" then return 0 end
  local digits = text:match("^(%d+)$") or text:match("^(%d+)%-[1-9]%d*$")
  return digits and #digits < 6 and tonumber(digits) or nil
end

-- A list of TRES, as slurmctld has it and --gres, may hold others: cpu=24,gres/gpu:h100=8.
local function gpus_of(text, is_list)
  local rest = is_list and text:gsub("^cpu[:=]%d+,?", "") or text
  if is_list and rest ~= "" then rest = rest:match("^gres[:/]gpu[:=](.+)$") or rest:match("^gpu:(.+)$") or "?" end
  local digits = rest:match("^%d+$") or rest:match(is_list and "^%a[%w_]*[:=](%d+)$" or "^%a[%w_]*:(%d+)$")
  return rest == "" and 0 or digits and #digits < 5 and tonumber(digits) or nil
end

local function minutes_of(text)
  if UNSET[text] then return 0 end
  local days, hours, minutes, seconds = text:match("^(%d-)%-?(%d+):(%d%d):(%d%d)$")
  local all = tonumber(text:match("^%d+$"))
  if hours then all = (tonumber(days) or 0) * 1440 + hours * 60 + minutes + math.ceil(seconds / 60) end
  return all and all > 0 and all < 1e7 and all ~= 65534 and all or nil -- 0 is UNLIMITED
end

local function moment_of(text)
  if UNSET[text] then return 0 end
  local year, month, day, hour, min, sec = text:match("^(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)$")
  if not year then return tonumber(text:match("^%d+$")) end
  local time = os.time({ year = year, month = month, day = day, hour = hour, min = min, sec = sec })
  local function is(at) return os.date("%Y-%m-%dT%H:%M:%S", at) == text end
  return is(time) and not is(time - 3600) and not is(time + 3600) and time or nil -- summer may end there
end

local READERS = {
  time = minutes_of, begin = moment_of, deadline = moment_of, nodes = count_of, ntasks = count_of, ["ntasks-per-node"] = count_of,
  gpus = gpus_of, ["gpus-per-node"] = gpus_of, ["gpus-per-task"] = gpus_of, gres = gpus_of,
  ["tres-per-task"] = gpus_of, ["cpus-per-task"] = count_of,
}

-- These write what a user reads, as the filter does.
local function limit(minutes)
  local clock = string.format("%02d:%02d:00", math.floor(minutes / 60) % 24, minutes % 60)
  return minutes < 1440 and clock or string.format("%d-%s", math.floor(minutes / 1440), clock)
end

local function length(seconds)
  if seconds < 59.5 then return string.format("%ds", math.floor(seconds + 0.5)) end
  local minutes, text = math.floor(seconds / 60 + 0.5), ""
  for _, unit in ipairs({ { 1440, "d" }, { 60, "h" }, { 1, "m" } }) do
    local n = math.floor(minutes / unit[1])
    if n > 0 then text, minutes = string.format("%s%d%s", text, n, unit[2]), minutes - n * unit[1] end
  end
  return text
end

local function clock(time) -- as squeue shows it, and in UTC
  local utc, here = os.date("!%Y-%m-%d %H:%M UTC", time), os.date("%Y-%m-%dT%H:%M", time)
  if here == os.date("!%Y-%m-%dT%H:%M", time) then return utc end
  if here:sub(1, 10) == utc:sub(1, 10) then utc = utc:sub(12) end
  return here .. " (" .. utc .. ")"
end

-- Returns what follows a word and a name on a line of the plan, as a pattern finds it.
local function find(plan, word, name, pattern)
  local _, stop = plan:find("\n" .. word .. " " .. name .. " ", 1, true)
  if stop then return plan:match("^" .. pattern .. "\n()", stop + 1) end
end

-- Returns a sentence, and what it does with a plan that is fresh or old: "refuse" or "warn".
local function sentence(plan, name, ...)
  local fresh, later, text = find(plan, "says", name, "(%l+) (%l+) ([^\n]*)")
  return text and string.format(text, ...), fresh, later
end

-- The keys of a comment that mean us even without a value; all but the last name capacity.
local KEYS = { capacity_reservation_id = true, instance_type = true, subnet_id = true, on_end = true }

-- Returns whether the plan can decide about a comment, and the id of the reservation that it names.
local function wish_of(comment, requeues)
  local seen = {}
  for word in comment:gmatch("[^ ,\t\n\r]+") do
    local key, value = word:match("^([%l_]+)=(.*)$")
    if key ~= "capacity_reservation_id" and
      not (key == "on_end" and (value == "stop" or requeues and (value == "requeue" or value == "hold"))) and
      (word:find("=", 1, true) or KEYS[word:lower()]) then
      return false
    end
    if key and seen[key] then return false end
    if key then seen[key] = value end
  end
  return true, seen.capacity_reservation_id
end

-- Returns the first partition of a job that is in the plan, or true if its comment names capacity.
local function concerns_us(job, plan)
  local partition, comment = job.partition, job.comment or ""
  if #comment > MAX_COMMENT or not plan:find("^version 1\n") then return nil end -- Slurm refuses a longer one
  if not partition or partition == "" then partition = plan:match("\ndefault (%S+)\n") or "" end
  for name in partition:gmatch("[^,]+") do
    if plan:find("\npartition " .. name .. "\n", 1, true) then return name end
  end
  for word in comment:gmatch("[^%s,]+") do
    local key = word:match("^([%l_]+)=")
    if KEYS[key] and key ~= "on_end" then return true end
  end
end

-- Returns on how many nodes a job can run at least, if it asks for so many and each has so many GPUs.
local function least_nodes(job, nodes, gpus, cpus)
  local tasks, per_node, each = job.ntasks, job["ntasks-per-node"], job["cpus-per-task"]
  if tasks == 0 then
    tasks = nodes * per_node
  elseif nodes > tasks then
    nodes = tasks
  elseif nodes > 0 and tasks > nodes * per_node then
    per_node = 0
  end
  local function at_most(n) if per_node == 0 or n < per_node then per_node = n end end
  if gpus > 0 then -- 0 if nobody knows
    if math.max(job["gpus-per-node"], job["gpus-per-task"]) > gpus then return math.huge end
    nodes = math.max(nodes, math.ceil(job.gpus / gpus))
    if job["gpus-per-task"] > 0 then at_most(math.floor(gpus / job["gpus-per-task"])) end
  end
  if cpus > 0 and not job.overcommit then
    if each > cpus then return math.huge end
    at_most(math.floor(cpus / math.max(1, each)))
  end
  return per_node > 0 and math.max(nodes, math.ceil(tasks / per_node)) or nodes
end

-- Looks at the rooms that a job may use: best is the one in which it can run longest. Returns nil in the
-- second in which one of them opens, ends or gets too short.
local function look(job, plan, at, rooms)
  local best, largest, seen = { left = -math.huge }, { nodes = -1 }, {}
  for _ = 1, rooms do
    local id, from, last, fence, nodes, usable, gpus, cpus, rest =
      plan:match("^room (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)\n()", at)
    at, from, last, fence, nodes, usable, gpus = rest, from + 0, last + 0, fence + 0, nodes + 0, usable + 0, gpus + 0
    cpus = cpus + 0
    local ends = fence == 0 and math.huge or fence - job.offset
    if math.abs(ends - job.now) < 2 then return nil end
    if (not job.id or id == job.id) and ends > job.now then
      local room = { id = id, from = from, fence = fence, nodes = nodes, needs = least_nodes(job, job.nodes, gpus, cpus) }
      room.alone = least_nodes(job, 0, gpus, cpus)
      room.left = last == 0 and math.huge or last - math.max(job.start, from)
      if nodes > largest.nodes then largest = room end
      if room.needs <= nodes then
        local fits = job.seconds <= room.left
        if math.abs(from - job.now) < 2 or from == job.start or not fits and job.seconds <= room.left + 2 then return nil end
        if room.left > best.left then best = room end
        seen.open = seen.open or from < job.start
        seen.fits = seen.fits or fits and from < job.start
        seen.runs = seen.runs or fits and from < job.now and room.needs <= usable
        seen.short = seen.short or fits and from < job.now and room.needs > usable -- hosts have failed
      end
    end
  end
  return best, largest, seen
end

-- Returns the answer of the plan about a job; nil if there is none, or if it was another a second ago.
local function decide(fields, plan, now)
  local name = fields.partition ~= "" and fields.partition or plan:match("\ndefault (%S+)\n")
  if not name or name:find("[%s,]") then return nil end
  if fields.from == "job_modify" or fields.nodelist .. fields.exclude ~= "" then return nil end
  if not ({ [""] = true, ["0@0"] = true })[fields.signal] then return nil end
  local accounts, floor, most, wall, rooms, at = find(plan, "quick", name, "(%S+) (%d+) (%d+) (%d+) (%d+)")
  local offset, taken, stale = plan:match("\nclock (%-?%d+) (%d+) (%d+)\n")
  if not (accounts and offset) then return nil end
  local allowed = accounts == "-" or fields.from == "cli_filter" and fields.account == "" or
    fields.account:find("^[%w_.-]+$") and ("," .. accounts .. ","):find("," .. fields.account .. ",", 1, true)
  local job = { now = now + 1, offset = offset / 1000 }
  for field, read in pairs(READERS) do
    job[field] = read(fields[field], fields.from ~= "cli_filter" or field:find("res"))
    if not job[field] then return nil end
  end
  job.overcommit = fields.overcommit == "set"
  job["gpus-per-node"] = math.max(job["gpus-per-node"], job.gres)
  job["gpus-per-task"] = math.max(job["gpus-per-task"], job["tres-per-task"])
  local requeues = fields.requeue == "requeue" or fields.requeue == "1"
  if fields.requeue == "unset" or fields.requeue == "65534" then requeues = plan:find("\nrequeues\n", 1, true) end
  local known, id = wish_of(fields.comment, requeues)
  local least = fields["time-min"] == "0" and 0 or minutes_of(fields["time-min"])
  if not allowed or job.deadline > 0 or not known or not least then return nil end
  local need = job.time
  if least > 0 then
    if need == 0 then return nil end
    need = math.min(need, least)
  end
  floor, most, wall = floor + 0, most + 0, wall + 0
  job.id, job.start, job.seconds = id, math.max(job.now, job.begin), (need > 0 and need or floor) * 60
  local best, largest, seen = look(job, plan, at, rooms)
  local age = job.now - taken / 1000
  if not best or math.abs(age - stale / 1000) < 2 then return nil end
  local old = age > stale / 1000 and sentence(plan, "age", length(age)) or nil

  local function refusal(code, ...)
    local text, fresh, later = sentence(plan, code, ...)
    if (old and later or fresh) ~= "refuse" then return { set = {}, warnings = { text, old } } end
    return { set = {}, warnings = { old }, code = code, refusal = text }
  end
  if not best.id then -- none is large enough
    local asks = largest.id and largest.needs == job.nodes and largest.alone < largest.needs
    return asks and refusal("too-many-nodes", largest.needs, name, largest.nodes, largest.nodes) or nil
  end
  local minutes = math.floor(math.min(best.left, 1e9) / 60)
  if need > 0 and job.seconds > best.left then
    if minutes < 1 then return nil end
    if need == least then return nil end -- --time-min is named
    local begins = job.start == job.begin and job.begin > best.from
    begins = begins and sentence(plan, "begins", clock(math.floor(job.begin + job.offset))) or ""
    return refusal("too-long", limit(need), begins, best.id, name, clock(best.fence), limit(minutes))
  end
  if seen.short and not seen.runs then return nil end
  if best.left == math.huge then return { set = {}, warnings = {} } end
  if need > 0 then
    if not seen.open or seen.fits then return { set = {}, warnings = {} } end
    local when = job.start > job.now and "when it begins" or "now"
    local waits = sentence(plan, "waits", when, best.id, clock(math.ceil(best.from + job.offset)))
    return { set = {}, warnings = { waits } }
  end
  if most > 0 then minutes = math.min(minutes, most) end
  if minutes < floor or wall > 0 and minutes > wall then return nil end
  local mark = math.min(floor + 1, minutes) -- a --time-min that nobody writes
  local set = { time = string.format("%d", minutes), ["time-min"] = string.format("%d", mark) }
  return { set = set, warnings = { old and sentence(plan, "raised", old, limit(mark)) } }
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
local function ask(fields, run)
  local command = { run, QUOTED_FILTER, "state-dir=" .. hex(STATE_DIR) }
  for _, name in ipairs(FIELDS) do
    if fields[name] ~= "" then command[#command + 1] = name .. "=" .. hex(fields[name]) end
  end
  command = table.concat(command, " ") .. " </dev/null 2>/dev/null" -- `sbatch < script` has the script there
  if #command > MAX_COMMAND then return nil end
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

local function fields_of(job)
  local fields = {}
  for _, name in ipairs(FIELDS) do
    local value = job[name]
    fields[name] = type(value) == "number" and string.format("%.0f", value) or value or ""
  end
  return fields
end

-- Returns the answer of the plan, or nil and what to ask the filter.
local function judge(job, plan, now)
  local fields = fields_of(job)
  local ok, answer = pcall(decide, fields, plan, now) -- fails if the plan is damaged
  return ok and answer or nil, fields
end
