-- Written by `pcs-capacity hooks install`; do not edit, it is overwritten.
-- sbatch, srun and salloc run this, on Lua 5.1 to 5.4, before they submit a job.

-- @ASK@

-- srun starts a step in an allocation that was judged when it was submitted; sbatch and salloc inside
-- a job ask for a new one.
local function is_step(options)
  if options.type ~= "srun" then return false end
  local id = tonumber(options.jobid or "") or 0
  return os.getenv("SLURM_JOB_ID") or os.getenv("SLURM_JOBID") or id > 0 and id < 4294967294 -- NO_VAL
end

-- A job for other clusters only is not ours.
local function goes_elsewhere(options, roster)
  local clusters, here = (options.clusters or ""):lower(), roster:match("\ncluster (%S+)\n")
  return clusters ~= "" and clusters ~= "all" and here and not ("," .. clusters .. ","):find("," .. here:lower() .. ",", 1, true)
end

-- A roster that hangs, because its file server does, hangs this command alone.
local function read_roster()
  local file, why, errno = io.open(ROSTER)
  if errno == 13 then error(why, 0) end -- EACCES: there are limits, which this user cannot see
  local roster = file and file:read(MAX_ROSTER) or ""
  if file then file:close() end
  return roster
end

-- With --parsable a program reads what sbatch prints.
local function say(options, ...)
  if options.parsable ~= "set" then slurm.log_info(...) end
end

-- How many nodes the components of a heterogeneous job need so far, by partition.
local together = {}

-- Why a component before this one never starts: with others beside it, Slurm gives it no less than its whole limit.
local whole

local function check(options, offset)
  if is_step(options) then return slurm.SUCCESS end
  if (offset or 0) == 0 then together, whole = {}, nil end
  if whole then
    slurm.log_error("pcs-capacity: a component of a heterogeneous job is never shortened: %s", whole)
    return slurm.ERROR
  end
  local roster = read_roster()
  if goes_elsewhere(options, roster) or not concerns_us(options, roster) then return slurm.SUCCESS end
  local job = { from = "cli_filter", user = os.getenv("USER"), component = offset, whole = "ask" }
  local partition = options.partition or ""
  job.together = together[partition] or 0
  setmetatable(job, { __index = function(_, name)
    local value = options[name]
    if name == "ntasks" and value == "1" and not slurm.json_cli_options(options):find('"ntasks"', 1, true) then return nil end
    return value -- of ntasks: what the user gave
  end })
  local answer = ask(job, "exec")
  for _, warning in ipairs(answer.warnings) do say(options, "pcs-capacity: %s", warning) end
  if answer.refusal then
    slurm.log_error("pcs-capacity: %s", answer.refusal)
    return slurm.ERROR
  end
  together[partition] = job.together + (answer.needs or 0)
  whole = answer.whole
  for name, value in pairs(answer.set) do options[name] = value end
  return slurm.SUCCESS
end

-- Slurm refuses every submission if one of the three functions is missing.
local function success() return slurm.SUCCESS end
slurm_cli_setup_defaults = slurm_cli_setup_defaults or success
slurm_cli_post_submit = slurm_cli_post_submit or success
local site_pre_submit = slurm_cli_pre_submit

function slurm_cli_pre_submit(options, offset)
  return guarded(site_pre_submit, check, function(...) say(options, ...) end, options, offset)
end
