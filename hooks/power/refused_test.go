package power

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Jobs that must not keep others from their nodes: those refused for good, each judged alone, and those that cannot
// be launched with the others; a het job with all that is started of it.
func TestRefusedJobs(t *testing.T) {
	job := func(id int, comment string, nodes ...string) capacity.Job {
		j := nlp(id, nodes...)
		j.Comment = comment
		return j
	}
	stranger := func(id int, nodes ...string) capacity.Job {
		j := nlp(id, nodes...)
		j.Account = "vision"
		return j
	}
	component := func(j capacity.Job, of int) capacity.Job { j.HetJobID = of; return j }
	waits := func(j capacity.Job) capacity.Job { j.State = "PENDING"; return j }
	const inOne, inTwo = "capacity_reservation_id=" + one, "capacity_reservation_id=" + two
	const for1, for2 = "1 gpu account-not-allowed for good", "2 gpu account-not-allowed for good"
	for name, c := range map[string]struct {
		jobs  []capacity.Job
		slots int
		want  []string
	}{
		"nobody":                          {jobs: []capacity.Job{nlp(1, "gpu-1"), nlp(2, "gpu-1")}},
		"for good":                        {jobs: []capacity.Job{stranger(1, "gpu-1"), nlp(2, "gpu-1")}, want: []string{for1}},
		"both":                            {jobs: []capacity.Job{stranger(1, "gpu-1"), stranger(2, "gpu-2")}, want: []string{for1, for2}},
		"once for two nodes":              {jobs: []capacity.Job{stranger(1, "gpu-1", "gpu-2")}, want: []string{for1}},
		"once for two slots":              {slots: 2, jobs: []capacity.Job{stranger(1, "gpu-a-1", "gpu-b-1")}, want: []string{for1}},
		"in the second slot":              {slots: 2, jobs: []capacity.Job{job(1, "", "gpu-a-1", "gpu-a-2", "gpu-b-1"), stranger(2, "gpu-b-1")}, want: []string{for2}},
		"beside a node of others":         {jobs: []capacity.Job{stranger(1, "cpu-1", "gpu-1")}, want: []string{for1}},
		"beside a node that is up":        {jobs: []capacity.Job{stranger(1, "gpu-8", "gpu-1")}, want: []string{for1}},
		"on nodes that are up":            {jobs: []capacity.Job{stranger(1, "gpu-8")}},
		"on nodes of others":              {jobs: []capacity.Job{stranger(1, "cpu-1")}},
		"that waits":                      {jobs: []capacity.Job{waits(stranger(1, "gpu-1")), stranger(2, "gpu-1")}, want: []string{for2}},
		"another reservation":             {jobs: []capacity.Job{job(1, inOne, "gpu-1"), job(2, inTwo, "gpu-1")}, want: []string{"2 gpu different-reservations later"}},
		"another reservation, elsewhere":  {jobs: []capacity.Job{job(1, inOne, "gpu-1"), job(2, inTwo, "gpu-2")}},
		"a chain of reservations":         {jobs: []capacity.Job{job(1, inOne, "gpu-1", "gpu-2"), job(2, inTwo, "gpu-2", "gpu-3"), job(3, inTwo, "gpu-3", "gpu-4")}, want: []string{"2 gpu different-reservations later", "3 gpu different-reservations later"}},
		"both wait behind one without":    {jobs: []capacity.Job{job(1, inOne, "gpu-1"), job(2, inTwo, "gpu-1"), job(3, "", "gpu-1")}, want: []string{"2 gpu different-reservations later"}},
		"beside one refused for good":     {jobs: []capacity.Job{job(1, inOne, "gpu-1"), stranger(2, "gpu-1"), job(3, inTwo, "gpu-1")}, want: []string{for2}},
		"a het job":                       {jobs: []capacity.Job{component(stranger(1, "gpu-1"), 1), component(nlp(2, "gpu-2"), 1), nlp(3, "gpu-2")}, want: []string{for1, for2}},
		"a het job, by its second":        {jobs: []capacity.Job{component(nlp(1, "gpu-1"), 1), component(stranger(2, "gpu-2"), 1)}, want: []string{for2, for1}},
		"a het job that is not yet whole": {jobs: []capacity.Job{component(stranger(1, "gpu-1"), 1), component(waits(nlp(2)), 1), component(nlp(4, "gpu-3"), 1)}, want: []string{for1, "4 gpu account-not-allowed for good"}},
		"another het job":                 {jobs: []capacity.Job{component(stranger(1, "gpu-1"), 1), component(nlp(5, "gpu-2"), 5)}, want: []string{for1}},
	} {
		snap := twoReservations()
		f := newFacts(snap)
		if c.slots == 2 {
			snap.Partitions[0].Groups[0].Slots = []capacity.Slot{{Name: "gpu-a", ReservationIDs: []string{one}}, {Name: "gpu-b", ReservationIDs: []string{two}}}
			f.settings.Partitions[0].Groups[0].Slots = 2
		}
		nodes := []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-a-1", "gpu-a-2", "gpu-b-1"}
		var got []string
		for _, r := range f.refusedJobs(nodes, c.jobs) {
			when := map[bool]string{true: "later", false: "for good"}[r.later]
			got = append(got, fmt.Sprintf("%d %s %s %s", r.ID, r.partition, r.why.Code, when))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// Slurm keeps with the first component what sort of job it is.
	leader, second := component(batch(nlp(1, "gpu-1")), 1), component(stranger(2, "gpu-2"), 1)
	for _, jobs := range [][]capacity.Job{{leader, second}, {second, leader}} {
		refused := newFacts(twoReservations()).refusedJobs([]string{"gpu-1", "gpu-2"}, jobs)
		if len(refused) != 2 || !refused[0].Batch || !refused[0].Requeue || !refused[1].Batch || refused[1].ID != 1 {
			t.Errorf("%+v", refused)
		}
	}
	if refused := newFacts(twoReservations()).refusedJobs([]string{"gpu-2"}, []capacity.Job{second}); len(refused) != 1 || refused[0].Batch {
		t.Errorf("without its first component: %+v", refused)
	}
	groups := []group{{nodes: []string{"gpu-1"}, jobs: []capacity.Job{nlp(1), nlp(2)}}, {nodes: []string{"gpu-2"}, jobs: []capacity.Job{nlp(3)}}, {nodes: []string{"gpu-3"}}}
	without, nodes := apart(groups, []refusedJob{{Job: nlp(2)}, {Job: nlp(9)}})
	if len(without) != 2 || without[0].jobs[0].ID != 3 || strings.Join(nodes, " ") != "gpu-1" {
		t.Errorf("apart: %+v, nodes %s", without, nodes)
	}
}

// The words of effects that have two forms.
func TestSentencesOfTwoForms(t *testing.T) {
	for want, e := range map[string]capacity.Effect{
		"launched 2 × p5 in subnet-1":                      Launch{Launch: capacity.Launch{Count: 2, InstanceType: "p5", SubnetID: "subnet-1"}},
		"launched 2 × p5 in cr-1, subnet-1":                Launch{Launch: capacity.Launch{Count: 2, InstanceType: "p5", SubnetID: "subnet-1", ReservationID: "cr-1"}},
		"allowed a requeue":                                AllowRequeue{Allow: true},
		"disallowed a requeue":                             AllowRequeue{},
		"requeued held":                                    Requeue{Held: true},
		"requeued":                                         Requeue{},
		"held until their owners can release the jobs":     HoldJobs{},
		"held until an administrator can release the jobs": HoldJobs{ByAdmin: true},
	} {
		if got := e.Sentence(capacity.Did); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// One node of several slots, and one that is launched among others: which reservations a job asks for.
func TestAsks(t *testing.T) {
	snap := twoReservations()
	snap.Partitions[0].Groups[0].Slots = []capacity.Slot{{Name: "gpu-a", ReservationIDs: []string{one}}, {Name: "gpu-b", ReservationIDs: []string{two}}}
	f := newFacts(snap)
	f.settings.Partitions[0].Groups[0].Slots = 2
	het := func(id int, nodes ...string) capacity.Job { j := nlp(id, nodes...); j.HetJobID = 7; return j }
	stranger := nlp(1, "gpu-a-1", "gpu-b-1")
	stranger.Account = "vision"
	narrow := nlp(1, "gpu-a-1", "gpu-b-1")
	narrow.Comment = "subnet_id=" + subnet1 // which slot b does not have
	for name, c := range map[string]struct {
		jobs         []capacity.Job
		nodes, where int
	}{
		"one slot":          {[]capacity.Job{nlp(1, "gpu-a-1", "gpu-a-2")}, 2, 1},
		"two slots":         {[]capacity.Job{nlp(1, "gpu-a-1", "gpu-b-1")}, 2, 2},
		"a node that is up": {[]capacity.Job{nlp(1, "gpu-a-1", "gpu-b-8")}, 1, 1},
		"a het job":         {[]capacity.Job{het(1, "gpu-a-1"), het(2, "gpu-b-1", "gpu-b-2")}, 3, 2},
		"refused":           {[]capacity.Job{stranger}, 2, 0},
		"refused in one":    {[]capacity.Job{narrow}, 2, 0},
	} {
		asks := f.asks(group{nodes: []string{"gpu-a-1", "gpu-a-2", "gpu-b-1", "gpu-b-2"}, jobs: c.jobs})
		if len(asks) != 1 || len(asks[0].nodes) != c.nodes || len(asks[0].where) != c.where || len(asks[0].jobs) != len(c.jobs) {
			t.Errorf("%s: %+v", name, asks)
		}
	}
}
