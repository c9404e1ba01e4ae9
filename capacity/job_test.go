package capacity

import (
	"testing"
	"time"
)

// What squeue shows of a job, and what it means.
func TestJobStates(t *testing.T) {
	batch := Job{State: "RUNNING", Batch: true, Requeue: true}
	for name, c := range map[string]struct {
		job  Job
		want string // what is true of it
	}{
		"pending":                {Job{State: "PENDING"}, "pending settled active"},
		"requeued, in cleanup":   {Job{State: "PENDING", StateFlag: "COMPLETING", Reason: "Cleaning"}, "pending completing active"},
		"in cleanup since 22.05": {Job{State: "PENDING", Held: true, Start: noon}, "pending admin-held active"},
		"held by its user":       {Job{State: "PENDING", Held: true, Reason: "JobHeldUser"}, "pending settled active"},
		"held by us":             {Job{State: "PENDING", Held: true, Reason: "JobHeldAdmin"}, "pending settled admin-held active"},
		"requeued held":          {Job{State: "PENDING", Held: true, Reason: "job_requeued_in_held_state"}, "pending settled admin-held untold active"},
		"told, not held":         {Job{State: "PENDING", Reason: "job requeued in held state"}, "pending settled active"},
		"estimated":              {Job{State: "PENDING", Start: noon}, "pending settled active"},
		"booting":                {Job{State: "RUNNING", StateFlag: "CONFIGURING"}, "configuring allocated active"},
		"running":                {Job{State: "RUNNING"}, "running allocated active"},
		"suspended":              {Job{State: "SUSPENDED"}, "allocated active"},
		"batch":                  {batch, "running allocated active requeues"},
		"batch, --no-requeue":    {Job{State: "RUNNING", Batch: true}, "running allocated active"},
		"srun":                   {Job{State: "RUNNING", Requeue: true}, "running allocated active"},
		"completing":             {Job{State: "COMPLETED", StateFlag: "COMPLETING"}, "completing active"},
		"completed":              {Job{State: "COMPLETED"}, "ended"},
		"timed out":              {Job{State: "TIMEOUT"}, "ended"},
		"unknown":                {Job{State: "PONDERING"}, ""},
	} {
		j := c.job
		got := ""
		for _, is := range []struct {
			what string
			true bool
		}{{"pending", j.Pending()}, {"completing", j.Completing()}, {"settled", j.Settled()}, {"admin-held", j.AdminHeld()}, {"untold", j.HoldUntold()},
			{"configuring", j.Configuring()}, {"running", j.Running()}, {"allocated", j.Allocated()}, {"active", j.Active()}, {"ended", j.Ended()}, {"requeues", j.Requeues()}} {
			if is.true {
				got += " " + is.what
			}
		}
		if want := c.want; got != want && got != " "+want {
			t.Errorf("%s:%s, want %s", name, got, want)
		}
	}
}

func TestJobNames(t *testing.T) {
	for shown, names := range map[string]map[string]bool{
		"7": {"7": true, "7_3": false, "70": false}, "7_3": {"7": true, "7_3": true, "7_4": false}, "7+1": {"7": true, "7+1": true, "7+2": false}, "70": {"7": false},
	} {
		for name, want := range names {
			if got := (Job{Shown: shown}).Is(name); got != want {
				t.Errorf("%s is %s: %t", shown, name, got)
			}
		}
	}
	j := Job{Partition: "cpu,gpu"}
	if !j.In("cpu") || !j.In("gpu") || j.In("gp") || len(j.Partitions()) != 2 {
		t.Errorf("in %q", j.Partitions())
	}
}

// Slurm's clock may be another than AWS's, by which everything is decided.
func TestJobByAnotherClock(t *testing.T) {
	s := twoBlocks(func(s *Snapshot) { s.ClockOffset.Duration = time.Hour })
	j := Job{Partition: "gpu", Account: "nlp", Eligible: noon}
	if r := s.Request(j); !r.Begin.Equal(noon.Add(time.Hour)) || !r.Deadline.IsZero() || !r.AccountKnown || r.Account != "nlp" {
		t.Errorf("asks %+v", r)
	}
	r := SlurmReservation{Start: noon, End: noon.Add(time.Hour)}
	if got := r.ByClock(time.Hour); !got.Start.Equal(noon.Add(time.Hour)) || !got.End.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("%+v", got)
	}
	if got := (SlurmReservation{Start: noon}).ByClock(time.Hour); !got.End.IsZero() {
		t.Errorf("a reservation without an end: %+v", got)
	}
}
