package power

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// What the power hooks decide before they ask anybody.

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const (
	one, two, ended              = "cr-0aaaaaaaaaaaaaaa1", "cr-0aaaaaaaaaaaaaaa2", "cr-0aaaaaaaaaaaaaaa0"
	subnet1, subnet2, subnetToo  = "subnet-00000000000000001", "subnet-00000000000000002", "subnet-00000000000000003"
	wanted, second, unlikelyType = "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge"
)

// twoReservations is a slot with an ended reservation and two that have room for 2 of 4, in
// two zones, for account nlp alone.
func twoReservations() *capacity.Snapshot {
	reservation := func(id, zone string, state capacity.State) capacity.Reservation {
		return capacity.Reservation{ID: id, Kind: capacity.ODCR, State: state, InstanceType: wanted,
			AZID: zone, Total: 4, Available: 2, Start: noon.Add(-time.Hour)}
	}
	return &capacity.Snapshot{
		Partitions: []capacity.Partition{{Name: "gpu", AllowAccounts: []string{"nlp"}, Groups: []capacity.NodeGroup{{
			Name: "gpu", InstanceType: wanted, PurchaseOption: capacity.ODCR, MaxNodes: 8,
			Subnets: []capacity.Subnet{{ID: subnet1, AZID: "az1"}, {ID: subnet2, AZID: "az2"}, {ID: subnetToo, AZID: "az2"}},
			Slots:   []capacity.Slot{{Name: "gpu", ReservationIDs: []string{ended, two, one}}}}}}},
		Reservations: []capacity.Reservation{reservation(one, "az1", capacity.StateActive), reservation(two, "az2", capacity.StateActive), reservation(ended, "az1", capacity.StateCancelled)},
	}
}

// newFacts are those for the nodes gpu-1 to gpu-8 of the slot.
func newFacts(snap *capacity.Snapshot) *facts {
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "gpu", MaxNodes: 8}}}}}
	return &facts{settings: settings, cluster: "ml", snap: snap, now: noon, began: noon.Add(-time.Minute), taken: map[string]int{}, live: map[string][]capacity.Instance{},
		templates: map[string]template{"": {version: "lt-1:1"}}, all: true}
}

func nlp(id int, nodes ...string) capacity.Job {
	return capacity.Job{ID: id, Shown: fmt.Sprint(id), Account: "nlp", Nodes: nodes, State: "RUNNING"}
}

// Large groups are planned first, and take the room; groups of one node that can go to the
// same places share a call.
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
	units, refused, taken := u.plan(groups)
	var got []string
	for _, unit := range units {
		text := fmt.Sprintf("%d of ", len(unit.groups))
		for _, p := range unit.parts {
			text += strings.Join(p.nodes, ",") + " in " + p.place.slot + ":"
			for _, target := range p.targets {
				text += " " + target.reservationID
			}
		}
		got = append(got, text)
	}
	want := []string{
		"1 of gpu-3,gpu-4 in gpu: " + two + " " + one, // the first of the settings is full with them
		"2 of gpu-1,gpu-2 in gpu: " + one + " " + two,
		"1 of gpu-6 in gpu: " + two + " " + one, // now both are full
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var codes []string
	for _, r := range refused {
		codes = append(codes, r.nodes[0]+" "+r.failure.Code)
	}
	if diff := cmp.Diff([]string{"gpu-8 account-not-allowed", "gpu-5 job-gone"}, codes); diff != "" {
		t.Errorf("refused (-want +got)\n%s", diff)
	}
	if taken[two] != 3 || taken[one] != 2 || len(u.taken) != 0 {
		t.Errorf("taken: %v, before %v", taken, u.taken)
	}
}

// A group for which capacity is held shares no call: it is held for that launch alone.
func TestPlanOfHeldNodes(t *testing.T) {
	snap := twoReservations()
	g := &snap.Partitions[0].Groups[0]
	g.PurchaseOption, g.Slots[0].ReservationIDs, g.Reserve = capacity.OnDemand, nil, capacity.ReservePerJob
	groups := []group{{nodes: []string{"gpu-1"}, jobs: []capacity.Job{nlp(1, "gpu-1")}}, {nodes: []string{"gpu-2"}, jobs: []capacity.Job{nlp(2, "gpu-2")}}, {nodes: []string{"gpu-3"}}, {nodes: []string{"gpu-4"}}}
	units, refused, _ := newFacts(snap).plan(groups)
	var sizes []int
	for _, unit := range units {
		sizes = append(sizes, len(unit.groups))
	}
	if len(refused) != 0 || !slices.Equal(sizes, []int{1, 1, 2}) || !units[0].parts[0].holds() || units[2].parts[0].holds() {
		t.Errorf("%v, %+v", refused, units)
	}
}

