-- @COMMON@

PARTS.is_step = @IS_STEP@
PARTS.managed = @MANAGED@

-- What a site's own script defined before it loaded this one; nothing in a
-- cli_filter.lua that is ours alone.
local site_pre = slurm_cli_pre_submit

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

local function judge(options)
  -- Steps are many: they do not even read the plan.
  if options["type"] == "srun" and part("is_step")(options) then return slurm.SUCCESS end
  local plan = read_plan()
  if not concerns_us(options, plan) then return slurm.SUCCESS end
  return part("managed")(options, plan)
end

-- The site's own word comes first; what it refuses is refused.
local function refused(result) return type(result) == "number" and result ~= slurm.SUCCESS end

-- Slurm refuses every submission when one of these three functions is missing.
local function success() return slurm.SUCCESS end
slurm_cli_setup_defaults = slurm_cli_setup_defaults or success
slurm_cli_post_submit = slurm_cli_post_submit or success

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
