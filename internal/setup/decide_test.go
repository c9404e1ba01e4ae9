package setup

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// said are the texts of steps, in their order.
func said(steps []Step) string {
	var all []string
	for _, s := range steps {
		all = append(all, s.Text)
	}

	return strings.Join(all, "\n")
}

// TestStepsCarryTheirData: what is applied is in the steps, and ids that are not known yet are
// those of what was made before.
func TestStepsCarryTheirData(t *testing.T) {
	w := newWorld()
	ask := askFor(now1)
	ask.AllowAccounts, ask.MaxNodes, ask.Dynamic = []string{"nlp"}, 3, true

	p := plan(w.see(ask))
	if _, err := w.carryOut(p.Actions, 0, nil); err != nil {
		t.Fatal(err)
	}

	g, q, lt := w.Group("gpu-a"), w.Queue("gpu"), w.Templates["pcs-capacity-ml-gpu-a"]
	part, _ := w.partition()
	tags := map[string]string{capacity.TagCluster: ourMark, capacity.TagReservation: now1, capacity.TagPartition: "gpu"}

	want := pcs.NodeGroup{
		ID:              g.ID,
		ARN:             g.ARN,
		Name:            "gpu-a",
		ClusterID:       "pcs_ml",
		Status:          pcs.Active,
		PurchaseOption:  capacity.CapacityBlock,
		InstanceTypes:   []string{"p5.48xlarge"},
		SubnetIDs:       []string{subnet},
		AMI:             "ami-1",
		InstanceProfile: "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes",
		TemplateID:      lt.ID,
		TemplateVersion: "1",
		Max:             3,
		Tags:            tags,
		SlurmSettings:   g.SlurmSettings,
		Modified:        g.Modified,
	}
	if diff := cmp.Diff(want, *g); diff != "" || len(g.SlurmSettings) > 0 {
		t.Errorf("node group (-want +got):\n%s", diff)
	}

	if !slices.Equal(q.GroupIDs, []string{g.ID}) || q.SlurmSettings[lock] != "nlp" ||
		q.Tags[capacity.TagCluster] != ourMark ||
		lt.ReservationID != now1 ||
		lt.Tags[capacity.TagReservation] != now1 {
		t.Errorf("queue %+v, launch template %+v", q, lt)
	}

	settings := capacity.GroupSettings{
		Name:           "gpu",
		InstanceType:   "p5.48xlarge",
		SubnetIDs:      []string{subnet},
		PurchaseOption: capacity.CapacityBlock,
		ReservationIDs: []string{now1},
		MaxNodes:       3,
		Dynamic:        true,
	}
	if diff := cmp.Diff([]capacity.GroupSettings{settings}, part.Groups); diff != "" ||
		!slices.Equal(part.AllowAccounts, []string{"nlp"}) ||
		w.config.Cluster != ourMark ||
		w.config.Region != "us-east-2" {
		t.Errorf("settings %+v (-want +got):\n%s", w.config, diff)
	}

	for _, step := range p.Actions {
		if about := (capacity.Subject{Partition: "gpu", Slot: "gpu-a", Reservation: now1}); step.About != about ||
			!strings.HasPrefix(step.Text, "create ") ||
			!strings.HasPrefix(step.Code, "create-") {
			t.Errorf("%s about %+v: %s", step.Code, step.About, step.Text)
		}
	}

	if _, fenced := w.Fences[fenceOf("gpu-a", now1)]; !fenced {
		t.Errorf("fences %v", w.Fences)
	}

	text, err := json.Marshal(p)
	if err != nil ||
		!strings.Contains(
			string(text),
			`"steps":[{"what":"file","name":"/etc/pcs-capacity/config.toml","action":"create",`+
				`"details":[{"key":"region","value":"us-east-2"}`,
		) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestSetupIsKilledAnywhere ends setup before each of its changes, in each of several worlds: never is a node group in
// the queue without settings and fence, and the same command goes on from there to the same end.
func TestSetupIsKilledAnywhere(t *testing.T) {
	bigger := askFor(now1)

	bigger.MaxNodes = 2
	lends := askFor(now1)
	lends.Spare = "scavenge"
	for name, c := range map[string]struct {
		before []Request
		fail   bool
		ask    Request
	}{
		"on demand":            {ask: askOnDemand()},
		"first block":          {ask: askFor(now1)},
		"next block":           {before: []Request{askFor(now1)}, ask: askFor(next1)},
		"with a spare queue":   {ask: lends},
		"lending":              {before: []Request{askFor(now1)}, ask: lends},
		"next block, lent too": {before: []Request{lends}, ask: askFor(next1)},
		"another size":         {before: []Request{askFor(now1)}, ask: bigger},
		"could not be created": {fail: true, ask: askFor(now1)},
		"self-managed":         {ask: askForOnEC2(now1)},
		"self-managed, next":   {before: []Request{askForOnEC2(now1)}, ask: askForOnEC2(next1)},
	} {
		for dieAt, more := 1, true; more; dieAt++ {
			w := newWorld()
			if c.ask.InstanceType != "" {
				holding(t, w)
			}

			for _, r := range c.before {
				w.setUp(t, r)
			}

			if c.fail {
				w.Fails = pcs.Failures{{Code: "x", Message: "no"}}
				if _, err := w.carryOut(plan(w.see(c.ask)).Actions, 0, nil); err == nil {
					t.Fatal("it was created")
				}

				w.Fails = nil
			}

			safe := func(c model.Call) {
				if what := w.unsafe(); what != "" {
					t.Errorf("%s, killed at %d: after %s %s, %s", name, dieAt, c.Verb, c.Text, what)
				}
			}

			made, err := w.carryOut(plan(w.see(c.ask)).Actions, dieAt, safe)
			if more = made == dieAt; err != nil {
				t.Fatal(name, err)
			}

			again := plan(w.see(c.ask))
			if len(again.Mismatches()) > 0 {
				t.Fatalf("%s, killed at %d: %v", name, dieAt, again.Mismatches())
			}

			if _, err := w.carryOut(again.Actions, 0, safe); err != nil {
				t.Errorf("%s, killed at %d: %v", name, dieAt, err)
			}

			if p := plan(w.see(c.ask)); !p.Done() {
				t.Errorf("%s, killed at %d, there is more to do:\n%s", name, dieAt, said(p.Actions))
			}
		}
	}
}

// TestTeardownIsKilledAnywhere ends teardown before each of its changes: nothing is left in the queue without its
// fence, and the same command goes on from there until nothing is left.
func TestTeardownIsKilledAnywhere(t *testing.T) {
	ec2Ask := Request{Provider: capacity.ProviderEC2, Mark: ourMark, Queue: "gpu"}
	for name, ask := range map[string]Request{
		"a queue":      {Queue: "gpu"},
		"its spare":    {Queue: "scavenge"},
		"a slot":       {Queue: "gpu", NodeGroup: "gpu-a"},
		"on demand":    {Queue: "gpu"},
		"self-managed": ec2Ask,
	} {
		for dieAt, more := 1, true; more; dieAt++ {
			w := newWorld()
			if name == "on demand" {
				holding(t, w)
				w.setUp(t, askOnDemand())
				w.Reserve(heldFor("gpu"))
			} else if ask.Provider == capacity.ProviderEC2 {
				w.setUp(t, askForOnEC2(now1))
				w.launch("gpu")
				w.fence("gpu", now1)
			} else {
				lends := askFor(now1)
				lends.Spare = "scavenge"
				w.setUp(t, lends)
				w.setUp(t, askFor(next1))
			}

			drained := ask.Queue == "scavenge"
			safe := func(c model.Call) {
				if drained = drained || c.Verb == "drain"; !drained &&
					(c.Verb == "write partition" || c.Verb == "delete reservation") {
					t.Errorf("%s: the fence goes before jobs are kept off", name)
				}
			}

			made, err := w.carryOut(planTeardown(w.seeRemains(ask)).Actions, dieAt, safe)
			if more = made == dieAt; err != nil {
				t.Fatal(name, err)
			}

			if _, err := w.carryOut(planTeardown(w.seeRemains(ask)).Actions, 0, nil); err != nil {
				t.Errorf("%s, killed at %d: %v", name, dieAt, err)
			}

			if p := planTeardown(w.seeRemains(ask)); !p.Done() {
				t.Errorf("%s, killed at %d, there is more to do:\n%s%v", name, dieAt, said(p.Actions), p.Mismatches())
			}

			if r, _ := w.Real("cr-0e2000000000000a9"); r.State.IsLive() || len(w.Pools.All) > 0 {
				t.Errorf("%s, killed at %d: left are %s %s and groups %v", name, dieAt, r.State, r.ID, w.Pools.All)
			}

			part, found := w.partition()
			left := len(w.Groups) + len(w.Templates) + len(w.Fences) + len(w.Queues)
			if ask.Queue == "scavenge" {
				if left != 10 || part.Spare != "" || w.Queue("scavenge") != nil || w.unsafe() != "" {
					t.Errorf("%s, killed at %d: left are %d things, %+v, %s", name, dieAt, left, part, w.unsafe())
				}
				continue
			}

			if ask.NodeGroup == "" && (left != 3 || found || len(w.Instances) > 0) ||
				ask.NodeGroup != "" &&
					(left != 8 || !slices.Equal(part.Group("gpu").ReservationIDs, []string{next1}) ||
						w.unsafe() != "") {
				t.Errorf("%s, killed at %d: left are %d things, %s", name, dieAt, left, w.unsafe())
			}
		}
	}
}

// TestTeardownEndsWhatCameMeanwhile: an instance that is launched after the plan was made is ended.
func TestTeardownEndsWhatCameMeanwhile(t *testing.T) {
	w := newWorld()
	w.setUp(t, askForOnEC2(now1))
	p := planTeardown(w.seeRemains(Request{Provider: capacity.ProviderEC2, Mark: ourMark, Queue: "gpu"}))
	w.launch("gpu")

	if _, err := w.carryOut(p.Actions, 0, nil); err != nil || len(w.Instances) > 0 {
		t.Errorf("left are instances %v, %v", w.Instances, err)
	}
}

// slotsNow is a Slurm with one slot, and a list of what it was told.
type slotsNow struct {
	slot SlurmSlot
	told []string
}

func (s *slotsNow) Slots(
	_ context.Context,
	_ string,
	nodes map[string][]string,
) (map[string]SlurmSlot, QueueJobs, error) {
	found := map[string]SlurmSlot{}
	for name := range nodes {
		found[name] = s.slot
	}

	return found, QueueJobs{}, nil
}

func (s *slotsNow) Drain(_ context.Context, nodes []string, reason string) error {
	s.told = append(s.told, "drain "+strings.Join(nodes, ",")+": "+reason)
	return nil
}

func (s *slotsNow) DeleteReservation(_ context.Context, name string) error {
	s.told = append(s.told, "delete "+name)
	return nil
}

// TestStepsOnFiles makes the changes of settings, and those in Slurm that go with them: what has changed since the
// plan was made is left as it is.
func TestStepsOnFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etc", "config.toml")
	file := config.PartitionPath(path, "gpu")
	group := capacity.GroupSettings{
		Name:           "gpu",
		InstanceType:   "p5.48xlarge",
		SubnetIDs:      []string{subnet},
		PurchaseOption: capacity.CapacityBlock,
		ReservationIDs: []string{now1},
		MaxNodes:       4,
	}
	part := config.NewPartition("gpu", capacity.ProviderPCS, group)
	slurm := &slotsNow{slot: SlurmSlot{Nodes: []string{"gpu-a-1"}}}
	w := clients{Slurm: slurm}
	settings := func() *config.Config {
		t.Helper()

		c, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}

		return c
	}
	has := func() capacity.PartitionSettings {
		t.Helper()

		p, _ := settings().Partition("gpu")
		return p
	}

	place := config.ClusterRef{Region: "us-east-2", Cluster: ourMark}
	for range 2 { // the second finds the file of the first
		if err := w.WritePlace(path, place); err != nil {
			t.Fatal(err)
		}
	}

	place.Cluster = "other"
	if err := w.WritePlace(path, place); err == nil || settings().Cluster != ourMark {
		t.Errorf("settings of another cluster: %v", err)
	}

	if err := writePartition(w, path, file, capacity.PartitionSettings{}, part, false); err != nil ||
		!slices.Equal(has().Groups[0].ReservationIDs, []string{now1}) {
		t.Fatal(err)
	}

	if err := writePartition(w, path, file, capacity.PartitionSettings{}, part, false); !errors.Is(err, errChanged) {
		t.Errorf("a partition that has come meanwhile: %v", err)
	}

	was, bigger := has(), has()
	group.MaxNodes = 8
	bigger.Groups = []capacity.GroupSettings{group}
	if err := writePartition(w, path, file, was, bigger, false); err != nil || has().Groups[0].MaxNodes != 8 {
		t.Errorf("an update: %v", err)
	}

	if err := writePartition(w, path, file, was, bigger, false); !errors.Is(err, errChanged) {
		t.Errorf("an update of what has changed meanwhile: %v", err)
	}

	// Of the fences, those go that are there now.
	slurm.slot.Reservations = []string{"fence-1", "fence-2"}

	dir := filepath.Join(t.TempDir(), "state")
	if err := state.Dir(dir).Create(); err != nil {
		t.Fatal(err)
	}

	cfg := settings()
	cfg.StateDir = dir

	going := view{
		request: Request{Queue: "gpu", Config: cfg},
		slots:   []Slot{{Name: "gpu-a"}},
	}
	if err := going.removeSettings(t.Context(), w, was, capacity.PartitionSettings{Name: was.Name}); !errors.Is(
		err,
		errChanged,
	) ||
		len(slurm.told) > 0 ||
		len(has().Groups) != 1 {
		t.Errorf("settings that have changed meanwhile: %v, told %v", err, slurm.told)
	}

	fresh, none := has(), capacity.PartitionSettings{Name: was.Name}
	unlock, err := state.Dir(dir).Lock(t.Context(), state.PassLock, 0)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if err := going.removeSettings(ctx, w, fresh, none); err == nil || len(has().Groups) != 1 || len(slurm.told) > 0 {
		t.Errorf("beside a pass of sync: %v, told %v", err, slurm.told)
	}

	unlock()

	for range 2 { // the second finds nothing but fences
		if err := going.removeSettings(t.Context(), w, fresh, none); err != nil ||
			!slices.Equal(slurm.told, []string{"delete fence-1", "delete fence-2"}) {
			t.Errorf("%v, told %v", err, slurm.told)
		}

		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("the file stays: %v", err)
		}

		slurm.told = nil
	}

	// Jobs that start before the nodes are drained keep all that follows from being done.
	nodes := []string{"gpu-a-1"}
	slurm.slot.Jobs = []string{"12"}
	if err := drain(t.Context(), w, "gpu", "gpu-a", nodes, false); !errors.Is(err, ErrJobsRun) ||
		!strings.Contains(err.Error(), "12 started on gpu-a meanwhile") ||
		!slices.Equal(slurm.told, []string{"drain gpu-a-1: pcs-capacity teardown"}) {
		t.Errorf("%v, told %v", err, slurm.told)
	}

	if err := drain(t.Context(), w, "gpu", "gpu-a", nodes, true); err != nil {
		t.Errorf("by force: %v", err)
	}
}

