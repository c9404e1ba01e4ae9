package lifecycle

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

func TestLimitChanges(t *testing.T) {
	fence := at("3h")
	byNode := map[string]fencedSlot{
		"gpu-1": {slot: "gpu", fence: fence}, "gpu-2": {slot: "gpu", fence: fence},
		"big-1": {slot: "big", fence: at("9h"), maxTime: capacity.Minutes(240)},
		"new-1": {slot: "new", start: at("-1m"), fence: at("9h")},
	}
	// job runs since the start with the limit; its nodes had booted by then.
	job := func(start string, limit capacity.Limit, nodes ...string) capacity.Job {
		j := capacity.Job{ID: 7, State: "RUNNING", Nodes: nodes, Start: at(start), TimeLimit: limit}
		if limit.Bounded() {
			j.End = j.Start.Add(limit.Duration())
		}

		return j
	}

	qos := func(j capacity.Job, name string) capacity.Job { j.QOS = name; return j }
	snap := &capacity.Snapshot{
		Walls: capacity.Walls{
			QOS: map[string]capacity.Wall{"short": {MaxWall: capacity.Minutes(60)}, "metered": {Metered: true}},
		},
	}
	fit, upTo := state.JobRecord{Wanted: state.Wanted{Fit: true}}, func(minutes int) state.JobRecord {
		return state.JobRecord{Wanted: state.Wanted{Fit: true, Minutes: minutes}}
	}
	for name, c := range map[string]struct {
		job  capacity.Job
		mark state.JobRecord
		want int // 0: no change
	}{
		"ends before the fence": {job: job("-1h", capacity.Minutes(120), "gpu-1"), want: 0},
		"ends at the fence":     {job: job("0h", capacity.Minutes(180), "gpu-1"), want: 0},
		"crosses by a minute":   {job: job("1m", capacity.Minutes(180), "gpu-1"), want: 179},
		"crosses by a second":   {job: job("1s", capacity.Minutes(180), "gpu-1"), want: 179},
		"unlimited":             {job: job("-1h", capacity.NoLimit, "gpu-1"), want: 240},
		"should have ended: ends at once": {
			job:  job("-10h", capacity.Minutes(60*24), "gpu-1"),
			want: 13 * 60,
		},
		"collapsed to its floor, marked":       {job("0h", capacity.Minutes(30), "gpu-1"), fit, 180},
		"the same without the mark":            {job: job("0h", capacity.Minutes(30), "gpu-1"), want: 0},
		"marked, within a minute of the fence": {job("-59s", capacity.Minutes(180), "gpu-1"), fit, 0},
		"marked, crosses":                      {job("0h", capacity.Minutes(300), "gpu-1"), fit, 180},
		"raised to what its owner stated":      {job("0h", capacity.Minutes(30), "gpu-1"), upTo(120), 120},
		"its owner stated more than fits":      {job("0h", capacity.Minutes(30), "gpu-1"), upTo(2880), 180},
		"about to be preempted": {func() capacity.Job {
			j := job("-1h", capacity.Minutes(120), "gpu-1")
			j.End = at("1m")

			return j
		}(), upTo(300), 0},
		"has what its owner stated":          {job("0h", capacity.Minutes(30), "gpu-1"), upTo(30), 0},
		"crosses, and its owner stated less": {job("0h", capacity.Minutes(300), "gpu-1"), upTo(30), 180},
		"what accounting allows": {
			qos(job("0h", capacity.Minutes(30), "gpu-1"), "short"),
			fit,
			60,
		},
		"its owner stated more than that": {
			qos(job("0h", capacity.Minutes(30), "gpu-1"), "short"),
			upTo(120),
			60,
		},
		"its owner stated less than that": {
			qos(job("0h", capacity.Minutes(30), "gpu-1"), "short"),
			upTo(40),
			40,
		},
		"accounting meters use": {
			qos(job("0h", capacity.Minutes(30), "gpu-1"), "metered"),
			fit,
			0,
		},
		"accounting meters use, and it crosses": {
			qos(job("0h", capacity.Minutes(300), "gpu-1"), "metered"),
			fit,
			180,
		},
		"never past MaxTime": {job("0h", capacity.Minutes(30), "big-1"), fit, 240},
		"at MaxTime already": {job("0h", capacity.Minutes(240), "big-1"), fit, 0},
		"on nodes of two slots: the earlier fence": {
			job:  job("0h", capacity.Minutes(300), "big-1", "gpu-2"),
			want: 180,
		},
		"from before the slot's turn, over its limit": {job("-1h", capacity.Minutes(60), "new-1"), fit, 0},
		"started on the second":                       {job("-61s", capacity.Minutes(30), "new-1"), fit, 541},
		"unlimited, with Slurm's far end": {
			job: capacity.Job{
				State:     "RUNNING",
				Nodes:     []string{"gpu-1"},
				Start:     at("-1h"),
				End:       at("8760h"),
				TimeLimit: capacity.NoLimit,
			},
			want: 240,
		},
		"no end is known": {
			job: capacity.Job{
				State:     "RUNNING",
				Nodes:     []string{"gpu-1"},
				Start:     at("-1h"),
				TimeLimit: capacity.Minutes(600),
			},
			want: 240,
		},
		"not on our nodes": {job: job("0h", capacity.Minutes(6000), "cpu-1"), want: 0},
		"nodes still boot: the end is not final yet": {
			job: capacity.Job{
				ID:        7,
				State:     "RUNNING",
				StateFlag: "CONFIGURING",
				Nodes:     []string{"gpu-1"},
				Start:     noon,
				End:       at("9h"),
				TimeLimit: capacity.Minutes(540),
			},
			want: 0,
		},
		"pending": {job: capacity.Job{ID: 7, State: "PENDING", TimeLimit: capacity.Minutes(6000)}, want: 0},
		// Slurm ends a job at boot done + limit; its StartTime may be from before the boot.
		"the end counts, not the start": {
			job: capacity.Job{
				ID:        7,
				State:     "RUNNING",
				Nodes:     []string{"gpu-1"},
				Start:     at("-15m"),
				End:       at("3h10m"),
				TimeLimit: capacity.Minutes(180),
			},
			want: 170,
		},
	} {
		t.Run(name, func(t *testing.T) {
			changes := View{
				Snap:       snap,
				Now:        noon,
				JobRecords: map[string]state.JobRecord{"": c.mark},
			}.limitChanges([]capacity.Job{c.job}, byNode)
			got := 0
			if len(changes) > 0 {
				got = changes[0].minutes
			}

			if got != c.want {
				t.Fatalf("limit %d, want %d", got, c.want)
			}
		})
	}
}

