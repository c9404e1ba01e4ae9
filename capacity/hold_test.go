package capacity

import "testing"

// A job that depends on one that failed, or that another cluster of the federation runs, does not wait.
func TestWaits(t *testing.T) {
	for name, c := range map[string]struct {
		job   Job
		waits bool
	}{
		"pending":                {Job{State: "PENDING", Reason: "Resources"}, true},
		"held":                   {Job{State: "PENDING", Reason: "JobHeldUser", Held: true}, true},
		"its dependency may end": {Job{State: "PENDING", Reason: "Dependency"}, true},
		"its dependency failed":  {Job{State: "PENDING", Reason: DependencyNeverSatisfied}, false},
		"another cluster's":      {Job{State: Revoked}, false},
		"running":                {Job{State: "RUNNING"}, false},
	} {
		if c.job.CanStart() != c.waits {
			t.Errorf("%s: waits is %t", name, c.job.CanStart())
		}
	}
}

// Whose hold it is, by Slurm's reason: Slurm's sentence in newer versions, its code in older ones.
func TestWhoseHold(t *testing.T) {
	for reason, c := range map[string]struct{ slurms, admins bool }{
		"JobHeldUser":                                  {},
		"JobHeldAdmin":                                 {admins: true},
		"job requeued in held state":                   {admins: true}, // until Slurm says whose
		"job_requeued_in_held_state":                   {admins: true},
		"launch failed requeued held":                  {slurms: true},
		"launch_failed_requeued_held":                  {slurms: true},
		"launch failure limit exceeded requeued held":  {slurms: true},
		"JobHoldMaxRequeue":                            {slurms: true},
		"user_env_retrieval_failed_requeued_held":      {slurms: true},
		"job_requeued_in_special_exit_state":           {slurms: true},
		"ReservationDeleted":                           {slurms: true},
		"Reservation_maint_was_deleted":                {slurms: true},
		"Reservation maint is invalid":                 {slurms: true},
		"BadConstraints":                               {slurms: true},
		"Reserved for maintenance by an administrator": {admins: true},
	} {
		t.Run(reason, func(t *testing.T) {
			j := Job{Held: true, Reason: reason}
			hold, slurms := j.HeldBySlurm()
			if slurms != c.slurms || j.HeldByAdmin() != c.admins || slurms && (hold.Why == "" || hold.Do == "") {
				t.Errorf("Slurm's hold: %t (%+v), an administrator's: %t", slurms, hold, j.HeldByAdmin())
			}

			j.Held = false
			if _, slurms := j.HeldBySlurm(); slurms || j.HeldByAdmin() {
				t.Error("a job that is not held has a hold")
			}
		})
	}
}

// A job that waits for nodes is one for which capacity may be held, for as many of its tasks as may run at a time.
func TestWaitingForNodes(t *testing.T) {
	for _, c := range []struct {
		shown, reason string
		lacks         bool
		tasks, array  int
	}{
		{"7", "Resources", true, 1, 7},
		{"7", "Priority", true, 1, 7},
		{"7", "ReqNodeNotAvail, Reserved for maintenance", true, 1, 7},
		{"7", "ReqNodeNotAvail,_UnavailableNodes:gpu-1", true, 1, 7},
		{"7", "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions", true, 1, 7},
		{"7_[1-4,9]", "Resources", true, 5, 7},
		{"7_[1-9%2]", "Resources", true, 2, 7},
		{"7_3", "Dependency", false, 1, 7},
		{"7+1", "QOSMaxJobsPerUserLimit", false, 1, 8},
		{"7", "JobHeldUser", false, 1, 7},
		{"7", "None", false, 1, 7},
	} {
		j := Job{ID: 7, Shown: c.shown, Reason: c.reason}
		if c.array == 8 { // a component has an id of its own
			j.ID = 8
		}

		if j.LacksNodes() != c.lacks || j.PendingTasks() != c.tasks || j.ArrayID() != c.array {
			t.Errorf("%s, %s: lacks %t, %d tasks, array %d", c.shown, c.reason, j.LacksNodes(), j.PendingTasks(),
				j.ArrayID())
		}
	}
}