// TestSlotsInSlurm has what Slurm says of slots: nodes by their names or by a list, in partitions alone
// where Slurm hides them; jobs that have nodes; reservations that are ours; the fence for a block.
func TestSlotsInSlurm(t *testing.T) {
	guard := func(kind capacity.GuardKind, slot string) capacity.SlurmReservation {
		return capacity.SlurmReservation{
			Name:  capacity.Guard{Kind: kind, Slot: slot, Block: now1, Owner: "0a1b2c3d"}.String(),
			Flags: []string{"MAINT", "IGNORE_JOBS"},
			Users: []string{"root"},
		}
	}
	copied := guard(capacity.GuardFence, "gpu-a")
	copied.Users = []string{"ann"}
	seen := slurmState{
		Nodes:      []capacity.Node{{Name: "gpu-a-1"}, {Name: "gpu-b-1"}, {Name: "rack7"}, {Name: "cpu-1"}},
		Partitions: []capacity.SlurmPartition{{Name: "gpu", Nodes: []string{"gpu-a-1", "gpu-a-2"}}},
		Reservations: []capacity.SlurmReservation{
			guard(capacity.GuardFence, "gpu-a"),
			guard(capacity.GuardSurplus, "gpu-b"),
			copied,
			{Name: "gpu-a-scheduled"},
		},
		Jobs: []capacity.Job{
			{Shown: "1", State: "RUNNING", Partition: "gpu", Nodes: []string{"gpu-a-2"}},
			{Shown: "2", State: "COMPLETED", Nodes: []string{"gpu-a-1"}},
			{
				Shown:     "3",
				State:     "PENDING",
				Partition: "gpu",
			},
			{Shown: "4", State: "PENDING", Partition: "cpu"},
			{Shown: "5_1", State: "RUNNING", Nodes: []string{"rack7", "cpu-1"}},
		},
	}

	slots, jobs := seen.Slots("gpu", map[string][]string{"gpu-a": nil, "gpu-b": nil, "rack": {"rack7"}})
	want := map[string]SlurmSlot{
		"gpu-a": {
			Nodes:        []string{"gpu-a-1", "gpu-a-2"},
			Jobs:         []string{"1"},
			Reservations: []string{fenceOf("gpu-a", now1)},
		},
		"gpu-b": {Nodes: []string{"gpu-b-1"}, Reservations: []string{guard(capacity.GuardSurplus, "gpu-b").Name}},
		"rack":  {Nodes: []string{"rack7"}, Jobs: []string{"5_1"}},
	}
	if diff := cmp.Diff(want, slots); diff != "" || jobs.Waiting != 1 || !slices.Equal(jobs.Running, []string{"1"}) {
		t.Errorf("%+v, slots (-want +got):\n%s", jobs, diff)
	}

	if !slots["gpu-a"].Fenced(now1) || slots["gpu-a"].Fenced(next1) || slots["gpu-b"].Fenced(now1) {
		t.Error("a fence is one of that slot and block alone, and nothing else is one")
	}
}

