// Package hooks is what Slurm runs: what each hook does, and the Lua shims that
// lead to the filter of the submission path. It imports no adapter: a hook gets
// Slurm, EC2 and PCS through the small interfaces here, which the programs in
// cmd/ fill in.
//
//	sbatch, srun, salloc → cli_filter.lua → pcs-capacity-filter   [Answer]
//	slurmctld            → job_submit.lua → pcs-capacity-filter   [Answer]
//	slurmctld            → ResumeProgram  → pcs-capacity-resume   [Resume]
//	slurmctld            → SuspendProgram, ResumeFailProgram → pcs-capacity-suspend [Suspend]
//
// Every hook may be killed at any point and run again, and none of them stands in
// the way of a job that is not ours.
package hooks