// R2: whatever the start and the limit, after the changes of one pass no job ends past
// the fence, and a second pass has nothing to do.
func TestR2AfterOnePass(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		fence := noon.Add(time.Duration(rng.IntN(3*24*3600)) * time.Second)
		j := capacity.Job{
			ID:    7,
			State: "RUNNING",
			Nodes: []string{"gpu-1"},
			Start: noon.Add(-time.Duration(rng.IntN(24*3600)) * time.Second),
		}
		j.TimeLimit = capacity.Minutes(1 + rng.IntN(5*24*60))
		boot := time.Duration(rng.IntN(900)) * time.Second
		j.End = j.Start.Add(boot).Add(j.TimeLimit.Duration())

		records := map[string]state.JobRecord{"": {Wanted: state.Wanted{Fit: rng.IntN(2) == 0}}}
		byNode := map[string]fencedSlot{"gpu-1": {slot: "gpu", fence: fence}}
		before := fmt.Sprintf("%+v", j)
		for _, c := range (View{
			Snap:       &capacity.Snapshot{},
			Now:        noon,
			JobRecords: records,
		}).limitChanges([]capacity.Job{j}, byNode) {
			j.TimeLimit = capacity.Minutes(c.minutes)
			j.End = j.Start.Add(boot).Add(j.TimeLimit.Duration())
		}

		began := j.Start.Add(boot)
		if j.End.After(fence) && fence.Sub(began) >= time.Minute {
			t.Fatalf("%s ends at %s, the fence is at %s", before, j.End, fence)
		}

		if again := (View{
			Snap:       &capacity.Snapshot{},
			Now:        noon,
			JobRecords: records,
		}).limitChanges([]capacity.Job{j}, byNode); len(again) > 0 {
			t.Fatalf("%s: a second pass changes the limit again, to %d", before, again[0].minutes)
		}
	}
}

