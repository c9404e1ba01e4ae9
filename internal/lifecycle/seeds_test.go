package lifecycle

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Each seed is a month of some ten steps, and always the same, unless -rapid.checks, -rapid.steps and -rapid.seed say
// otherwise.
func init() {
	for name, value := range map[string]string{
		"rapid.checks":     "200",
		"rapid.steps":      "10",
		"rapid.seed":       "1",
		"rapid.nofailfile": "true",
	} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}

// month is a cluster through which time goes on from step to step, with the real decisions and what they really do.
type month struct {
	*rapid.T
	*model.Model
	test    *testing.T
	slurm   *model.Slurm
	aws     *model.EC2
	sources Sources
	seen    *capacity.Snapshot // of the last pass
	ids     int
	said    map[string]int // how often, by its format
	// In the pass that comes: the call that fails, with or without its effect, and the change that the pass is killed
	// at.
	fails, loses  string
	hit           bool
	dieAt, change int
	dieAfter      bool
	meetsAt       int    // before this change it meets somebody
	meets         func() // who acts in the middle of it
	met           int
	dies          bool                    // the other is killed where the pass ends
	turns         []int                   // how many changes another pass makes before each of its own
	next          func() (struct{}, bool) // lets the other make one
	stop          func()                  // kills the other
	wait          func() bool             // ends the turn of the other; false kills it
	turn          bool                    // the other has its turn
	half          int                     // so many of its last files are not written
	forgot        bool                    // the last pass has not written its last files
	down          time.Time               // until when AWS answers nothing
	hook          *hook                   // the one that makes the calls now
	trouble       string                  // of one of those that come, at a change of it
	troubleAt     int
	buyer         *run                      // the run of `purchase` or `extend` that makes the calls now
	orders        []*decision               // those that nobody knows to be carried out
	decided       map[string]int            // how often somebody has decided to buy an offering, or to extend a block
	stated        map[string]capacity.Limit // of the jobs that are requeued at a fence, by name
	lost          time.Time                 // when state_dir was lost
	quiet         bool                      // a pass may change nothing
	clean         bool                      // the last pass had nothing to do
}

var monthBegins = time.Date(2027, 1, 1, 8, 0, 0, 0, time.UTC)

// errFault is the answer to a call that fails.
var errFault = fmt.Errorf("503 Service Unavailable%.0w", ec2.ErrUndecided)

// TestSeeds lives through months of blocks that are bought, extended, overlap and end, of users who submit, change,
// cancel and requeue, of hosts that fail, of an AWS that is late, silent or loses its answers, of passes that are
// killed between any two changes, and of settings that change.
func TestSeeds(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // memory is not what is short here

	t.Setenv("SLURM_RESUME_FILE", "") // it is set for each power-up

	test := filepath.Join(t.TempDir(), "test.sh")
	if err := os.WriteFile(test, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}

	said := map[string]int{}
	defer func() {
		for _, what := range slices.Sorted(maps.Keys(said)) {
			t.Logf("%7d %s", said[what], what)
		}
	}()

	rapid.Check(t, func(rt *rapid.T) {
		m := newMonth(rt, t, test, said)
		events := map[string]func(*rapid.T){
			"nothing happens":        func(*rapid.T) {},
			"a user does something":  m.user,
			"a block is bought":      m.buy,
			"another is bought":      m.buy,
			"a block is extended":    m.extend,
			"a host fails":           m.hostFails,
			"AWS misbehaves":         m.misbehave,
			"a pass is misled":       m.mislead,
			"a call fails":           m.fault,
			"a pass is killed":       m.kill,
			"a hook is killed":       m.hookKilled,
			"something is lost":      m.lose,
			"files are half written": m.halfWritten,
			"a pass meets another":   m.meetAnother,
			"a pass meets a hook":    m.meetHook,
		}
		steps := map[string]func(*rapid.T){"": m.holds}
		for name, happens := range events {
			steps[name] = func(rt *rapid.T) {
				happens(rt)

				said["step: "+name]++

				m.submit(rt)
				m.goOn(rt)
			}
		}

		rt.Repeat(steps)
		m.ends()
	})
}

