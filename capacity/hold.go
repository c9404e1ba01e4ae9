package capacity

import "regexp"

// SlurmHold says why slurmctld itself holds a job.
type SlurmHold struct {
	Why string // what happened
	// Do lets the job run again; {} stands for the job.
	Do string
}

// SlurmHold returns why slurmctld itself holds a job; false if it does not, or if a person holds it.
func (j Job) SlurmHold() (hold SlurmHold, is bool) {
	if !j.Held {
		return hold, false
	}

	for _, h := range slurmHolds {
		if h.reason.MatchString(j.plainReason()) {
			return h.SlurmHold, true
		}
	}

	return hold, false
}

// slurmHolds are the reasons with which slurmctld of 22.05 to 26.05 sets a job's priority to 0: job_mgr.c,
// job_scheduler.c, reservation.c. Some versions show Slurm's sentence, others its code. Where Do does not name
// administrators, the job's owner may release it.
var slurmHolds = []struct {
	reason *regexp.Regexp
	SlurmHold
}{
	{
		regexp.MustCompile(`^launch failed requeued held$`),
		SlurmHold{
			Why: "its launch failed: a Prolog returned an error, or slurmd could not start it",
			Do:  "See the reason of its last node, `sinfo -R`, and slurmd's log there; then `scontrol release {}`.",
		},
	},
	{
		regexp.MustCompile(`^user env retrieval failed requeued held$`),
		SlurmHold{
			Why: "its node could not read its owner's environment (--export, --get-user-env)",
			Do:  "Make the login scripts of its owner faster, or leave that option out; then `scontrol release {}`.",
		},
	},
	{
		regexp.MustCompile(`^(JobHoldMaxRequeue|launch failure limit exceeded requeued held)$`),
		SlurmHold{
			Why: "its launch failed more often than max_batch_requeue allows",
			Do:  "Administrators: see `sinfo -R` and slurmd's log on its nodes; then `scontrol release {}`.",
		},
	},
	{
		regexp.MustCompile(`^job requeued in special exit state$`),
		SlurmHold{
			Why: "it was requeued in the state SPECIAL_EXIT, by its exit code (RequeueExitHold) or by hand",
			Do:  "See its output; then `scontrol release {}`.",
		},
	},
	{
		regexp.MustCompile(`^(ReservationDeleted|Reservation .*was deleted)$`),
		SlurmHold{
			Why: "the Slurm reservation that it asked for was deleted, or has ended",
			Do: "To let it run without one: `scontrol release {}`; " +
				"in another: `scontrol update jobid={} reservationname=NAME` first.",
		},
	},
	{
		regexp.MustCompile(`^(ReservationInvalid|Reservation|Reservation .*is invalid)$`),
		SlurmHold{
			Why: "the Slurm reservation that it asks for has ended, or cannot be used",
			Do: "Take it out, `scontrol update jobid={} reservationname=`, or name another; " +
				"then administrators: `scontrol release {}`.",
		},
	},
	{
		regexp.MustCompile(`^BadConstraints`),
		SlurmHold{
			Why: "no nodes of its partition can satisfy what it asks for (BadConstraints)",
			Do: "Submit it with other options, and `scancel {}`; " +
				"or correct it with `scontrol update`, then administrators: `scontrol release {}`.",
		},
	},
}
