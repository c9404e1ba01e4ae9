package lifecycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/notify"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// TestTell follows a slot through its life: each thing is told once, an extension begins the
// fence anew, and what could not be told is told later.
func TestTell(t *testing.T) {
	dir := state.Dir(t.TempDir())
	first := block("cr-1", "0s", "48h", capacity.StateScheduled)
	failed := block("cr-9", "20h", "40h", capacity.StatePaymentFailed)
	first.Total = 4
	idle := &Cluster{
		slots: map[string][]string{"gpu": {"gpu-1", "gpu-2"}},
		Nodes: []capacity.Node{{Name: "gpu-1", State: "IDLE"}, {Name: "gpu-2", State: "ALLOCATED"}},
	}
	busy := &Cluster{slots: idle.slots, Nodes: []capacity.Node{{Name: "gpu-1", State: "MIXED"}}}
	broken := false
	tell := func(now string, cluster *Cluster, taken string, rs ...capacity.Reservation) string {
		t.Helper()

		var ids, kinds []string
		for _, r := range rs {
			ids = append(ids, r.ID)
		}

		snap := oneSlot("ec2", ids, rs...)
		snap.TakenAt = at(taken)

		errs := DeliverNotices(
			dir,
			snap,
			Report{Cluster: cluster, At: at(now), Problems: checkReservations(View{Snap: snap, Now: at(now)})},
			func(n Notice) error {
				if broken {
					return errors.New("no")
				}

				if n.Sentence == "" || !n.At.Equal(at(now)) {
					t.Errorf("%+v", n)
				}

				kinds = append(kinds, string(n.Code))

				return nil
			},
		)
		if (len(errs) > 0) != broken {
			t.Errorf("at %s: %v", now, errs)
		}

		return strings.Join(kinds, ",")
	}
	is := func(r capacity.Reservation, state capacity.State, end string, dead int) capacity.Reservation {
		r.State, r.End, r.Unhealthy = state, at(end), dead
		return r
	}

	open := is(first, capacity.StateActive, "48h", 0)
	longer := is(first, capacity.StateActive, "72h", 0)
	dead := is(longer, capacity.StateActive, "72h", 1)
	for _, step := range []struct {
		now     string
		cluster *Cluster
		taken   string
		r       capacity.Reservation
		broken  bool
		want    string
	}{
		{"-1h", nil, "-1h", first, false, "never-opens"},
		{"1m", idle, "1m", open, true, ""},
		{"2m", idle, "2m", open, false, "opened,no-successor"},
		{"3m", idle, "3m", open, false, ""},
		{"20m", nil, "20m", open, false, ""},
		{"33m", idle, "33m", open, false, "idle"},
		{"1h", idle, "1h", open, false, ""},
		{"2h", busy, "2h", open, false, ""},
		{"3h", idle, "3h", open, false, ""},
		{"4h", idle, "4h", open, false, "idle"},
		{"5h", busy, "4h45m", open, false, "heartbeat-lost"},
		{"5h1m", busy, "4h45m", open, false, ""},
		{"46h19m", busy, "46h19m", open, false, ""},
		{"46h30m", busy, "46h30m", open, false, "fence-near"},
		{"46h40m", busy, "46h40m", longer, false, "no-successor"},
		{"47h", busy, "47h", dead, false, "host-failed"},
		{"71h", busy, "71h", dead, false, "fence-near"},
		{"72h", busy, "72h", is(dead, capacity.StateExpired, "72h", 1), false, "closed"},
		{"73h", busy, "73h", is(dead, capacity.StateExpired, "72h", 1), false, ""},
	} {
		broken = step.broken
		if got := tell(step.now, step.cluster, step.taken, step.r, failed); got != step.want {
			t.Errorf("at %s it told %q, want %q", step.now, got, step.want)
		}
	}
	// With a next block there is a successor.
	broken, dir = false, state.Dir(t.TempDir())
	got := tell("47h", busy, "47h", open, block("cr-2", "60h", "90h", capacity.StateScheduled))
	if got != "opened,fence-near" {
		t.Errorf("with a next block it told %q", got)
	}
}

