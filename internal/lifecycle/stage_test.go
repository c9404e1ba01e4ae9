package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// stage is a small world that a test writes down itself: AWS and Slurm in memory, each with its
// own clock. It keeps a tape of what passes change and say.
type stage struct {
	*testing.T
	tape    strings.Builder
	slurm   *taped
	aws     *cloud
	sources Sources
	skew    time.Duration   // Slurm's clock minus AWS's
	said    map[string]bool // by the pass before
	lines   int             // changes so far, of the pass
	dieAt   int             // the pass is killed before this change; 0 for none
}

// opens is when the block of most scenarios opens, on a Friday.
var opens = time.Date(2027, 1, 1, 11, 30, 0, 0, time.UTC)

// newStage has partition solo with four nodes and partition gpu with two slots of two.
func newStage(t *testing.T) *stage {
	st := &stage{T: t, said: map[string]bool{}}
	st.aws = &cloud{stage: st}
	st.slurm = &taped{model: newModel(opens.Add(-time.Hour), map[string]int{"solo": 4, "gpu-a": 2, "gpu-b": 2}), stage: st,
		fails: map[string]error{}, answers: map[string]error{}}
	st.slurm.boot = 0
	st.slurm.block, st.slurm.reclaimed = st.blockOf, func(string, time.Time) bool { return false }
	d := func(d time.Duration) capacity.Duration { return capacity.Duration{Duration: d} }
	part := func(name string, slots int, onEnd capacity.OnEnd) capacity.PartitionSettings {
		return capacity.PartitionSettings{Name: name, Provider: capacity.ProviderEC2, MinTime: d(30 * time.Minute), OnEnd: onEnd,
			Groups: []capacity.GroupSettings{{Name: name, InstanceType: "p5.48xlarge", SubnetIDs: []string{"subnet-a"}, PurchaseOption: capacity.CapacityBlock,
				Select: &capacity.Select{Tags: map[string]string{"team": name}}, MaxNodes: 4, LaunchTemplate: "nodes", Slots: slots}}}
	}
	st.sources = Sources{
		Settings: capacity.Settings{Submit: capacity.Submit{Strict: true, StaleAfter: d(10 * time.Minute)},
			Timing:     capacity.Timing{DrainMargin: d(10 * time.Minute), BootAllowance: d(10 * time.Minute), ReclaimLead: d(30 * time.Minute), ReclaimLeadUltraServer: d(time.Hour)},
			Partitions: []capacity.PartitionSettings{part("solo", 1, capacity.RequeueAtEnd)}},
		Owner: me, OwnerIs: "settings /etc/pcs-capacity", Poll: time.Minute,
		World: World{Slurm: st.slurm, EC2: st.aws, State: state.Dir(quickDir(t)), MachineTime: func() time.Time { return st.slurm.now }}}
	st.slurm.stateSave = stateSave(t)
	return st
}

// solo are the settings of the partition of most scenarios.
func (st *stage) solo() *capacity.PartitionSettings { return &st.sources.Settings.Partitions[0] }

// now is AWS's time.
func (st *stage) now() time.Time { return st.slurm.now.Add(-st.skew) }

func (st *stage) write(format string, args ...any) { fmt.Fprintf(&st.tape, format+"\n", args...) }

// note is a line of the tape that tells what happens.
func (st *stage) note(format string, args ...any) { st.write("# "+format, args...) }

// changes notes a change that a pass asks for.
func (st *stage) changes(verb, format string, args ...any) (err error) {
	st.lines++
	if st.lines == st.dieAt {
		st.write("  (killed)")
		panic(killed{})
	}
	line := "  " + verb
	if text := fmt.Sprintf(format, args...); text != "" {
		line += " " + text
	}
	if err = st.slurm.fails[verb]; err != nil {
		line += " -> " + err.Error()
	}
	st.write("%s", line)
	return err
}

// pass makes a pass at a time of AWS's clock, since opens, and writes down what it does.
func (st *stage) pass(at time.Duration) Report {
	st.goTo(opens.Add(at))
	st.write("pass at %s", clock(st.now()))
	var report Report
	var err error
	planned := st.dryRun()
	killed := st.dieAt > 0
	if st.alive(func() { _, report, err = Pass(st.Context(), st.sources) }) {
		st.tell(report, err)
	}
	if !killed {
		st.isAsPlanned(planned, report)
	}
	return report
}

// passes makes passes a minute apart.
func (st *stage) passes(at time.Duration, n int) {
	for i := range n {
		st.pass(at + time.Duration(i)*time.Minute)
	}
}

func (st *stage) goTo(at time.Time) { st.slurm.advance(at.Add(st.skew)) }

// alive runs a pass, which may be killed.
func (st *stage) alive(pass func()) (alive bool) {
	defer func() {
		st.dieAt = 0
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			alive = false
		}
	}()
	st.lines = 0
	pass()
	return true
}