// newMonth has a month whose nodes may have to pass the script test.
func newMonth(rt *rapid.T, t *testing.T, test string, said map[string]int) *month {
	w := model.New(monthBegins)
	m := &month{
		T:       rt,
		test:    t,
		said:    said,
		decided: map[string]int{},
		stated:  map[string]capacity.Limit{},
		Model:   w,
		slurm:   w.Slurm,
		aws:     w.EC2,
	}
	m.Skew = rapid.SampledFrom([]time.Duration{0, 3 * time.Minute, -20 * time.Second}).Draw(rt, "skew")
	m.slurm.CutsToFloor = rapid.Bool().Draw(rt, "old Slurm")
	m.slurm.Add("gpu", "gpu-a", 4)
	m.slurm.Add("gpu", "gpu-b", 4)
	m.slurm.Add("solo", "solo", 4)
	m.slurm.Lenders = map[string]string{"spare": "solo"}
	m.slurm.Add("demand", "demand", 4)
	m.slurm.Add("cpu", "cpu", 2) // nobody's
	m.slurm.Node("cpu-1").State, m.slurm.Node("cpu-2").State = model.Idle, model.Idle
	m.slurm.Put(
		model.Reservation{
			Name:  "friday",
			Nodes: []string{"gpu-a-1"},
			Start: monthBegins.AddDate(1, 0, 0),
			Users: []string{"alice"},
		},
	)
	m.aws.Reserve(
		capacity.Reservation{
			ID:           "cr-theirs",
			Kind:         capacity.ODCR,
			State:        capacity.StateActive,
			Total:        2,
			Available:    2,
			InstanceType: "p5.48xlarge",
			Tags: map[string]string{
				capacity.TagCluster: "lab/fedcba9876543210",
				capacity.TagHold:    capacity.HoldProbe,
			},
		},
	)

	m.slurm.Resume, m.slurm.Suspend, m.slurm.ResumeTimeout, m.slurm.Ran = m.resume, m.suspend, 10*time.Minute, m.ran
	m.aws.OnDemand = 10
	m.Before, m.After = m.before, m.after
	d := func(d time.Duration) capacity.Duration { return capacity.Duration{Duration: d} }
	part := func(name string, slots int, onEnd capacity.OnEnd) capacity.PartitionSettings {
		return capacity.PartitionSettings{
			Name:     name,
			Provider: capacity.ProviderEC2,
			MinTime:  d(30 * time.Minute),
			OnEnd:    onEnd,
			Groups: []capacity.GroupSettings{
				{
					Name:           name,
					InstanceType:   "p5.48xlarge",
					SubnetIDs:      []string{"subnet-a"},
					PurchaseOption: capacity.CapacityBlock,
					MaxNodes:       4,
					LaunchTemplate: "nodes",
					Slots:          slots,
				},
			},
		}
	}
	m.sources = Sources{
		Settings: capacity.Settings{
			Submit:  capacity.Submit{Strict: true, StaleAfter: d(10 * time.Minute)},
			Reserve: capacity.Reserve{MaxInstances: 64},
			Timing: capacity.Timing{
				DrainMargin:   d(10 * time.Minute),
				BootAllowance: d(10 * time.Minute),
				ReclaimLead:   d(30 * time.Minute),
			},
			Partitions: []capacity.PartitionSettings{
				part("gpu", 2, capacity.RequeueAtEnd),
				part("solo", 1, capacity.StopAtEnd),
				part("demand", 1, capacity.RequeueAtEnd),
			},
		},
		Owner: me, OwnerIs: "settings", Poll: time.Minute,
		World: World{
			Slurm:       m.slurm,
			EC2:         m.aws,
			State:       state.Dir(model.Dir(m)),
			MachineTime: func() time.Time { return m.slurm.Now },
		},
	}
	m.sources.Settings.Partitions[2].Groups[0].PurchaseOption = capacity.OnDemand
	m.sources.Settings.Partitions[2].Groups[0].Reserve = capacity.ReservePerJob
	m.sources.Settings.Partitions[2].Groups[0].SubnetIDs = []string{"subnet-a", "subnet-b"}

	m.sources.Settings.Partitions[0].Groups[0].Select = &capacity.Select{Tags: map[string]string{"team": "gpu"}}
	if rapid.Bool().Draw(rt, "nodes are tested") {
		g := &m.sources.Settings.Partitions[0].Groups[0]
		g.OpenTest = test
		g.OpenTestLimit = d(10 * time.Minute)
		m.slurm.Test = bad(rapid.SampledFrom([]string{"", "gpu-a-1", "gpu-b-3"}).Draw(rt, "bad node"))
	}

	m.sources.Settings.Partitions[1].Spare = "spare"
	m.sources.Settings.Partitions[1].Groups[0].Dynamic = true
	m.sources.Settings.Partitions[1].Groups[0].ReservationIDs = []string{"cr-bad"} // R8: which EC2 never describes
	if err := m.MarkIn(model.Dir(m)); err != nil {
		rt.Fatal(err)
	}

	m.pass()

	return m
}

func (m *month) TempDir() string { return m.test.TempDir() }

func (m *month) say(format string, args ...any) {
	m.said[format]++
	m.Logf("%s %s", model.Clock(m.Now()), fmt.Sprintf(format, args...))
}

func (m *month) bad(format string, args ...any) {
	violates := fmt.Sprintf("%s %s\n%s", model.Clock(m.Now()), fmt.Sprintf(format, args...), m.shows())
	if m.hook != nil { // in a goroutine of its own
		m.hook.violates, m.hook.dead = violates, true

		runtime.Goexit()
	}

	m.Fatalf("%s", violates)
}

