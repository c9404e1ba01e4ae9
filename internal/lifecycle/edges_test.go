package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// What no other test decides; most of it is that the first of several does not hide the others.

// R7: what a job may have counts as it was before its start, as far as a pass has seen that.
func TestR7_MarksCountFromBeforeTheStart(t *testing.T) {
	snap := &capacity.Snapshot{Partitions: []capacity.Partition{{Name: "gpu", MinTime: capacity.Duration{Duration: 30 * time.Minute}}}}
	job := func(shown, jobState string, timeMin, limit, restarts int) capacity.Job {
		return capacity.Job{Shown: shown, State: jobState, Partition: "gpu,cpu", Comment: "on_end=hold", Restarts: restarts,
			TimeMin: capacity.Minutes(timeMin), TimeLimit: capacity.Minutes(limit)}
	}
	hold := state.Mark{OnEnd: capacity.HoldAtEnd}
	fitted, upTo := state.Mark{Fit: true, OnEnd: capacity.HoldAtEnd}, state.Mark{Fit: true, UpTo: 90, OnEnd: capacity.HoldAtEnd}
	again := func(m state.Mark) state.Mark { m.Restarts = 1; return m }
	before := map[string]state.Mark{"3": {}, "4": upTo, "5": upTo, "12_": {}, "13_2": again(upTo), "13_": fitted,
		"15": {Told: 15, Ends: 2, EndedAt: 9}, "16": {Told: 15, Ends: 2, EndedAt: 9}}
	jobs := []capacity.Job{
		job("1", "PENDING", 30, 90, 0), job("2", "PENDING", 31, 90, 0), job("8", "PENDING", 90, 90, 0),
		job("3", "RUNNING", 31, 90, 0), job("4", "SUSPENDED", 10, 30, 0),
		job("5", "RUNNING", 31, 90, 1),    // requeued since: another start
		job("6", "RUNNING", 31, 90, 0),    // first seen running
		job("9", "RUNNING", 30, 90, 0),    // so, and nobody knows what it stated
		job("12_3", "RUNNING", 31, 90, 0), // waited with the others of its array
		job("13_2", "RUNNING", 31, 90, 0), // what is known of it is of another start
		job("14_[1-4]", "PENDING", 31, 90, 0), job("7", "COMPLETED", 31, 90, 0),
		job("15", "RUNNING", 30, 90, 0), job("16", "PENDING", 30, 90, 1)} // what a pass remembers itself, warnings of a run with it
	want := map[string]state.Mark{"1": upTo, "2": fitted, "8": hold, "3": {}, "4": upTo, "5": again(fitted), "6": fitted, "9": hold, "12_3": {},
		"13_2": fitted, "14_": fitted, "15": before["15"], "16": {Restarts: 1, Fit: true, UpTo: 90, OnEnd: capacity.HoldAtEnd, Ends: 2, EndedAt: 9}}
	if diff := cmp.Diff(want, trustedMarks(snap, jobs, before)); diff != "" {
		t.Error(diff)
	}
}

// Slurm cannot move a reservation that has begun: the new one is made under the other of its two names, and under a name
// that is taken by one of ours in its place.
func TestChangesUnderTheSecondName(t *testing.T) {
	const first, second = "pcs-capacity-fence-gpu.cr-0." + me, "pcs-capacity-fence-gpu.cr-0." + me + ".2"
	fence := func(name, start string) capacity.SlurmReservation {
		return reservation(name, []string{"gpu-1"}, at(start), at(start).AddDate(1, 0, 0))
	}
	for name, c := range map[string]struct {
		have []capacity.SlurmReservation
		want []string
	}{
		"the second is not active":     {[]capacity.SlurmReservation{fence(second, "2h")}, []string{"update " + second + " for "}},
		"the first is active":          {[]capacity.SlurmReservation{fence(first, "-1m")}, []string{"replace " + second + " for " + first}},
		"the second is active":         {[]capacity.SlurmReservation{fence(second, "-1m")}, []string{"replace " + first + " for " + second}},
		"both are active":              {[]capacity.SlurmReservation{fence(first, "-1m"), fence(second, "-1m")}, []string{"replace " + second + " for " + first + ", in its place"}},
		"both are, the other first":    {[]capacity.SlurmReservation{fence(second, "-1m"), fence(first, "-1m")}, []string{"replace " + first + " for " + second + ", in its place"}},
		"one is active, one can move":  {[]capacity.SlurmReservation{fence(first, "-1m"), fence(second, "2h")}, []string{"update " + second + " for ", "delete " + first + " for "}},
		"one is active, one is right":  {[]capacity.SlurmReservation{fence(first, "-1m"), fence(second, "1h")}, []string{"delete " + first + " for "}},
		"one can move, the other, too": {[]capacity.SlurmReservation{fence(first, "2h"), fence(second, "2h")}, []string{"update " + first + " for ", "delete " + second + " for "}},
	} {
		todo, _ := steps([]capacity.SlurmReservation{reservation(first, []string{"gpu-1"}, at("1h"), time.Time{})}, c.have, nil, noon)
		var got []string
		for _, s := range todo {
			line := s.do + " " + s.r.Name + " for " + s.old
			if s.occupied {
				line += ", in its place"
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
