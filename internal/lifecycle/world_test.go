package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

const yearWorld = `
account = "111122223333"
payment_delay = "20m"
[[instance_type]]
name = "p5.48xlarge"
vcpus = 192
memory_mib = 2097152
usage_classes = ["on-demand", "capacity-block"]
[[region]]
name = "us-east-2"
zone = [{ name = "us-east-2a", id = "use2-az1" }]
vpc = [{ id = "vpc-0e2000000000000a1", cidr = "127.2.0.0/16" }]
subnet = [{ id = "subnet-0e200000000000a01", vpc = "vpc-0e2000000000000a1", zone = "us-east-2a", cidr = "127.2.16.0/20" }]
image = [{ id = "ami-0e200000000000a01", name = "node" }]
launch_template = [{ id = "lt-0e2000000000000a1", name = "nodes", image = "ami-0e200000000000a01" }]
offering = [{ zone = "us-east-2a", type = "p5.48xlarge", max_count = 8, price = 31.464, start_days = [1, 2, 3, 4, 5, 6, 7], instant = true }]
`

// world is a simulated AWS and a model of a Slurm, with one clock each.
type world struct {
	*testing.T
	rng     *rand.Rand
	sim     *awssim.Sim
	api     *awsec2.Client // of the administrators who buy
	client  *ec2.Client
	slurm   *model
	sources Sources
	skew    time.Duration // Slurm's clock minus AWS's
	foreign map[string]capacity.SlurmReservation
	// down is until when AWS answers nothing.
	down   time.Time
	counts map[string]int
	blocks map[string]yearBlock // by id
	seen   *capacity.Snapshot   // of the last pass
	lost   map[string]int       // how many hosts of a block have failed
}

// clocked is EC2 with an offset between the two clocks.
type clocked struct {
	*ec2.Client
	w *world
}

func (c clocked) Offset() time.Duration { return -c.w.skew }

// errDown is what AWS answers while it is down; that the SDK tries again is not waited for.
var errDown = errors.New("503 Service Unavailable")

func (c clocked) ReservationsByTag(ctx context.Context, tags map[string]string) ([]capacity.Reservation, error) {
	if !c.w.down.IsZero() {
		return nil, errDown
	}
	return c.Client.ReservationsByTag(ctx, tags)
}

func (c clocked) Reservations(ctx context.Context, ids []string) ([]capacity.Reservation, []capacity.Missing, error) {
	if !c.w.down.IsZero() {
		return nil, nil, errDown
	}
	return c.Client.Reservations(ctx, ids)
}

func (c clocked) KnownSubnets(ctx context.Context, ids []string) ([]capacity.Subnet, []capacity.Missing, error) {
	if !c.w.down.IsZero() {
		return nil, nil, errDown
	}
	return c.Client.KnownSubnets(ctx, ids)
}

func (c clocked) InstancesByClusterName(ctx context.Context, name string) ([]capacity.Instance, error) {
	if !c.w.down.IsZero() {
		return nil, errDown
	}
	return c.Client.InstancesByClusterName(ctx, name)
}

var yearBegins = time.Date(2027, 1, 1, 8, 0, 0, 0, time.UTC)