// shows is the state of things.
func (m *month) shows() string {
	var b strings.Builder
	for _, r := range m.aws.All {
		fmt.Fprintf(
			&b,
			"%s of %s, %d of which %d failed, from %s to %s\n",
			r.ID,
			r.Tags["team"],
			r.Total,
			r.Unhealthy,
			model.Clock(r.Start),
			model.Clock(r.End),
		)
	}

	for _, r := range m.slurm.Fences {
		fmt.Fprintf(
			&b,
			"%s %v from %s to %s\n",
			r.Name,
			r.Nodes,
			model.Clock(r.Start.Add(-m.Skew)),
			model.Clock(r.End.Add(-m.Skew)),
		)
	}

	for _, j := range m.slurm.Jobs {
		if j.Outcome == "" {
			fmt.Fprintf(
				&b,
				"job %s %s %s on %v until %s, limit %s, %q\n",
				j.Shown,
				j.State,
				j.StateFlag,
				j.Nodes,
				model.Clock(j.End.Add(-m.Skew)),
				j.TimeLimit,
				j.AdminComment,
			)
		}
	}

	return b.String()
}

// before fails a call, kills the pass, and holds each change against what is not ours (R4, R9).
func (m *month) before(c model.Call) error {
	if m.buyer != nil {
		return m.buyer.before(c)
	}

	m.hit = m.hit || c.Verb == m.fails || c.Verb == m.loses
	if m.hook != nil && (c.Verb == m.fails || c.Verb == m.loses) {
		m.hook.disturbed = true
	}

	if c.Verb == m.fails || c.EC2 && m.Now().Before(m.down) {
		return errFault
	}

	if !c.Change {
		return nil
	}

	what, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(c.Text, "of "), "job "), " ")
	switch _, ours := capacity.ParseGuard(what); {
	case m.quiet && m.hook == nil:
		m.bad("the second pass: %s %s", c.Verb, c.Text)
	case strings.HasSuffix(c.Verb, " reservation") && !c.EC2 && !ours,
		c.Verb == "cancel reservation" && what == "cr-theirs",
		strings.HasPrefix(c.Verb, "power") && strings.Contains(c.Text, "cpu-"):
		m.bad("R9: %s %s (%s)", c.Verb, c.Text, rest)
	}

	for _, j := range m.slurm.Jobs {
		if !c.EC2 && j.Shown == strings.TrimSuffix(what, ":") && j.Partition == "cpu" &&
			!strings.Contains(c.Verb, "reservation") &&
			!strings.HasPrefix(c.Verb, "power") {
			m.bad("R9: %s %s", c.Verb, c.Text)
		}
	}

	if m.hook != nil {
		return m.hook.before(m, c)
	}

	if m.turn {
		if m.say("  the other: %s %s", c.Verb, c.Text); !m.wait() {
			m.say("the other is killed")
			panic(killed{})
		}

		return nil
	}

	if m.change++; m.change == m.meetsAt {
		m.met++
		m.meets()
	}

	if len(m.turns) > 0 {
		m.goesOn(m.turns[0])
		m.turns = m.turns[1:]
	}

	if m.change == m.dieAt && !m.dieAfter {
		m.say("killed before: %s %s", c.Verb, c.Text)
		panic(killed{})
	}

	m.say("  %s %s", c.Verb, c.Text)

	return nil
}

// after loses an answer, kills the pass, and looks whether a live block still has a fence.
func (m *month) after(c model.Call) error {
	if m.buyer != nil {
		return m.buyer.after(c)
	}

	if c.Change && c.Verb == "delete reservation" && m.seen != nil {
		for _, s := range m.seen.SlotStates(m.Now()) {
			if r, live := m.aws.Real(s.Reservation.ID); live && r.IsLiveAt(m.Now()) && !r.Start.After(m.Now()) &&
				r.ID == m.guarded(c.Text) &&
				!m.fenced("", r.ID) {
				m.bad("%s has lost its fence", r.ID)
			}
		}
	}

	if m.hook != nil {
		if err := m.hook.after(m, c); err != nil {
			return err
		}
	} else if c.Change && m.change == m.dieAt && m.dieAfter && !m.turn {
		m.say("killed")
		panic(killed{})
	}

	if c.Verb == m.loses {
		return errFault
	}

	return nil
}

// guarded is what a Slurm reservation of ours is a fence of.
func (m *month) guarded(name string) string {
	if g, ours := capacity.ParseGuard(name); ours && g.Kind == "fence" {
		return g.Block
	}
	return ""
}

func (m *month) fenced(slot, block string) bool {
	for _, r := range m.slurm.Fences {
		if r.IsFenceFor(slot, block) || slot == "" && m.guarded(r.Name) == block {
			return true
		}
	}

	return false
}

// pass makes a pass, as it is to be: killed, with a call that fails, or not alone.
func (m *month) pass() (done []Done, err error) {
	met, before := m.met, m.files()
	m.change = 0
	done, err = m.alive(m.sources)
	if m.change >= m.dieAt && m.dieAt > 0 || m.met > met {
		m.dieAt, m.meetsAt, m.clean = 0, 0, false
	}

	if m.stop != nil {
		if !m.dies {
			m.goesOn(1000)
		}

		m.stop()
		m.turns, m.next, m.stop = nil, nil, nil
	}

	m.forgot = m.half > 0
	if m.forgot {
		m.unwrite(before)
	}

	if m.half = 0; m.hit {
		m.fails, m.loses, m.hit = "", "", false
	}

	return done, err
}

