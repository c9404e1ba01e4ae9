-- Part of the Lua shims: which limit a job gets that states none.

local FIT, MAX_COMMENT = "time=fit", 1024

-- The edits for a job without a limit that could start now and run until latest; fitted says
-- that its comment has the mark already. now is a second late, as the filter would be.
return function(comment, plan, lines, name, nodes, gpus, latest, fitted, now)
  local line = lines(plan, "fit", name)()
  if not line then return nil end
  local floor, most, wall, fresh, rooms = line:match("^(%d+) (%d+) (%d+) (%d+) (%d+)$")
  floor, most, wall, fresh, rooms = tonumber(floor), tonumber(most), tonumber(wall), tonumber(fresh), tonumber(rooms)
  if not floor or now + floor * 60 > latest or fresh > 0 and now > fresh then return nil end
  local minutes = 0
  for room in lines(plan, "room", name) do
    local from, last, whole, size, each = room:match("^(%d+) (%d+) (%d+) (%d+) (%d+)$")
    from, last, whole, size, each = tonumber(from), tonumber(last), tonumber(whole), tonumber(size), tonumber(each)
    if not from then return nil end
    rooms = rooms - 1
    if nodes <= size and (each == 0 or gpus <= each) then
      if last == 0 then return nil end
      minutes = math.max(minutes, from > now and whole or math.floor((last - now) / 60))
    end
  end
  if most > 0 then minutes = math.min(minutes, most) end
  if rooms ~= 0 or minutes < floor or wall > 0 and minutes > wall then return nil end
  local set = { time = string.format("%d", minutes), ["time-min"] = string.format("%d", floor) }
  if not fitted then
    set.comment = comment == "" and FIT or comment .. " " .. FIT
    if #set.comment > MAX_COMMENT then return nil end
  end
  return { set = set, warnings = {} }
end
