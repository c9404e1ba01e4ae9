-- @COMMON@

local function judge(job)
  local answer = ask({
    partition = job.partition,
    account = job.account or job.default_account,
    comment = job.comment,
    time = job.time_limit,
    ["time-min"] = job.time_min,
    nodes = job.min_nodes,
    ntasks = job.num_tasks,
    constraint = job.features,
  })
  if not answer then return slurm.SUCCESS end
  for _, warning in ipairs(answer.warnings) do slurm.log_user("pcs-capacity: %s", warning) end
  if answer.refusal then
    slurm.log_user("pcs-capacity: %s", answer.refusal)
    return slurm.ERROR
  end
  -- Times are whole minutes here as in the filter's answer.
  if answer.set["time"] then job.time_limit = tonumber(answer.set["time"]) end
  if answer.set["time-min"] then job.time_min = tonumber(answer.set["time-min"]) end
  if answer.set["comment"] then job.comment = answer.set["comment"] end
  if answer.set["constraint"] then job.features = answer.set["constraint"] end
  return slurm.SUCCESS
end

-- A runtime error here accepts the job up to Slurm 24.11 and refuses it in 26.05,
-- so none may leave these functions.
function slurm_job_submit(job_desc, part_list, submit_uid)
  local ok, result = pcall(judge, job_desc)
  if ok then return result end
  pcall(slurm.log_info, "pcs-capacity: %s; the job is submitted as it is", tostring(result))
  return slurm.SUCCESS
end

-- What a user changes later is judged when nodes are launched, and held by the
-- Slurm reservations at the ends of a block.
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end
