// Package power is what slurmctld runs to power nodes up and down: pcs-capacity-resume ([Resume]), its ResumeProgram,
// and pcs-capacity-suspend ([Suspend]), its SuspendProgram and ResumeFailProgram.
//
//	program    program.go chain.go journal.go: settings, the site's own program, the log
//	read       read.go lookup.go: side by side
//	decide     groups.go plan.go target.go pace.go: groups, where each can go, when a job is tried again
//	act        resume.go launch.go odcr.go takedown.go refuse.go suspend.go configure.go, on the [World] of world.go
//
// slurmctld calls the programs with a hostlist and an environment of SLURM_CONF and, for the former, SLURM_RESUME_FILE
// only, and discards what they print: they log to resume.log and suspend.log in `[log] dir` and to syslog. Each may be
// killed at any point and run again, and none of them stands in the way of a job that is not ours.
package power