// tell writes down what a report says that the one before did not.
func (st *stage) tell(report Report, err error) {
	for _, d := range report.Done {
		line := "  = " + d.Do
		if d.Slot != "" {
			line += " on " + d.Slot
		}
		if d.Job != "" {
			line += " job " + d.Job
		}
		st.write("%s: %s", line, d)
	}
	said := map[string]bool{}
	for _, p := range report.All() {
		line := fmt.Sprintf("  ! %s: %s", p.Severity, p.Text())
		if said[line] = true; !st.said[line] {
			st.write("%s", line)
		}
	}
	st.said = said
	if err != nil {
		st.write("  failed: %s", strings.ReplaceAll(err.Error(), "\n", "\n          "))
	}
}

// block is one of EC2's: from opens+from for a length of time, bought for a partition.
func (st *stage) block(id, team string, from, length time.Duration, size int) {
	st.aws.reservations = append(st.aws.reservations, capacity.Reservation{ID: id, Kind: capacity.CapacityBlock, InstanceType: "p5.48xlarge", AZID: "use2-az1", AZ: "us-east-2a",
		Total: size, Available: size, Platform: "Linux/UNIX", Tenancy: "default", Start: opens.Add(from), End: opens.Add(from + length), Tags: map[string]string{"team": team}})
}

// blockOf is the open block of a slot: see model.
func (st *stage) blockOf(slot string, at time.Time) (id string, instances int) {
	for _, r := range st.aws.known() {
		if strings.HasPrefix(slot, r.Tags["team"]) && r.State == capacity.StateActive {
			return r.ID, r.Total
		}
	}
	return "", 0
}

// job has a job of user alice run on nodes, for as long as Slurm thinks it may, or wait if it has none. Before a comment,
// "fitted" and "fitted:600" stand for what a pass knows of it from before its start.
func (st *stage) job(limit int, comment string, nodes ...string) *modelJob {
	fitted, rest, _ := strings.Cut(comment, " ")
	isFitted := strings.HasPrefix(fitted, "fitted")
	if isFitted {
		comment = rest
	}
	j := st.slurm.submit(modelJob{Job: capacity.Job{Partition: "solo", User: "alice", Account: "nlp", Batch: true, Requeue: true, NumNodes: max(1, len(nodes)),
		TimeLimit: capacity.Minutes(limit), Comment: comment}, work: 1000 * time.Hour})
	if isFitted {
		marks, err := st.sources.State.Marks()
		if err != nil {
			st.Fatal(err)
		}
		all := map[string]state.Mark{}
		maps.Copy(all, marks)
		upTo, _ := strconv.Atoi(strings.TrimPrefix(fitted, "fitted:"))
		all[j.Shown] = state.Mark{Fit: true, UpTo: upTo}
		if err := st.sources.State.KeepMarks(all); err != nil {
			st.Fatal(err)
		}
	}
	if len(nodes) > 0 {
		j.State, j.Nodes, j.Start, j.End = "RUNNING", nodes, st.slurm.now, st.slurm.now.Add(j.TimeLimit.Duration())
		for _, name := range nodes {
			n := st.slurm.node(name)
			n.job, n.State = j, "ALLOCATED+CLOUD"
		}
	}
	j.held = len(nodes) == 0 // Slurm does not start it
	return j
}

// boots makes the nodes of a job boot still.
func (st *stage) boots(j *modelJob) *modelJob {
	j.StateFlag = "CONFIGURING"
	for _, name := range j.Nodes {
		n := st.slurm.node(name)
		n.State, n.booted = nodeBoots, n.booted.AddDate(9999, 0, 0) // until the scenario says so
	}
	return j
}

// clock is a time as the tape has it: the day of January 2027, and the time.
func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	t = t.UTC()
	day := fmt.Sprintf("%02d", t.YearDay())
	if t.Year() != opens.Year() {
		day = t.Format("2006-01-02")
	}
	return day + " " + t.Format("15:04:05")
}

// taped is the model of Slurm, which writes down what it is asked to change.
type taped struct {
	*model
	stage   *stage
	fails   map[string]error // by the verb of a change
	answers map[string]error // Look and Jobs
	walls   capacity.Walls
	older   bool // --time-min collapses
	still   bool // takes a requeue and does nothing
	unread  bool // does not show what came of a requeue
}

func (s *taped) Config(ctx context.Context) (slurm.Config, error) {
	s.collapses = s.older
	c, err := s.model.Config(ctx)
	if s.walls.QOS != nil {
		c.AccountingEnforce = []string{"limits"}
	}
	return c, cmp.Or(s.answers["Look"], err)
}

func (s *taped) Walls(context.Context, string) (capacity.Walls, error) { return s.walls, nil }