// In the day before an extension could no longer be paid in time, people are told of it if the queue needs one.
func TestTellOfExtension(t *testing.T) {
	dir := state.Dir(t.TempDir())
	r := block("cr-1", "0s", "48h", capacity.StateActive)
	r.Total = 2
	snap := oneSlot("ec2", []string{"cr-1"}, r)
	group := &snap.Partitions[0].Groups[0]
	group.PurchaseOption = capacity.CapacityBlock
	group.Slots[0].Count = 2
	job := func(partition string, hours int) capacity.Job {
		limit := capacity.Minutes(60 * hours)
		return capacity.Job{Shown: "7", Partition: partition, State: "PENDING", NumNodes: 1, TimeLimit: limit}
	}

	for _, step := range []struct {
		now  string
		job  capacity.Job
		want string
	}{
		{"11h19m", job("gpu", 60), ""}, // more than a day is left
		{"11h20m", job("gpu", 20), ""}, // it is done by the fence
		{"11h20m", job("other", 60), ""},
		{"11h20m", job("gpu", 6000), ""}, // which no extension helps
		{"35h20m", job("gpu", 60), ""},   // too late
		{"35h19m", job("gpu", 60), "an extension of cr-1 would let 1 job of partition gpu get done that otherwise will " +
			"not, as its fence is at 2026-11-22 11:20 UTC; buy it by 2026-11-21 23:20 UTC, as its payment can take 12 hours"},
		{"35h19m", job("gpu", 60), ""},
	} {
		snap.TakenAt = at(step.now)
		told := ""

		errs := DeliverNotices(
			dir,
			snap,
			Report{Jobs: []capacity.Job{step.job}, At: at(step.now)},
			func(n Notice) error {
				if n.Code == capacity.BuyBy {
					told = n.Sentence
				}

				return nil
			},
		)
		if told != step.want || len(errs) > 0 {
			t.Errorf("at %s with a job of %s for %s: it told %q, want %q, %v", step.now, step.job.TimeLimit,
				step.job.Partition, told, step.want, errs)
		}
	}
}

// TestTellOfJobs: of a job that can never start, a site is told once, with its owner; of another
// job that gets the same id later, again. What could not be told is told later.
func TestTellOfJobs(t *testing.T) {
	dir := state.Dir(t.TempDir())

	never := capacity.Job{
		Shown:        "7",
		User:         "alice",
		Partition:    "gpu",
		State:        "PENDING",
		AdminComment: neverStarts + "no block is that long",
	}
	unlimited := capacity.Job{
		Shown:        "8_1",
		User:         "bob",
		Partition:    "gpu",
		State:        "PENDING",
		AdminComment: neverStarts + "it needs 4 days",
	}
	others := []capacity.Job{
		{Shown: "9", State: "PENDING", AdminComment: fewHosts + "3 are usable"},
		{Shown: "10", State: "PENDING"},
		{Shown: "11", State: "RUNNING", AdminComment: neverStarts + "as it was"},
	}
	for i, step := range []struct {
		jobs   []capacity.Job
		broken bool
		want   string
	}{
		{append(others, never), true, ""},
		{append(others, never), false, "7 alice"},
		{append(others, never, unlimited), false, "8_1 bob"},
		{nil, false, ""}, // Slurm did not say
		{append(others, never, unlimited), false, ""},
		{others, false, ""},
		{append(others, never), false, "7 alice"},
	} {
		var told []string

		snap := oneSlot("ec2", nil)
		snap.TakenAt = at("1h")

		errs := DeliverNotices(dir, snap, Report{Jobs: step.jobs, At: at("1h")}, func(n Notice) error {
			if step.broken {
				return errors.New("no")
			}

			if n.Code != "never-starts" || !strings.Contains(n.Sentence, "can never start") {
				t.Errorf("%+v", n)
			}

			told = append(told, n.About.Job+" "+n.User)

			return nil
		})
		if got := strings.Join(told, ","); got != step.want || (len(errs) > 0) != step.broken {
			t.Errorf("step %d told %q, want %q, %v", i, got, step.want, errs)
		}
	}
}