// alive makes a pass until it is killed.
func (m *month) alive(of Sources) (done []Done, err error) {
	m.said["pass"]++
	err = untilKilled(func() error {
		snap, report, err := Pass(context.Background(), of)
		m.clean = err == nil && len(report.Done) == 0 && !m.hit && m.half == 0
		if snap != nil {
			m.seen = snap
		}

		done = report.Done

		return err
	})

	return done, err
}

// untilKilled is what a program comes to.
func untilKilled(program func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, dead := r.(killed); !dead {
				panic(r)
			}

			err = errFault
		}
	}()

	return program()
}

// loseDir has a new state_dir. The limit that an owner stated is lost with the old one, unless the job still waits with
// it, or has it in its note.
func (m *month) loseDir() {
	m.sources.State, m.lost = state.Dir(model.Dir(m)), m.Now()

	for _, j := range m.slurm.Jobs {
		note, _ := capacity.ParseAdminNote(j.AdminComment)
		if isWhole := j.State == "PENDING" && j.TimeLimit == m.stated[j.Shown]; !isWhole && !note.Stated.Set {
			delete(m.stated, j.Shown)
		}
	}
}

// settle makes the pass of a step. One that fails is followed by another a few seconds later.
func (m *month) settle() {
	if _, err := m.pass(); err != nil && !m.Now().Before(m.down) {
		m.AdvanceTo(m.Now().Add(10 * time.Second))
		_, _ = m.pass()
	}
}

// fence is when jobs on a block must have ended, by AWS's clock.
func fence(r capacity.Reservation) time.Time { return r.End.Add(-40 * time.Minute) }

// ran checks R2 when a run ends: by the fence of the reservation that its nodes are of, or within the least limit
// after.
func (m *month) ran(j *model.Job, how string) {
	m.say("job %s %s", j.Shown, how)

	for _, name := range j.Nodes {
		for _, i := range m.aws.Instances {
			if r, known := m.aws.Real(i.ReservationID); known && r.Kind.IsBlock() &&
				i.ID == m.slurm.Node(name).InstanceID &&
				m.Now().After(fence(r).Add(time.Minute)) {
				m.bad("R2: job %s ran on %s past the fence of %s at %s", j.Shown, name, r.ID, model.Clock(fence(r)))
			}
		}

		if how == "NODE_FAIL" {
			m.bad("R2: EC2 took node %s from job %s", name, j.Shown)
		}
	}
}

func (m *month) goOn(rt *rapid.T) {
	m.slurm.PowerDownIdle("solo") // so that jobs boot nodes

	m.until(
		m.Now().
			Add(time.Duration(rapid.SampledFrom([]int{3, 40, 200, 1000, 2000, 4000}).Draw(rt, "minutes")) * time.Minute),
	)
}

// until lets time pass, with a pass at each moment at which something is due, as sync --watch waits.
func (m *month) until(next time.Time) {
	seen := m.Now().Add(6 * time.Minute) // what EC2 showed late
	for m.Now().Before(next) {
		to := next
		if m.aws.Late && seen.After(m.Now()) && seen.Before(to) {
			to = seen
		}

		if at, due := NextBoundary(m.seen, m.Now()); due && at.Before(to) {
			to = at.Add(time.Second)
		}

		// While a block opens, sync looks every two seconds, which would be most of the passes of a month.
		if soon := m.Now().Add(50 * time.Second); m.opening() && to.Before(soon) {
			to = soon
		}

		if m.Now().Before(m.down) && m.down.Before(to) {
			to = m.down
		}

		m.AdvanceTo(to)
		m.settle()
	}
}

// opening reports whether the last pass has seen a block open.
func (m *month) opening() bool {
	return slices.ContainsFunc(capacity.AllSlots(m.seen.Partitions),
		func(at capacity.SlotRef) bool { return at.Slot.Opening != nil && at.Slot.Opening.Soon })
}

func (m *month) submit(rt *rapid.T) {
	for range rapid.IntRange(0, 6).Draw(rt, "jobs") {
		j := model.Job{
			Job: capacity.Job{
				Partition: rapid.SampledFrom([]string{"gpu", "solo", "gpu", "solo", "demand", "cpu", "spare", "spare", "solo,spare"}).
					Draw(rt, "partition"),
				User:    "alice",
				Account: "nlp",
				Batch:   true,
				Requeue: rapid.IntRange(0, 4).
					Draw(rt, "no requeue") <
					4,
				NumNodes:  rapid.IntRange(1, 2).Draw(rt, "nodes"),
				TimeLimit: capacity.NoLimit,
				Comment: rapid.SampledFrom([]string{
					"",
					"",
					"on_end=requeue",
					"on_end=hold",
					"on_end=stop",
					"on_end=never",
				}).
					Draw(rt, "comment"),
			},
			Work: time.Duration(rapid.SampledFrom([]int{20, 600, 9000}).Draw(rt, "work")) * time.Minute,
		}
		if j.Partition == "cpu" {
			j.NumNodes, j.Comment = 1, ""
		}

		if j.Partition == "spare" {
			j.NumNodes += 2 // so that the lender's jobs need some of them
		}

		if rapid.Bool().Draw(rt, "states a limit") {
			blocks := rapid.SampledFrom([]int{1, 1, 20}).Draw(rt, "that blocks do not last for")
			j.TimeLimit = capacity.Minutes(rapid.IntRange(5, 2000).Draw(rt, "limit") * blocks)
		}

		if filtered := rapid.IntRange(0, 9).Draw(rt, "filter") < 9; filtered && m.seen != nil {
			v := capacity.Admit(m.seen.Request(j.Job), m.seen, m.Now())
			if v.Refused {
				continue
			}

			j.TimeMin = v.Edits.TimeMin
			if v.Edits.TimeLimit.Set {
				j.TimeLimit = v.Edits.TimeLimit
			}

			// slurmctld keeps it where job_submit.lua says so.
			if note, needed := capacity.NoteStatedLimit(m.seen.Request(j.Job), v, m.seen); needed {
				j.AdminComment = note.String()
			}
		}

		one := m.slurm.Submit(j)
		m.stated[one.Shown] = j.TimeLimit
		m.say(
			"job %s of %s: %d nodes, limit %s, at least %s, %d minutes of work, %q",
			one.Shown,
			j.Partition,
			j.NumNodes,
			j.TimeLimit,
			j.TimeMin,
			j.Work/time.Minute,
			j.Comment,
		)
	}

	m.AdvanceTo(m.Now())
}