// A limit of a fitted job that somebody has set is theirs, and stays. What Slurm does at a start, and what sync has
// set, is not; nor is what a pass was about to set when it was killed.
func TestLimitsOfOthersStay(t *testing.T) {
	snap := &capacity.Snapshot{
		Partitions: []capacity.Partition{{Name: "gpu", MinTime: capacity.Duration{Duration: 30 * time.Minute}}},
	}
	fit := state.Wanted{Fit: true}

	pending := state.JobRecord{Wanted: fit, Seen: state.Seen{SeenMinutes: 600}}
	running := state.JobRecord{Wanted: fit, Seen: state.Seen{SeenMinutes: 31, SetMinutes: 500, Started: true}}
	with := func(m state.JobRecord, change func(*state.JobRecord)) state.JobRecord { change(&m); return m }
	for name, c := range map[string]struct {
		before   state.JobRecord
		state    string
		limit    capacity.Limit
		restarts int
		want     int // UpTo
	}{
		"it waits, as before": {
			before: pending,
			state:  "PENDING",
			limit:  capacity.Minutes(600),
		},
		"lowered while it waits": {
			before: pending,
			state:  "PENDING",
			limit:  capacity.Minutes(60),
			want:   60,
		},
		"raised while it waits": {
			before: pending,
			state:  "PENDING",
			limit:  capacity.Minutes(700),
			want:   700,
		},
		"sync has set it while it waits": {
			before: with(pending, func(m *state.JobRecord) { m.SetMinutes = 900 }),
			state:  "PENDING",
			limit:  capacity.Minutes(900),
		},
		"lowered, and it waits on": {
			before: with(pending, func(m *state.JobRecord) { m.SeenMinutes, m.Wanted.Minutes = 60, 60 }),
			state:  "PENDING",
			limit:  capacity.Minutes(60),
			want:   60,
		},
		"Slurm starts it with its floor": {
			before: pending,
			state:  "RUNNING",
			limit:  capacity.Minutes(31),
		},
		"Slurm starts it with what is left": {
			before: pending,
			state:  "RUNNING",
			limit:  capacity.Minutes(400),
		},
		"the pass that was to raise it was killed": {
			before: running,
			state:  "RUNNING",
			limit:  capacity.Minutes(31),
		},
		"sync has raised it": {
			before: running,
			state:  "RUNNING",
			limit:  capacity.Minutes(500),
		},
		"lowered while it runs": {
			before: running,
			state:  "RUNNING",
			limit:  capacity.Minutes(60),
			want:   60,
		},
		"lowered before, and it runs on": {
			before: with(running, func(m *state.JobRecord) { m.SeenMinutes, m.SetMinutes, m.Wanted.Minutes = 60, 0, 60 }),
			state:  "RUNNING",
			limit:  capacity.Minutes(60),
			want:   60,
		},
		"an administrator raised it": {
			before: running,
			state:  "RUNNING",
			limit:  capacity.Minutes(550),
			want:   550,
		},
		"an administrator took it off": {before: running, state: "RUNNING", limit: capacity.NoLimit},
		"requeued by Slurm, which keeps the limit": {
			before:   running,
			state:    "PENDING",
			limit:    capacity.Minutes(500),
			restarts: 1,
		},
		"lowered, then requeued": {
			before:   with(running, func(m *state.JobRecord) { m.SeenMinutes, m.SetMinutes, m.Wanted.Minutes = 60, 0, 60 }),
			state:    "PENDING",
			limit:    capacity.Minutes(60),
			restarts: 1,
			want:     60,
		},
		"a mark of an older version, which saw nothing": {
			before: state.JobRecord{Wanted: state.Wanted{Fit: true}},
			state:  "RUNNING",
			limit:  capacity.Minutes(60),
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := capacity.Job{
				Shown:     "7",
				State:     c.state,
				Partition: "gpu",
				TimeMin:   capacity.Minutes(31),
				TimeLimit: c.limit,
				Restarts:  c.restarts,
			}
			got := trustRecords(snap, []capacity.Job{j}, map[string]state.JobRecord{"7": c.before})["7"]
			if got.Wanted.Minutes != c.want || !got.Fit || got.SeenMinutes != c.limit.Minutes || got.SetMinutes != 0 ||
				got.Started != (c.state == "RUNNING") {
				t.Errorf("%+v, want it up to %d minutes", got, c.want)
			}
		})
	}

	// A task that somebody has changed waits apart from the others of its array.
	task := capacity.Job{
		Shown:     "12_3",
		State:     "PENDING",
		Partition: "gpu",
		TimeMin:   capacity.Minutes(31),
		TimeLimit: capacity.Minutes(60),
	}

	got := trustRecords(snap, []capacity.Job{task}, map[string]state.JobRecord{"12_": pending})["12_3"]
	if got.Wanted.Minutes != 60 {
		t.Errorf("a task that was lowered: %+v", got)
	}
}