func newWorld(t *testing.T, seed uint64) *world {
	scenario, err := awssim.ParseScenario("year", []byte(yearWorld))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, rng: rand.New(rand.NewPCG(seed, 7)), counts: map[string]int{}, lost: map[string]int{}, foreign: map[string]capacity.SlurmReservation{}}
	if w.sim, err = awssim.New(scenario, awssim.NewClock(yearBegins, 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.sim.Close() })
	if err := w.sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-east-2"), config.WithRetryer(func() aws.Retryer {
		return retry.AddWithMaxBackoffDelay(retry.NewStandard(), time.Millisecond)
	}))
	if err != nil {
		t.Fatal(err)
	}
	cfg.HTTPClient = within{w.sim.Handler()}
	w.api = awsec2.NewFromConfig(cfg)
	shared, err := awsconfig.Load(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}
	shared.Config.HTTPClient = cfg.HTTPClient
	w.client = ec2.From(shared)
	w.slurm = newModel(yearBegins, map[string]int{"gpu-a": 8, "gpu-b": 8, "solo": 8})
	w.slurm.block, w.slurm.reclaimed = w.blockOf, w.reclaimed
	d := func(d time.Duration) capacity.Duration { return capacity.Duration{Duration: d} }
	group := func(name string, slots int) capacity.GroupSettings {
		return capacity.GroupSettings{Name: name, InstanceType: "p5.48xlarge", SubnetIDs: []string{"subnet-0e200000000000a01"}, PurchaseOption: capacity.CapacityBlock,
			Select: &capacity.Select{Tags: map[string]string{"team": name}}, MaxNodes: 8, LaunchTemplate: "nodes", Slots: slots}
	}
	w.sources = Sources{
		Settings: capacity.Settings{Submit: capacity.Submit{Strict: true, StaleAfter: d(10 * time.Minute)},
			Timing: capacity.Timing{DrainMargin: d(10 * time.Minute), BootAllowance: d(10 * time.Minute), ReclaimLead: d(30 * time.Minute), ReclaimLeadUltraServer: d(time.Hour)},
			Partitions: []capacity.PartitionSettings{
				{Name: "gpu", Provider: capacity.ProviderEC2, MinTime: d(30 * time.Minute), OnEnd: capacity.RequeueAtEnd, Groups: []capacity.GroupSettings{group("gpu", 2)}},
				{Name: "solo", Provider: capacity.ProviderEC2, MinTime: d(30 * time.Minute), OnEnd: capacity.StopAtEnd, Groups: []capacity.GroupSettings{group("solo", 1)}}}},
		Owner: me, Poll: time.Minute,
		World: World{Slurm: w.slurm, EC2: clocked{w.client, w}, State: state.Dir(quickDir(t)), MachineTime: func() time.Time { return w.slurm.now }}}
	w.slurm.stateSave = stateSave(t)
	return w
}

// clusterMark is the mark of the cluster of these tests.
const clusterMark = "lab/0123456789abcdef"

// stateSave is slurmctld's folder, with the id of the cluster.
func stateSave(t *testing.T) string {
	dir := quickDir(t)
	for name, text := range map[string]string{"clustername": "lab", "pcs-capacity-id": strings.TrimPrefix(clusterMark, "lab/")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// within asks the simulator without a network between.
type within struct{ handler http.Handler }

func (c within) Do(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	c.handler.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// quickDir is a temporary folder in memory where there is one: a year has thousands of passes,
// and each makes sure that its files are on the disk.
func quickDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "year")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (w *world) now() time.Time { return w.sim.Clock().Now() }

// chance is true once in so many times.
func (w *world) chance(of int) bool { return w.rng.IntN(of) == 0 }

// goTo lets time pass up to a moment of AWS's clock.
func (w *world) goTo(t time.Time) {
	w.seeBlocks()
	w.slurm.advance(t.Add(w.skew))
	w.sim.Clock().Set(t)
	if !w.down.IsZero() && !t.Before(w.down) {
		w.down = time.Time{}
	}
}

// pass makes a pass, which may be killed, and then the one that follows it.
func (w *world) pass(kill bool) (*capacity.Snapshot, error) {
	w.counts["passes"]++
	w.sources.OursOnly = w.counts["passes"]%everywhere != 1 // as Watch does
	w.slurm.dieAt = 0
	if kill {
		w.slurm.calls, w.slurm.dieAt, w.slurm.dieAfter = 0, 1+w.rng.IntN(6), w.chance(2)
		dead := func() (dead bool) {
			defer func() {
				if r := recover(); r != nil {
					if _, ok := r.(killed); !ok {
						panic(r)
					}
					dead = true
				}
			}()
			_, _, _ = Pass(w.Context(), w.sources)
			return false
		}()
		w.slurm.dieAt = 0
		if dead {
			w.counts["killed"]++
		}
	}
	snap, _, err := Pass(w.Context(), w.sources)
	w.seen = snap
	return snap, err
}

func (w *world) buy(team string, count int, length time.Duration) {
	answer, err := w.api.DescribeCapacityBlockOfferings(w.Context(), &awsec2.DescribeCapacityBlockOfferingsInput{
		InstanceType: aws.String("p5.48xlarge"), InstanceCount: aws.Int32(int32(count)), CapacityDurationHours: aws.Int32(int32(length / time.Hour))})
	if err != nil || len(answer.CapacityBlockOfferings) == 0 {
		return // AWS is down
	}
	offer := answer.CapacityBlockOfferings[w.rng.IntN(len(answer.CapacityBlockOfferings))]
	if _, err = w.api.PurchaseCapacityBlock(w.Context(), &awsec2.PurchaseCapacityBlockInput{CapacityBlockOfferingId: offer.CapacityBlockOfferingId,
		InstancePlatform:  types.CapacityReservationInstancePlatformLinuxUnix,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeCapacityReservation, Tags: []types.Tag{{Key: aws.String("team"), Value: &team}}}}}); err == nil {
		w.counts["blocks"]++
	}
}

