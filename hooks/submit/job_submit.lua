-- Written by `pcs-capacity hooks install`; do not edit, it is written anew.
-- Runs on Lua 5.1 to 5.4, inside slurmctld.
local parts = {}
local function part(name) return parts[name] end
-- @PARTS@

-- @COMMON@

local QUOTED_PLAN = @QUOTED_PLAN@
local FILTER = @FILTER@

-- What a site's own script defined before it loaded this one; nothing in a
-- job_submit.lua that is ours alone.
local site_submit, site_modify = slurm_job_submit, slurm_job_modify

-- slurmctld answers nobody else's submission while it is in here, so nothing may wait.
-- Whatever can hang runs in a process that is killed after so many seconds: Lua 5.1
-- cannot open or read with a deadline, nor see that a file is a FIFO before it has
-- opened it. What then gave no answer is left alone for a while.
local READ_SECONDS, FILTER_SECONDS, REST_SECONDS = 1, 2, 60

-- The plan stays in memory between submissions, for slurmctld keeps this script's
-- variables. It is read again when it is so many seconds old: three programs are started.
local PLAN_SECONDS = 5
local plan, plan_until, filter_rests_until = "", 0, 0

-- Whether SlurmUser may not read the plan, and until when slurmctld's log has said so.
local denied, denied_until = false, 0