// Nodes of one job in two slots are two parts; none is launched if one cannot be.
func TestPartsOfTwoSlots(t *testing.T) {
	snap := twoReservations()
	g := &snap.Partitions[0].Groups[0]
	g.Slots = []capacity.Slot{{Name: "gpu-a", ReservationIDs: []string{one}}, {Name: "gpu-b", ReservationIDs: []string{two}}}
	u := newFacts(snap)
	u.settings.Partitions[0].Groups[0].Slots = 2
	nodes := []string{"gpu-a-1", "gpu-a-2", "gpu-b-1"}
	parts, err := u.parts(group{nodes: nodes, jobs: []capacity.Job{nlp(1, nodes...)}})
	if err != nil || len(parts) != 2 || len(parts[0].nodes) != 2 || parts[0].targets[0].reservationID != one || len(parts[1].nodes) != 1 || parts[1].targets[0].reservationID != two {
		t.Errorf("%v, %+v", err, parts)
	}
	snap.Reservations[1].State = capacity.StateCancelled
	u = newFacts(snap)
	u.settings.Partitions[0].Groups[0].Slots = 2
	if parts, err := u.parts(group{nodes: nodes, jobs: []capacity.Job{nlp(1, nodes...)}}); err == nil || len(u.taken) != 0 {
		t.Errorf("without one of them: %+v, taken %v", parts, u.taken)
	}
}

