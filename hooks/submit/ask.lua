-- Part of the Lua shims: asks pcs-capacity-filter about a job.
local FILTER, QUOTED_FILTER = @FILTER@, @QUOTED_FILTER@
local STATE_DIR = @STATE_DIR@

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

-- Tells the filter fields, as quick.lua gives them; run starts it. Raises an error if it gives
-- no answer.
return function(fields, run)
  local command = { run, QUOTED_FILTER, "state-dir=" .. hex(STATE_DIR) }
  for _, name in ipairs(fields) do
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
