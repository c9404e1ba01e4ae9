-- Part of cli_filter.lua: whether srun is going to start a step. That runs in an allocation which
-- was judged when it was submitted; sbatch and salloc inside a job ask for a new one.
return function(options)
  if os.getenv("SLURM_JOB_ID") or os.getenv("SLURM_JOBID") then return true end
  local id = tonumber(options["jobid"] or "")
  return id ~= nil and id > 0 and id < 4294967294 -- NO_VAL: not set
end
