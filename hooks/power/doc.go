// Package power is what slurmctld runs to power nodes up and down: the ResumeProgram
// pcs-capacity-resume ([Resume]), and pcs-capacity-suspend, its SuspendProgram and
// ResumeFailProgram ([Suspend]). It imports no adapter: a hook gets Slurm, EC2 and PCS through
// the small interfaces here, which the programs in cmd/ fill in.
//
// Every hook may be killed at any point and run again, and none of them stands in the way of a
// job that is not ours.
package power
