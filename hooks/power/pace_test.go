package power

import (
	"fmt"
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

// holdingSnapshot is a slot on demand in two zones, for whose jobs capacity is held.
func holdingSnapshot() *capacity.Snapshot {
	snap := onDemand()
	snap.Partitions[0].Groups[0].Reserve = capacity.ReservePerJob
	return snap
}

// Jobs that share nodes and failed together start apart the next time, unless they are alike.
func TestYoungerOthers(t *testing.T) {
	wish := nlp(2, "gpu-1")
	wish.Comment = "capacity_reservation_id=" + two
	component := func(j capacity.Job) capacity.Job { j.HetJobID = 1; return j }
	for name, c := range map[string]struct {
		jobs []capacity.Job
		want string
	}{
		"one":          {[]capacity.Job{nlp(1, "gpu-1")}, ""},
		"alike":        {[]capacity.Job{nlp(1, "gpu-1"), nlp(2, "gpu-1")}, ""},
		"another wish": {[]capacity.Job{nlp(1, "gpu-1"), wish}, "2"},
		"other nodes":  {[]capacity.Job{nlp(1, "gpu-1"), nlp(2, "gpu-1"), nlp(3, "gpu-1", "gpu-2")}, "3"},
		"of a het job": {[]capacity.Job{component(nlp(1, "gpu-1")), component(nlp(2, "gpu-1", "gpu-2"))}, ""},
	} {
		var got []string
		for id, later := range youngerOthers(c.jobs) {
			if later {
				got = append(got, id)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: later are %q, want %q", name, got, c.want)
		}
	}
}
