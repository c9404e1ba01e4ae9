local PLAN = @PLAN@
local MAX_PLAN = 256 * 1024

-- The first of the partitions that a job asks for which is ours, as the plan names them; else
-- true if its comment names capacity. A longer comment is refused by Slurm itself.
local function concerns_us(job, plan)
  local partition, comment = job.partition, job.comment or ""
  if #comment > 1024 or not plan:find("^version 1\n") then return nil end
  if not partition or partition == "" then partition = plan:match("\ndefault (%S+)\n") or "" end
  for name in partition:gmatch("[^,]+") do
    if plan:find("\npartition " .. name .. "\n", 1, true) then return name end
  end
  return comment:find("=", 1, true) and part("named")(comment)
end

-- What is told, with the reason, when we cannot judge a job.
local UNCHECKED = "pcs-capacity: %s; the job is let through unchecked; tell an administrator"
