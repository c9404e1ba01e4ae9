package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// What no other test decides; most of it is that the first of
// several does not hide the others.

func TestUnlockedLooksAtEveryPartition(t *testing.T) {
	nlp := []string{"nlp"}
	snap := &capacity.Snapshot{Partitions: []capacity.Partition{{Name: "all"}, {Name: "locked", AllowAccounts: nlp}, {Name: "open", AllowAccounts: nlp}}}
	got := unlocked(snap, &Cluster{Accounting: capacity.AccountsChecked, Partitions: []capacity.SlurmPartition{{Name: "all"}, {Name: "locked", AllowAccounts: nlp}, {Name: "open"}}})
	if len(got) != 1 || !strings.HasPrefix(got[0].Text(), "partition open: ") {
		t.Errorf("%q", got)
	}
}

// That accounts are free is so of the cluster: it is said once, after the partitions.
func TestUnlockedSaysOnceThatAccountsAreFree(t *testing.T) {
	nlp := []string{"nlp"}
	snap := &capacity.Snapshot{Partitions: []capacity.Partition{{Name: "not-in-slurm", AllowAccounts: nlp}, {Name: "locked", AllowAccounts: nlp}, {Name: "open", AllowAccounts: nlp}}}
	got := unlocked(snap, &Cluster{Accounting: capacity.AccountsWritten, Partitions: []capacity.SlurmPartition{{Name: "locked", AllowAccounts: nlp}, {Name: "open"}}})
	if len(got) != 2 || !strings.HasPrefix(got[0].Text(), "partition open: ") || !strings.HasPrefix(got[1].Text(), "allow_accounts has no effect") {
		t.Errorf("%q", got)
	}
}

func TestStepsInOrder(t *testing.T) {
	names := func(name string) capacity.SlurmReservation {
		return reservation(name, []string{"gpu-1"}, at("1h"), time.Time{})
	}
	there := func(r capacity.SlurmReservation, active bool) capacity.SlurmReservation {
		if r.Active = active; active {
			r.Start = at("-1h")
		}
		r.End = r.Start.Add(365 * 24 * time.Hour)
		return r
	}
	foreign := there(names("pcs-capacity-fence-b.cr-0."+me), false)
	foreign.Users = []string{"alice"}
	moved := there(names("pcs-capacity-fence-d.cr-0."+me), false)
	moved.Start = at("2h")
	have := []capacity.SlurmReservation{there(names("pcs-capacity-fence-z.cr-0."+me), false), foreign, there(names("pcs-capacity-fence-c.cr-0."+me), true), moved}
	want := []capacity.SlurmReservation{names("pcs-capacity-fence-b.cr-0." + me), names("pcs-capacity-fence-c.cr-0." + me), names("pcs-capacity-fence-d.cr-0." + me), names("pcs-capacity-fence-e.cr-0." + me)}
	todo, others := steps(want, have, nil, noon)
	var got []string
	for _, s := range todo {
		word := s.Do + " " + s.Slot
		if s.R.Active {
			word += " active"
		}
		got = append(got, word)
	}
	if diff := cmp.Diff([]string{"create e", "update d", "replace c active", "delete z"}, got); diff != "" {
		t.Error(diff)
	}
	if len(others) != 1 || !strings.Contains(others[0], "pcs-capacity-fence-b.cr-0."+me+" ") {
		t.Errorf("foreign: %q", others)
	}
}

func TestDifferenceAtTheEdges(t *testing.T) {
	fence := func(start, end time.Time) capacity.SlurmReservation {
		return reservation("pcs-capacity-fence-gpu", nil, start, end)
	}
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		want, have capacity.SlurmReservation
		do         string
	}{
		"another end":               {fence(at("1h"), at("30h")), fence(at("1h"), at("31h")), "update"},
		"an end where was none":     {fence(at("1h"), at("30h")), fence(at("1h"), at("1h").Add(365*day)), "update"},
		"none where was one":        {fence(at("1h"), time.Time{}), fence(at("1h"), at("30h")), "update"},
		"300 days are without end":  {fence(at("1h"), time.Time{}), fence(at("1h"), at("1h").Add(300*day)), ""},
		"a day less is an end":      {fence(at("1h"), time.Time{}), fence(at("1h"), at("1h").Add(299*day)), "update"},
		"five seconds are the same": {fence(at("1h"), at("30h")), fence(at("1h5s"), at("30h5s")), ""},
		"six are not":               {fence(at("1h"), at("30h")), fence(at("1h6s"), at("30h")), "update"},
		"ends now":                  {fence(at("-2h"), at("30h")), fence(at("-2h"), noon), "replace"},
	} {
		if got := difference(c.want, c.have, true, noon); got != c.do {
			t.Errorf("%s: %q, want %q", name, got, c.do)
		}
	}
}