func (m *month) live() []*model.Job {
	return slices.DeleteFunc(slices.Clone(m.slurm.Jobs), func(j *model.Job) bool { return j.Outcome != "" })
}

// user changes, cancels, requeues, holds or releases a job.
func (m *month) user(rt *rapid.T) {
	live := m.live()
	if len(live) == 0 {
		rt.Skip()
	}

	j := live[rapid.IntRange(0, len(live)-1).Draw(rt, "job")]
	what := rapid.SampledFrom([]string{"cancel", "lower", "comment", "requeue", "hold", "release"}).Draw(rt, "what")
	m.say("user: %s job %s", what, j.Shown)

	switch what {
	case "cancel":
		m.slurm.End(j, "CANCELLED")
	case "lower":
		if j.TimeLimit = capacity.Minutes(min(60, max(1, j.TimeLimit.Minutes))); j.State == "RUNNING" {
			j.End = j.Start.Add(j.TimeLimit.Duration())
		}

		delete(m.stated, j.Shown) // a pass may not have seen it in between
	case "comment":
		j.Comment = "on_end=hold"
	case "requeue":
		if j.State == "RUNNING" {
			m.slurm.Requeue(j, "REQUEUED")
		}
	case "hold":
		if j.State == "PENDING" {
			j.Never, j.Held, j.Reason = true, true, "JobHeldUser"
		}
	case "release":
		if j.State == "PENDING" {
			j.Never, j.Held, j.Reason = false, false, ""
		}
	}
}

func (m *month) buy(rt *rapid.T) {
	if len(m.bought()) > 4 {
		rt.Skip()
	}

	team := rapid.SampledFrom([]string{"gpu", "solo"}).Draw(rt, "team")

	m.ids++
	o := capacity.Offering{
		ID:           fmt.Sprintf("cb-%d", m.ids),
		Region:       m.aws.Region(),
		InstanceType: "p5.48xlarge",
		AZID:         "use2-az1",
		AZ:           "us-east-2a",
		Tenancy:      "default",
		Count: rapid.IntRange(1, 4).
			Draw(rt, "instances"),
		Start: m.Now().Truncate(time.Hour).Add(time.Duration(rapid.IntRange(1, 72).Draw(rt, "in hours")) * time.Hour),
	}
	o.End = o.Start.Add(time.Duration(rapid.IntRange(1, 4).Draw(rt, "days")) * 24 * time.Hour)
	if slices.ContainsFunc(m.aws.ForSale, func(one capacity.Offering) bool {
		return one.Count == o.Count && one.Start.Equal(o.Start) && one.End.Equal(o.End)
	}) {
		rt.Skip() // it is the same block
	}

	m.say("%s for %s is for sale: %d from %s to %s", o.ID, team, o.Count, model.Clock(o.Start), model.Clock(o.End))
	m.aws.ForSale = append(m.aws.ForSale, o)
	m.decide(
		rt,
		&decision{
			month: m,
			id:    o.ID,
			team:  team,
			query: ec2.OfferingQuery{InstanceType: o.InstanceType, Count: o.Count},
		},
	)
	m.name()
	m.settle()
}

// name has the settings name the blocks of a team; what ended days ago nobody names any more.
func (m *month) name() {
	for _, r := range m.aws.All {
		if m.Now().Sub(r.End) > 3*24*time.Hour {
			delete(r.Tags, "team")
		}
	}

	m.slurm.Jobs = slices.DeleteFunc(
		m.slurm.Jobs,
		func(j *model.Job) bool { return j.Outcome != "" && m.slurm.Now.Sub(j.End) > time.Hour },
	)
	g := &m.sources.Settings.Partitions[1].Groups[0]
	g.ReservationIDs = []string{"cr-bad"} // R8: which EC2 never describes
	for _, r := range m.aws.All {
		if r.Tags["team"] == "solo" {
			g.ReservationIDs = append(g.ReservationIDs, r.ID)
		}
	}
}

