package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// A service that has waited for another one begins with the settings of now, not of when it was started.
func TestWatchReadsSettingsAgainAfterItsWait(t *testing.T) {
	w := newStage(t)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	unlock, err := w.sources.State.Lock(ctx, state.WatchLock, 0)
	if err != nil {
		t.Fatal(err)
	}

	sources := w.sources
	sources.Poll = time.Millisecond

	var read, passes []bool

	err = Watch{Say: func(line string) {
		if strings.HasPrefix(line, "waits: another `sync --watch` runs: ") {
			unlock()
		}
	}, Alive: func(passed string) {
		if passed == "" {
			passes = append(passes, len(read) == 2)
		}
	}, Sources: func(_ context.Context, renew bool) (Sources, error) {
		if read = append(read, renew); len(read) == 3 {
			stop()
		}
		return sources, nil
	}}.Run(ctx)
	if err != nil || !slices.Equal(read, []bool{false, true, false}) || len(passes) == 0 || !passes[0] {
		t.Errorf("read %v, passes %v, %v", read, passes, err)
	}
}

// mute is an AWS of which the program has had no answer since its start.
type mute struct {
	EC2
	offset time.Duration
}

var errMute = errors.New("no answer")

func (m mute) Region() string                   { return "us-east-2" }
func (m mute) Offset() time.Duration            { return m.offset }
func (m mute) Explain(err error) (string, bool) { return err.Error(), true }
func (m mute) Withheld() []string               { return nil }

func (m mute) Impaired(context.Context) (map[string]string, error) { return nil, errMute }

func (m mute) Subnets(context.Context, []string) ([]ec2.Subnet, []capacity.Missing, error) {
	return nil, nil, errMute
}

// A sync that starts while AWS does not answer goes on by the clock offset of the snapshot; one
// that AWS has answered before goes by what that said.
func TestOffsetOutlivesARestart(t *testing.T) {
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{{
		Name: "gpu", Provider: capacity.ProviderEC2,
		Groups: []capacity.GroupSettings{{Name: "gpu", SubnetIDs: []string{"subnet-1"}}},
	}}}
	for name, c := range map[string]struct{ known, want time.Duration }{
		"after a restart": {0, 7 * time.Minute},
		"while it runs":   {5 * time.Minute, 5 * time.Minute},
	} {
		old := &capacity.Snapshot{
			TakenAt:     now.Add(-time.Hour),
			ClockOffset: capacity.Duration{Duration: 7 * time.Minute},
		}
		s := Sources{
			Settings: settings,
			World:    World{EC2: mute{offset: c.known}, MachineTime: func() time.Time { return now }},
		}
		p := passOf(s, View{Old: old, Snap: &capacity.Snapshot{}})
		p.observe(t.Context(), func() (*Cluster, error) { return nil, errMute })

		snap := p.view.Snap
		if !p.view.NoAWS || snap.ClockOffset.Duration != c.want || !snap.TakenAt.Equal(old.TakenAt) {
			t.Errorf(
				"%s: the offset is %s, want %s; taken at %s, %v",
				name,
				snap.ClockOffset.Duration,
				c.want,
				snap.TakenAt,
				p.failed,
			)
		}
	}
}

// The nodes of a slot are those that Slurm shows, and those that only its partitions name;
// in the order of their numbers, each once.
func TestNodesOfASlot(t *testing.T) {
	settings := capacity.Settings{
		Partitions: []capacity.PartitionSettings{
			{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "gpu"}}},
		},
	}
	c := &Cluster{
		Nodes: []capacity.Node{
			{Name: "gpu-10", Features: []string{"gpu"}, GPUs: 4},
			{Name: "gpu-9", Features: []string{"x", "gpu"}, GPUs: 8},
			{Name: "login"},
			{Name: "old-1"},
		},
		Partitions: []capacity.SlurmPartition{{Name: "gpu", Nodes: []string{"gpu-9", "gpu-2"}}},
	}
	c.assign(settings)

	if got := c.SlotNodes("gpu"); !slices.Equal(got, []string{"gpu-2", "gpu-9", "gpu-10"}) {
		t.Errorf("gpu: %v", got)
	}

	if got := c.SlotNodes("old"); !slices.Equal(got, []string{"old-1"}) {
		t.Errorf("a slot that the settings had before: %v", got)
	}

	if got := c.feature("gpu", c.SlotNodes("gpu")); got != "gpu" {
		t.Errorf("every node that is shown has the feature: %q", got)
	}

	if got := c.feature("gpu", []string{"gpu-2"}); got != "" {
		t.Errorf("no node is shown: %q", got)
	}

	c.Nodes[0].Features = nil
	if got := c.feature("gpu", c.SlotNodes("gpu")); got != "" {
		t.Errorf("a node lacks the feature: %q", got)
	}

	if got, _ := c.gpusAndCPUs(c.SlotNodes("gpu")); got != 8 {
		t.Errorf("%d GPUs a node", got)
	}

	if got, _ := c.gpusAndCPUs([]string{"gpu-2", "login"}); got != 0 {
		t.Errorf("%d GPUs a node", got)
	}
}

