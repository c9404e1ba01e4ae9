-- @COMMON@

-- A step runs in an allocation that was judged when it was submitted. sbatch and
-- salloc inside a job ask for a new one.
local function is_step(options)
  if options["type"] ~= "srun" then return false end
  if os.getenv("SLURM_JOB_ID") or os.getenv("SLURM_JOBID") then return true end
  local id = tonumber(options["jobid"] or "")
  return id ~= nil and id > 0 and id < 4294967294 -- NO_VAL: not set
end

local function judge(options)
  if is_step(options) then return slurm.SUCCESS end
  local answer = ask({
    partition = options["partition"],
    account = options["account"],
    comment = options["comment"],
    time = options["time"],
    ["time-min"] = options["time-min"],
    nodes = options["nodes"],
    ntasks = options["ntasks"],
    constraint = options["constraint"],
  })
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

-- Slurm refuses every submission when one of these three functions is missing.
function slurm_cli_setup_defaults(options, early)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
  local ok, result = pcall(judge, options)
  if ok then return result end
  pcall(slurm.log_info, "pcs-capacity: %s; the job is submitted as it is", tostring(result))
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end