// What is said of one job is said of another only if they are alike.
func TestAdmitKeepsJobsApart(t *testing.T) {
	snap := twoReservations()
	snap.Reservations[0].End = noon.Add(time.Hour)
	snap.Partitions[0].MinTime = capacity.Duration{Duration: 2 * time.Hour}
	snap.Partitions[0].Groups[0].Slots = []capacity.Slot{{Name: "gpu-a", ReservationIDs: []string{one}}, {Name: "gpu-b", ReservationIDs: []string{two}}}
	u := newFacts(snap)
	u.settings.Partitions[0].Groups[0].Slots = 2
	alike := nlp(1, "gpu-b-1")
	job := func(change func(*capacity.Job)) capacity.Job {
		j := alike
		change(&j)
		return j
	}
	u = u.deciding()
	for name, c := range map[string]struct {
		job  capacity.Job
		node string
		want capacity.Code
	}{
		"as it is":  {alike, "gpu-b-1", capacity.OK},
		"a slot":    {alike, "gpu-a-1", capacity.TooLong},
		"a limit":   {job(func(j *capacity.Job) { j.TimeLimit = capacity.Minutes(10) }), "gpu-a-1", capacity.OK},
		"an owner":  {job(func(j *capacity.Job) { j.Account = "vision" }), "gpu-b-1", capacity.AccountNotAllowed},
		"a comment": {job(func(j *capacity.Job) { j.Comment = "capacity_reservation_id=cr-0aaaaaaaaaaaaaaa9" }), "gpu-b-1", capacity.UnknownReservation},
		"a size":    {job(func(j *capacity.Job) { j.Nodes = slices.Repeat(j.Nodes, 5) }), "gpu-b-1", capacity.TooManyNodes},
	} {
		for range 2 {
			if _, v := u.admit(c.job, u.place(t, c.node)); v.Code != c.want {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
	if len(u.admitted) != 6 {
		t.Errorf("%d answers", len(u.admitted))
	}
}

// Nodes go where the other nodes of their job run already, full or not; what of those nodes
// is launched again now counts for nothing.
func TestTargetsBesideOtherNodes(t *testing.T) {
	for name, c := range map[string]struct {
		runs  string // a node of the job, in reservation one
		first string
	}{"no other node": {"", two}, "another node": {"gpu-3", one}, "the same node": {"gpu-1", two}, "a node of another job": {"gpu-5", two}} {
		u := newFacts(twoReservations())
		u.live[c.runs] = []capacity.Instance{{ID: "i-1", ReservationID: one}}
		job := nlp(1, "gpu-1", "gpu-2", "gpu-3")
		nodes := []string{"gpu-1", "gpu-2"}
		targets, err := u.inOrder([]capacity.Job{job}, part{place: u.place(t, "gpu-1"), nodes: nodes})
		if err != nil || len(targets) != 2 || targets[0].reservationID != c.first {
			t.Errorf("%s: %v, %+v", name, err, targets)
		}
	}
}

func (u *facts) place(t *testing.T, node string) place {
	t.Helper()
	at, ok := u.placeOf(node)
	if !ok {
		t.Fatalf("%s is not ours", node)
	}
	return at
}

// What is said of many jobs at once is a line of the log, and a record for each of them.
func TestRecordsShareALine(t *testing.T) {
	var log bytes.Buffer
	dir := state.Dir(t.TempDir())
	r := &Site{State: dir, Log: slog.New(slog.NewJSONHandler(&log, nil))}
	var records []state.Record
	for i := range 3 {
		records = append(records, state.Record{Message: "launched", Reservation: one, Nodes: fmt.Sprintf("gpu-%d", i+1), Jobs: []string{fmt.Sprint(i)}, Instances: []string{fmt.Sprintf("i-%d", i)}})
	}
	records[1].Reservation = two
	if err := r.record(records...); err != nil {
		t.Fatal(err)
	}
	var said []string
	for line := range strings.Lines(log.String()) {
		_, what, _ := strings.Cut(line, `"msg":`)
		said = append(said, strings.TrimSpace(what))
	}
	if diff := cmp.Diff([]string{
		`"launched","nodes":"gpu-[1,3]","jobs":["0","2"],"reservation":"` + one + `","code":"","aws_code":"","instances":["i-0","i-2"]}`,
		`"launched","nodes":"gpu-2","jobs":["1"],"reservation":"` + two + `","code":"","aws_code":"","instances":["i-1"]}`,
	}, said); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if kept, err := dir.Records(); err != nil || !cmp.Equal(kept, records) {
		t.Errorf("%v, %+v", err, kept)
	}
}

// The tags of a launch say whose it is, what for, and which nodes.
func TestTagsOfALaunch(t *testing.T) {
	r := newFacts(nil)
	in := target{reservationID: one}
	if diff := cmp.Diff(map[string]string{capacity.TagCluster: "ml", capacity.TagPartition: "gpu", capacity.TagName: "gpu-1", capacity.TagNode: "gpu-1",
		capacity.TagNodes: "gpu-1", capacity.TagReservation: one, capacity.TagJob: "7,8_[1-3]"}, r.tags([]string{"8_1", "8_2", "7", "8_3"}, "gpu", []string{"gpu-1"}, in)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	tags := r.tags(nil, "gpu", []string{"gpu-1", "gpu-2"}, target{})
	for _, key := range []string{capacity.TagNode, capacity.TagReservation, capacity.TagJob} {
		if value, there := tags[key]; there {
			t.Errorf("two nodes on demand, for no job: %s=%s", key, value)
		}
	}
	if value, there := r.tags(nil, "gpu", []string{"gpu-1"}, target{reservationID: one, hold: true})[capacity.TagReservation]; there {
		t.Errorf("what is held is gone soon, and still the tag says %s", value)
	}
	// Every second one of 200, so that the hostlist is long.
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("gpu-%d", 1001+2*i))
	}
	tags = r.tags([]string{strings.Repeat("1234567 ", 60)}, "gpu", many, in)
	for key, value := range tags {
		if len(value) > capacity.MaxTagValue {
			t.Errorf("%s has %d bytes", key, len(value))
		}
	}
	if nodes, err := slurm.Expand(capacity.LaunchedNodes(tags)); err != nil || !slices.Equal(nodes, many) {
		t.Errorf("%v, %v", err, nodes)
	}
}

// In a reservation: its type in its zone, and nothing else.
func TestTargetsInAReservation(t *testing.T) {
	snap := twoReservations()
	g := snap.Partitions[0].Groups[0]
	g.OtherTypes = []string{unlikelyType}
	r := snap.Reservations[1]
	r.PlacementGroup = "pg"
	want := []target{{reservationID: two, subnetID: subnet2, azID: "az2", instanceType: wanted, kind: capacity.ODCR, placementGroup: "pg"}}
	if got, err := targetsIn(g, r, nil); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %+v", err, got)
	}
	want[0].instanceType, r.InstanceType = unlikelyType, unlikelyType
	if got, err := targetsIn(g, r, nil); err != nil || !slices.Equal(got, want) {
		t.Errorf("its type is the second: %v, %+v", err, got)
	}
	r.AZID = "az3"
	if got, err := targetsIn(g, r, []capacity.Request{{Comment: "subnet_id=" + subnet1}}); err == nil || len(got) != 0 || err.Code != string(capacity.Mismatched) || !strings.Contains(err.Error(), "zone az3 that the jobs ["+subnet1+"] ask for") {
		t.Errorf("%v, %+v", err, got)
	}
	// Another reservation, in whose zone the named subnet is, stays.
	named := nlp(1, "gpu-1")
	named.Comment = "subnet_id=" + subnet1
	u := newFacts(snap)
	if got, err := u.chooseTargets([]capacity.Job{named}, u.place(t, "gpu-1"), 1); err != nil || len(got) != 1 || got[0].reservationID != one {
		t.Errorf("%v, %+v", err, got)
	}
	named.Account = "vision"
	if why := u.refusedForGood(named, u.place(t, "gpu-1")); why == nil || why.Code != string(capacity.AccountNotAllowed) || why.Error() != why.Code+": "+why.Message {
		t.Errorf("%+v", why)
	}
	named.Account = "nlp"
	if why := u.refusedForGood(named, u.place(t, "gpu-1")); why != nil {
		t.Errorf("a job that is admitted: %+v", why)
	}
	for i := range snap.Reservations {
		snap.Reservations[i].State = capacity.StatePending
	}
	u = newFacts(snap)
	if why := u.refusedForGood(named, u.place(t, "gpu-1")); why != nil {
		t.Errorf("for what time changes: %+v", why)
	}
}

// A reservation that had no room for so many nodes a short while ago comes last.
func TestFullReservationsComeLast(t *testing.T) {
	f := &facts{full: map[string]int{one: 3}}
	targets := func() []target { return []target{{reservationID: one}, {reservationID: two}} }
	for nodes, first := range map[int]string{2: one, 3: two, 4: two} {
		if got := f.passOver(targets(), nodes); got[0].reservationID != first || len(got) != 2 {
			t.Errorf("%d nodes: %+v", nodes, got)
		}
	}
}

// What counts as a failure of a job is a power-up that failed within two hours, for what its
// owner cannot change; the rest counts as a refusal, by the partition that refuses.
func TestFailuresAreCounted(t *testing.T) {
	failed := func(ago time.Duration, code string, jobs ...string) state.Record {
		return state.Record{At: noon.Add(-ago), Hook: "resume", Partition: "gpu", Code: code, Jobs: jobs}
	}
	suspend, elsewhere := failed(time.Hour, "not-open", "1"), failed(time.Hour, string(capacity.BadComment), "2")
	suspend.Hook, elsewhere.Partition = "suspend", "big"
	records := []state.Record{failed(failureMemory+time.Second, "not-open", "1"), failed(failureMemory, "not-open", "1"), failed(time.Hour, "not-open", "1", "2"),
		failed(0, string(capacity.OK), "1"), suspend, failed(0, string(capacity.BadComment), "2"), elsewhere, elsewhere}
	if diff := cmp.Diff(map[string]int{"1": 2, "2": 1, "3": 1}, failuresOf(records, []capacity.Job{{Shown: "1"}, {Shown: "3"}}, noon)); diff != "" {
		t.Errorf("failures (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(runs{"2": {-6: true}}, refusedRuns(records, "gpu", noon)); diff != "" {
		t.Errorf("refusals (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"1": 1}, failuresOf(nil, []capacity.Job{{Shown: "1"}}, noon)); diff != "" {
		t.Errorf("without records (-want +got)\n%s", diff)
	}
	// Several power-ups of one run, each for some of its nodes, are one failure.
	run := func(restarts ...int) state.Record {
		r := failed(0, string(capacity.BadComment), "4+0", "4+1")
		r.Restarts = restarts
		return r
	}
	twice := refusedRuns([]state.Record{run(0, 0), run(0, 0), run(1, 1)}, "gpu", noon)
	if first, next := twice.others(capacity.Job{Shown: "4+1", Restarts: 1}), twice.others(capacity.Job{Shown: "4+1", Restarts: 2}); first != 1 || next != 2 {
		t.Errorf("refused before: %d, %d times", first, next)
	}
}

// The jobs of nodes are those of the last launch of each that came to something, once each.
func TestLaunchedFor(t *testing.T) {
	launch := func(nodes, code string, jobs ...string) state.Record {
		return state.Record{At: noon, Hook: "resume", Code: code, Nodes: nodes, Jobs: jobs}
	}
	ok := string(capacity.OK)
	suspend := launch("gpu-2", ok, "6")
	suspend.Hook = "suspend"
	records := []state.Record{launch("gpu-[1-2]", ok, "1", "2"), launch("gpu-1", "not-open", "3"), launch("gpu-[", ok, "4"), launch("gpu-[2-4]", ok, "2", "5"), suspend}
	for nodes, want := range map[string]string{"gpu-1": "1 2", "gpu-2": "2 5", "gpu-[1,3]": "1 2 5", "gpu-9": ""} {
		names, err := slurm.Expand(nodes)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(launchedFor(names, records), " "); got != want {
			t.Errorf("%s: %q, want %q", nodes, got, want)
		}
	}
}
