// Package power is what slurmctld runs to power nodes up and down: the ResumeProgram
// pcs-capacity-resume ([Resume]), and pcs-capacity-suspend, its SuspendProgram and
// ResumeFailProgram ([Suspend]).
//
//	read         facts.go lookup.go, side by side; the pipelines are resume.go suspend.go configure.go
//	plan         plan.go target.go beside.go refused.go apart.go: groups, units, where each can go, who is charged
//	machines     launching.go holding.go failing.go takingout.go terminating.go configuring.go: from answer to answer
//	executor     executor.go carries the effects of effect.go out
//
// What decides is pure: it gets what was read, and returns effects. Every hook may be killed at any
// point and run again, and none of them stands in the way of a job that is not ours.
package power