// How what the owners of waiting jobs are told begins.
var (
	neverStarts = "pcs-capacity: " + string(capacity.NoteNeverStarts)
	cannotStart = "pcs-capacity: " + string(capacity.NoteCannotStart)
	fewHosts    = "pcs-capacity: " + string(capacity.NoteFailedHosts)
	again       = "pcs-capacity: " + string(capacity.NoteStartsAgain)
)

// What the owners of waiting jobs are told, and when it is taken back.
func TestWaitingNote(t *testing.T) {
	block := block("cr-0aaaaaaaaaaaaaaa1", "-1h", "24h", capacity.StateActive)
	block.Total, block.Unhealthy = 4, 1
	snap := oneSlot("ec2", []string{block.ID}, block)
	snap.Partitions[0].Groups[0].PurchaseOption = capacity.CapacityBlock
	snap.Submit.Strict, snap.TakenAt = true, noon
	snap.Submit.StaleAfter.Duration = 600e9

	job := func(nodes int, change func(*capacity.Job)) capacity.Job {
		j := capacity.Job{
			Shown:     "7",
			Partition: "gpu",
			State:     "PENDING",
			NumNodes:  nodes,
			TimeLimit: capacity.Minutes(60),
		}
		if change != nil {
			change(&j)
		}

		return j
	}
	says := func(text string) func(*capacity.Job) { return func(j *capacity.Job) { j.AdminComment = text } }
	short := fewHosts + "the job needs 4 nodes, and 3 of the 4 hosts of " + block.ID +
		" are usable; to start now, ask for fewer: scontrol update numnodes=3 jobid=7"
	for name, c := range map[string]struct {
		job  capacity.Job
		want string // "": nothing; else how it begins
	}{
		"as many nodes as are usable": {job(3, nil), ""},
		"one more":                    {job(4, nil), short},
		"told already":                {job(4, says(short)), ""},
		"other numbers now":           {job(4, says(strings.Replace(short, "3 of", "2 of", 1))), short},
		"the hosts are back":          {job(3, says(short)), again},
		"that is told already":        {job(3, says(again)), ""},
		"never":                       {job(5, nil), cannotStart + "the job needs 5 nodes"},
		"never, told in other words":  {job(5, says(neverStarts+"something else")), ""},
		"never any more":              {job(5, says(short)), cannotStart},
		"never, but elsewhere":        {job(5, func(j *capacity.Job) { j.Partition = "gpu,cpu" }), ""},
		"a launch failed before":      {job(4, says("pcs-capacity: nodes gpu-1 were not launched: X: y")), short},
		"somebody else's words":       {job(4, says("ask bob")), ""},
		"another reason of ours":      {job(4, says("pcs-capacity: requeued at noon")), ""},
		"held": {
			job(4, func(j *capacity.Job) { j.Held, j.Reason = true, "JobHeldAdmin" }),
			"",
		},
		"it runs": {job(4, func(j *capacity.Job) { j.State = "RUNNING" }), ""},
		"too long for what is left": {
			job(4, func(j *capacity.Job) { j.TimeLimit = capacity.Minutes(9999) }),
			cannotStart + "the job needs",
		},
		"what no minute can allow": {
			job(4, func(j *capacity.Job) { j.Comment = "on_end=never" }),
			neverStarts + "on_end=",
		},
		"its dependency failed": {
			job(5, func(j *capacity.Job) { j.Reason = capacity.DependencyNeverSatisfied }),
			"",
		},
		"another cluster runs it":         {job(5, func(j *capacity.Job) { j.State = capacity.Revoked }), ""},
		"of a partition that is not ours": {job(4, func(j *capacity.Job) { j.Partition = "cpu" }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, needed := (&waiter{snap, noon, nil, map[jobKey]stuckReason{}}).note(c.job)
			if needed != (c.want != "") || !strings.HasPrefix(got.String(), c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// An owner is told of a refusal when the pass before has judged the same: one that read no settings, another clock or
// another fence is no reason.
func TestRefusalsTakeTwoPasses(t *testing.T) {
	now := block("cr-0aaaaaaaaaaaaaaa1", "-1h", "24h", capacity.StateActive)
	now.Total = 4
	longer := now
	longer.End = longer.End.Add(24 * time.Hour)
	world := func(r capacity.Reservation) *capacity.Snapshot {
		snap := oneSlot("ec2", []string{r.ID}, r)
		snap.Partitions[0].Groups[0].PurchaseOption = capacity.CapacityBlock
		snap.Submit.Strict, snap.TakenAt = true, noon
		return snap
	}
	lenient := world(now)
	lenient.Submit.Strict = false

	early := world(now)
	early.TakenAt = noon.Add(-10 * time.Hour)
	job := capacity.Job{
		Shown:     "7",
		Partition: "gpu",
		State:     "PENDING",
		NumNodes:  1,
		TimeLimit: capacity.Minutes(24 * 60),
	}
	for name, c := range map[string]struct {
		before *capacity.Snapshot
		told   bool
	}{
		"the pass before saw the same":         {world(now), true},
		"it saw a later fence":                 {world(longer), false},
		"it had another clock":                 {early, false},
		"it refused nothing":                   {lenient, false},
		"it had no partitions in its settings": {&capacity.Snapshot{}, false},
	} {
		w := waiter{world(now), noon, c.before, map[jobKey]stuckReason{}}
		if got, told := w.note(job); told != c.told {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Nodes of failed hosts are those that take no jobs; the same ones, as long as they do not.
func TestLostNodes(t *testing.T) {
	block := block("cr-0", "-1h", "24h", capacity.StateActive)
	block.Total, block.Unhealthy = 4, 1
	v := oneSlot("ec2", []string{"cr-0"}, block).SlotStates(noon)[0]

	nodes := []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4"}
	up, off, broken := capacity.Node{
		State: "IDLE",
	}, capacity.Node{
		State: "IDLE+CLOUD+POWERED_DOWN",
	}, capacity.Node{
		State: "IDLE+CLOUD+NOT_RESPONDING",
	}
	boots := capacity.Node{State: model.Boots}
	for name, c := range map[string]struct {
		nodes  []capacity.Node
		before string
		want   string
	}{
		"all are up":                      {[]capacity.Node{up, up, up, up}, "", ""},
		"one does not answer":             {[]capacity.Node{up, broken, up, up}, "", "gpu-2"},
		"all are off":                     {[]capacity.Node{off, off, off, off}, "", "gpu-4"},
		"one is off, one is broken":       {[]capacity.Node{up, broken, up, off}, "", "gpu-2"},
		"one boots":                       {[]capacity.Node{up, up, off, boots}, "", "gpu-3"},
		"it was another one":              {[]capacity.Node{off, off, off, off}, "gpu-2", "gpu-2"},
		"that one is up":                  {[]capacity.Node{off, up, off, off}, "gpu-2", "gpu-4"},
		"the broken one is off meanwhile": {[]capacity.Node{off, off, up, broken}, "gpu-2", "gpu-2"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &Cluster{}
			for i, n := range c.nodes {
				n.Name = nodes[i]
				cluster.Nodes = append(cluster.Nodes, n)
			}

			if c.before != "" {
				cluster.Reservations = []capacity.SlurmReservation{
					reservation("pcs-capacity-surplus-gpu.cr-0."+me, []string{c.before}, noon, noon),
				}
			}

			if got := strings.Join(cluster.lostNodes(v, nodes), ","); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// What no other test decides; most of it is that the first of several does not hide the others.

// R7: what a job may have counts as it was before its start, as far as a pass has seen that.
func TestR7_MarksCountFromBeforeTheStart(t *testing.T) {
	snap := &capacity.Snapshot{
		Partitions: []capacity.Partition{{Name: "gpu", MinTime: capacity.Duration{Duration: 30 * time.Minute}}},
	}
	job := func(shown, jobState string, timeMin, limit, restarts int) capacity.Job {
		return capacity.Job{
			Shown:     shown,
			State:     jobState,
			Partition: "gpu,cpu",
			Comment:   "on_end=hold",
			Restarts:  restarts,
			TimeMin:   capacity.Minutes(timeMin),
			TimeLimit: capacity.Minutes(limit),
		}
	}
	hold := state.JobRecord{Wanted: state.Wanted{OnEnd: capacity.HoldAtEnd}}
	fitted := state.JobRecord{Wanted: state.Wanted{OnEnd: capacity.HoldAtEnd, Fit: true}}
	upTo := state.JobRecord{Wanted: state.Wanted{OnEnd: capacity.HoldAtEnd, Fit: true, Minutes: 90}}
	// saw is a mark with the limit that the pass sees, of a job that runs where it has started.
	saw := func(m state.JobRecord, limit int, started bool) state.JobRecord {
		m.SeenMinutes = limit
		m.Started = started
		m.HadTimeMin = !started

		return m
	}
	again := func(m state.JobRecord) state.JobRecord { m.Restarts = 1; return m }

	before := map[string]state.JobRecord{
		"21":   upTo,
		"3":    {},
		"4":    upTo,
		"5":    upTo,
		"12_":  {},
		"13_2": again(upTo),
		"13_":  fitted,
		"15":   {WarnedMinutes: 15, FenceRequeues: 2, LastFence: 9},
		"16":   {WarnedMinutes: 15, FenceRequeues: 2, LastFence: 9},
	}
	noted := job("23", "RUNNING", 32, 60, 0)
	noted.AdminComment = capacity.AdminNote{Kind: capacity.NoteStated, Stated: capacity.Minutes(90)}.String()

	jobs := []capacity.Job{
		// Requeued at a fence, with a limit of its own: first seen while it waits, after two starts, without anything
		// that tells its limit, and with the note from its submission.
		job("20", "PENDING", 32, 90, 0),
		job("21", "RUNNING", 32, 40, 2),
		job("22", "RUNNING", 32, 40, 0),
		noted,
		job("1", "PENDING", 30, 90, 0),
		job("2", "PENDING", 31, 90, 0),
		job("8", "PENDING", 90, 90, 0),
		job("3", "RUNNING", 31, 90, 0),
		job("4", "SUSPENDED", 10, 30, 0),
		job("5", "RUNNING", 31, 90, 1),    // requeued since: another start
		job("6", "RUNNING", 31, 90, 0),    // first seen running
		job("9", "RUNNING", 30, 90, 0),    // so, and nobody knows what it stated
		job("12_3", "RUNNING", 31, 90, 0), // waited with the others of its array
		job("13_2", "RUNNING", 31, 90, 0), // what is known of it is of another start
		job("14_[1-4]", "PENDING", 31, 90, 0),
		job("7", "COMPLETED", 31, 90, 0),
		// What a pass remembers itself, warnings of a run with it.
		job("15", "RUNNING", 30, 90, 0),
		job("16", "PENDING", 30, 90, 1),
	}
	want := map[string]state.JobRecord{
		"20":   saw(upTo, 90, false),
		"21":   saw(state.JobRecord{Restarts: 2, Wanted: upTo.Wanted}, 40, true),
		"22":   saw(fitted, 40, true),
		"23":   saw(upTo, 60, true),
		"1":    saw(upTo, 90, false),
		"2":    saw(fitted, 90, false),
		"8":    {Wanted: hold.Wanted, HadTimeMin: true},
		"3":    {},
		"4":    saw(upTo, 30, true),
		"5":    saw(again(fitted), 90, true),
		"6":    saw(fitted, 90, true),
		"9":    hold,
		"12_3": {},
		"13_2": saw(fitted, 90, true),
		"14_":  saw(fitted, 90, false),
		"15":   before["15"],
		"16":   saw(state.JobRecord{Restarts: 1, Wanted: upTo.Wanted, FenceRequeues: 2, LastFence: 9}, 90, false),
	}
	if diff := cmp.Diff(want, trustRecords(snap, jobs, before)); diff != "" {
		t.Error(diff)
	}
}

// Slurm cannot move a reservation that has begun: the new one is made under the other of its two names, and under a
// name that is taken by one of ours in its place.
func TestChangesUnderTheSecondName(t *testing.T) {
	const first, second = "pcs-capacity-fence-gpu.cr-0." + me, "pcs-capacity-fence-gpu.cr-0." + me + ".2"

	fence := func(name, start string) capacity.SlurmReservation {
		return reservation(name, []string{"gpu-1"}, at(start), at(start).AddDate(1, 0, 0))
	}
	for name, c := range map[string]struct {
		have []capacity.SlurmReservation
		want []string
	}{
		"the second is not active": {
			[]capacity.SlurmReservation{fence(second, "2h")},
			[]string{"update " + second + " for "},
		},
		"the first is active": {
			[]capacity.SlurmReservation{fence(first, "-1m")},
			[]string{"replace " + second + " for " + first},
		},
		"the second is active": {
			[]capacity.SlurmReservation{fence(second, "-1m")},
			[]string{"replace " + first + " for " + second},
		},
		"both are active": {
			[]capacity.SlurmReservation{fence(first, "-1m"), fence(second, "-1m")},
			[]string{"replace " + second + " for " + first + ", in its place"},
		},
		"both are, the other first": {
			[]capacity.SlurmReservation{fence(second, "-1m"), fence(first, "-1m")},
			[]string{"replace " + first + " for " + second + ", in its place"},
		},
		"one is active, one can move": {
			[]capacity.SlurmReservation{fence(first, "-1m"), fence(second, "2h")},
			[]string{"update " + second + " for ", "delete " + first + " for "},
		},
		"one is active, one is right": {
			[]capacity.SlurmReservation{fence(first, "-1m"), fence(second, "1h")},
			[]string{"delete " + first + " for "},
		},
		"one can move, the other, too": {
			[]capacity.SlurmReservation{fence(first, "2h"), fence(second, "2h")},
			[]string{"update " + first + " for ", "delete " + second + " for "},
		},
	} {
		todo, _ := steps(
			[]capacity.SlurmReservation{reservation(first, []string{"gpu-1"}, at("1h"), time.Time{})},
			c.have,
			nil,
			noon,
		)

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