// extend buys a day more for a block.
func (w *world) extend(id string) bool {
	answer, err := w.api.DescribeCapacityBlockExtensionOfferings(w.Context(), &awsec2.DescribeCapacityBlockExtensionOfferingsInput{
		CapacityReservationId: &id, CapacityBlockExtensionDurationHours: aws.Int32(24)})
	if err != nil || len(answer.CapacityBlockExtensionOfferings) == 0 {
		return false
	}
	_, err = w.api.PurchaseCapacityBlockExtension(w.Context(), &awsec2.PurchaseCapacityBlockExtensionInput{
		CapacityBlockExtensionOfferingId: answer.CapacityBlockExtensionOfferings[0].CapacityBlockExtensionOfferingId, CapacityReservationId: &id})
	return err == nil
}

// submit submits a job as the submit filter lets it through.
func (w *world) submit(snap *capacity.Snapshot) {
	part := []string{"gpu", "solo"}[w.rng.IntN(2)]
	j := modelJob{Job: capacity.Job{Partition: part, Batch: true, Requeue: !w.chance(5), NumNodes: 1 + w.rng.IntN(3)}, work: time.Duration(10+w.rng.IntN(3000)) * time.Minute}
	j.Comment = []string{"", "", "on_end=requeue", "on_end=hold", "on_end=stop"}[w.rng.IntN(5)]
	if w.chance(2) {
		j.TimeLimit = capacity.Minutes(5 + w.rng.IntN(2000))
	}
	if w.chance(10) { // by the REST API, past the filter
		w.slurm.submit(j)
		return
	}
	req := snap.Request(j.Job)
	v := capacity.Admit(req, snap, w.now())
	if v.Refused {
		return
	}
	if v.Edits.TimeLimit.Set {
		j.TimeLimit, j.TimeMin = v.Edits.TimeLimit, v.Edits.TimeMin
	}
	if slots := strings.Split(strings.Trim(v.Edits.Constraint, "[]"), "|"); len(slots) == 1 {
		j.slot = slots[0]
	}
	w.slurm.submit(j)
	w.counts["jobs"]++
}

// forget takes jobs away that are over, and those that their users have waited for too long.
func (w *world) forget(patience time.Duration) {
	w.slurm.jobs = slices.DeleteFunc(w.slurm.jobs, func(j *modelJob) bool {
		waits := j.State == "PENDING" && w.slurm.now.Sub(j.submitted) > patience
		if j.over == "" && !waits {
			return false
		}
		w.counts["jobs that "+strings.ToLower(j.State)]++
		w.counts["restarts"] += j.Restarts
		return true
	})
}

// something happens, or nothing.
func (w *world) something(snap *capacity.Snapshot) (jumped bool) {
	for range w.rng.IntN(3) { // users of both partitions
		w.submit(snap)
	}
	live := func(states ...capacity.State) (ids []string) {
		for _, r := range snap.Reservations {
			if slices.Contains(states, r.State) && r.LiveAt(w.now()) {
				ids = append(ids, r.ID)
			}
		}
		return ids
	}
	if w.chance(12) && len(live(capacity.StateActive, capacity.StateScheduled)) < 5 {
		w.buy([]string{"gpu", "solo"}[w.rng.IntN(2)], 2+w.rng.IntN(6), time.Duration(1+w.rng.IntN(4))*24*time.Hour)
	}
	if ids := live(capacity.StateActive); w.chance(20) && len(ids) > 0 && w.extend(ids[w.rng.IntN(len(ids))]) {
		w.counts["extensions"]++
	}
	if w.chance(30) {
		w.sim.FailPayments(w.chance(3))
	}
	if ids := live(capacity.StateActive); w.chance(60) && len(ids) > 0 {
		id := ids[w.rng.IntN(len(ids))]
		made, err := w.sim.Launch(awssim.LaunchRequest{Region: "us-east-2", ReservationID: id, InstanceType: "p5.48xlarge", SubnetID: "subnet-0e200000000000a01", MinCount: 1, MaxCount: 1, MarketType: "capacity-block", ImageID: "ami-0e200000000000a01"})
		if err == nil && w.sim.FailHost("us-east-2", made[0].ID) == nil {
			_ = w.sim.Terminate("us-east-2", []string{made[0].ID}, "dead")
			w.counts["dead hosts"]++
			w.lost[id]++
		}
	}
	if w.chance(40) && w.down.IsZero() {
		w.down = w.now().Add(time.Duration(10+w.rng.IntN(230)) * time.Minute)
		w.counts["outages"]++
	}
	if w.chance(60) {
		r := reservation(fmt.Sprintf("user-%d", w.rng.IntN(5)), []string{"gpu-a-1"}, w.slurm.now.Add(time.Hour), w.slurm.now.Add(2*time.Hour))
		r.Users = []string{"alice"}
		w.slurm.put(r)
		w.foreign[r.Name] = r
	}
	if w.chance(80) {
		was := w.skew
		w.skew = time.Duration(w.rng.IntN(7200)-3600) * time.Second
		w.slurm.now = w.slurm.now.Add(w.skew - was)
		w.counts["clock jumps"]++
		return true
	}
	return false
}