// Nodes of a partition that Slurm no longer shows are named: a note, and after another pass a
// problem. Where Slurm hides what is powered down, nothing is known.
func TestNodesThatAreGone(t *testing.T) {
	settings := capacity.Settings{
		Partitions: []capacity.PartitionSettings{
			{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "gpu", Slots: 1}}},
		},
	}

	look := func(shows bool, old *capacity.Snapshot) []capacity.Problem {
		cluster := &Cluster{
			Config: slurm.Config{Version: slurm.Version{Major: map[bool]int{false: 22, true: 23}[shows], Minor: 5}},
			Nodes:  []capacity.Node{{Name: "gpu-1"}},
			Partitions: []capacity.SlurmPartition{
				{Name: "gpu", Nodes: []string{"gpu-1", "gpu-2", "gpu-3"}},
				{Name: "cpu", Nodes: []string{"cpu-1"}},
			},
		}
		cluster.assign(settings)
		p := passOf(Sources{Settings: settings}, View{Cluster: cluster, Old: old, Snap: &capacity.Snapshot{}})
		p.sayGone(capacity.SlotRef{Partition: &capacity.Partition{Name: "gpu"}, Slot: &capacity.Slot{Name: "gpu"}})

		return p.view.Snap.All()
	}
	if said := look(false, nil); len(said) > 0 {
		t.Errorf("Slurm hides nodes: %v", said)
	}

	first := look(true, nil)
	if len(first) != 1 || first[0].Severity != capacity.Note ||
		!strings.HasPrefix(first[0].Sentence, "Slurm no longer shows nodes gpu-[2-3] of partition gpu, ") {
		t.Fatalf("first: %v", first)
	}

	old := &capacity.Snapshot{}
	old.Add(first...)

	again := look(true, old)
	if len(again) != 1 || again[0].Severity != capacity.Admin {
		t.Errorf("again: %v", again)
	}
}

// dryRun is what a pass would do, as that pass will say it. It changes and writes nothing.
func (st *stage) dryRun() (planned []string) {
	st.Helper()
	tape, files, lines, die := st.tape.String(), st.files(), st.lines, st.dieAt
	st.dieAt = 0
	dry := st.sources
	dry.DryRun = true
	p := newPass(dry)
	p.run(st.Context())
	st.isPure(p.view)

	if got := st.tape.String(); got != tape {
		st.Errorf("the dry run changed something:%s", got[len(tape):])
	}

	if diff := cmp.Diff(files, st.files()); diff != "" {
		st.Errorf("the dry run wrote: %s", diff)
	}

	st.lines, st.dieAt = lines, die
	for _, d := range p.done {
		text, would := strings.CutPrefix(d.Message, "would ")
		if d.Error != "" || !would {
			st.Errorf("it shows %+v", d)
		}

		planned = append(planned, fmt.Sprint(d.Do, " ", d.Slot, " ", d.Job, ": ", text))
	}

	return planned
}

// isAsPlanned compares a pass with the dry run before it, except for failures and for changes on the way.
func (st *stage) isAsPlanned(planned []string, report Report) {
	st.Helper()

	var did []string
	for _, d := range report.Done {
		if d.Error != "" {
			return
		}

		if d.Do == "set-up-slot" || d.Do == "remove-slot" { // setup says what it begins
			d.Message, _, _ = strings.Cut(d.Message, ": ")
		}

		did = append(did, fmt.Sprint(d.Do, " ", d.Slot, " ", d.Job, ": ", d.Message))
	}

	for _, r := range report.Rolling {
		if r.Setback.Tried.Equal(report.At) { // it could begin nothing
			planned = slices.DeleteFunc(
				planned,
				func(p string) bool { return strings.Contains(p, r.Block.ID+" in partition") },
			)
		}
	}

	// EC2 alone knows for which jobs there is room, and so which nodes they can have.
	orders := func(line string) bool {
		return strings.HasPrefix(line, "hold ") || strings.HasPrefix(line, "join-group ")
	}
	if slices.ContainsFunc(planned, orders) {
		follows := func(line string) bool {
			return orders(line) || strings.Contains(line, "-surplus ") || strings.HasPrefix(line, "tell-owner ")
		}
		planned = slices.DeleteFunc(planned, follows)
		did = slices.DeleteFunc(did, follows)
	}

	if diff := cmp.Diff(planned, did, cmpopts.EquateEmpty()); diff != "" {
		st.Errorf("pass at %s (-dry run, +pass): %s", model.Clock(st.Now()), diff)
	}
}

// files are those of state_dir with what is in them.
func (st *stage) files() map[string]string {
	all := map[string]string{}
	_ = filepath.WalkDir(string(st.sources.State), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := os.ReadFile(path)
			all[path] = string(text)
		}

		return nil
	})

	return maps.Clone(all)
}