// TestTeardownOfNothing has lists that are empty, not missing, for programs.
func TestTeardownOfNothing(t *testing.T) {
	p, err := Setup{}.PlanTeardown(t.Context(), Request{Provider: capacity.ProviderNone, Queue: "gpu"})
	if err != nil || !p.Done() {
		t.Fatalf("%+v, %v", p, err)
	}

	text, err := json.Marshal(p)
	if err != nil || !strings.Contains(string(text), `"steps":[],"problems":[],"by_hand":[]`) ||
		p.Cluster.SubnetIDs == nil {
		t.Errorf("%s, %v", text, err)
	}

	if (&Plan{Actions: []Step{{}}, Problems: capacity.Problems{{Severity: capacity.Admin}}}).Done() {
		t.Error("it is done with a step and a problem")
	}

	w := newWorld()
	w.withSettings(capacity.PartitionSettings{Name: "gpu", Provider: capacity.ProviderPCS})

	for _, provider := range []capacity.Provider{capacity.ProviderNone, capacity.ProviderEC2} {
		p, err := Setup{}.PlanTeardown(t.Context(), Request{Provider: provider, Queue: "gpu", Config: w.config})
		if err != nil || codesOf(p.Mismatches()) != "provider" || len(p.Actions) > 0 {
			t.Errorf("--provider %s for a partition of another one: %v, %+v", provider, err, p)
		}
	}
}