func (s *taped) JobsOf(ctx context.Context, partitions []string, wanted func(capacity.Job) bool) (live, ended []capacity.Job, err error) {
	if err := s.answers["Jobs"]; err != nil {
		return nil, nil, err
	}
	return s.model.JobsOf(ctx, partitions, wanted)
}

func (s *taped) span(r capacity.SlurmReservation) string {
	text := fmt.Sprintf("%s from %s to %s", hostlist.Compress(r.Nodes), clock(r.Start), clock(r.End))
	if len(r.Flags) > 0 {
		text += " flags=" + strings.Join(r.Flags, ",")
	}
	if len(r.Users) > 0 {
		text += " users=" + strings.Join(r.Users, ",")
	}
	return text
}

func (s *taped) CreateReservation(ctx context.Context, r capacity.SlurmReservation) error {
	return orElse(s.stage.changes("create reservation", "%s %s", r.Name, s.span(r)), func() error { return s.model.CreateReservation(ctx, r) })
}

func (s *taped) UpdateReservation(ctx context.Context, r capacity.SlurmReservation) error {
	return orElse(s.stage.changes("update reservation", "%s %s", r.Name, s.span(r)), func() error { return s.model.UpdateReservation(ctx, r) })
}

func (s *taped) DropReservation(ctx context.Context, name string) error {
	return orElse(s.stage.changes("delete reservation", "%s", name), func() error { return s.model.DropReservation(ctx, name) })
}

func (s *taped) SetTimeLimit(ctx context.Context, job string, minutes int) error {
	return orElse(s.stage.changes("set time limit", "of job %s to %s", job, capacity.FormatMinutes(minutes)), func() error { return s.model.SetTimeLimit(ctx, job, minutes) })
}