// Of many jobs a pass reports some, and later passes the others: each once.
func TestManyJobsAreTold(t *testing.T) {
	dir := state.Dir(t.TempDir())
	snap := oneSlot("ec2", nil)
	snap.TakenAt = at("1h")

	var jobs []capacity.Job
	for i := range 2*maxJobNotices + 5 {
		jobs = append(jobs, capacity.Job{
			Shown:        strconv.Itoa(i),
			State:        "PENDING",
			AdminComment: neverStarts + "no block is that long",
		})
	}

	told := map[string]int{}
	for pass, want := range []int{maxJobNotices, 2 * maxJobNotices, len(jobs), len(jobs)} {
		slices.Reverse(jobs) // whatever their order

		errs := DeliverNotices(dir, snap, Report{Jobs: jobs, At: at("1h")}, func(n Notice) error {
			told[n.About.Job]++
			if told[n.About.Job] > 1 {
				t.Errorf("pass %d tells again of job %s", pass, n.About.Job)
			}

			return nil
		})
		if len(told) != want || len(errs) > 0 {
			t.Errorf("after pass %d, %d jobs are told of, want %d, %v", pass, len(told), want, errs)
		}
	}
}

// A block in the other slot of its node group follows as well as one in the same.
func TestSuccessorInTheOtherSlot(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	first := capacity.Reservation{
		ID:    "cr-1",
		Kind:  capacity.CapacityBlock,
		State: capacity.StateActive,
		Total: 2,
		Start: now.Add(-time.Hour),
		End:   now.Add(24 * time.Hour),
	}
	second := first
	second.ID = "cr-2"
	second.State = capacity.StateScheduled
	second.Start = first.End
	second.End = first.End.Add(240 * time.Hour)
	snap := &capacity.Snapshot{
		TakenAt:      now,
		Reservations: []capacity.Reservation{first, second},
		Partitions: []capacity.Partition{{
			Name: "gpu", Provider: capacity.ProviderPCS,
			Groups: []capacity.NodeGroup{
				{
					Name: "gpu",
					Slots: []capacity.Slot{
						{Name: "gpu-a", Occupant: "cr-1", ReservationIDs: []string{"cr-1"}},
						{Name: "gpu-b", Occupant: "cr-2", ReservationIDs: []string{"cr-2"}},
					},
				},
			},
		}},
	}

	told := func() (kinds []string) {
		all, _ := dueNotices(snap, Report{At: now}, nil)
		for _, n := range all {
			kinds = append(kinds, string(n.Code))
		}

		return kinds
	}
	if got := told(); !slices.Equal(got, []string{"opened"}) {
		t.Errorf("told of %v", got)
	}

	snap.Reservations = snap.Reservations[:1]

	if got := told(); !slices.Equal(got, []string{"opened", "no-successor"}) {
		t.Errorf("without the second, told of %v", got)
	}
}

