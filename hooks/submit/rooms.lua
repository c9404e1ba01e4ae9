-- Part of the Lua shims: which limit a job gets that states none, and what one hears that states
-- one for which no room is long enough.

local FIT, MAX_COMMENT = "time=fit", 1024

-- Whole minutes, as a limit is written.
local function written(minutes)
  local days, clock = math.floor(minutes / 1440), string.format("%02d:%02d:00", math.floor(minutes / 60) % 24, minutes % 60)
  return days > 0 and string.format("%d-%s", days, clock) or clock
end

-- A time as the filter shows it: this machine's local one, with UTC behind it.
local function shown(time)
  local utc, here = os.date("!%Y-%m-%d %H:%M UTC", time), os.date("%Y-%m-%dT%H:%M", time)
  if here == os.date("!%Y-%m-%dT%H:%M", time) then return utc end
  if here:sub(1, 10) == utc:sub(1, 10) then utc = utc:sub(12) end
  return here .. " (" .. utc .. ")"
end

-- The answer about a job that could start now and run until latest; job.fitted says that its
-- comment has the mark already, job.need is the limit that it states. now is a second late, as
-- the filter would be.
return function(job, plan, lines, latest, now)
  local line = lines(plan, "fit", job.partition)()
  if not line then return nil end
  local floor, most, wall, fresh, rooms = line:match("^(%d+) (%d+) (%d+) (%d+) (%d+)$")
  floor, most, wall, fresh, rooms = tonumber(floor), tonumber(most), tonumber(wall), tonumber(fresh), tonumber(rooms)
  if not floor then return nil end
  local minutes, seconds, best, fence = 0, 0, nil, nil
  for room in lines(plan, "room", job.partition) do
    local from, last, whole, size, each, id, free = room:match("^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+)$")
    from, last, whole, size, each = tonumber(from), tonumber(last), tonumber(whole), tonumber(size), tonumber(each)
    if not from then return nil end
    rooms = rooms - 1
    if job.nodes <= size and (each == 0 or job.gpus <= each) then
      if last == 0 then return nil end
      local left = last - math.max(from, now)
      minutes = math.max(minutes, from > now and whole or math.floor(left / 60))
      if left > seconds then seconds, best, fence = left, id, tonumber(free) end
    end
  end
  if rooms ~= 0 then return nil end
  if job.need then
    local stale, says = plan:match("\nlong (%d+) ([^\n]*)\n")
    -- A second earlier there was a second more.
    if not says or now > tonumber(stale) or minutes < 1 or job.need * 60 <= seconds + 2 then return nil end
    local need, left = written(job.need), written(minutes)
    local ok, refusal = pcall(string.format, says, need, best, job.partition, shown(fence), left, left)
    return ok and { set = {}, warnings = {}, code = "too-long", refusal = refusal } or nil
  end
  if most > 0 then minutes = math.min(minutes, most) end
  if now + floor * 60 > latest or fresh > 0 and now > fresh or minutes < floor or wall > 0 and minutes > wall then return nil end
  local set = { time = string.format("%d", minutes), ["time-min"] = string.format("%d", floor) }
  if not job.fitted then
    set.comment = job.comment == "" and FIT or job.comment .. " " .. FIT
    if #set.comment > MAX_COMMENT then return nil end
  end
  return { set = set, warnings = {} }
end