// holds checks what must be so after a pass that saw AWS and Slurm.
func (w *world) holds(snap *capacity.Snapshot) {
	now := w.now()
	bad := func(format string, args ...any) {
		w.Errorf("%s: %s", now.Format(time.DateTime), fmt.Sprintf(format, args...))
	}
	ours := map[string]bool{}
	for _, s := range Slots(snap, now) {
		name := s.Slot.Name
		fence, there := w.slurm.guards(name, "fence", s.Reservation.ID)
		ours["pcs-capacity-fence-"+name], ours["pcs-capacity-surplus-"+name] = true, true
		if s.Reservation.ID != "" && s.Window.Start.After(now) {
			ours["pcs-capacity-wait-"+name] = true
			if wait, _ := w.slurm.guards(name, "wait", s.Reservation.ID); wait.Start.After(w.slurm.now) || wait.End.Sub(s.Window.Start.Add(w.skew)).Abs() > 6*time.Second {
				bad("slot %s opens at %s, and its wait is %+v", name, s.Window.Start, wait)
			}
		}
		want := s.Window.Fence.Add(w.skew)
		switch {
		case !there || len(fence.Nodes) != 8:
			bad("slot %s has fence %+v", name, fence)
		case s.Reservation.ID == "" && fence.Start.After(w.slurm.now):
			bad("slot %s has nothing, and is open until %s", name, fence.Start)
		case s.Reservation.ID != "" && want.After(w.slurm.now) && fence.Start.Sub(want).Abs() > 6*time.Second:
			bad("slot %s of %s has its fence at %s, want %s", name, s.Reservation.ID, fence.Start, want)
		}
		for _, j := range w.slurm.jobs {
			if j.State != "RUNNING" || j.Configuring() || w.slurm.slotOf(j.Nodes[0]) != name {
				continue
			}
			// R2. What is over by now ends within the minute, the least limit; it counts from
			// the start, which is to come where Slurm's clock was set back.
			if last := latest(want, latest(w.slurm.now, j.Start)); j.End.After(last.Add(time.Minute)) || !j.TimeLimit.Bounded() {
				bad("job %s on slot %s ends at %s (%s), the fence is at %s\n%s", j.Shown, name, j.End, j.TimeLimit, want, w.state())
			}
		}
	}
	for name, r := range w.slurm.reservations {
		if g := r.Guard(); ours[capacity.PlainName(name)] && g.Kind == "fence" && !w.guarded(g, snap) {
			bad("%s is left: %+v", name, r)
		}
		if !ours[capacity.PlainName(name)] && strings.HasPrefix(name, "pcs-capacity-") {
			bad("%s is left: %+v", name, r)
		}
	}
	for name, r := range w.foreign {
		if got, there := w.slurm.reservations[name]; there && !slices.Equal(got.Users, r.Users) || !there && r.End.After(w.slurm.now.Add(3*time.Hour)) {
			bad("%s was touched: %+v", name, got)
		}
	}
}