// TestNoQueueWithoutItsFence: a node group comes into the queue when its fence stands, and not before.
func TestNoQueueWithoutItsFence(t *testing.T) {
	for name, c := range map[string]struct {
		shows          time.Duration // when Slurm shows the nodes
		noPass, noWait error
		want           string // of the error
	}{
		"no trouble":          {},
		"the nodes show late": {shows: 4 * time.Minute},
		"the nodes never show": {
			shows: 24 * time.Hour,
			want: "Slurm shows no nodes of compute node group gpu-a after 5m, so no fence can stand on them, and " +
				"they are not put into queue gpu",
		},
		"the pass fails": {
			noPass: errors.New("Access/permission denied"),
			want: "no fence could be placed on the nodes of gpu-a, so they are not put into queue gpu: " +
				"Access/permission denied",
		},
		"a roll over goes on": {noWait: pcs.ErrAtWork},
		"a roll over must wait": {
			shows:  time.Minute,
			noWait: pcs.ErrAtWork,
			want:   "no fence stands on the nodes of gpu-a yet",
		},
		"an interrupt": {shows: time.Minute, noWait: context.Canceled, want: "context canceled"},
	} {
		w := newWorld()
		w.Shows, w.noPass, w.noWait = c.shows, c.noPass, c.noWait
		_, err := w.carryOut(plan(w.see(askFor(now1))).Actions, 0, nil)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) ||
			(w.Queue("gpu") == nil) != (c.want != "") ||
			w.unsafe() != "" {
			t.Errorf("%s: %v, %s", name, err, w.unsafe())
		}
	}
}

