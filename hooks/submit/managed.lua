-- Part of cli_filter.lua: judges a job that concerns us, and does what the answer says.
local part = ...

return function(options, plan)
  local job = { from = "cli_filter", user = os.getenv("USER") }
  setmetatable(job, { __index = function(_, field) return options[field] end })
  local answer, fields = part("quick")(job, plan, os.time())
  if fields then answer = part("ask")(fields, "exec") end
  if not answer then return slurm.SUCCESS end
  for _, warning in ipairs(answer.warnings) do slurm.log_info("pcs-capacity: %s", warning) end
  if answer.refusal then
    slurm.log_error("pcs-capacity: %s", answer.refusal)
    return slurm.ERROR
  end
  for _, field in ipairs({ "time", "time-min", "comment", "constraint" }) do
    if answer.set[field] then options[field] = answer.set[field] end
  end
  return slurm.SUCCESS
end
