package capacity

import "regexp"

// HeldReason says why slurmctld itself holds a job.
type HeldReason struct {
	Why string // what happened
	// Do lets the job run again; {} stands for the job.
	Do string
}

// HeldBySlurm returns why slurmctld itself holds a job; false if it does not, or if a person holds it.
func (j Job) HeldBySlurm() (hold HeldReason, is bool) {
	if !j.Held {
		return hold, false
	}

	for _, h := range heldReasons {
		if h.reason.MatchString(j.plainReason()) {
			return h.HeldReason, true
		}
	}

	return hold, false
}

// heldReasons are the reasons with which slurmctld of 22.05 to 26.05 sets a job's priority to 0: job_mgr.c,
// job_scheduler.c, reservation.c. Some versions show Slurm's sentence, others its code. Where Do does not name
// administrators, the job's owner may release it.
var heldReasons = []struct {
	reason *regexp.Regexp
	HeldReason
}{
	{
		regexp.MustCompile(`^launch failed requeued held$`),
		HeldReason{
			Why: "its launch failed: a Prolog returned an error, or slurmd could not start it",
			Do:  "See the reason of its last node, `sinfo -R`, and slurmd's log there; then `scontrol release {}`.",
		},
	},
	{
		regexp.MustCompile(`^user env retrieval failed requeued held$`),
		HeldReason{
			Why: "its node could not read its owner's environment (--export, --get-user-env)",
			Do:  "Make the login scripts of its owner faster, or leave that option out; then `scontrol release {}`.",
		},
	},
	{
		regexp.MustCompile(`^(JobHoldMaxRequeue|launch failure limit exceeded requeued held)$`),
		HeldReason{
			Why: "its launch failed more often than max_batch_requeue allows",
			Do:  "Administrators: see `sinfo -R` and slurmd's log on its nodes; then `scontrol release {}`.",
		},
	},
	{
		regexp.MustCompile(`^job requeued in special exit state$`),
		HeldReason{
			Why: "it was requeued in the state SPECIAL_EXIT, by its exit code (RequeueExitHold) or by hand",
			Do:  "See its output; then `scontrol release {}`.",
		},
	},
	{
		regexp.MustCompile(`^(ReservationDeleted|Reservation .*was deleted)$`),
		HeldReason{
			Why: "the Slurm reservation that it asked for was deleted, or has ended",
			Do: "To let it run without one: `scontrol release {}`; " +
				"in another: `scontrol update jobid={} reservationname=NAME` first.",
		},
	},
	{
		regexp.MustCompile(`^(ReservationInvalid|Reservation|Reservation .*is invalid)$`),
		HeldReason{
			Why: "the Slurm reservation that it asks for has ended, or cannot be used",
			Do: "Take it out, `scontrol update jobid={} reservationname=`, or name another; " +
				"then administrators: `scontrol release {}`.",
		},
	},
	{
		regexp.MustCompile(`^BadConstraints`),
		HeldReason{
			Why: "no nodes of its partition can satisfy what it asks for (BadConstraints)",
			Do: "Submit it with other options, and `scancel {}`; " +
				"or correct it with `scontrol update`, then administrators: `scontrol release {}`.",
		},
	},
}