// What sync has set up for the next block is told once, and what keeps it from that once for each cause.
func TestNoticesOfRollOver(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

	dir := state.Dir(t.TempDir())
	block := capacity.Reservation{ID: "cr-2", Start: now.Add(time.Hour)}

	var told []string
	for _, r := range []Rolling{
		{Block: block}, // under way
		{Block: block, Setback: state.Setback{Since: now, Tried: now, Problem: "no subnet"}},
		{Block: block, Setback: state.Setback{Since: now, Tried: now.Add(time.Minute), Problem: "no subnet"}},
		{Block: block, Setback: state.Setback{Since: now.Add(time.Hour), Problem: "no address"}},
		{Block: block, Slot: "gpu-b", Ready: true},
		{Block: block, Slot: "gpu-b", Ready: true},
		{Block: capacity.Reservation{ID: "cr-1", Start: now.Add(-time.Hour)}, Slot: "gpu-a", Ready: true},
	} {
		r.Partition = "gpu"
		for _, err := range DeliverNotices(dir, &capacity.Snapshot{TakenAt: now}, Report{
			At:       now,
			Rolling:  []Rolling{r},
			Problems: checkSetbacks(View{Rolling: []Rolling{r}}),
		}, func(n Notice) error {
			told = append(told, string(n.Code)+" "+n.About.Reservation+": "+n.Sentence)
			return nil
		}) {
			t.Error(err)
		}
	}

	want := []string{
		"roll-over-failed cr-2: no subnet; sync tries it again every 5m",
		"roll-over-failed cr-2: no address; sync tries it again every 5m",
		"set-up cr-2: cr-2 is set up: it gets slot gpu-b at 2026-11-20 13:00 UTC",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
}

// observed is a pass over a slot with an open block of 4, one of whose hosts has failed.
func observed() (*capacity.Snapshot, Report) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	snap := &capacity.Snapshot{
		TakenAt:     now.Add(-time.Minute),
		ClockOffset: capacity.Duration{Duration: 1500 * time.Millisecond},
		Timing: capacity.Timing{
			DrainMargin: capacity.Duration{Duration: 10 * time.Minute},
			ReclaimLead: capacity.Duration{Duration: 30 * time.Minute},
		},
		Partitions: []capacity.Partition{
			{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.NodeGroup{{
				Name: "gpu", MaxNodes: 4,
				Slots: []capacity.Slot{{Name: "gpu", ReservationIDs: []string{"cr-1"}}},
			}}},
		},
		Reservations: []capacity.Reservation{
			{
				ID:        "cr-1",
				Kind:      capacity.CapacityBlock,
				State:     capacity.StateActive,
				Total:     4,
				Unhealthy: 1,
				Start:     now.Add(-time.Hour),
				End:       now.Add(24 * time.Hour),
			},
		},
	}
	report := Report{
		At: now,
		Cluster: &Cluster{
			slots: map[string][]string{"gpu": {"gpu-1", "gpu-2", "gpu-3", "gpu-4"}},
			Nodes: []capacity.Node{
				{Name: "gpu-1", State: "MIXED"},
				{Name: "gpu-2", State: "IDLE"},
				{Name: "gpu-3", State: "IDLE+CLOUD+POWERING_UP"},
			},
		},
		Jobs: []capacity.Job{
			{Partition: "gpu", State: "PENDING"},
			{Partition: "cpu,gpu", State: "PENDING"},
			{Partition: "gpu", State: "RUNNING"},
			{Partition: "cpu", State: "PENDING"},
		},
	}
	report.Add(
		capacity.Problemf(capacity.HostImpaired, capacity.Subject{}, "", "one"),
		capacity.Problemf(capacity.NeverStarts, capacity.Subject{}, "", "two"),
		capacity.Problemf(capacity.NeverStarts, capacity.Subject{}, "", "three"),
	)

	return snap, report
}

// TestMetrics: the values are those of the pass, by Prometheus's own parser.
func TestMetrics(t *testing.T) {
	text := string(Metrics(observed()).Text())
	for _, line := range []string{
		`pcs_capacity_reservation_fence_timestamp_seconds{partition="gpu",slot="gpu",reservation="cr-1"} 1795260000`,
		`pcs_capacity_reservation_instances{partition="gpu",slot="gpu",reservation="cr-1"} 4`,
		`pcs_capacity_reservation_usable_instances{partition="gpu",slot="gpu",reservation="cr-1"} 3`,
		`pcs_capacity_reservation_open{partition="gpu",slot="gpu",reservation="cr-1"} 1`,
		`pcs_capacity_nodes{partition="gpu",slot="gpu",state="busy"} 1`,
		`pcs_capacity_nodes{partition="gpu",slot="gpu",state="idle"} 1`,
		`pcs_capacity_nodes{partition="gpu",slot="gpu",state="booting"} 1`,
		`pcs_capacity_nodes{partition="gpu",slot="gpu",state="off"} 1`,
		`pcs_capacity_jobs_waiting{partition="gpu"} 2`,
		`pcs_capacity_jobs_running{partition="gpu"} 1`,
		`pcs_capacity_problems 1`,
		`pcs_capacity_problems_by_code{code="host-impaired",severity="admin"} 1`,
		`pcs_capacity_problems_by_code{code="never-starts",severity="user"} 2`,
		`pcs_capacity_last_pass_slurm_answered 1`,
		`pcs_capacity_clock_offset_seconds 1.5`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}

	var parser expfmt.TextParser
	if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
		t.Error(err)
	}

	snap, report := observed()
	report.Cluster, report.Jobs = nil, nil
	if text := string(Metrics(snap, report).Text()); strings.Contains(text, "pcs_capacity_nodes") ||
		!strings.Contains(text, "pcs_capacity_last_pass_slurm_answered 0") {
		t.Errorf("without Slurm:\n%s", text)
	}
}