// TestR9_WhatGoes: the settings say of which partition and node group a slot is; its name only where they do not.
func TestR9_WhatGoes(t *testing.T) {
	pcsOnes := []capacity.GroupSettings{{Name: "gpu"}, {Name: "gpu-a"}}
	ec2Ones := []capacity.GroupSettings{{Name: "gpu", Slots: 2}, {Name: "big-a", Slots: 1}}
	for _, c := range []struct {
		provider   capacity.Provider
		asked      string
		goes, stay string // slots
	}{
		{capacity.ProviderPCS, "", "gpu-a gpu-b gpu-a-a old-b", "other-a"},
		{capacity.ProviderPCS, "gpu", "gpu-a gpu-b", "gpu-a-a old-b other-a"},
		{capacity.ProviderPCS, "gpu-a", "gpu-a", "gpu-b gpu-a-a gpu-a-b other-a"},
		{capacity.ProviderPCS, "old", "old-a old-b", "gpu-a other-a"},
		{capacity.ProviderEC2, "", "gpu-a gpu-b big-a old old-a", "other-a other"},
		{capacity.ProviderEC2, "gpu", "gpu-a gpu-b", "big-a old other-a"},
		{capacity.ProviderEC2, "big", "big big-b", "big-a gpu-a other-a"},
		{capacity.ProviderEC2, "gpu-a", "", "gpu-a gpu-b big-a"},
		{capacity.ProviderEC2, "other-a", "", "other-a other-b other"},
	} {
		groups := pcsOnes
		if c.provider == capacity.ProviderEC2 {
			groups = ec2Ones
		}

		in := view{
			Site: facts.Site{Provider: c.provider},
			request: Request{
				Queue:     "gpu",
				NodeGroup: c.asked,
				Config: &config.Config{Partitions: []capacity.PartitionSettings{
					{
						Name:     "gpu",
						Provider: c.provider,
						Groups:   groups,
					}, {
						Name:     "other",
						Provider: c.provider,
						Groups:   []capacity.GroupSettings{{Name: "other", Slots: 2}},
					},
				}},
			},
		}
		for slots, want := range map[string]bool{c.goes: true, c.stay: false} {
			for _, slot := range strings.Fields(slots) {
				if _, goes := in.isRemoved(slot); goes != want {
					t.Errorf("%s %q: %s goes is %t", c.provider, c.asked, slot, goes)
				}
			}
		}
	}
}