func (s *taped) Edit(ctx context.Context, edits map[string]capacity.Edits) map[string]error {
	errs := map[string]error{}
	for _, job := range slices.Sorted(maps.Keys(edits)) {
		e := edits[job]
		if err := s.stage.changes("edit", "job %s: %s, --time-min=%s", job, e.TimeLimit, e.TimeMin); err != nil {
			errs[job] = err
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return s.model.Edit(ctx, edits)
}

func (s *taped) RequeueJob(ctx context.Context, before capacity.Job, hold bool) (after capacity.Job, err error) {
	verb := "requeue"
	if hold {
		verb = "requeue and hold"
	}
	err = orElse(s.stage.changes(verb, "job %s", before.Shown), func() error {
		if s.still {
			after = before
			return errors.New("the job still runs, although Slurm took the change")
		}
		after, err = s.model.RequeueJob(ctx, before, hold)
		if s.unread {
			return errors.New("reading it back: squeue: Socket timed out")
		}
		return err
	})
	return after, err
}

func (s *taped) Begin(ctx context.Context, job string, at time.Time) error {
	return orElse(s.stage.changes("begin", "of job %s not before %s", job, clock(at)), func() error { return s.model.Begin(ctx, job, at) })
}

func (s *taped) Notify(_ context.Context, job, text string) error {
	return s.stage.changes("notify", "job %s: %s", job, text)
}

func (s *taped) ResumeJob(ctx context.Context, job string) error {
	return orElse(s.stage.changes("resume", "job %s", job), func() error { return s.model.ResumeJob(ctx, job) })
}

func (s *taped) UserHold(ctx context.Context, jobs ...string) error {
	return orElse(s.stage.changes("user hold", "of job %s", strings.Join(jobs, ",")), func() error { return s.model.UserHold(ctx, jobs...) })
}

func (s *taped) Release(ctx context.Context, job string) error {
	return orElse(s.stage.changes("release", "job %s", job), func() error { return s.model.Release(ctx, job) })
}

func (s *taped) SetAdminComment(ctx context.Context, job, text string) error {
	return orElse(s.stage.changes("admin comment", "of job %s: %s", job, text), func() error { return s.model.SetAdminComment(ctx, job, text) })
}

func (s *taped) PowerUp(ctx context.Context, nodes []string) error {
	return orElse(s.stage.changes("power up", "%s", hostlist.Compress(nodes)), func() error { return s.model.PowerUp(ctx, nodes) })
}

func (s *taped) PowerDown(ctx context.Context, nodes []string, reason string) error {
	return orElse(s.stage.changes("power down", "%s: %s", hostlist.Compress(nodes), reason), func() error { return s.model.PowerDown(ctx, nodes, reason) })
}

func (s *taped) PowerDownForce(ctx context.Context, nodes []string, reason string) error {
	return orElse(s.stage.changes("power down by force", "%s: %s", hostlist.Compress(nodes), reason), func() error { return s.model.PowerDown(ctx, nodes, reason) })
}

// orElse is the error of a change that fails, or else what comes of it.
func orElse(err error, change func() error) error {
	if err != nil {
		return err
	}
	return change()
}

// cloud is EC2 and PCS in memory.
type cloud struct {
	impaired map[string]string
	*stage
	reservations, held []capacity.Reservation
	instances          []capacity.Instance
	down, byID         error // of all calls, of those about reservations by their ids
	// slots are what compute node groups of PCS were set up for.
	slots map[string]string
	// rolls is why a group cannot be set up.
	rolls error
}

// known are the reservations as EC2 shows them now.
func (c *cloud) known() []capacity.Reservation {
	all := slices.Clone(c.reservations)
	for i := range all {
		r := &all[i]
		switch {
		case r.State != "":
		case c.now().Before(r.Start):
			r.State = capacity.StateScheduled
		case r.End.IsZero() || c.now().Before(r.End):
			r.State = capacity.StateActive
		default:
			r.State = capacity.StateExpired
		}
	}
	return all
}

func (c *cloud) Region() string                   { return "us-east-2" }
func (c *cloud) Offset() time.Duration            { return -c.skew }
func (c *cloud) Explain(err error) (string, bool) { return err.Error(), false }
func (c *cloud) Untold() []string                 { return nil }

func (c *cloud) Impaired(context.Context) (map[string]string, error) { return c.impaired, c.down }

func (c *cloud) Reservations(_ context.Context, ids []string) (found []capacity.Reservation, missing []capacity.Missing, err error) {
	all := append(c.known(), c.held...)
	for _, id := range ids {
		if i := slices.IndexFunc(all, func(r capacity.Reservation) bool { return r.ID == id }); i >= 0 {
			found = append(found, all[i])
		} else {
			missing = append(missing, capacity.Missing{ID: id, Err: errors.New("InvalidCapacityReservationId.NotFound")})
		}
	}
	if c.byID != nil {
		return nil, nil, c.byID
	}
	return found, missing, c.down
}

func (c *cloud) ReservationsByTag(_ context.Context, tags map[string]string) ([]capacity.Reservation, error) {
	return slices.DeleteFunc(c.known(), func(r capacity.Reservation) bool { return r.Tags["team"] != tags["team"] }), c.down
}

func (c *cloud) InstancesByTag(context.Context, map[string][]string) ([]capacity.Instance, error) {
	return c.instances, c.down
}

func (c *cloud) InstancesByClusterName(context.Context, string) ([]capacity.Instance, error) {
	return c.instances, c.down
}

func (c *cloud) InstancesByID(_ context.Context, ids []string) ([]capacity.Instance, error) {
	return slices.DeleteFunc(slices.Clone(c.instances), func(i capacity.Instance) bool { return !slices.Contains(ids, i.ID) }), c.down
}

func (c *cloud) KnownSubnets(_ context.Context, ids []string) (found []capacity.Subnet, missing []capacity.Missing, err error) {
	for _, id := range ids {
		found = append(found, capacity.Subnet{ID: id, AZID: "use2-az1", AZ: "us-east-2a"})
	}
	return found, nil, c.down
}

func (c *cloud) ImagePlatform(context.Context, string) (capacity.ImagePlatform, error) {
	return capacity.ImagePlatform{}, c.down
}

func (c *cloud) Holds(context.Context, string) ([]capacity.Reservation, error) {
	return slices.Clone(c.held), c.down
}

func (c *cloud) CancelODCR(_ context.Context, id string) error {
	if err := c.changes("cancel reservation", "%s", id); err != nil {
		return err
	}
	c.held = slices.DeleteFunc(c.held, func(r capacity.Reservation) bool { return r.ID == id })
	return nil
}

func (c *cloud) Terminate(_ context.Context, ids []string) error {
	if err := c.changes("terminate", "%s", strings.Join(ids, ",")); err != nil {
		return err
	}
	c.instances = slices.DeleteFunc(c.instances, func(i capacity.Instance) bool { return slices.Contains(ids, i.ID) })
	return nil
}

// Held is PCS's answer about compute node groups.
func (c *cloud) Held(context.Context, []string) (map[string]string, error) { return c.slots, c.down }

// SetUp and Remove are the roll over of PCS.
func (c *cloud) SetUp(_ context.Context, partition string, group capacity.NodeGroup, block capacity.Reservation, anew bool) ([]string, error) {
	if c.changes("set up", "%s of partition %s for %s, anew %t", group.Name, partition, block.ID, anew); c.rolls != nil {
		return nil, c.rolls
	}
	return []string{"create compute node group " + group.Name + "-b"}, nil
}

func (c *cloud) Remove(_ context.Context, partition, slot string) ([]string, error) {
	c.changes("remove", "%s of partition %s", slot, partition)
	return []string{"delete compute node group " + slot}, nil
}

var (
	_ Slurm    = (*taped)(nil)
	_ EC2      = (*cloud)(nil)
	_ RollOver = (*cloud)(nil)
)
