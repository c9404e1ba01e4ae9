-- Written by `pcs-capacity hooks install`; do not edit, it is written anew.
-- Runs on Lua 5.1 to 5.4, inside sbatch, srun and salloc, which compile it each time; that takes
-- longer than all else that it does. So each of the next lines is a part of it, of which only
-- those are read and compiled that a job needs.
-- @PARTS@

local function part(name)
  for line in io.lines(debug.getinfo(1, "S").source:sub(2)) do
    local code = line:match("^%-%-" .. name .. " (.*)")
    if code then return assert((loadstring or load)(code, "=" .. name))(part) end
  end
  error("this script was replaced by one without " .. name, 0)
end

-- @COMMON@

-- What a site's own script defined before it loaded this one; nothing in a
-- cli_filter.lua that is ours alone.
local site_pre = slurm_cli_pre_submit

-- Steps are many: they do not even read the plan. A plan that hangs (its file server does)
-- hangs this command alone, as the folder that a job starts in would; to ask in another process
-- first would cost every submission a quarter of its time. slurmctld reads its own copy, in
-- another way: see job_submit.lua.
local function judge(options)
  if options.type == "srun" and part("is_step")(options) then return slurm.SUCCESS end
  local file, why, errno = io.open(PLAN)
  if errno == 13 then error(why, 0) end -- EACCES: there are limits, which this user may not see
  local plan = file and file:read(MAX_PLAN) or ""
  if file then file:close() end
  local name = concerns_us(options, plan)
  return name and part("plain")(options, plan, name) or slurm.SUCCESS
end

-- Slurm refuses every submission when one of these three functions is missing.
local function success() return slurm.SUCCESS end
slurm_cli_setup_defaults = slurm_cli_setup_defaults or success
slurm_cli_post_submit = slurm_cli_post_submit or success

-- The site's own word comes first; what it refuses is refused.
function slurm_cli_pre_submit(options, offset)
  local result = site_pre and site_pre(options, offset)
  if type(result) == "number" and result ~= slurm.SUCCESS then return result end
  local ok, said = pcall(judge, options)
  if ok then return said end
  pcall(slurm.log_info, UNCHECKED, tostring(said))
  return slurm.SUCCESS
end