// decisions are those of a pass that are functions of what was seen alone.
var decisions = map[string]func(View) []Action{
	"decideFences":      func(s View) []Action { actions, _ := decideFences(s); return actions },
	"decideUnfinished":  decideUnfinished,
	"decideCutShort":    decideCutShort,
	"decideRequeues":    decideRequeues,
	"saveJobRecords":    func(s View) []Action { return saveJobRecords(s, nil) },
	"decideLimits":      decideLimits,
	"decideWaiting":     decideWaiting,
	"decideRetries":     decideRetries,
	"decideHeldJobs":    decideHeldJobs,
	"decideNodeReturns": decideNodeReturns,
	"decidePowerDowns":  decidePowerDowns,
	"decidePowerUps":    decidePowerUps,
	"decideOrphanEnds":  decideOrphanEnds,
	"decideMisplaced":   decideMisplaced,
	"decideSample":      decideSample,
	"decideFiles":       func(s View) []Action { return decideFiles(s, "") },
}

// isPure makes each decision twice: the answers are equal, and what was seen is unchanged, even by the actions.
func (st *stage) isPure(view View) {
	st.Helper()

	if view.Cluster == nil || view.Snap == nil {
		return
	}

	shown := func(v any) string {
		text, err := json.Marshal([]any{v, view})
		if err != nil {
			st.Error(err)
		}

		return string(text)
	}
	twice := func(name string, decide func() any) {
		if diff := cmp.Diff(shown(decide()), shown(decide())); diff != "" {
			st.Errorf("%s says another thing the second time, or changes what was seen: %s", name, diff)
		}
	}
	twice("problems", func() any {
		_, problems := decideFences(view)
		rollings, lack := findRollings(view)

		return []any{
			problems, rollings, lack,
			checkUnusedNodes(view), checkSetbacks(view), checkOrphans(view), checkKeptFences(view), checkReservations(view),
			checkNodesOut(view),
		}
	})

	before := shown(nil)
	for name, decide := range decisions {
		twice(name, func() any { return sentences(decide(view)) })

		world := World{
			Slurm:       willing{jobs: view.Jobs},
			EC2:         ends{},
			State:       "/dev/null", // writes nothing, and takes no time for it
			MachineTime: st.sources.MachineTime,
			Outcome:     newOutcome(),
		}
		for _, a := range decide(view) {
			err := a.Do(st.Context(), world)
			if err != nil && !errors.Is(err, errMoot) && !strings.HasPrefix(a.Code, "keep-") {
				st.Errorf("%s: %v", a.Code, err)
			}
		}

		if diff := cmp.Diff(before, shown(nil)); diff != "" {
			st.Errorf("the actions of %s change what was seen: %s", name, diff)
		}
	}
}

// willing is a Slurm in which everything is as it was seen, and everything works.
type willing struct {
	Slurm
	jobs []capacity.Job
}

func (w willing) Job(_ context.Context, job string) (found capacity.Job, err error) {
	for _, j := range w.jobs {
		if j.Shown == job {
			found = j
		}
	}

	return found, nil
}

func (w willing) JobsOf(
	context.Context, []string, func(capacity.Job) bool,
) (live, ended []capacity.Job, err error) {
	return w.jobs, nil, nil
}

func (willing) Nodes(context.Context, ...string) ([]capacity.Node, error) { return nil, nil }

func (willing) CreateReservation(context.Context, capacity.SlurmReservation) error { return nil }

func (willing) UpdateReservation(context.Context, capacity.SlurmReservation) error { return nil }

func (willing) DeleteReservation(context.Context, string) error { return nil }

func (willing) PowerUp(context.Context, []string) error { return nil }

func (willing) PowerDown(context.Context, []string, string) error { return nil }

func (willing) PowerDownForce(context.Context, []string, string) error { return nil }

func (willing) SetTimeLimit(context.Context, string, int) error { return nil }

func (willing) Edit(context.Context, map[string]capacity.Edits) map[string]error { return nil }

func (willing) ResumeJob(context.Context, string) error { return nil }

func (willing) SetBeginTime(context.Context, string, time.Time) error { return nil }

func (willing) UserHold(context.Context, ...string) error { return nil }

func (willing) Release(context.Context, string) error { return nil }

func (willing) SetAdminComment(context.Context, string, ...string) error { return nil }

func (willing) Notify(context.Context, string, string) error { return nil }

func (willing) RequeueJob(_ context.Context, j capacity.Job, _ bool) (capacity.Job, error) {
	return j, nil
}

// Nodes that get no job are named by what keeps them and why.
func TestNodesOut(t *testing.T) {
	cluster := &Cluster{Nodes: []capacity.Node{
		{Name: "gpu-1", State: "IDLE+DRAIN", Reason: "bad cable"},
		{Name: "gpu-2", State: "IDLE"},
		{Name: "gpu-3", State: "IDLE+DRAIN", Reason: "bad cable"},
		{Name: "gpu-4", State: "DOWN", Reason: "Not responding"},
		{Name: "cpu-1", State: "FAIL"},
	}}

	got := cluster.nodesOut([]string{"gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5"})
	want := []capacity.NodesOut{
		{Nodes: "gpu-[1,3]", Count: 2, State: "drained", Reason: "bad cable"},
		{Nodes: "gpu-4", Count: 1, State: "down", Reason: "Not responding"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