// Every metric in the dashboard is one that is written, and every one of them is explained.
func TestDashboardShowsWhatIsWritten(t *testing.T) {
	dashboard, err := os.ReadFile("../../docs/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}

	if !json.Valid(dashboard) {
		t.Error("docs/dashboard.json is no JSON")
	}

	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}

	var written []string
	for name := range Metrics(observed()) {
		written = append(written, name)
		if !bytes.Contains(page, []byte("`"+strings.TrimPrefix(name, "pcs_capacity_")+"`")) {
			t.Errorf("docs/operations.md does not explain %s", name)
		}
	}

	shown := regexp.MustCompile(`pcs_capacity_\w+`).FindAllString(string(dashboard), -1)
	if len(shown) < 8 {
		t.Errorf("the dashboard shows %q", shown)
	}

	for _, name := range shown {
		if !slices.Contains(written, name) {
			t.Errorf("the dashboard asks for %s, which nobody writes", name)
		}
	}
}

// TestAfter: a pass leaves the file, and tells each thing once.
func TestAfter(t *testing.T) {
	dir := t.TempDir()
	command := filepath.Join(dir, "tell")
	if err := os.WriteFile(command, []byte("#!/bin/sh\ncat >>"+dir+"/said\n"), 0o755); err != nil {
		t.Fatal(err)
	}

	from := Sources{
		World:  World{State: state.Dir(filepath.Join(dir, "state"))},
		Notify: notify.Target{Command: command, Timeout: time.Minute},
	}
	if err := from.State.Create(); err != nil {
		t.Fatal(err)
	}

	snap, report := observed()
	report.Add(checkReservations(View{Snap: snap, Now: report.At})...)

	for range 2 {
		if problems := Publish(t.Context(), from, snap, report); len(problems) > 0 {
			t.Error(problems)
		}
	}

	said, err := os.ReadFile(dir + "/said")
	if err != nil || strings.Count(string(said), `"code":"opened"`) != 1 ||
		strings.Count(string(said), `"code":"host-failed"`) != 1 {
		t.Errorf("%v: %s", err, said)
	}

	if _, err := os.Stat(filepath.Join(string(from.State), metricsFile)); err != nil {
		t.Error(err)
	}
}

