package power

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// What the power hooks decide before they act.

// noon is when the time of a test begins: see testing/synctest.
var noon = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	one, two, ended              = "cr-0aaaaaaaaaaaaaaa1", "cr-0aaaaaaaaaaaaaaa2", "cr-0aaaaaaaaaaaaaaa0"
	subnet1, subnet2, subnetToo  = "subnet-00000000000000001", "subnet-00000000000000002", "subnet-00000000000000003"
	wanted, second, unlikelyType = "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge"
)

// twoReservations is a slot with an ended reservation and two that have room for 2 of 4, in
// two zones, for account nlp alone.
func twoReservations() *capacity.Snapshot {
	reservation := func(id, zone string, state capacity.State) capacity.Reservation {
		return capacity.Reservation{
			ID: id, Kind: capacity.ODCR, State: state, InstanceType: wanted,
			AZID: zone, Total: 4, Available: 2, Start: noon.Add(-time.Hour),
		}
	}

	return &capacity.Snapshot{
		Partitions: []capacity.Partition{{
			Name: "gpu", AllowAccounts: []string{"nlp"},
			Groups: []capacity.NodeGroup{{
				Name: "gpu", InstanceType: wanted, PurchaseOption: capacity.ODCR, MaxNodes: 8,
				Subnets: []capacity.Subnet{
					{ID: subnet1, AZID: "az1"},
					{ID: subnet2, AZID: "az2"},
					{ID: subnetToo, AZID: "az2"},
				},
				Slots: []capacity.Slot{{Name: "gpu", ReservationIDs: []string{ended, two, one}}},
			}},
		}},
		Reservations: []capacity.Reservation{reservation(one, "az1", capacity.StateActive), reservation(two, "az2",
			capacity.StateActive), reservation(ended, "az1", capacity.StateCancelled)},
	}
}

// roomyReservations are the two with room for 8.
func roomyReservations() *capacity.Snapshot {
	snap := twoReservations()
	for i := range snap.Reservations {
		snap.Reservations[i].Available = 8
		snap.Reservations[i].Total = 8
	}

	return snap
}

// newFacts are those of a power-up of nodes gpu-1 to gpu-8 of the slot.
func newFacts(snap *capacity.Snapshot) launchFacts {
	settings := capacity.Settings{
		Partitions: []capacity.PartitionSettings{
			{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "gpu", MaxNodes: 8}}},
		},
	}

	return launchFacts{
		settings:  settings,
		mark:      "ml",
		snap:      snap,
		now:       noon,
		since:     noon.Add(-clockSlack),
		live:      map[string][]capacity.Instance{},
		templates: map[string]template{"": {version: "lt-1:1"}},
	}
}

func nlp(id int, nodes ...string) capacity.Job {
	return capacity.Job{ID: id, Shown: fmt.Sprint(id), Account: "nlp", Nodes: nodes, State: "RUNNING"}
}

