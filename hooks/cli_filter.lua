-- @COMMON@

-- What a site's own script defined before it loaded this one; nothing in a
-- cli_filter.lua that is ours alone.
local site_defaults, site_pre, site_post = slurm_cli_setup_defaults, slurm_cli_pre_submit, slurm_cli_post_submit

-- A plan that hangs (its file server does) hangs this command alone, as the folder that
-- a job starts in would; to ask in another process first would cost every submission a
-- quarter of its time. slurmctld reads its own copy, in another way: see job_submit.lua.
local function read_plan()
  local file = io.open(PLAN, "r")
  if not file then return nil end
  local text = file:read(MAX_PLAN)
  file:close()
  return parse_plan(text)
end

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
  local job = { from = "cli_filter", user = os.getenv("USER") }
  setmetatable(job, { __index = function(_, field) return options[field] end })
  local answer, fields = judge_here(job, read_plan(), os.time())
  if fields then answer = ask(fields, "exec") end
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

-- The site's own word comes first; what it refuses is refused.
local function refused(result) return type(result) == "number" and result ~= slurm.SUCCESS end

-- Slurm refuses every submission when one of these three functions is missing.
function slurm_cli_setup_defaults(options, early)
  if site_defaults then return site_defaults(options, early) end
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
  if site_pre then
    local result = site_pre(options, offset)
    if refused(result) then return result end
  end
  local ok, result = pcall(judge, options)
  if ok then return result end
  pcall(slurm.log_info, "%s", unchecked(result))
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  if site_post then return site_post(offset, job_id, step_id) end
  return slurm.SUCCESS
end