// Each trouble is told with what to do, and what is none is not.
func TestTroubles(t *testing.T) {
	now := block("cr-0", "-1h", "24h", capacity.StateActive)
	now.Total, now.AZID = 4, "use2-az1"
	short := now
	short.End = at("40m30s")
	hurt := now
	hurt.Unhealthy = 1
	impaired := now
	impaired.Interconnect = true
	over := block("cr-9", "-48h", "-1h", capacity.StateExpired)
	over.Unhealthy = 1
	unpaid := block("cr-9", "-1h", "24h", capacity.StatePaymentFailed)
	elsewhere := block("cr-x", "-48h", "-1h", capacity.StateExpired) // of no partition
	gpu := func(j capacity.Job) capacity.Job {
		j.Partition, j.State, j.Shown = "gpu", "PENDING", "7"
		return j
	}
	failed := state.Record{
		At:        at("-1h"),
		Hook:      "resume",
		Partition: "gpu",
		Nodes:     "gpu-[1-2]",
		Code:      "ReservationCapacityExceeded",
		Message:   "no place",
	}
	with := func(change func(*state.Record)) state.Record {
		r := failed
		change(&r)
		return r
	}

	launchFailed := func(severity capacity.Severity, nodes, sentence string) capacity.Problem {
		return capacity.Problem{
			Code:     "launch-failed",
			Severity: severity,
			About:    capacity.Subject{Partition: "gpu", Node: nodes},
			Sentence: sentence,
		}
	}

	const launch = "partition gpu: nodes gpu-[1-2] failed to launch at 2026-11-20 11:00 UTC: " +
		"ReservationCapacityExceeded: no place"

	tooMany := "the job needs 5 nodes, but the largest reservation of partition gpu that it may use has 4; ask for less"
	for name, c := range map[string]struct {
		rs      []capacity.Reservation
		jobs    []capacity.Job
		records []state.Record
		want    []capacity.Problem
	}{
		"none": {rs: []capacity.Reservation{now, elsewhere}},
		"a host has failed": {
			rs: []capacity.Reservation{hurt},
			want: []capacity.Problem{
				{
					Code:     capacity.HostFailed,
					Severity: capacity.Admin,
					About:    capacity.Subject{Partition: "gpu", Reservation: "cr-0"},
					Sentence: "partition gpu: 1 of 4 hosts of cr-0 have failed, 3 are usable",
					Fix:      "open a case with AWS Support",
				},
			},
		},
		"its network is ill": {
			rs: []capacity.Reservation{impaired},
			want: []capacity.Problem{
				{
					Code:     capacity.HostImpaired,
					Severity: capacity.Admin,
					About:    capacity.Subject{Partition: "gpu", Reservation: "cr-0"},
					Sentence: "partition gpu: EC2 reports that the network between the instances of cr-0 is impaired",
					Fix:      "open a case with AWS Support",
				},
			},
		},
		"one of two is over": {
			rs: []capacity.Reservation{now, over},
			want: []capacity.Problem{
				{
					Code:     "reservation-ended",
					Severity: capacity.Note,
					About:    capacity.Subject{Partition: "gpu"},
					Sentence: "partition gpu: these reservations have ended and can be removed from the settings: " +
						"cr-9 (expired)",
				},
			},
		},
		"a payment failed": {rs: []capacity.Reservation{now, unpaid}, want: []capacity.Problem{
			{
				Code:     "never-opens",
				Severity: capacity.Admin,
				About:    capacity.Subject{Partition: "gpu"},
				Sentence: "partition gpu: these reservations will never open; remove them from the settings: cr-9 " +
					"(payment-failed)",
			},
		}},
		"a launch failed": {
			rs:      []capacity.Reservation{now},
			records: []state.Record{failed},
			want:    []capacity.Problem{launchFailed(capacity.Admin, "gpu-[1-2]", launch)},
		},
		"one of several, once each": {
			rs: []capacity.Reservation{now},
			want: []capacity.Problem{
				launchFailed(capacity.Admin, "gpu-[1-2]", launch),
				launchFailed(capacity.Admin, "gpu-3", strings.Replace(launch, "gpu-[1-2]", "gpu-3", 1)),
			},
			records: []state.Record{failed, failed, with(func(r *state.Record) { r.Nodes = "gpu-3" })},
		},
		"a launch was refused for what the job asks": {
			rs:      []capacity.Reservation{now},
			records: []state.Record{with(func(r *state.Record) { r.Code = "too-long" })},
			want: []capacity.Problem{
				launchFailed(capacity.User, "gpu-[1-2]",
					strings.Replace(launch, "ReservationCapacityExceeded", "too-long", 1)),
			},
		},
		"a launch failed long ago": {
			rs:      []capacity.Reservation{now},
			records: []state.Record{with(func(r *state.Record) { r.At = at("-1h1s") })},
		},
		"another partition's": {
			rs:      []capacity.Reservation{now},
			records: []state.Record{with(func(r *state.Record) { r.Partition = "other" })},
		},
		"another hook's": {
			rs:      []capacity.Reservation{now},
			records: []state.Record{with(func(r *state.Record) { r.Hook = "suspend" })},
		},
		"the next launch of the nodes was fine": {
			rs:      []capacity.Reservation{now},
			records: []state.Record{failed, with(func(r *state.Record) { r.Code = "ok" })},
		},
		"the next launches of the nodes, each by itself, were fine": {
			rs: []capacity.Reservation{now},
			records: []state.Record{
				failed,
				with(func(r *state.Record) { r.Nodes, r.Code = "gpu-2", "ok" }),
				with(func(r *state.Record) { r.Nodes, r.Code, r.Partition = "gpu-[1,3]", "ok", "lent" }),
			},
		},
		"the next launch of one node was fine": {
			rs:      []capacity.Reservation{now},
			records: []state.Record{failed, with(func(r *state.Record) { r.Nodes, r.Code = "gpu-2", "ok" })},
			want: []capacity.Problem{
				launchFailed(capacity.Admin, "gpu-1", strings.Replace(launch, "gpu-[1-2]", "gpu-1", 1)),
			},
		},
		"a job that can never start": {
			rs:   []capacity.Reservation{now},
			jobs: []capacity.Job{gpu(capacity.Job{NumNodes: 5, TimeLimit: capacity.Minutes(60)})},
			want: []capacity.Problem{
				{
					Code:     capacity.NeverStarts,
					Severity: capacity.User,
					About:    capacity.Subject{Partition: "gpu", Job: "7"},
					Sentence: "job 7 cannot start as things are: " + tooMany,
				},
			},
		},
		"one that could with a shorter limit": {
			rs:   []capacity.Reservation{now},
			jobs: []capacity.Job{gpu(capacity.Job{NumNodes: 1, TimeLimit: capacity.Minutes(3000)})},
			want: []capacity.Problem{{
				Code:     capacity.NeverStarts,
				Severity: capacity.User,
				About:    capacity.Subject{Partition: "gpu", Job: "7"},
				Sentence: "job 7 cannot start as things are: the job needs 2-02:00:00, but jobs on cr-0 in " +
					"partition gpu must end by 2026-11-21 11:20 UTC. " +
					"Use --time=23:20:00 or less",
			}},
		},
		"one behind others": {
			rs: []capacity.Reservation{now},
			want: []capacity.Problem{
				launchFailed(capacity.Admin, "gpu-[1-2]", launch),
				{
					Code:     capacity.NeverStarts,
					Severity: capacity.User,
					About:    capacity.Subject{Partition: "gpu", Job: "9"},
					Sentence: "job 9 cannot start as things are: " + tooMany,
				},
			},
			jobs: []capacity.Job{
				{Partition: "gpu", State: "RUNNING", NumNodes: 5},
				gpu(capacity.Job{NumNodes: 4, TimeLimit: capacity.Minutes(60)}),
				{Partition: "gpu", State: "PENDING", Shown: "9", NumNodes: 5, TimeLimit: capacity.Minutes(60)},
			},
			records: []state.Record{with(func(r *state.Record) { r.Hook = "suspend" }), failed},
		},
		"one for which no limit fits": {
			rs:   []capacity.Reservation{short},
			jobs: []capacity.Job{gpu(capacity.Job{NumNodes: 1, TimeLimit: capacity.Minutes(60)})},
			want: []capacity.Problem{
				{
					Code:     capacity.NeverStarts,
					Severity: capacity.User,
					About:    capacity.Subject{Partition: "gpu", Job: "7"},
					Sentence: "job 7 cannot start as things are: the job needs 01:00:00, but jobs on cr-0 in " +
						"partition gpu must end by 2026-11-20 12:00 UTC and no time is left before that; wait for " +
						"the next block",
				},
			},
		},
		"one that fits": {
			rs:   []capacity.Reservation{now},
			jobs: []capacity.Job{gpu(capacity.Job{NumNodes: 4, TimeLimit: capacity.Minutes(60)})},
		},
		"one that runs": {
			rs:   []capacity.Reservation{now},
			jobs: []capacity.Job{{Partition: "gpu", State: "RUNNING", NumNodes: 5}},
		},
		"one elsewhere": {
			rs:   []capacity.Reservation{now},
			jobs: []capacity.Job{{Partition: "cpu", State: "PENDING", NumNodes: 5}},
		},
		"or in a partition that takes it": {
			rs:   []capacity.Reservation{now},
			jobs: []capacity.Job{{Partition: "cpu,gpu", State: "PENDING", NumNodes: 5}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			snap := oneSlot("ec2", []string{"cr-0", "cr-9"}, c.rs...)
			group := &snap.Partitions[0].Groups[0]
			group.PurchaseOption, group.Subnets = capacity.CapacityBlock, []capacity.Subnet{
				{ID: "subnet-0", AZID: "use2-az1"},
			}
			snap.TakenAt, snap.Submit = noon, capacity.Submit{
				Strict:     true,
				StaleAfter: capacity.Duration{Duration: time.Hour},
			}
			snap.Add(checkReservations(View{Snap: snap, Now: noon})...)

			if diff := cmp.Diff(c.want, PartitionProblems(snap, c.jobs, c.records, noon)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What keeps nodes from coming back is a problem of the lender and of its spare partition, and so is a failed launch.
func TestProblemsOfSparePartitions(t *testing.T) {
	snap := oneSlot("ec2", nil)
	snap.Partitions[0].Spare.Name = "scavenge"
	snap.Add(
		capacity.Problemf(capacity.NotPreempted, capacity.Subject{Partition: "scavenge"}, "", "kept"),
		capacity.Problemf(capacity.HostFailed, capacity.Subject{Partition: "gpu"}, "", "broken"),
		capacity.Problemf(capacity.HostFailed, capacity.Subject{}, "", "elsewhere"),
	)

	launch := state.Record{Hook: "resume", Code: "no", Partition: "gpu", Nodes: "gpu-1", At: noon}
	for _, name := range []string{"gpu", "scavenge"} {
		alone := *snap
		p, _ := snap.Partition(name)
		alone.Partitions = []capacity.Partition{p}

		var said []string
		for _, p := range PartitionProblems(&alone, nil, []state.Record{launch}, noon) {
			said = append(said, string(p.Code))
		}

		if want := []string{"not-preempted", "host-failed", "launch-failed"}; !slices.Equal(said, want) {
			t.Errorf("of %s: %v", name, said)
		}
	}
}

// What a verdict is remembered by has all that a request is made of.
func TestAsksIsAllOfARequest(t *testing.T) {
	snap := &capacity.Snapshot{}

	request := func(j capacity.Job) string { return fmt.Sprintf("%+v", snap.Request(j)) }
	for i := range reflect.TypeFor[capacity.Job]().NumField() {
		field := reflect.TypeFor[capacity.Job]().Field(i)

		var j capacity.Job
		switch v := reflect.ValueOf(&j).Elem().Field(i); v.Interface().(type) {
		case string:
			v.SetString("x")
		case int:
			v.SetInt(7)
		case bool:
			v.SetBool(true)
		case []string:
			v.Set(reflect.ValueOf([]string{"x"}))
		case time.Time:
			v.Set(reflect.ValueOf(at("1h")))
		case capacity.Limit:
			v.Set(reflect.ValueOf(capacity.Minutes(7)))
		default:
			t.Fatalf("a field of another type: %s", field.Name)
		}

		requests := request(j) != request(capacity.Job{})
		asked := keyOf(&j, at("0s")) != keyOf(&capacity.Job{}, at("0s"))

		if requests && !asked {
			t.Errorf("a request has %s, and what its verdict is remembered by has not", field.Name)
		}
	}
}