// guarded reports whether the block of a fence is live, or the last of its slot.
func (w *world) guarded(g capacity.Guard, snap *capacity.Snapshot) bool {
	if r, known := snap.Reservation(g.Block); known && r.LiveAt(w.now()) {
		return true
	}
	for _, s := range Slots(snap, w.now()) {
		if s.Slot.Name == g.Slot {
			return s.Reservation.ID == ""
		}
	}
	return false
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// block is what the simulator says of one.
type yearBlock struct {
	team       string
	start, end time.Time
	count      int
}

// seeBlocks reads the simulator's own account of the blocks that are open or will be. From those
// that ended a week ago or were never paid, administrators take their tag.
func (w *world) seeBlocks() {
	w.blocks = map[string]yearBlock{}
	var old []string
	for _, r := range w.sim.Reservations("us-east-2") {
		team := r.Tags["team"]
		switch {
		case team == "":
		case r.State == "active" || r.State == "scheduled":
			w.blocks[r.ID] = yearBlock{team, r.Start, r.End, r.Count}
		case w.now().Sub(r.End) > 7*24*time.Hour:
			old = append(old, r.ID)
		}
	}
	if len(old) > 0 {
		_, _ = w.api.DeleteTags(w.Context(), &awsec2.DeleteTagsInput{Resources: old, Tags: []types.Tag{{Key: aws.String("team")}}})
	}
}

// blockOf is what ResumeProgram launches the nodes of a slot into at a time of Slurm's clock: the
// first of the slot's blocks, in the order of their turns, that EC2 says is open.
func (w *world) blockOf(slot string, at time.Time) (id string, instances int) {
	if w.seen == nil {
		return "", 0
	}
	for _, v := range views(w.seen, w.now()) {
		if v.slot.Name != slot {
			continue
		}
		for _, t := range w.seen.Turns(v.slot) {
			if id := t.Reservation.ID; w.open(id, at) {
				return id, w.blocks[id].count - w.lost[id]
			}
		}
	}
	return "", 0
}

// open reports by the simulator's own account whether a block is open at a time of Slurm's
// clock, and EC2 has not begun to take its instances back.
func (w *world) open(id string, at time.Time) bool {
	b, there := w.blocks[id]
	at = at.Add(-w.skew)
	return there && !at.Before(b.start) && at.Before(b.end.Add(-30*time.Minute))
}

func (w *world) reclaimed(id string, at time.Time) bool { return !w.open(id, at) }

// paid checks, by the simulator's own account of blocks, that jobs run on no more nodes of a
// block than are paid for, and on none that EC2 takes back.
func (w *world) paid() {
	for id, b := range w.blocks {
		if n := w.slurm.of(id); n > b.count {
			w.Errorf("%s: %d nodes are of %s, which has %d\n%s", w.now().Format(time.DateTime), n, id, b.count, w.state())
		}
	}
	for _, j := range w.slurm.jobs {
		if j.State != "RUNNING" || j.Start.After(w.slurm.now) { // see holds
			continue
		}
		for _, name := range j.Nodes {
			if block := w.slurm.node(name).block; !w.open(block, w.slurm.now) {
				w.Errorf("%s: job %s runs on %s, of %q, which is not open\n%s", w.now().Format(time.DateTime), j.Shown, name, block, w.state())
			}
		}
	}
}

// state shows the reservations and the jobs that run.
func (w *world) state() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Slurm's clock: %s\n", w.slurm.now)
	for name, r := range w.slurm.reservations {
		fmt.Fprintf(&b, "%s %s from %s to %s\n", name, hostlist.Compress(r.Nodes), r.Start, r.End)
	}
	for _, j := range w.slurm.jobs {
		if j.State == "RUNNING" {
			fmt.Fprintf(&b, "job %s on %v from %s to %s, limit %s, configuring %t, %q\n", j.Shown, j.Nodes, j.Start, j.End, j.TimeLimit, j.Configuring(), j.Comment)
		}
	}
	if snap, err := w.sources.State.ReadSnapshot(); err == nil {
		for _, s := range Slots(snap, w.now()) {
			fmt.Fprintf(&b, "slot %s: %s %s, total %d, unhealthy %d, window %v\n", s.Slot.Name, s.Reservation.ID, s.Reservation.State, s.Reservation.Size(), s.Reservation.Unhealthy, s.Window)
		}
	}
	return b.String()
}

// passOf is a pass that has seen something.
func passOf(s Sources, seen Seen) *pass {
	p := newPass(s)
	seen.Settings, seen.Owner, seen.Poll = p.seen.Settings, p.seen.Owner, p.seen.Poll
	p.seen = seen
	return p
}
