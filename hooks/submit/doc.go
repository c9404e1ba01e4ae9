// Package submit judges a job while it is being submitted: the filter, and the Lua scripts that
// call it.
//
//	sbatch, srun, salloc → cli_filter.lua → pcs-capacity-filter   [Answer]
//	slurmctld            → job_submit.lua → pcs-capacity-filter   [Answer]
//
// It links no AWS SDK, and whatever is wrong with our files, the job goes on.
package submit