-- What the shell writes in place of a plan that it may not read, or whose folder it may not
-- search. One that is not there is no fault of anybody.
local DENIED = "Permission denied\n"
local READ = [[ sh -c 'test -f "$0" && test -r "$0" && exec cat "$0"
at=$0; until test -e "$at" || test -z "$at"; do at=${at%/*}; done
if test -f "$at" || { test -d "$at" && ! test -x "$at"; }; then echo "Permission denied"; fi' ]]

-- The text of the plan. nil if it is no regular file; then the second value says whether
-- it hung.
local function read_plan()
  local begin = os.time()
  local pipe = assert(io.popen("exec timeout -s KILL " .. READ_SECONDS ..
    READ .. QUOTED_PLAN .. " </dev/null 2>/dev/null", "r"))
  local text = pipe:read(MAX_PLAN)
  pipe:close()
  return text, not text and os.time() - begin >= READ_SECONDS
end

local function current_plan()
  local now = os.time()
  if now < plan_until and now >= plan_until - REST_SECONDS then return plan end
  local text, hung = read_plan()
  if hung then
    slurm.log_info("pcs-capacity: %s hangs; the partitions are as they were for %d s", PLAN, REST_SECONDS)
    plan_until = os.time() + REST_SECONDS
    return plan
  end
  denied, plan_until = text == DENIED, now + PLAN_SECONDS
  if not denied then
    plan = text or ""
  elseif now >= denied_until or now < denied_until - REST_SECONDS then
    denied_until = now + REST_SECONDS
    slurm.log_error("pcs-capacity: %s: Permission denied; jobs are let through unchecked: let SlurmUser read it", PLAN)
  end
  return plan
end

local function answer_in_time(job)
  local begin = os.time()
  local known = current_plan()
  local ours = concerns_us(job, known)
  if denied and (ours or known == "") then error(PLAN .. ": Permission denied", 0) end
  if not ours then return nil end
  local quick, fields = part("quick")(job, known, begin)
  if not fields then return quick end
  if begin < filter_rests_until and begin >= filter_rests_until - REST_SECONDS then
    error(FILTER .. " hung a moment ago", 0)
  end
  local ok, answer = pcall(part("ask"), fields, "exec timeout -s KILL " .. FILTER_SECONDS)
  if ok then return answer end
  if os.time() - begin >= FILTER_SECONDS then filter_rests_until = os.time() + REST_SECONDS end
  error(answer, 0)
end

-- What sbatch and scontrol add to our own sentence, and all that scontrol of Slurm
-- 22.05 shows.
local function status_of(code)
  local errors = {
    ["account-not-allowed"] = slurm.ESLURM_INVALID_ACCOUNT,
    ["too-long"] = slurm.ESLURM_INVALID_TIME_LIMIT,
    ["too-many-nodes"] = slurm.ESLURM_INVALID_NODE_COUNT,
  }
  return errors[code] or slurm.ERROR
end

local function tell(answer)
  for _, warning in ipairs(answer.warnings) do slurm.log_user("pcs-capacity: %s", warning) end
  if not answer.refusal then return slurm.SUCCESS end
  slurm.log_user("pcs-capacity: %s", answer.refusal)
  return status_of(answer.code)
end

-- The account that the job is going to have: "" and nil stand for the user's default.
local function account_of(job)
  if job.account and job.account ~= "" then return job.account end
  return job.default_account
end

local function judge(job)
  local answer = answer_in_time({
    from = "job_submit",
    partition = job.partition,
    account = account_of(job),
    comment = job.comment,
    user = job.user_name,
    qos = job.qos,
    time = job.time_limit,
    ["time-min"] = job.time_min,
    begin = job.begin_time,
    deadline = job.deadline, -- not shown to Lua up to Slurm 24.11
    nodes = job.min_nodes,
    ntasks = job.num_tasks,
    ["ntasks-per-node"] = job.ntasks_per_node,
    gpus = job.tres_per_job,
    ["gpus-per-node"] = job.tres_per_node,
    ["gpus-per-task"] = job.tres_per_task,
    constraint = job.features,
    requeue = job.requeue,
    nodelist = job.req_nodes,
    exclude = job.exc_nodes,
  })
  if not answer then return slurm.SUCCESS end
  local status = tell(answer)
  if status ~= slurm.SUCCESS then return status end
  -- Times are whole minutes here as in the filter's answer.
  if answer.set["time"] then job.time_limit = tonumber(answer.set["time"]) end
  if answer.set["time-min"] then job.time_min = tonumber(answer.set["time-min"]) end
  if answer.set["comment"] then job.comment = answer.set["comment"] end
  if answer.set["constraint"] then job.features = answer.set["constraint"] end
  return slurm.SUCCESS
end

-- What a user changes later must not get a job where it could not be submitted to: a
-- node that is up already never passes ResumeProgram. Nothing is edited, and root may
-- do everything.
local function judge_change(change, record, uid)
  if uid == 0 or not (change.partition or change.account or change.comment) then return slurm.SUCCESS end
  local account = record.account
  if change.account then account = account_of(change) end
  local answer = answer_in_time({
    from = "job_modify",
    partition = change.partition or record.partition,
    account = account,
    comment = change.comment or record.comment,
    was = record.comment,
    started = (record.job_state or 0) % 256 ~= 0 and "yes" or nil, -- the lowest byte of PENDING is 0
  })
  return answer and tell(answer) or slurm.SUCCESS
end

-- A runtime error here accepts the job up to Slurm 24.11 and refuses it in 26.05, so
-- none of ours may leave these functions.
local function guarded(check, ...)
  local ok, result = pcall(check, ...)
  if ok then return result end
  pcall(slurm.log_info, UNCHECKED, tostring(result))
  pcall(slurm.log_user, UNCHECKED, tostring(result))
  return slurm.SUCCESS
end

-- The site's own word comes first; what it refuses is refused.
local function refused(result) return type(result) == "number" and result ~= slurm.SUCCESS end

function slurm_job_submit(job_desc, part_list, submit_uid)
  if site_submit then
    local result = site_submit(job_desc, part_list, submit_uid)
    if refused(result) then return result end
  end
  return guarded(judge, job_desc)
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  if site_modify then
    local result = site_modify(job_desc, job_rec, part_list, modify_uid)
    if refused(result) then return result end
  end
  return guarded(judge_change, job_desc, job_rec, modify_uid)
end