// Large groups are planned first, and take the room; groups that can go to the same places share calls.
func TestPlan(t *testing.T) {
	stranger := nlp(9, "gpu-8")
	stranger.Account = "vision"
	groups := []group{
		{nodes: []string{"gpu-1"}, jobs: []capacity.Job{nlp(1, "gpu-1")}},
		{nodes: []string{"gpu-8"}, jobs: []capacity.Job{stranger}},
		{nodes: []string{"gpu-2"}, jobs: []capacity.Job{nlp(2, "gpu-2")}},
		{nodes: []string{"gpu-3", "gpu-4"}, jobs: []capacity.Job{nlp(3, "gpu-3", "gpu-4")}},
		{nodes: []string{"gpu-5"}, lost: []int{7}},
		{nodes: []string{"gpu-6"}},
	}
	u := newFacts(twoReservations())
	taken := map[string]int{}

	ready, refused := u.plan(groups, taken)

	var got []string
	for _, groups := range ready {
		text := ""
		for _, g := range groups {
			text += strings.Join(g.parts[0].nodes, ",") + " "
		}

		for _, target := range groups[0].parts[0].targets {
			text += " " + target.reservationID
		}

		got = append(got, text)
	}

	want := []string{
		// the first of the settings is full with two nodes, and in the end both are
		"gpu-3,gpu-4 gpu-6  " + two + " " + one,
		"gpu-1 gpu-2  " + one + " " + two,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	var codes []string
	for _, r := range refused {
		p, _ := problemOf(r.err)
		codes = append(codes, r.nodes[0]+" "+string(p.Code))
	}

	if diff := cmp.Diff([]string{"gpu-8 account-not-allowed", "gpu-5 job-gone"}, codes); diff != "" {
		t.Errorf("refused (-want +got)\n%s", diff)
	}

	if taken[two] != 3 || taken[one] != 2 {
		t.Errorf("taken: %v", taken)
	}
}

// Nodes of one job in two slots are two parts; none is launched if one cannot be.
func TestPartsOfTwoSlots(t *testing.T) {
	snap := twoReservations()
	g := &snap.Partitions[0].Groups[0]
	g.Slots = []capacity.Slot{
		{Name: "gpu-a", ReservationIDs: []string{one}},
		{Name: "gpu-b", ReservationIDs: []string{two}},
	}
	u := newFacts(snap)
	u.settings.Partitions[0].Groups[0].Slots = 2

	nodes := []string{"gpu-a-1", "gpu-a-2", "gpu-b-1"}
	both := group{nodes: nodes, jobs: []capacity.Job{nlp(1, nodes...)}}

	parts, err := u.splitBySlot(both, map[string]int{})
	if err != nil || len(parts) != 2 || len(parts[0].nodes) != 2 || parts[0].targets[0].reservationID != one ||
		len(parts[1].nodes) != 1 ||
		parts[1].targets[0].reservationID != two {
		t.Errorf("%v, %+v", err, parts)
	}

	snap.Reservations[1].State = capacity.StateCancelled

	u = newFacts(snap)
	u.settings.Partitions[0].Groups[0].Slots = 2
	taken := map[string]int{}

	parts, err = u.splitBySlot(both, taken)
	if err == nil || len(taken) != 0 {
		t.Errorf("without one of them: %+v, taken %v", parts, taken)
	}
}

// What is said of one job is said of another only if they are alike.
func TestAdmitKeepsJobsApart(t *testing.T) {
	snap := twoReservations()
	snap.Reservations[0].End = noon.Add(time.Hour)
	snap.Partitions[0].MinTime = capacity.Duration{Duration: 2 * time.Hour}
	snap.Partitions[0].Spare.Name = "scavenge"
	snap.Partitions[0].Groups[0].Slots = []capacity.Slot{
		{Name: "gpu-a", ReservationIDs: []string{one}},
		{Name: "gpu-b", ReservationIDs: []string{two}},
	}
	u := newFacts(snap)

	u.settings.Partitions[0].Groups[0].Slots = 2
	alike := nlp(1, "gpu-b-1")
	job := func(change func(*capacity.Job)) capacity.Job {
		j := alike
		change(&j)
		return j
	}
	for name, c := range map[string]struct {
		job  capacity.Job
		node string
		want capacity.Code
	}{
		"as it is": {alike, "gpu-b-1", capacity.OK},
		"a slot":   {alike, "gpu-a-1", capacity.TooLong},
		"a limit":  {job(func(j *capacity.Job) { j.TimeLimit = capacity.Minutes(10) }), "gpu-a-1", capacity.OK},
		"a spare partition": {
			job(func(j *capacity.Job) { j.Account, j.Partition = "vision", "scavenge" }), "gpu-b-1", capacity.OK,
		},
		"an owner": {job(func(j *capacity.Job) { j.Account = "vision" }), "gpu-b-1", capacity.AccountNotAllowed},
		"a comment": {
			job(func(j *capacity.Job) { j.Comment = "capacity_reservation_id=cr-0aaaaaaaaaaaaaaa9" }),
			"gpu-b-1",
			capacity.UnknownReservation,
		},
		"a size": {
			job(func(j *capacity.Job) { j.Nodes = slices.Repeat(j.Nodes, 5) }),
			"gpu-b-1",
			capacity.TooManyNodes,
		},
	} {
		if _, v := u.admit(c.job, u.place(t, c.node)); v.Code != c.want {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func (f launchFacts) place(t *testing.T, node string) slotInfo {
	t.Helper()

	at, ok := slotOf(f.settings, node)
	if !ok {
		t.Fatalf("%s is not ours", node)
	}

	return at
}

// The tags of a launch say whose it is, what for, and which nodes.
func TestTagsOfALaunch(t *testing.T) {
	r := newFacts(nil)
	jobs := func(shown ...string) (all []capacity.Job) {
		for _, s := range shown {
			all = append(all, capacity.Job{Shown: s})
		}
		return all
	}
	if diff := cmp.Diff(map[string]string{
		capacity.TagCluster: "ml", capacity.TagPartition: "gpu", capacity.TagName: "gpu-1", capacity.TagNode: "gpu-1",
		capacity.TagNodes: "gpu-1", capacity.TagReservation: one, capacity.TagJob: "7,8_[1-3]",
	}, r.tags(jobs("8_1", "8_2", "7", "8_3"), "gpu", []string{"gpu-1"}, one)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	tags := r.tags(nil, "gpu", []string{"gpu-1", "gpu-2"}, "")
	for _, key := range []string{capacity.TagNode, capacity.TagReservation, capacity.TagJob} {
		if value, there := tags[key]; there {
			t.Errorf("two nodes on demand, for no job: %s=%s", key, value)
		}
	}
	// Every second one of 200, so that the hostlist is long.
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("gpu-%d", 1001+2*i))
	}

	tags = r.tags(jobs(strings.Repeat("1234567 ", 60)), "gpu", many, one)
	for key, value := range tags {
		if len(value) > capacity.MaxTagValue {
			t.Errorf("%s has %d bytes", key, len(value))
		}
	}

	if nodes, err := hostlist.Expand(capacity.LaunchedNodes(tags)); err != nil || !slices.Equal(nodes, many) {
		t.Errorf("%v, %v", err, nodes)
	}
}

// What counts as a failure of a job is a run of it that failed within two hours; several power-ups of one run, each for
// some of its nodes, are one.
func TestFailuresAreCounted(t *testing.T) {
	failed := func(ago time.Duration, code string, restarts int, jobs ...string) state.Record {
		return state.Record{
			At:       noon.Add(-ago),
			Hook:     "resume",
			Code:     code,
			Jobs:     jobs,
			Restarts: slices.Repeat([]int{restarts}, len(jobs)),
		}
	}
	suspend, refused := failed(time.Hour, "not-open", 7, "1"), failed(time.Hour, string(capacity.BadComment), 8, "2")
	suspend.Hook, refused.Restarts = "suspend", nil

	records := []state.Record{
		failed(failureMemory+time.Second, "not-open", 0, "1"),
		failed(failureMemory, "not-open", 1, "1"),
		failed(time.Hour, "not-open", 2, "1", "2"),
		failed(time.Hour, "no-place", 2, "2"),
		failed(0, string(capacity.OK), 3, "1"),
		suspend,
		refused,
	}
	if diff := cmp.Diff(map[string]int{"1": 2, "2": 1}, countFailures(records, noon)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLaunchGroups(t *testing.T) {
	holds := func(ids ...int) []capacity.Job {
		var jobs []capacity.Job
		for _, id := range ids {
			jobs = append(jobs, capacity.Job{ID: id, State: "RUNNING"})
		}

		return jobs
	}

	type want struct {
		Nodes []string
		Jobs  []int
		Lost  []int
	}
	for name, test := range map[string]struct {
		nodes []string
		waits []capacity.ResumeJob
		known []capacity.Job
		want  []want
	}{
		"no job: each node for itself": {
			nodes: []string{"a", "b"},
			want:  []want{{Nodes: []string{"a"}}, {Nodes: []string{"b"}}},
		},
		"a job is one group": {
			nodes: []string{"a", "b", "c"},
			waits: []capacity.ResumeJob{{ID: 1, Nodes: []string{"a", "c"}}},
			known: holds(1),
			want:  []want{{Nodes: []string{"a", "c"}, Jobs: []int{1}}, {Nodes: []string{"b"}}},
		},
		"a chain of shared nodes": {
			nodes: []string{"a", "b", "c", "d"}, known: holds(3, 1, 2),
			waits: []capacity.ResumeJob{
				{ID: 3, Nodes: []string{"c", "d"}},
				{ID: 1, Nodes: []string{"a", "b"}},
				{ID: 2, Nodes: []string{"b", "c"}},
			},
			want: []want{{Nodes: []string{"a", "b", "c", "d"}, Jobs: []int{1, 2, 3}}},
		},
		"named in the file and by squeue": {
			nodes: []string{"a", "b"},
			waits: []capacity.ResumeJob{{ID: 1, Nodes: []string{"a"}}, {ID: 1, Nodes: []string{"a", "b"}}},
			known: holds(1),
			want:  []want{{Nodes: []string{"a", "b"}, Jobs: []int{1}}},
		},
		"nodes of others": {
			nodes: []string{"a"},
			waits: []capacity.ResumeJob{{ID: 2, Nodes: []string{"x"}}, {ID: 1, Nodes: []string{"x", "a", "y"}}},
			known: holds(1, 2),
			want:  []want{{Nodes: []string{"a"}, Jobs: []int{1}}},
		},
		"a job that ended": {
			nodes: []string{"a"}, waits: []capacity.ResumeJob{{ID: 1, Nodes: []string{"a"}}},
			want: []want{{Nodes: []string{"a"}, Lost: []int{1}}},
		},
		"a job that was requeued meanwhile": {
			nodes: []string{"a"},
			waits: []capacity.ResumeJob{{ID: 1, Nodes: []string{"a"}}},
			known: []capacity.Job{{ID: 1}},
			want:  []want{{Nodes: []string{"a"}, Lost: []int{1}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []want
			for _, g := range launchGroups(test.nodes, test.waits, test.known) {
				w := want{Nodes: g.nodes, Lost: g.lost}
				for _, j := range g.jobs {
					w.Jobs = append(w.Jobs, j.ID)
				}

				got = append(got, w)
			}

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A repetition of a power-up is the same launch, and any other power-up another.
func TestLaunchToken(t *testing.T) {
	job := []capacity.Job{{ID: 7, Restarts: 1}}
	token := func(
		cluster string, after time.Duration, jobs []capacity.Job, nodes string, attempt int, what string,
	) string {
		names, err := hostlist.Expand(nodes)
		if err != nil {
			t.Fatal(err)
		}

		f := launchFacts{mark: cluster, now: noon.Add(after)}

		return f.launchToken(jobs, names, attempt, strings.Fields(what)...)
	}

	const what = "cr-1 subnet-1 p5.48xlarge lt-1:1"

	base, none := token("lab", 0, job, "gpu-[1-2]", 0, what), token("lab", 0, nil, "gpu-[1-2]", 0, what)
	if len(base) > 64 {
		t.Errorf("EC2 takes 64 characters, not %d", len(base))
	}

	if token("lab", 48*time.Hour, job, "gpu-[1-2]", 0, what) != base ||
		token("lab", 9*time.Second, nil, "gpu-[1-2]", 0, what) != none {
		t.Error("a repetition must be the same launch; of nodes without a job, at once")
	}

	for name, other := range map[string]string{
		"requeued":      token("lab", 0, []capacity.Job{{ID: 7, Restarts: 2}}, "gpu-[1-2]", 0, what),
		"another job":   token("lab", 0, []capacity.Job{{ID: 71}}, "gpu-[1-2]", 0, what),
		"two jobs":      token("lab", 0, append(job, capacity.Job{ID: 8}), "gpu-[1-2]", 0, what),
		"other nodes":   token("lab", 0, job, "gpu-[1-3]", 0, what),
		"other cluster": token("lab2", 0, job, "gpu-[1-2]", 0, what),
		"next attempt":  token("lab", 0, job, "gpu-[1-2]", 1, what),
		"another block": token("lab", 0, job, "gpu-[1-2]", 0, "cr-2 subnet-1 p5.48xlarge lt-1:1"),
		"a new version": token("lab", 0, job, "gpu-[1-2]", 0, "cr-1 subnet-1 p5.48xlarge lt-1:2"),
		"no job":        none,
		"later":         token("lab", 10*time.Second, nil, "gpu-[1-2]", 0, what),
	} {
		if other == base || name == "later" && other == none {
			t.Errorf("%s: must be another launch", name)
		}
	}
}

// Eight and a half minutes before a fence, with a min_time of 30: a job that states less may run, and so may nodes that
// one may get.
func TestTargetsBeforeAFence(t *testing.T) {
	snap := twoReservations()

	snap.Partitions[0].Provider = capacity.ProviderEC2
	snap.Timing.BootAllowance.Duration = time.Minute
	snap.Partitions[0].MinTime.Duration = 30 * time.Minute
	for i := range snap.Reservations {
		snap.Reservations[i].End = noon.Add(8*time.Minute + 30*time.Second)
	}

	at := slotInfo{
		partition: capacity.PartitionSettings{Name: "gpu"},
		group:     capacity.GroupSettings{Name: "gpu"},
		name:      "gpu",
	}

	f := launchFacts{snap: snap, now: noon}
	for name, c := range map[string]struct {
		limit, least capacity.Limit
		fits         bool
	}{
		"two minutes":                       {limit: capacity.Minutes(2), fits: true},
		"at least two, and Slurm gave more": {limit: capacity.Minutes(8), least: capacity.Minutes(2), fits: true},
		"eight minutes":                     {limit: capacity.Minutes(8)},
		"an hour":                           {limit: capacity.Minutes(60)},
	} {
		j := nlp(1, "gpu-1")
		j.TimeLimit, j.TimeMin = c.limit, c.least
		if _, err := f.targets([]capacity.Job{j}, at, 1, nil); (err == nil) != c.fits {
			t.Errorf("%s: %v", name, err)
		}
	}

	if _, err := f.targets(nil, at, 1, nil); err != nil {
		t.Errorf("no job: %v", err)
	}
}

func TestChooseTargets(t *testing.T) {
	snap := twoReservations()

	at := slotInfo{
		partition: capacity.PartitionSettings{Name: "gpu"},
		group:     capacity.GroupSettings{Name: "gpu"},
		name:      "gpu",
	}
	job := func(account, comment string) capacity.Job {
		return capacity.Job{ID: 7, Account: account, Comment: comment}
	}

	const inOne, inTwo = one + " " + subnet1, two + " " + subnet2
	for name, test := range map[string]struct {
		jobs  []capacity.Job
		nodes int
		taken map[string]int
		want  string // RESERVATION SUBNET, in the order to try; or the code of a refusal
	}{
		"no job":                {nil, 1, nil, inTwo + " " + inOne},
		"first of the settings": {[]capacity.Job{job("nlp", "")}, 2, nil, inTwo + " " + inOne},
		"first with room":       {[]capacity.Job{job("nlp", "")}, 2, map[string]int{two: 1}, inOne + " " + inTwo},
		"named":                 {[]capacity.Job{job("nlp", "capacity_reservation_id="+one)}, 1, nil, inOne},
		"one names, one does not": {
			[]capacity.Job{job("nlp", "capacity_reservation_id="+one), job("nlp", "")},
			1,
			nil,
			inOne,
		},
		"named subnet": {
			[]capacity.Job{job("nlp", "subnet_id=subnet-00000000000000003")},
			1,
			nil,
			two + " subnet-00000000000000003",
		},
		"two names": {
			[]capacity.Job{job("nlp", "capacity_reservation_id="+one), job("nlp", "capacity_reservation_id="+two)},
			1,
			nil,
			"different-reservations",
		},
		"account": {[]capacity.Job{job("nlp", ""), job("vision", "")}, 1, nil, "account-not-allowed"},
		"of another partition": {
			[]capacity.Job{job("nlp", "capacity_reservation_id=cr-0ffffffffffffffff")},
			1,
			nil,
			"unknown-reservation",
		},
		"bad comment": {[]capacity.Job{job("nlp", "capacity_reservation_id=x")}, 1, nil, "bad-comment"},
		"too large for all": {
			[]capacity.Job{{ID: 7, Account: "nlp", Nodes: make([]string, 5)}},
			5,
			nil,
			"too-many-nodes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := launchFacts{snap: snap, now: noon}.targets(test.jobs, at, test.nodes, test.taken)

			var words []string
			for _, g := range got {
				words = append(words, g.reservationID, g.subnetID)
			}

			text := strings.Join(words, " ")
			if err != nil {
				p, _ := problemOf(err)
				text = string(p.Code)
			}

			if text != test.want {
				t.Errorf("got %q (%v), want %q", text, err, test.want)
			}
		})
	}
}

// On demand each type is tried in each subnet, in the order of the settings or the cheapest
// first, unless jobs name one; with capacity that is held first.
func TestChooseTargetsOnDemand(t *testing.T) {
	group := capacity.NodeGroup{
		Name:           "gpu",
		InstanceType:   "p5.48xlarge",
		OtherTypes:     []string{"p5e.48xlarge"},
		PurchaseOption: capacity.OnDemand,
		MaxNodes:       8,
		Subnets: []capacity.Subnet{
			{ID: "subnet-00000000000000001", AZID: "az1"},
			{ID: "subnet-00000000000000002", AZID: "az2"},
		},
		Slots: []capacity.Slot{{Name: "gpu"}},
	}
	snap := &capacity.Snapshot{
		Partitions: []capacity.Partition{
			{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.NodeGroup{group}},
		},
	}

	at := slotInfo{
		partition: capacity.PartitionSettings{Name: "gpu"},
		group:     capacity.GroupSettings{Name: "gpu"},
		name:      "gpu",
	}

	const (
		plain = "p5/az1 p5/az2 p5e/az1 p5e/az2"
		held  = "held-p5/az1 held-p5/az2 held-p5e/az1 held-p5e/az2"
	)
	for name, test := range map[string]struct {
		comments []string
		want     string
	}{
		"no job":          {nil, plain},
		"any":             {[]string{""}, plain},
		"held":            {[]string{"capacity=reserve"}, held},
		"preferred":       {[]string{"capacity=prefer"}, held + " " + plain},
		"one needs it":    {[]string{"capacity=prefer", "capacity=reserve"}, held},
		"a type is named": {[]string{"instance_type=p5e.48xlarge"}, "p5e/az1 p5e/az2"},
		"and a subnet": {
			[]string{"capacity=reserve instance_type=p5e.48xlarge subnet_id=subnet-00000000000000002"},
			"held-p5e/az2",
		},
		"two types are named": {[]string{"instance_type=p5e.48xlarge", "instance_type=p5.48xlarge"}, "mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			var jobs []capacity.Job
			for n, comment := range test.comments {
				jobs = append(jobs, capacity.Job{ID: n + 1, Comment: comment})
			}

			targets, err := launchFacts{snap: snap}.targets(jobs, at, 2, nil)

			var words []string
			for _, g := range targets {
				word := strings.TrimSuffix(g.instanceType, ".48xlarge") + "/" + g.azID
				if g.hold {
					word = "held-" + word
				}

				words = append(words, word)
			}

			got := strings.Join(words, " ")
			if err != nil {
				p, _ := problemOf(err)
				got = string(p.Code)
			}

			if got != test.want {
				t.Errorf("%s, %v, want %s", got, err, test.want)
			}
		})
	}
}
