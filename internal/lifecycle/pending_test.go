package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Which pending jobs a pass gives a limit to.
func TestUnfits(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	snap := func() *capacity.Snapshot {
		return &capacity.Snapshot{TakenAt: now, ClockOffset: capacity.Duration{Duration: time.Hour},
			Submit: capacity.Submit{Strict: true, StaleAfter: capacity.Duration{Duration: time.Minute}},
			Timing: capacity.Timing{DrainMargin: capacity.Duration{Duration: 10 * time.Minute}, ReclaimLead: capacity.Duration{Duration: 30 * time.Minute}},
			Partitions: []capacity.Partition{{Name: "gpu", Provider: capacity.ProviderPCS, MinTime: capacity.Duration{Duration: 30 * time.Minute},
				Groups: []capacity.NodeGroup{{Name: "gpu", InstanceType: "p5.48xlarge", PurchaseOption: capacity.CapacityBlock, MaxNodes: 4,
					Slots: []capacity.Slot{{Name: "gpu-a", ReservationIDs: []string{"cr-0aaaaaaaaaaaaaaa1"}}}}}}},
			Reservations: []capacity.Reservation{{ID: "cr-0aaaaaaaaaaaaaaa1", Kind: capacity.CapacityBlock, State: capacity.StateActive, InstanceType: "p5.48xlarge",
				Total: 4, Start: now.Add(-time.Hour), End: now.Add(10*time.Hour + 40*time.Minute)}}}
	}
	lenient := func(s *capacity.Snapshot) { s.Submit.Strict = false }
	open := func(s *capacity.Snapshot) {
		s.Reservations[0].Kind, s.Reservations[0].End = capacity.ODCR, time.Time{}
		s.Partitions[0].Groups[0].PurchaseOption = capacity.ODCR
	}
	short := func(s *capacity.Snapshot) { s.Reservations[0].End = now.Add(65 * time.Minute) }
	fit := capacity.Edits{TimeLimit: capacity.Minutes(600), TimeMin: capacity.Minutes(31)}
	fromLater := fit
	fromLater.TimeLimit = capacity.Minutes(480)
	for name, test := range map[string]struct {
		job    capacity.Job
		change func(*capacity.Snapshot)
		edits  capacity.Edits // none: left alone, or never
		never  string
	}{
		"unlimited":               {job: capacity.Job{TimeLimit: capacity.NoLimit}, edits: fit},
		"not set":                 {job: capacity.Job{}, edits: fit},
		"the partition's limit":   {job: capacity.Job{TimeLimit: capacity.Minutes(5 * 1440)}, edits: fit},
		"a limit of its own":      {job: capacity.Job{TimeLimit: capacity.Minutes(5*1440 + 1)}},
		"the same, and it fits":   {job: capacity.Job{TimeLimit: capacity.Minutes(600)}},
		"it runs":                 {job: capacity.Job{State: "RUNNING", TimeLimit: capacity.NoLimit}},
		"another partition too":   {job: capacity.Job{Partition: "gpu,cpu", TimeLimit: capacity.NoLimit}},
		"another partition":       {job: capacity.Job{Partition: "cpu", TimeLimit: capacity.NoLimit}},
		"with a comment":          {job: capacity.Job{TimeLimit: capacity.NoLimit, Comment: "run 7"}, edits: fit},
		"a --time-min that fits":  {job: capacity.Job{TimeLimit: capacity.NoLimit, TimeMin: capacity.Minutes(90)}},
		"begins in Slurm's clock": {job: capacity.Job{TimeLimit: capacity.NoLimit, Eligible: now.Add(time.Hour)}, edits: fromLater},
		"a --time-min too long":   {job: capacity.Job{TimeLimit: capacity.NoLimit, TimeMin: capacity.Minutes(601)}, never: "needs 10:01:00"},
		"too little is left":      {job: capacity.Job{TimeLimit: capacity.NoLimit}, change: short, never: "a job without --time needs at least 00:30:00 (min_time of partition gpu)"},
		"of a foreign reservation": {job: capacity.Job{TimeLimit: capacity.NoLimit, Comment: "capacity_reservation_id=cr-0123456789abcdef0"},
			never: "has no reservation cr-0123456789abcdef0"},
		"not strict":        {job: capacity.Job{TimeLimit: capacity.NoLimit}, change: lenient, edits: fit},
		"not strict, never": {job: capacity.Job{TimeLimit: capacity.NoLimit, TimeMin: capacity.Minutes(601)}, change: lenient, never: "needs 10:01:00"},
		"without an end":    {job: capacity.Job{TimeLimit: capacity.NoLimit}, change: open},
	} {
		t.Run(name, func(t *testing.T) {
			j, s := test.job, snap()
			if test.change != nil {
				test.change(s)
			}
			if j.State == "" {
				j.State = "PENDING"
			}
			if j.Partition == "" {
				j.Partition = "gpu"
			}
			cluster := &Cluster{Partitions: []capacity.SlurmPartition{{Name: "gpu", DefaultTime: capacity.Minutes(5 * 1440)}, {Name: "cpu", DefaultTime: capacity.NoLimit}}}
			got := unfits(Seen{Snap: s, Cluster: cluster, Now: now, Jobs: []capacity.Job{j}})
			switch want := test.edits != (capacity.Edits{}) || test.never != ""; {
			case len(got) == 0 && !want:
			case len(got) != 1 || !want || got[0].edits != test.edits || !strings.Contains(got[0].why, test.never) || (got[0].why == "") != (test.never == ""):
				t.Errorf("got %+v, want %+v, %q", got, test.edits, test.never)
			}
		})
	}
}