// bought are the blocks that are open or will be.
func (m *month) bought() (ids []string) {
	for _, r := range m.aws.All {
		if one, _ := m.aws.Real(r.ID); r.Kind.IsBlock() && one.IsLiveAt(m.Now()) {
			ids = append(ids, r.ID)
		}
	}

	return ids
}

func (m *month) extend(rt *rapid.T) {
	ids := m.bought()
	if len(ids) == 0 {
		rt.Skip()
	}

	id := ids[rapid.IntRange(0, len(ids)-1).Draw(rt, "block")]
	if r, _ := m.aws.Real(id); !m.Now().Before(r.End.Add(-35 * time.Minute)) {
		rt.Skip()
	}

	if rapid.Bool().Draw(rt, "under its fence") { // which has begun then, and is replaced
		if r, _ := m.aws.Real(id); fence(r).After(m.Now()) && r.Start.Before(m.Now()) && m.Now().After(m.down) {
			m.until(fence(r).Add(time.Second))
		}
	}

	if rapid.Bool().Draw(rt, "in the console") {
		m.extended("", id)
	}

	m.decide(rt, &decision{month: m, id: id, length: time.Duration(1+m.decided[id]%3) * 24 * time.Hour})
	m.settle()
}

// extended is an extension that somebody buys in the console.
func (m *month) extended(when, id string) {
	m.say("%s is extended in the console%s", id, when)
	m.aws.Change(id, func(r *capacity.Reservation) { r.End = r.End.Add(24 * time.Hour) })
}

// hostFails loses a host that has no job.
func (m *month) hostFails(rt *rapid.T) {
	for _, i := range m.aws.Instances {
		if node := nodeOf(i); m.slurm.Node(node).Job == nil && m.slurm.Node(node).InstanceID == i.ID {
			m.say("the host of %s fails", node)
			m.aws.End(i.ID)
			m.aws.Change(i.ReservationID, func(r *capacity.Reservation) { r.Unhealthy++ })
			m.AdvanceTo(m.Now())
			m.settle()

			return
		}
	}

	rt.Skip()
}

func (m *month) misbehave(rt *rapid.T) {
	switch rapid.IntRange(0, 2).Draw(rt, "how") {
	case 0:
		m.aws.Late = !m.aws.Late
		m.say("EC2 is late: %t", m.aws.Late)

		if !m.aws.Late {
			m.settle() // sync polls: it sees soon what EC2 shows now
		}
	case 1:
		m.down = m.Now().Add(time.Duration(rapid.IntRange(1, 240).Draw(rt, "minutes")) * time.Minute)
		m.say("AWS is down until %s", model.Clock(m.down))
	case 2:
		if slices.ContainsFunc(m.aws.All, func(r capacity.Reservation) bool {
			return !r.Start.After(m.Now()) && m.Now().Sub(r.Start) <= 10*time.Minute
		}) {
			rt.Skip() // what has opened stays open
		}

		m.aws.OpensLate = time.Duration(rapid.IntRange(0, 10).Draw(rt, "minutes")) * time.Minute
		m.say("EC2 opens blocks %s late", m.aws.OpensLate)
	}
}

func (m *month) fault(rt *rapid.T) {
	verbs := []string{
		"config",
		"nodes",
		"reservations",
		"jobs",
		"job",
		"describe reservations",
		"find reservations",
		"find instances",
		"create reservation",
		"update reservation",
		"delete reservation",
		"set time limit",
		"edit",
		"requeue",
		"requeue and hold",
		"release",
		"begin",
		"admin comment",
		"power up",
		"power down",
		"power down by force",
		"terminate",
		"cancel reservation",
		"launch",
		"create ODCR",
		"set addresses",
		"describe subnets",
		"describe a launch template",
		"record",
		"enlist",
		"unlist",
		"user hold",
		"notify",
		"cancel",
	}

	verb := rapid.SampledFrom(verbs).Draw(rt, "verb")
	if rapid.Bool().Draw(rt, "after its effect") {
		m.loses = verb
	} else {
		m.fails = verb
	}

	m.say("%q fails", verb)
}

func (m *month) kill(rt *rapid.T) {
	m.dieAt, m.dieAfter = rapid.IntRange(1, 4).Draw(rt, "change"), rapid.Bool().Draw(rt, "after its effect")
}

// lastFiles are what a pass writes at its end, in this order.
var lastFiles = []string{"private/samples-", "private/samples.json", "snapshot.json", "plan", "facts/"}

// halfWritten kills a pass between its last files: they are as they were before.
func (m *month) halfWritten(rt *rapid.T) {
	m.half = rapid.IntRange(1, len(lastFiles)).Draw(rt, "files")
}

func (m *month) files() map[string]string {
	if m.half == 0 {
		return nil
	}

	all, dir := map[string]string{}, os.DirFS(string(m.sources.State))
	_ = fs.WalkDir(dir, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			text, _ := fs.ReadFile(dir, name)
			all[name] = string(text)
		}

		return err
	})

	return all
}

