package power

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// onDemand is a slot on demand with a subnet in each of two zones.
func onDemand() *capacity.Snapshot {
	snap := twoReservations()
	g := &snap.Partitions[0].Groups[0]
	g.PurchaseOption, g.Slots[0].ReservationIDs = capacity.OnDemand, nil
	g.Subnets = g.Subnets[:2]
	return snap
}

// Of jobs whose common launch failed, those are charged that enlarge or narrow it.
func TestCharged(t *testing.T) {
	job := func(id int, comment string, nodes ...string) capacity.Job {
		j := nlp(id, nodes...)
		j.Comment = comment
		return j
	}
	component := func(j capacity.Job, of int) capacity.Job { j.HetJobID = of; return j }
	const here, there = "subnet_id=" + subnet1, "subnet_id=" + subnet2
	for name, c := range map[string]struct {
		jobs []capacity.Job
		want []int
		in   *capacity.Snapshot // onDemand, if nil
	}{
		"one job":                          {jobs: []capacity.Job{job(1, here, "gpu-1", "gpu-2")}},
		"alike":                            {jobs: []capacity.Job{job(1, "", "gpu-1"), job(2, "", "gpu-1"), job(3, "", "gpu-1")}},
		"other words":                      {jobs: []capacity.Job{job(1, "night run", "gpu-1"), job(2, "on_end=requeue", "gpu-1")}},
		"the large one":                    {jobs: []capacity.Job{job(1, "", "gpu-1", "gpu-2", "gpu-3"), job(2, "", "gpu-1")}, want: []int{1}},
		"the large one, between two":       {jobs: []capacity.Job{job(1, "", "gpu-1", "gpu-2", "gpu-3"), job(2, "", "gpu-1"), job(3, "", "gpu-3")}, want: []int{1}},
		"a chain: the younger":             {jobs: []capacity.Job{job(2, "", "gpu-2", "gpu-3"), job(1, "", "gpu-1", "gpu-2"), job(3, "", "gpu-3", "gpu-4")}, want: []int{2}},
		"the one with a subnet":            {jobs: []capacity.Job{job(1, there, "gpu-1"), job(2, "", "gpu-1")}, want: []int{1}},
		"many with a subnet":               {jobs: []capacity.Job{job(1, there, "gpu-1"), job(2, "", "gpu-1", "gpu-2"), job(3, here, "gpu-2")}, want: []int{1, 3}},
		"all with the same subnet":         {jobs: []capacity.Job{job(1, there, "gpu-1"), job(2, there, "gpu-1")}},
		"a subnet, beside others' nodes":   {jobs: []capacity.Job{job(1, "", "gpu-1"), job(2, there, "gpu-2"), job(3, "", "gpu-1", "gpu-2", "gpu-3")}, want: []int{3}},
		"components of a het job are one":  {jobs: []capacity.Job{component(job(1, "", "gpu-1"), 1), component(job(2, "", "gpu-1", "gpu-2"), 1)}},
		"a het job is as large as all":     {jobs: []capacity.Job{component(job(1, "", "gpu-1"), 1), component(job(2, "", "gpu-2"), 1), job(3, "", "gpu-1")}, want: []int{1, 2}},
		"a reservation":                    {jobs: []capacity.Job{job(1, "capacity_reservation_id="+one, "gpu-1"), job(2, "", "gpu-1")}, want: []int{1}, in: twoReservations()},
		"what can be launched nowhere now": {jobs: []capacity.Job{job(1, "subnet_id=subnet-0fffffffffffffff0", "gpu-1"), job(2, "", "gpu-1")}, want: []int{1}},
	} {
		if c.in == nil {
			c.in = onDemand()
		}
		u := newFacts(c.in)
		nodes := map[string]bool{}
		for _, j := range c.jobs {
			for _, n := range j.Nodes {
				nodes[n] = true
			}
		}
		g := group{jobs: c.jobs}
		for n := range nodes {
			g.nodes = append(g.nodes, n)
		}
		slices.Sort(g.nodes)
		var got []int
		for _, j := range charged(u.asks(g)) {
			got = append(got, j.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Nobody is launched again, though some are tried later than others, where it is not certain
// that nothing is there.
func TestApartOnlyAfterACertainRefusal(t *testing.T) {
	g := group{nodes: []string{"gpu-1", "gpu-2"}, jobs: []capacity.Job{nlp(1, "gpu-1", "gpu-2"), nlp(2, "gpu-1")}}
	full := &Failure{Outcome: capacity.NoRoom, Code: "InsufficientInstanceCapacity"}
	for name, c := range map[string]struct {
		outcome outcome
		noTime  bool
		behind  map[string]bool
	}{
		"an unclear answer":      {outcome{group: g, failure: failed("connection reset by peer")}, false, map[string]bool{"1": true}},
		"a refusal of our own":   {outcome{group: g, failure: refusal("no-place", "nowhere")}, false, map[string]bool{"1": true}},
		"part of it is there":    {outcome{group: g, failure: full, launched: map[string]launched{"gpu-1": {}}}, false, map[string]bool{"1": true}},
		"there is no time left":  {outcome{group: g, failure: full}, true, map[string]bool{"1": true}},
		"nobody shares anything": {outcome{group: group{nodes: []string{"gpu-1"}, jobs: g.jobs[1:]}, failure: full}, false, nil},
	} {
		rest, nodes, out := newFacts(onDemand()).blame([]outcome{c.outcome}, g.jobs, c.noTime)
		if len(rest) != 1 || !cmp.Equal(rest[0].behind, c.behind) || len(rest[0].jobs) != len(c.outcome.jobs) || len(nodes)+len(out) > 0 {
			t.Errorf("%s: %+v, out %+v", name, rest, out)
		}
	}
	rest, nodes, out := newFacts(onDemand()).blame([]outcome{{group: g, failure: full}}, g.jobs, false)
	if len(rest) != 0 || !slices.Equal(nodes, g.nodes) || len(out) != 1 || out[0].ID != 1 || !out[0].later || !out[0].behind || out[0].why != full || out[0].partition != "gpu" {
		t.Errorf("EC2 refuses: %+v, nodes %v, out %+v", rest, nodes, out)
	}
}

// Before a launch, those without a wish have their nodes, and then the older ones.
func TestWithoutWishFirst(t *testing.T) {
	comments := []string{"subnet_id=" + subnet1, "capacity=reserve", "", "night run", "instance_type=" + wanted, "on_end=hold"}
	var jobs []capacity.Job
	for i, c := range comments {
		jobs = append(jobs, capacity.Job{ID: i, Comment: c})
	}
	var got []int
	for _, j := range withoutWishFirst(jobs) {
		got = append(got, j.ID)
	}
	if !slices.Equal(got, []int{2, 3, 5, 0, 1, 4}) || jobs[0].ID != 0 {
		t.Error(got)
	}
}

// Who is tried after the others starts after them, however long Slurm's own delay is.
func TestDelayBehind(t *testing.T) {
	slow := noon.Add(2 * time.Minute)
	waiting := func(shown string, eligible time.Time) capacity.Job {
		return capacity.Job{Shown: shown, State: "PENDING", Eligible: eligible}
	}
	jobs := []capacity.Job{waiting("1", slow), waiting("2", slow), waiting("3", noon), waiting("4", noon), {Shown: "5", Eligible: noon}, waiting("6", slow)}
	at := noon.Add(time.Minute)
	begun := map[string]time.Time{}
	for _, e := range delay(jobs,
		map[string]time.Time{"1": at, "2": at, "3": at, "4": at, "5": at, "6": noon}, map[string]bool{"2": true, "4": true, "5": true, "6": true}) {
		begun[e.(Begin).Job] = e.(Begin).At
	}
	if diff := cmp.Diff(map[string]time.Time{"2": slow.Add(firstPause), "3": at, "4": at, "6": slow.Add(firstPause)}, begun); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What failed for one reason is handled at once, and no instance, job or node is lost by that.
func TestFailuresOfOneReasonAreMerged(t *testing.T) {
	why, other := failed("full"), failed("full")
	failed := func(n int, why *Failure, behind ...string) outcome {
		o := outcome{group: group{nodes: []string{fmt.Sprint("gpu-", n)}, jobs: []capacity.Job{{ID: n, Shown: fmt.Sprint(n)}}}, failure: why,
			launched: map[string]launched{fmt.Sprint("gpu-", n): {instance: capacity.Instance{ID: fmt.Sprint("i-", n)}}}}
		for _, b := range behind {
			o.behind = map[string]bool{b: true}
		}
		return o
	}
	given := []outcome{failed(1, why), failed(2, other), failed(3, why, "3"), failed(4, why, "4")}
	var got []string
	for _, o := range byReason(given) {
		var words []string
		for _, n := range o.nodes {
			words = append(words, n+" "+o.launched[n].instance.ID)
		}
		got = append(got, fmt.Sprintf("%s, jobs %v, %d launched, behind %d", strings.Join(words, " "), o.shown(), len(o.launched), len(o.behind)))
	}
	if diff := cmp.Diff([]string{"gpu-1 i-1 gpu-3 i-3 gpu-4 i-4, jobs [1 3 4], 3 launched, behind 2", "gpu-2 i-2, jobs [2], 1 launched, behind 0"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(given[0].launched) != 1 || len(given[0].nodes) != 1 || len(given[2].behind) != 1 {
		t.Errorf("what was given has changed: %+v", given)
	}
}
