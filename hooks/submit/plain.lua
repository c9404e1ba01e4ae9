-- Part of cli_filter.lua: lets a job go that asks for nodes, GPUs of each and a time limit as most
-- jobs do, if the plan says that it fits. What it does not see at once is judged by the next part.
-- It is short on purpose: sbatch compiles it each time. name is what concerns_us says.
local part = ...

return function(options, plan, name)
  local said = ""
  for option in ("comment begin deadline gpus gpus-per-task time-min nodes ntasks ntasks-per-node time"):gmatch("%S+") do
    local value = options[option] or ""
    local unset = ("\n\nUnknown\n2982616-04:14:00\n1-0\n-2\n"):find("\n" .. value .. "\n", 1, true)
    said = said .. (unset and "0" or value) .. "\n"
  end
  local nodes, tasks, per_node, days, hours, minutes = said:gsub("\n(%d%d:%d%d:00\n)$", "\n0-%1"):match(
    "^[^=_\n]*\n0\n0\n0\n0\n0\n(%d%d?%d?%d?)\n(%d%d?%d?%d?)\n(%d%d?%d?%d?)\n(%d%d?%d?%d?)%-(%d%d):(%d%d):00\n$")
  local gpus, of_node, gres = 0, options["gpus-per-node"], options.gres
  if of_node or gres then gpus = part("gpus")(of_node or "", gres or "") end
  local named = (options.nodelist or "") .. (options.exclude or "") ~= ""
  if nodes and gpus and not named and (options.partition or name) == name then
    local need, now = days * 1440 + hours * 60 + minutes, os.time() + 1 -- the filter would start within this second
    local prefix = "\nfits " .. name .. " "
    local _, at = plan:find(prefix, 1, true)
    while at and need % 65534 > 0 do
      local accounts, from, last, most, each = plan:match("^(%S+) (%d+) (%d+) (%d+) (%d+)\n", at + 1)
      if (accounts == "-" or accounts and not options.account) and now - from > 0 and most - nodes >= 0 and
        (per_node == "0" or most * per_node - tasks >= 0) and (each == "0" or each - gpus >= 0) and
        (last == "0" or last - now >= need * 60) then return slurm.SUCCESS end
      _, at = plan:find(prefix, at, true)
    end
  end
  return part("managed")(options, plan)
end
