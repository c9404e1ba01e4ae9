package power

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// What effects and records carry besides what the stories of the machines show.

// What an ODCR has cost for nothing is in its record, as far as prices are known.
func TestRecordsOfHeldCapacity(t *testing.T) {
	dollars, err := capacity.ParseMoney("10", capacity.USD)
	if err != nil {
		t.Fatal(err)
	}
	priced := capacity.Settings{Reserve: capacity.Reserve{Prices: map[string]capacity.Money{wanted: dollars}}}
	h := held{Reservation: capacity.Reservation{ID: one, InstanceType: wanted, AZID: "az1", Total: 2, End: noon.Add(time.Hour)}, token: "t", partition: "gpu", jobs: []string{"1"}, since: noon.Add(-time.Hour)}
	launched := h
	launched.launched = noon.Add(-30 * time.Minute)
	refused := Answer{At: noon, Failures: map[string]*Failure{one: {Code: "x", EC2Code: "y", Message: "no"}}}
	const base = "held 2 × p5.48xlarge in az1 for 1h0m0s, idle for "
	const left = "; it could not be cancelled: no; EC2 ends it at 2026-11-20 13:00 UTC, or up to an hour later"
	for name, c := range map[string]struct {
		h      held
		s      capacity.Settings
		answer Answer
		want   string
		code   string
	}{
		"nothing ran":          {h, priced, Answer{At: noon}, base + "1h0m0s: 20.00 USD", "ok"},
		"it was used":          {launched, priced, Answer{At: noon}, base + "30m0s: 10.00 USD", "ok"},
		"without prices":       {h, capacity.Settings{}, Answer{At: noon}, base + "1h0m0s", "ok"},
		"not cancelled":        {h, capacity.Settings{}, refused, base + "1h0m0s" + left, "x"},
		"not cancelled, price": {launched, priced, refused, base + "30m0s: 10.00 USD" + left + "; until then places that are free cost up to 20.00 USD an hour", "x"},
	} {
		effects := c.h.given(c.answer, c.s)
		r := effects[len(effects)-1].(Tell).Records[0]
		if r.Message != c.want || r.Code != c.code || r.Reservation != one || r.Partition != "gpu" || (len(effects) == 2) != (c.code == "ok") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// An ODCR's tags say for which runs of jobs it is, and its name too.
func TestTagsOfHeldCapacity(t *testing.T) {
	s := ready(t, holdingFacts(), group{nodes: []string{"gpu-1", "gpu-2"}, jobs: []capacity.Job{{ID: 1, Shown: "1", Account: "nlp", Restarts: 3, Nodes: []string{"gpu-1", "gpu-2"}, State: "RUNNING"}}})
	s, effects := s.next(Answer{At: noon})
	if _, asks := effects[0].(AskImage); !asks {
		t.Fatal(effects)
	}
	s, _ = s.next(Answer{At: noon, Platform: "Linux/UNIX"})
	if tags := s.order.Tags; tags[capacity.TagHold] != "jobs 1/3" || !strings.HasPrefix(tags[capacity.TagName], "held for ") || s.order.Platform != "Linux/UNIX" {
		t.Errorf("%v", tags)
	}
	known := holdingFacts()
	known.snap.Partitions[0].Groups[0].Platform = "Linux/UNIX"
	if _, effects := ready(t, known, pair()).next(Answer{At: noon}); effects[0].Code() != (Enlist{}).Code() {
		t.Errorf("a platform that is known is asked for: %v", effects)
	}
}

// A launch for one job is whole or not at all; one for several jobs of one node takes what there is.
func TestLeastOfALaunch(t *testing.T) {
	single := func(node string, id int) group {
		return group{nodes: []string{node}, jobs: []capacity.Job{nlp(id, node)}}
	}
	for name, c := range map[string]struct {
		groups []group
		least  int
	}{"one job": {[]group{pair()}, 2}, "two jobs": {[]group{single("gpu-1", 1), single("gpu-2", 2)}, 1}} {
		_, effects := ready(t, newFacts(twoReservations()), c.groups...).next(Answer{At: noon})
		if l := effects[0].(Launch); l.Least != c.least || l.Count != 2 {
			t.Errorf("%s: %d of %d", name, l.Least, l.Count)
		}
	}
	for index, fits := range map[int]bool{-1: false, 0: true, 1: true, 2: false} {
		if _, failure := byNode([]string{"gpu-1", "gpu-2"}, []capacity.Instance{{LaunchIndex: index}}, 1); (failure == nil) != fits {
			t.Errorf("launch index %d: %v", index, failure)
		}
	}
	machine := ready(t, newFacts(twoReservations()), pair())
	ended := Answer{At: noon, Instances: []capacity.Instance{{ID: "i-1", State: "terminated"}}}
	machine, _ = machine.next(Answer{At: noon})
	for range mostAttempts {
		machine, _ = machine.next(ended)
	}
	if want := "10 launches of gpu-[1-2] have ended already"; machine.outcomes[0].failure.Message != want {
		t.Errorf("%+v, want %s", machine.outcomes[0].failure, want)
	}
}

// A record of launches has the instances in the order of the nodes, and what failed has none.
func TestRecordsOfLaunches(t *testing.T) {
	at := func(id string) launched { return launched{capacity.Instance{ID: id}, one} }
	s := launching{facts: newFacts(twoReservations()), outcomes: []outcome{
		{group: group{nodes: []string{"gpu-3"}}, failure: failures["no room"]},
		{group: pair(), launched: map[string]launched{"gpu-1": at("i-1"), "gpu-2": at("i-2")}}}}
	_, effects := s.record(Answer{At: noon})
	if r := effects[0].(Tell).Records; len(r) != 1 || strings.Join(r[0].Instances, " ") != "i-1 i-2" || r[0].Reservation != one || r[0].Nodes != "gpu-[1-2]" || r[0].Partition != "gpu" {
		t.Errorf("%+v", r)
	}
	f := failing{settings: newFacts(nil).settings, outcome: outcome{group: pair(), failure: failures["no room"], launched: map[string]launched{"gpu-2": at("i-2")}}}
	f, _ = f.next(Answer{At: noon})
	_, effects = f.next(Answer{At: noon})
	if r := effects[0].(Tell).Records[0]; r.Reservation != one || strings.Join(r.Instances, " ") != "i-2" {
		t.Errorf("%+v", r)
	}
}

// The reason on a node keeps its advice where it has to be cut.
func TestReasonKeepsItsAdvice(t *testing.T) {
	long := Failure{Code: "X", Message: strings.Repeat("long ", 100) + ".", Advice: "call AWS"}
	if reason := long.reason(); !strings.HasSuffix(reason, "; call AWS") || len(reason) > maxReason {
		t.Errorf("%d: %s", len(reason), reason)
	}
	short := Failure{Code: "X", Message: "No."}
	if reason := short.reason(); reason != "X: No." {
		t.Error(reason)
	}
	if f := refusalOf(capacity.Verdict{Code: capacity.NotOpen, Message: "later", NotBefore: noon}); !f.NotBefore.Equal(noon) || f.Message != "later" {
		t.Errorf("%+v", f)
	}
}