func (m *month) unwrite(before map[string]string) {
	for name, now := range m.files() {
		was, there := before[name]
		if now == was ||
			!slices.ContainsFunc(
				lastFiles[len(lastFiles)-m.half:],
				func(last string) bool { return strings.HasPrefix(name, last) },
			) {
			continue
		}

		m.say("killed before it writes %s", name)

		path := filepath.Join(string(m.sources.State), name)
		if err := os.Remove(path); err != nil {
			m.Fatal(err)
		}

		if there {
			if err := os.WriteFile(path, []byte(was), 0o600); err != nil {
				m.Fatal(err)
			}
		}
	}
}

// meetAnother has another pass begin in the middle of one, and both go on in turns: state_dir is lost meanwhile, or its
// file system has no locks.
func (m *month) meetAnother(rt *rapid.T) {
	m.meetsAt, m.dies = rapid.IntRange(1, 3).Draw(rt, "change"), rapid.Bool().Draw(rt, "the other is killed")
	turns, lost := rapid.SliceOfN(rapid.IntRange(0, 3), 6, 6).
		Draw(rt, "turns"),
		rapid.Bool().
			Draw(rt, "state_dir is lost")
	m.meets = func() {
		m.say("another pass begins, state_dir is lost: %t", lost)

		if lost {
			m.loseDir()
		} else if err := os.Remove(m.sources.State.PrivatePath(string(state.PassLock))); err != nil {
			m.Fatal(err)
		}

		m.turns = turns
		m.next, m.stop = iter.Pull(func(yield func(struct{}) bool) {
			m.wait = func() bool { return yield(struct{}{}) }
			_, _ = m.alive(m.sources)
		})
	}
}

// goesOn lets the other pass make its next changes.
func (m *month) goesOn(changes int) {
	m.turn = true
	for more := true; more && changes > 0; changes-- {
		_, more = m.next()
	}

	m.turn = false
}

// meetHook has something happen in the middle of a pass.
func (m *month) meetHook(rt *rapid.T) {
	m.meetsAt = rapid.IntRange(1, 3).Draw(rt, "change")
	what := rapid.SampledFrom([]string{"time", "user", "extension"}).Draw(rt, "what")
	later := time.Duration(rapid.IntRange(1, 120).Draw(rt, "seconds")) * time.Second
	m.meets = func() {
		live := m.live()
		switch {
		case what == "time":
			m.say("%s pass in the middle of the pass", later)
			m.AdvanceTo(m.Now().Add(later))
		case what == "user" && len(live) > 0:
			m.user(rt)
		case what == "extension":
			for _, id := range m.bought() {
				if r, _ := m.aws.Real(id); m.Now().Before(r.End.Add(-35 * time.Minute)) {
					m.extended(" in the middle of the pass", id)
					break
				}
			}
		}
	}
}

// lose loses state_dir, or the settings for some hours.
func (m *month) lose(rt *rapid.T) {
	if m.Now().Before(m.down) {
		rt.Skip() // nobody knows anything then
	}

	if rapid.Bool().Draw(rt, "state_dir") {
		m.say("state_dir is lost")
		m.loseDir()
		m.settle()
		return
	}

	m.say("the settings are empty for an hour")
	parts := m.sources.Settings.Partitions
	m.sources.Settings.Partitions = nil
	m.settle()
	m.sources.Settings.Partitions = parts
	m.settle()
}

// mislead has a pass read what is not so: settings with other margins, as an empty file has them; a state_dir from a
// backup while AWS is silent; one answer with a wrong Date. It moves no fence to an earlier time, and cuts no job.
func (m *month) mislead(rt *rapid.T) {
	m.settle()

	if !m.clean || m.Now().Before(m.down) {
		rt.Skip()
	}

	fences := maps.Clone(m.slurm.Fences)
	ends := map[*model.Job]time.Time{}
	for _, j := range m.live() {
		if j.State == "RUNNING" {
			ends[j] = j.End
		}
	}

	undo := func() {}
	what := rapid.SampledFrom([]string{"settings", "state_dir", "a date"}).Draw(rt, "what")
	m.say("a pass is misled by %s", what)

	switch what {
	case "settings":
		timing := m.sources.Settings.Timing
		m.sources.Settings.Timing.DrainMargin.Duration = 12 * time.Hour
		undo = func() { m.sources.Settings.Timing = timing }
	case "state_dir":
		if err := backdate(m.sources.State, 12*time.Hour); err != nil {
			rt.Fatal(err)
		}

		m.down = m.Now().Add(time.Second)
		undo = func() { m.down = m.Now() }
	case "a date":
		m.aws.Dates = make([]time.Duration, rapid.IntRange(1, 6).Draw(rt, "answers"))
		m.aws.Dates[len(m.aws.Dates)-1] = 12 * time.Hour
	}

	_, _ = m.pass()

	undo()

	for _, was := range fences {
		for _, is := range m.slurm.Fences {
			if is.Guard().Key() == was.Guard().Key() && is.Start.Before(was.Start.Add(-sameTime)) {
				m.bad("%s moved to %s", was.Name, model.Clock(is.Start))
			}
		}
	}

	for j, end := range ends {
		if j.State != "RUNNING" || j.End.Before(end) {
			m.bad("job %s was to run until %s", j.Shown, model.Clock(end))
		}
	}

	m.settle()
}

