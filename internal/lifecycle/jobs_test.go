package lifecycle

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Partition all shares its nodes with ours, cpu has others.
func TestJobsThatAPassIsAbout(t *testing.T) {
	m := model.New(time.Now()).Slurm
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "gpu-a", MaxNodes: 2}}}}}
	snap := &capacity.Snapshot{Partitions: []capacity.Partition{{Name: "gpu", Groups: []capacity.NodeGroup{{Name: "gpu-a", Slots: []capacity.Slot{{Name: "gpu-a"}}}}}}}
	cluster := &Cluster{Partitions: []capacity.SlurmPartition{{Name: "gpu"}, {Name: "all", Nodes: []string{"cpu-1", "gpu-a-1", "gpu-a-2"}}, {Name: "cpu", Nodes: []string{"cpu-1"}}}}
	cluster.assign(settings)
	if got := strings.Join(cluster.Ours(snap), " "); got != "gpu all" {
		t.Errorf("partitions of ours: %s", got)
	}
	held := capacity.HoldNote(time.Now(), "what it was held for")
	for _, j := range []capacity.Job{
		{Shown: "1", Partition: "gpu"},
		{Shown: "2", Partition: "all"},
		{Shown: "3", Partition: "cpu,gpu"},
		{Shown: "4", Partition: "cpu"},
		{Shown: "5", Partition: "cpu", AdminComment: held},
		{Shown: "6", Partition: "cpu", Comment: "capacity_reservation_id=cr-0123456789abcdef0"},
		{Shown: "7", Partition: "cpu", Comment: "a=b"},
		{Shown: "8", Partition: "cpu", Nodes: []string{"gpu-a-1"}}, // which the partition had until now
		{Shown: "10", Partition: "gone", Unread: "of nobody"}, {Shown: "11", Partition: "gpu", Unread: "of ours"},
	} {
		m.Jobs = append(m.Jobs, &model.Job{Job: j})
	}
	shown := func(jobs []capacity.Job) string {
		var all []string
		for _, j := range jobs {
			all = append(all, j.Shown)
		}
		return strings.Join(all, " ")
	}
	for _, test := range []struct {
		oursOnly              bool
		also, jobs, elsewhere string
	}{{false, "", "1 2 3 8", "5 6"}, {true, "", "1 2 3", ""}, {true, "cpu", "1 2 3 8", "4 5 6 7"}} {
		p := passOf(Sources{Settings: settings, OursOnly: test.oursOnly, AlsoOurs: strings.Fields(test.also), World: World{Slurm: m}}, Seen{Snap: snap, Cluster: cluster})
		if err := p.readJobs(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := shown(p.seen.Jobs); got != test.jobs {
			t.Errorf("of ours only: %v, also of %q: jobs %s, not %s", test.oursOnly, test.also, got, test.jobs)
		}
		if got := strings.Join(p.seen.Snap.Problems, "\n"); got != "job 11 cannot be read (of ours): its time limit and holds stay as they are" {
			t.Errorf("of ours only: %v, also of %q: %s", test.oursOnly, test.also, got)
		}
		if got := shown(p.seen.Elsewhere); got != test.elsewhere {
			t.Errorf("of ours only: %v, also of %q: elsewhere %s, not %s", test.oursOnly, test.also, got, test.elsewhere)
		}
		// What is known of a job stays while it cannot be read.
		p.seen.MarksFile = map[string]state.Mark{"11": {Ends: 3}, "12": {}}
		if marks := trusted(p.seen); marks["11"].Ends != 3 || marks["12"] != (state.Mark{}) {
			t.Errorf("marks %v", marks)
		}
		// Where job 8 was seen, the next pass looks too.
		if got, seen := strings.Join(p.alsoOurs(), " "), strings.Contains(test.jobs, "8"); (got == "cpu") != seen {
			t.Errorf("of ours only: %v, also of %q: the next pass also looks at %q", test.oursOnly, test.also, got)
		}
	}
	// Slurm has no partition of ours yet.
	p := passOf(Sources{OursOnly: true, World: World{Slurm: m}}, Seen{Snap: snap, Cluster: &Cluster{}})
	if err := p.readJobs(t.Context()); err != nil || p.seen.Jobs == nil || len(p.seen.Jobs) > 0 {
		t.Errorf("without a partition: %v %v", p.seen.Jobs, err)
	}
}

// Root's files are those of the owner of state_dir: one who is neither root nor SlurmUser is said.
func TestOwnerOfTheStateFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	for _, uid := range []int{0, 1001, 1002} {
		p := passOf(Sources{World: World{State: state.Dir(t.TempDir())}}, Seen{Snap: oneSlot("ec2", nil), Cluster: &Cluster{Config: slurm.Config{SlurmUID: 1001}, Partitions: []capacity.SlurmPartition{{Name: "gpu"}}}})
		if err := os.Chown(string(p.State), uid, uid); err != nil {
			t.Fatal(err)
		}
		p.seen.Cluster.slots = map[string][]string{"gpu": {"gpu-1"}}
		p.addSlurm()
		if said := strings.Join(p.seen.Snap.Problems, "\n"); strings.Contains(said, "belongs to user 1002, neither root nor SlurmUser") != (uid == 1002) || uid != 1002 && said != "" {
			t.Errorf("of user %d: %q", uid, said)
		}
	}
}

// asked keeps of which partitions the jobs were asked for.
type asked struct {
	*model.Slurm
	of [][]string
}

func (a *asked) JobsOf(ctx context.Context, partitions []string, wanted func(capacity.Job) bool) (live, ended []capacity.Job, err error) {
	a.of = append(a.of, partitions)
	return a.Slurm.JobsOf(ctx, partitions, wanted)
}

func TestWatchLooksElsewhereNowAndThen(t *testing.T) {
	w := newStage(t)
	a := &asked{Slurm: w.slurm}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sources := w.sources
	sources.Slurm, sources.Poll = a, time.Millisecond
	err := Watch{Say: func(string) {}, Sources: func(context.Context, bool) (Sources, error) {
		if len(a.of) > 2*everywhere {
			stop()
		}
		return sources, nil
	}}.Run(ctx)
	if err != nil || len(a.of) < 2*everywhere {
		t.Fatal(len(a.of), err)
	}
	for i, partitions := range a.of {
		if want := []string{"solo"}; i%everywhere == 0 && partitions != nil || i%everywhere != 0 && !slices.Equal(partitions, want) {
			t.Errorf("pass %d asked for jobs of %q", i+1, partitions)
		}
	}
}
