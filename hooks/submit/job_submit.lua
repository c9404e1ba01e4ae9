-- Written by `pcs-capacity hooks install`; do not edit, it is overwritten.
-- slurmctld runs this, on Lua 5.1 to 5.4, for each job that is submitted or changed. It answers nobody
-- else meanwhile, so nothing here may wait.

-- @ASK@

local QUOTED_ROSTER = @QUOTED_ROSTER@

-- Lua cannot open or read a file with a deadline, nor see that it is a FIFO. So the roster is read, and
-- the filter runs, in a process that is killed after so many seconds; what hung is left alone for a while.
local READ_SECONDS, FILTER_SECONDS, REST_SECONDS = 1, 2, 60

-- slurmctld keeps the variables of this script. The roster is read again when it is so many seconds old.
local ROSTER_SECONDS = 5
local roster, roster_until, filter_rests_until = "", 0, 0

-- Whether SlurmUser may not read the roster, and until when slurmctld's log has said so.
local denied, denied_until = false, 0

-- Prints "Permission denied" for a roster that exists but cannot be read, or whose folder cannot be searched.
local DENIED = "Permission denied\n"
local READ = "exec timeout -s KILL " .. READ_SECONDS .. [[ sh -c 'test -f "$0" && test -r "$0" && exec cat "$0"
at=$0; until test -e "$at" || test -z "$at"; do at=${at%/*}; done
if test -f "$at" || { test -d "$at" && ! test -x "$at"; }; then echo "Permission denied"; fi' ]] ..
  QUOTED_ROSTER .. " </dev/null 2>/dev/null"

local function resting(from, to) return from < to and from >= to - REST_SECONDS end -- the clock may be set back

local function current_roster(now)
  if resting(now, roster_until) then return roster end
  local pipe = assert(io.popen(READ, "r"))
  local text = pipe:read(MAX_ROSTER)
  pipe:close()
  if not text and os.time() - now >= READ_SECONDS then
    slurm.log_info("pcs-capacity: %s hangs; the partitions are as they were for %d s", ROSTER, REST_SECONDS)
    roster_until = os.time() + REST_SECONDS
    return roster
  end
  denied, roster_until = text == DENIED, now + ROSTER_SECONDS
  if not denied then
    roster = text or ""
  elseif not resting(now, denied_until) then
    denied_until = now + REST_SECONDS
    slurm.log_error("pcs-capacity: %s: Permission denied; jobs are let through unchecked: let SlurmUser read it", ROSTER)
  end
  return roster
end

local function answer_in_time(job)
  local now = os.time()
  local known = current_roster(now)
  local ours = concerns_us(job, known)
  if denied and (ours or known == "") then error(ROSTER .. ": Permission denied", 0) end
  if not ours then return nil end
  if resting(now, filter_rests_until) then error(FILTER .. " hung a moment ago", 0) end
  local ok, said = pcall(ask, job, "exec timeout -s KILL " .. FILTER_SECONDS)
  if ok then return said end
  if os.time() - now >= FILTER_SECONDS then filter_rests_until = os.time() + REST_SECONDS end
  error(said, 0)
end

-- The text that sbatch and scontrol add to our sentence; scontrol of Slurm 22.05 shows nothing else.
local function status_of(code)
  local errors = {
    ["account-not-allowed"] = slurm.ESLURM_INVALID_ACCOUNT,
    ["too-long"] = slurm.ESLURM_INVALID_TIME_LIMIT,
    ["too-many-nodes"] = slurm.ESLURM_INVALID_NODE_COUNT,
  }
  return errors[code] or slurm.ERROR
end

-- Shows the user a refusal. An answer is nil for a job that is not ours; what else it says is for cli_filter.lua to say.
local function tell(answer)
  if not (answer and answer.refusal) then return slurm.SUCCESS end
  slurm.log_user("pcs-capacity: %s", answer.refusal)
  return status_of(answer.code)
end

local function account_of(job)
  return job.account ~= "" and job.account or job.default_account
end

-- With --overcommit slurmctld has fewer CPUs than tasks.
local function overcommits(job)
  local tasks, cpus = job.num_tasks or 0, job.min_cpus or 0
  return cpus > 0 and tasks < 4294967294 and tasks > cpus and "set" or nil -- NO_VAL
end

-- A job without a script is one of srun or salloc. A script may be long, so only a job of ours is asked for it.
local function requeue_of(job) return job.script and job.requeue or "invalid-context" end

local function check(job)
  local answer = answer_in_time(setmetatable({
    from = "job_submit", partition = job.partition, account = account_of(job), comment = job.comment, user = job.user_name,
    qos = job.qos, time = job.time_limit, ["time-min"] = job.time_min, begin = job.begin_time,
    deadline = job.deadline, -- slurmctld does not show it to Lua
    nodes = job.max_nodes == 1 and "1-1" or job.min_nodes, ntasks = job.num_tasks,
    ["ntasks-per-node"] = job.ntasks_per_node, ["cpus-per-task"] = job.cpus_per_task, overcommit = overcommits(job),
    gpus = job.tres_per_job, ["gpus-per-node"] = job.tres_per_node, ["gpus-per-task"] = job.tres_per_task,
    constraint = job.features, reservation = job.reservation,
  }, { __index = function(_, name) return name == "requeue" and requeue_of(job) or nil end }))
  local status = tell(answer)
  if status ~= slurm.SUCCESS or not answer then return status end
  local set = answer.set
  if set["time"] then job.time_limit = tonumber(set["time"]) end -- both in minutes
  if set["time-min"] then job.time_min = tonumber(set["time-min"]) end
  if set["constraint"] then job.features = set["constraint"] end
  if set["admin-comment"] and (job.admin_comment or "") == "" then job.admin_comment = set["admin-comment"] end
  return slurm.SUCCESS
end

-- Refuses a change that would get a job where it could not be submitted to: a node that is up never
-- passes ResumeProgram. Nothing is edited, and root may change everything.
local function check_change(change, record, _, uid)
  if uid == 0 or not (change.partition or change.account or change.comment) then return slurm.SUCCESS end
  return tell(answer_in_time({
    from = "job_modify", partition = change.partition or record.partition,
    account = change.account and account_of(change) or record.account,
    comment = change.comment or record.comment, was = record.comment,
    started = (record.job_state or 0) % 256 ~= 0 and "yes" or nil, -- the lowest byte of PENDING is 0
  }))
end

-- An error that leaves the functions below accepts the job up to Slurm 25.11 and refuses it in 26.05.
local site_submit, site_modify = slurm_job_submit, slurm_job_modify

function slurm_job_submit(job, partitions, uid)
  return guarded(site_submit, check, slurm.log_info, job, partitions, uid)
end

function slurm_job_modify(change, record, partitions, uid)
  return guarded(site_modify, check_change, slurm.log_info, change, record, partitions, uid)
end
