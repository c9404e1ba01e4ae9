package power

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

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
		waits []Waiting
		known []capacity.Job
		want  []want
	}{
		"no job: each node for itself": {nodes: []string{"a", "b"}, want: []want{{Nodes: []string{"a"}}, {Nodes: []string{"b"}}}},
		"a job is one group": {nodes: []string{"a", "b", "c"}, waits: []Waiting{{1, []string{"a", "c"}}}, known: holds(1),
			want: []want{{Nodes: []string{"a", "c"}, Jobs: []int{1}}, {Nodes: []string{"b"}}}},
		"a chain of shared nodes": {nodes: []string{"a", "b", "c", "d"}, known: holds(3, 1, 2),
			waits: []Waiting{{3, []string{"c", "d"}}, {1, []string{"a", "b"}}, {2, []string{"b", "c"}}},
			want:  []want{{Nodes: []string{"a", "b", "c", "d"}, Jobs: []int{1, 2, 3}}}},
		"named in the file and by squeue": {nodes: []string{"a", "b"}, waits: []Waiting{{1, []string{"a"}}, {1, []string{"a", "b"}}}, known: holds(1),
			want: []want{{Nodes: []string{"a", "b"}, Jobs: []int{1}}}},
		"nodes of others": {nodes: []string{"a"}, waits: []Waiting{{2, []string{"x"}}, {1, []string{"x", "a", "y"}}}, known: holds(1, 2),
			want: []want{{Nodes: []string{"a"}, Jobs: []int{1}}}},
		"a job that ended": {nodes: []string{"a"}, waits: []Waiting{{1, []string{"a"}}},
			want: []want{{Nodes: []string{"a"}, Lost: []int{1}}}},
		"a job that was requeued meanwhile": {nodes: []string{"a"}, waits: []Waiting{{1, []string{"a"}}}, known: []capacity.Job{{ID: 1}},
			want: []want{{Nodes: []string{"a"}, Lost: []int{1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []want
			for _, g := range launchGroups(test.nodes, test.waits, test.known) {
				w := want{Nodes: g.nodes, Lost: g.lost}
				for _, j := range g.jobs {
					w.Jobs = append(w.Jobs, j.ID)
				}
				got = append(got, w)
				if g.abandoned() != (len(w.Jobs) == 0 && len(w.Lost) > 0) {
					t.Errorf("abandoned() of %+v is %t", w, g.abandoned())
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestLaunchToken(t *testing.T) {
	job, what := []capacity.Job{{ID: 7, Restarts: 1}}, []string{"cr-1", "subnet-1", "p5.48xlarge", "lt-1:1"}
	base := launchToken("lab", job, "gpu-[1-2]", what, noon, 0)
	if len(base) > 64 {
		t.Errorf("EC2 takes 64 characters, not %d", len(base))
	}
	if launchToken("lab", job, "gpu-[1-2]", what, noon.Add(48*time.Hour), 0) != base {
		t.Error("a repetition of the same power-up must be the same launch")
	}
	none := launchToken("lab", nil, "gpu-[1-2]", what, noon, 0)
	if launchToken("lab", nil, "gpu-[1-2]", what, noon.Add(9*time.Second), 0) != none {
		t.Error("nodes without a job: a repetition at once must be the same launch")
	}
	for name, other := range map[string]string{
		"requeued":      launchToken("lab", []capacity.Job{{ID: 7, Restarts: 2}}, "gpu-[1-2]", what, noon, 0),
		"another job":   launchToken("lab", []capacity.Job{{ID: 71}}, "gpu-[1-2]", what, noon, 0),
		"two jobs":      launchToken("lab", []capacity.Job{{ID: 7, Restarts: 1}, {ID: 8}}, "gpu-[1-2]", what, noon, 0),
		"other nodes":   launchToken("lab", job, "gpu-[1-3]", what, noon, 0),
		"other cluster": launchToken("lab2", job, "gpu-[1-2]", what, noon, 0),
		"next attempt":  launchToken("lab", job, "gpu-[1-2]", what, noon, 1),
		"another block": launchToken("lab", job, "gpu-[1-2]", []string{"cr-2", "subnet-1", "p5.48xlarge", "lt-1:1"}, noon, 0),
		"a new version": launchToken("lab", job, "gpu-[1-2]", []string{"cr-1", "subnet-1", "p5.48xlarge", "lt-1:2"}, noon, 0),
		"no job":        none,
		"later":         launchToken("lab", nil, "gpu-[1-2]", what, noon.Add(10*time.Second), 0),
	} {
		if other == base || name == "later" && other == none {
			t.Errorf("%s: must be another launch", name)
		}
	}
}

func TestChooseTargets(t *testing.T) {
	snap := twoReservations()
	at := place{partition: capacity.PartitionSettings{Name: "gpu"}, group: capacity.GroupSettings{Name: "gpu"}, slot: "gpu"}
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
		"no job":                  {nil, 1, nil, inTwo + " " + inOne},
		"first of the settings":   {[]capacity.Job{job("nlp", "")}, 2, nil, inTwo + " " + inOne},
		"first with room":         {[]capacity.Job{job("nlp", "")}, 2, map[string]int{two: 1}, inOne + " " + inTwo},
		"named":                   {[]capacity.Job{job("nlp", "capacity_reservation_id="+one)}, 1, nil, inOne},
		"one names, one does not": {[]capacity.Job{job("nlp", "capacity_reservation_id="+one), job("nlp", "")}, 1, nil, inOne},
		"named subnet":            {[]capacity.Job{job("nlp", "subnet_id=subnet-00000000000000003")}, 1, nil, two + " subnet-00000000000000003"},
		"two names":               {[]capacity.Job{job("nlp", "capacity_reservation_id="+one), job("nlp", "capacity_reservation_id="+two)}, 1, nil, "different-reservations"},
		"account":                 {[]capacity.Job{job("nlp", ""), job("vision", "")}, 1, nil, "account-not-allowed"},
		"of another partition":    {[]capacity.Job{job("nlp", "capacity_reservation_id=cr-0ffffffffffffffff")}, 1, nil, "unknown-reservation"},
		"bad comment":             {[]capacity.Job{job("nlp", "capacity_reservation_id=x")}, 1, nil, "bad-comment"},
		"too large for all":       {[]capacity.Job{{ID: 7, Account: "nlp", Nodes: make([]string, 5)}}, 5, nil, "too-many-nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&facts{snap: snap, now: noon, taken: test.taken}).chooseTargets(test.jobs, at, test.nodes)
			var words []string
			for _, g := range got {
				words = append(words, g.reservationID, g.subnetID)
			}
			text := strings.Join(words, " ")
			if err != nil {
				text = err.Code
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
	group := capacity.NodeGroup{Name: "gpu", InstanceType: "p5.48xlarge", OtherTypes: []string{"p5e.48xlarge"}, PurchaseOption: capacity.OnDemand, MaxNodes: 8,
		Subnets: []capacity.Subnet{{ID: "subnet-00000000000000001", AZID: "az1"}, {ID: "subnet-00000000000000002", AZID: "az2"}}, Slots: []capacity.Slot{{Name: "gpu"}}}
	snap := &capacity.Snapshot{Partitions: []capacity.Partition{{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.NodeGroup{group}}}}
	at := place{partition: capacity.PartitionSettings{Name: "gpu"}, group: capacity.GroupSettings{Name: "gpu"}, slot: "gpu"}
	const plain = "p5/az1 p5/az2 p5e/az1 p5e/az2"
	const held = "held-p5/az1 held-p5/az2 held-p5e/az1 held-p5e/az2"
	for name, test := range map[string]struct {
		comments []string
		want     string
	}{
		"no job":              {nil, plain},
		"any":                 {[]string{""}, plain},
		"held":                {[]string{"capacity=reserve"}, held},
		"a type is named":     {[]string{"instance_type=p5e.48xlarge"}, "p5e/az1 p5e/az2"},
		"and a subnet":        {[]string{"capacity=reserve instance_type=p5e.48xlarge subnet_id=subnet-00000000000000002"}, "held-p5e/az2"},
		"two types are named": {[]string{"instance_type=p5e.48xlarge", "instance_type=p5.48xlarge"}, "mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			var jobs []capacity.Job
			for n, comment := range test.comments {
				jobs = append(jobs, capacity.Job{ID: n + 1, Comment: comment})
			}
			targets, err := (&facts{snap: snap}).chooseTargets(jobs, at, 2)
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
				got = err.Code
			}
			if got != test.want {
				t.Errorf("%s, %v, want %s", got, err, test.want)
			}
		})
	}
}