// holds is what must be so after each step: see the rules in ARCHITECTURE.md.
func (m *month) holds(*rapid.T) {
	m.boughtOnce()

	for _, j := range m.slurm.Jobs {
		for _, name := range j.Nodes {
			n := m.slurm.Node(name)

			i := slices.IndexFunc(m.aws.Instances, func(i capacity.Instance) bool { return i.ID == n.InstanceID })
			if j.State != "RUNNING" || j.Partition == "cpu" || i < 0 {
				continue
			}

			if r, _ := m.aws.Real(m.aws.Instances[i].ReservationID); r.Kind.IsBlock() &&
				m.Now().After(fence(r).Add(time.Minute)) {
				m.bad("R2: job %s runs past the fence of %s", j.Shown, r.ID)
			}
		}
	}

	if m.seen == nil || m.Now().Before(m.down) || m.aws.Late {
		return
	}

	for _, s := range m.seen.SlotStates(m.Now()) {
		r, known := m.aws.Real(s.Reservation.ID)
		if !known || !r.IsLiveAt(m.Now()) || !s.Reservation.End.Equal(r.End) {
			continue
		}

		if !m.fenced(s.Slot.Name, r.ID) {
			m.bad("R2: %s has no fence", r.ID)
		}

		for _, f := range m.slurm.Fences { // R11
			if late := f.Start.Add(-m.Skew).Sub(fence(r)); f.IsFenceFor(s.Slot.Name, r.ID) && late > 6*time.Second &&
				f.Start.After(m.slurm.Now) {
				m.bad("R11: the fence of %s is %s late", r.ID, late)
			}
		}
	}
	defer func(was month) {
		m.dieAt, m.meetsAt, m.half, m.fails, m.loses = was.dieAt, was.meetsAt, was.half, was.fails, was.loses
	}(*m)

	m.dieAt, m.meetsAt, m.half, m.fails, m.loses = 0, 0, 0, "", ""
	// What a pass has read for the first time counts for nothing where its files are not written.
	if m.forgot {
		_, _ = m.pass()
	}

	// R5, R8: the world is as passes want it, at the latest after another one. What a pass reads for the first time may
	// count with the second.
	if _, err := m.pass(); err != nil {
		m.bad("%v", err)
	}

	for _, j := range m.slurm.Jobs {
		limit := m.stated[j.Shown]
		if j.State == "PENDING" && j.TimeMin == capacity.Minutes(32) && limit.Set && j.TimeLimit != limit {
			m.bad("job %s waits with %s, and its owner stated %s", j.Shown, j.TimeLimit, limit)
		}
	}

	m.quiet = true
	done, err := m.pass()
	if m.quiet = false; err != nil || len(done) > 0 {
		m.bad("the second pass: %v, %v", done, err)
	}
}

// ends lets the world become quiet: nothing is left behind, and a job that can run runs.
func (m *month) ends() {
	m.aws.Late, m.aws.OpensLate, m.down, m.fails, m.loses, m.dieAt, m.meetsAt = false, 0, time.Time{}, "", "", 0, 0
	m.lastOrders()

	for range 4 {
		m.AdvanceTo(m.Now().Add(6 * time.Minute))
		m.settle()
	}

	m.AdvanceTo(m.Now()) // Slurm calls its programs

	for _, r := range m.aws.All { // R4
		if one, _ := m.aws.Real(r.ID); r.Kind == capacity.ODCR && r.ID != "cr-theirs" && one.State.IsLive() &&
			m.Now().Sub(r.Created) > 2*capacity.LaunchTime {
			m.bad("R4: %s is still held", r.ID)
		}
	}

	for _, i := range m.aws.Instances { // R5
		if n := m.slurm.Node(nodeOf(i)); n.InstanceID != i.ID && m.Now().Sub(i.Launched) > time.Hour {
			m.bad("R5: instance %s is of no node", i.ID)
		}
	}

	for _, s := range m.seen.SlotStates(m.Now()) {
		r := s.Reservation
		waits := slices.ContainsFunc(
			m.slurm.Jobs,
			func(j *model.Job) bool { return j.State == "PENDING" && j.Partition == s.Partition.Name },
		)
		free := slices.ContainsFunc(
			m.slurm.All,
			func(n *model.Node) bool { return n.Slot == s.Slot.Name && n.Job == nil && n.State == model.Idle },
		)
		if waits || !free || !m.aws.Open(r.ID) || m.Now().Add(2*time.Hour).After(s.Window.Fence) {
			continue
		}

		j := m.slurm.Submit(
			model.Job{
				Job: capacity.Job{
					Partition: s.Partition.Name,
					Batch:     true,
					Requeue:   true,
					NumNodes:  1,
					TimeLimit: capacity.Minutes(35),
				},
				Slot: s.Slot.Name,
				Work: time.Hour,
			},
		)
		m.AdvanceTo(m.Now().Add(time.Second))

		if j.State != "RUNNING" {
			m.bad("job %s does not start on slot %s", j.Shown, s.Slot.Name)
		}

		m.slurm.End(j, "CANCELLED")
	}
}