func TestLimitChangesOfSeveralJobs(t *testing.T) {
	byNode := map[string]fenced{"gpu-1": {slot: "gpu", fence: at("3h")}}
	job := func(id int, start string, limit capacity.Limit) capacity.Job {
		j := capacity.Job{ID: id, Shown: string(rune('0' + id)), State: "RUNNING", Partition: "gpu", Nodes: []string{"gpu-1"}, Start: at(start), TimeLimit: limit}
		if limit.Bounded() {
			j.End = j.Start.Add(limit.Duration())
		}
		return j
	}
	with := func(j capacity.Job, change func(*capacity.Job)) capacity.Job {
		change(&j)
		return j
	}
	fit := func(j *capacity.Job) { j.TimeMin = capacity.Minutes(31) }
	snap := &capacity.Snapshot{Partitions: []capacity.Partition{{Name: "gpu", MinTime: capacity.Duration{Duration: 30 * time.Minute}}}}
	jobs := []capacity.Job{
		with(job(1, "0s", capacity.Minutes(999)), func(j *capacity.Job) { j.State = "PENDING" }),
		job(2, "0s", capacity.Minutes(999)),
		// Slurm's end of an unlimited job
		with(job(3, "-1h", capacity.NoLimit), func(j *capacity.Job) { j.End = at("8760h") }),
		// no end is known
		with(job(4, "-1h", capacity.Minutes(600)), func(j *capacity.Job) { j.End = time.Time{} }),
		with(job(5, "0s", capacity.Minutes(30)), func(j *capacity.Job) { j.TimeMin = capacity.Minutes(30) }), // not marked
		// a minute before the fence
		with(job(6, "-1m", capacity.Minutes(180)), fit),
		with(job(7, "-61s", capacity.Minutes(180)), fit), // a second more
		// crosses, and has the least limit
		job(8, "2h59m30s", capacity.Minutes(1)),
	}
	got := map[string]int{}
	for _, c := range limitChanges(jobs, byNode, trustedMarks(snap, jobs, nil), noon) {
		got[c.job.Shown] = c.minutes
	}
	if diff := cmp.Diff(map[string]int{"2": 180, "3": 240, "4": 240, "7": 181}, got); diff != "" {
		t.Error(diff)
	}
	for minutes, raises := range map[int]bool{29: false, 30: false, 31: true} {
		if got := (limitChange{job: job(1, "0s", capacity.Minutes(30)), minutes: minutes}).raises(); got != raises {
			t.Errorf("from 30 to %d minutes raises: %t", minutes, got)
		}
	}
	if (limitChange{job: job(1, "0s", capacity.NoLimit), minutes: 30}).raises() {
		t.Error("from UNLIMITED to 30 minutes raises")
	}
}

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
	before := map[string]state.Mark{"3": {}, "4": upTo, "5": upTo, "12_": {}, "13_2": again(upTo), "13_": fitted}
	jobs := []capacity.Job{
		job("1", "PENDING", 30, 90, 0), job("2", "PENDING", 31, 90, 0), job("8", "PENDING", 90, 90, 0),
		job("3", "RUNNING", 31, 90, 0), job("4", "SUSPENDED", 10, 30, 0),
		job("5", "RUNNING", 31, 90, 1),    // requeued since: another start
		job("6", "RUNNING", 31, 90, 0),    // first seen running
		job("9", "RUNNING", 30, 90, 0),    // so, and nobody knows what it stated
		job("12_3", "RUNNING", 31, 90, 0), // waited with the others of its array
		job("13_2", "RUNNING", 31, 90, 0), // what is known of it is of another start
		job("14_[1-4]", "PENDING", 31, 90, 0), job("7", "COMPLETED", 31, 90, 0)}
	want := map[string]state.Mark{"1": upTo, "2": fitted, "8": hold, "3": {}, "4": upTo, "5": again(fitted), "6": fitted, "9": hold, "12_3": {},
		"13_2": fitted, "14_": fitted}
	if diff := cmp.Diff(want, trustedMarks(snap, jobs, before)); diff != "" {
		t.Error(diff)
	}
}

func TestViewsAtTheEdges(t *testing.T) {
	endless := func(id string, total int) capacity.Reservation {
		return capacity.Reservation{ID: id, Kind: capacity.ODCR, State: capacity.StateActive, Total: total}
	}
	snap := oneSlot("ec2", []string{"cr-0", "cr-1"}, endless("cr-0", 0), endless("cr-1", 2))
	if v := views(snap, noon)[0]; v.places != 0 {
		t.Errorf("of one the size is not known: %d places", v.places)
	}
	snap = oneSlot("ec2", []string{"cr-0", "cr-1"}, endless("cr-0", 3), endless("cr-1", 2))
	if v := views(snap, noon)[0]; v.places != 5 {
		t.Errorf("%d places", v.places)
	}
	snap.Partitions[0].Groups[0].MaxNodes = 4
	if v := views(snap, noon)[0]; v.places != 4 {
		t.Errorf("at most 4 nodes: %d places", v.places)
	}
	snap.Former = oneSlot("ec2", []string{"cr-0"}).Partitions
	if all := views(snap, noon); len(all) != 1 || all[0].former {
		t.Errorf("a slot that is there still: %+v", all)
	}
	snap.Partitions[0].Groups[0].Slots[0].Name = "other"
	if all := views(snap, noon); len(all) != 2 || all[0].former || !all[1].former || all[1].slot.Name != "gpu" {
		t.Errorf("a slot that is not there any more: %+v", all)
	}
	c := &Cluster{Nodes: []capacity.Node{{Name: "gpu-1", GPUs: 8}, {Name: "gpu-2", GPUs: 4}}}
	if got, _ := c.parts([]string{"gpu-1", "gpu-2"}); got != 8 {
		t.Errorf("%d GPUs", got)
	}
	two := oneSlot("ec2", []string{"cr-0"}, endless("cr-0", 1))
	slots := &two.Partitions[0].Groups[0].Slots
	*slots = append(*slots, capacity.Slot{Name: "new", ReservationIDs: []string{"cr-0"}, Nodes: "new-1"})
	if live := liveSlots(two, noon); len(live) != 1 || live[0].Groups[0].Slots[0].Name != "new" {
		t.Errorf("behind a slot without nodes: %+v", live)
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
			line := s.Do + " " + s.R.Name + " for " + s.Old
			if s.Occupied {
				line += ", in its place"
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
