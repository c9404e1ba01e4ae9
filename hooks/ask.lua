-- Part of the Lua shims: asks pcs-capacity-filter about a job.

-- io.popen passes the command to `sh -c` as one string, and Linux takes at most
-- 131072 bytes of that (MAX_ARG_STRLEN).
local MAX_COMMAND = 100 * 1024

-- Hex needs no quoting: nothing that a user typed reaches the shell.
local function hex(text)
  return (text:gsub(".", function(c) return string.format("%02x", c:byte()) end))
end

local function unhex(text)
  return (text:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end))
end

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

-- run is the command of the program filter; names are those of the fields that it is told.
return function(fields, names, run, filter, state_dir)
  local command = { run, "state-dir=" .. hex(state_dir) }
  for _, name in ipairs(names) do
    if fields[name] ~= "" then command[#command + 1] = name .. "=" .. hex(fields[name]) end
  end
  -- The script of `sbatch < script` is on standard input: not for the filter.
  command = table.concat(command, " ") .. " </dev/null 2>/dev/null"
  if #command > MAX_COMMAND then return nil end
  local pipe = assert(io.popen(command, "r"))
  local text = pipe:read("*a")
  pipe:close()
  return parse_answer(text) or error(filter .. " gave no answer that this script knows", 0)
end
