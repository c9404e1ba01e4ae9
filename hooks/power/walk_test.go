package power

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// account is what EC2, Slurm and the ledger have, while machines walk through it with answers by chance.
type account struct {
	*rand.Rand
	ledger    map[string]capacity.Held // by token
	odcrs     map[string]string        // paid ODCRs, with their tokens
	ordered   map[string]time.Time     // the end that EC2 binds a token to
	instances map[string]*instanceOf
	addressed map[string]string // node to instance
	down      map[string]bool   // nodes that were sent down
	unknown   bool              // an answer was lost
	clock     time.Time
	steps     int // until the hook is killed; 0: it is not
	log       []string
}

type instanceOf struct {
	node, token string
	at          time.Time
	into        string // the ODCR
	reservation string // of the tag
	runs        bool
}

// killed ends a walk.
type killed struct{}

func (w *account) do(e capacity.Effect) Answer {
	if w.steps--; w.steps == 0 {
		panic(killed{})
	}
	if len(w.log) > 2000 {
		panic("it does not end: " + strings.Join(w.log[:50], "; "))
	}
	w.clock = w.clock.Add(time.Second)
	a := Answer{At: w.clock}
	words := []string{"", "", "", "", "no room", "token used", "refused", "unknown", "no time"}
	word := words[w.IntN(len(words))]
	w.log = append(w.log, fmt.Sprintf("%s → %s", newSayer(nil).say(e), word))
	lost := word == "unknown" && w.IntN(2) == 0 // it took effect, and the answer is lost
	if a.Failure = failures[word]; word == "no time" || word == "token used" || word == "no room" {
		switch e.(type) {
		case Launch, Hold:
		default:
			a.Failure = failures["refused"]
		}
	}
	if a.Failure != nil && !lost {
		if r, ok := e.(Release); ok {
			a.Failures = map[string]*Failure{}
			for _, id := range r.Reservations {
				a.Failures[id] = a.Failure
			}
		}
		return a
	}
	w.unknown = w.unknown || lost
	switch e := e.(type) {
	case AskImage:
		a.Platform = capacity.LinuxUNIX
	case Enlist:
		a.Held = w.ledger[e.Token]
		w.ledger[e.Token] = e.Held
	case Unlist:
		delete(w.ledger, e.Token)
	case Hold:
		id, state := "cr-"+e.ClientToken[:8], capacity.StateActive
		if end, used := w.ordered[e.ClientToken]; !used {
			w.odcrs[id], w.ordered[e.ClientToken] = e.ClientToken, e.End
		} else if !end.Equal(e.End) {
			a.Failure = failures["token used"]
			return a
		} else if w.odcrs[id] == "" {
			state = capacity.StateCancelled
		}
		a.Reservation = capacity.Reservation{ID: id, State: state, Total: e.Count, AZID: e.AZID, InstanceType: e.InstanceType}
	case Release:
		for _, id := range e.Reservations {
			delete(w.odcrs, id)
		}
		if lost {
			a.Failures = map[string]*Failure{e.Reservations[0]: a.Failure}
		}
	case Launch:
		for i, n := range e.Nodes {
			if i >= e.Least && w.IntN(2) == 0 {
				break
			}
			id := fmt.Sprintf("i-%s-%s", n, e.ClientToken[:8])
			if w.instances[id] == nil {
				w.instances[id] = &instanceOf{node: n, token: e.ClientToken, at: w.clock, into: e.ReservationID, reservation: e.Tags[capacity.TagReservation], runs: true}
			}
			a.Instances = append(a.Instances, w.instance(id, i))
		}
	case Terminate:
		for _, id := range e.Instances {
			w.instances[id].runs = false
		}
	case AskLeft:
		for _, id := range slices.Sorted(maps.Keys(w.instances)) {
			a.Instances = append(a.Instances, w.instance(id, 0))
		}
	case AskStates:
		a.States = map[string]string{}
		for _, id := range e.Instances {
			if w.instances[id].runs {
				a.States[id] = stateRunning
			}
		}
	case SetAddresses:
		for n := range e.Addresses {
			for id, i := range w.instances {
				if i.node == n && i.runs {
					w.addressed[n] = id
				}
			}
		}
	case SendDown: // from which Slurm calls SuspendProgram
		for _, n := range e.Nodes {
			w.down[n] = true
			for _, i := range w.instances {
				i.runs = i.runs && i.node != n
			}
		}
	case AskJobs:
		a.Jobs = []capacity.Job{}
	}
	if lost {
		a.Instances, a.Reservation = nil, capacity.Reservation{}
	}
	return a
}

func (w *account) instance(id string, index int) capacity.Instance {
	i := w.instances[id]
	state := "running"
	if !i.runs {
		state = "terminated"
	}
	return capacity.Instance{ID: id, PrivateIP: "10.0.0.1", State: state, LaunchIndex: index, Launched: i.at, SubnetID: subnet1, Type: wanted,
		Tags: map[string]string{capacity.TagNode: i.node, capacity.TagReservation: i.reservation}}
}

// run is a power-up of groups with what is in the account, as launchNodes has it; true if it was not killed.
func (w *account) run(t *testing.T, f facts, groups []group) (over bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
		}
	}()
	f.now, f.live = w.clock, map[string][]capacity.Instance{}
	f.all = w.IntN(2) == 0
	for _, id := range slices.Sorted(maps.Keys(w.instances)) {
		if i := w.instances[id]; i.runs {
			f.live[i.node] = append(f.live[i.node], w.instance(id, 0))
		}
	}
	units, refused, _ := f.plan(groups)
	var holds []held
	for _, what := range units {
		s := through(t, w, launching{facts: &f, what: what}, w.do)
		holds = append(holds, s.holds...)
		for _, o := range s.outcomes {
			if o.failure != nil {
				refused = append(refused, o)
			}
		}
	}
	for _, o := range byReason(refused) {
		through(t, w, failing{settings: f.settings, outcome: o}, w.do)
	}
	through(t, w, releasing{waiting: holds}, func(e capacity.Effect) Answer {
		if _, ok := e.(AskStates); ok && w.IntN(3) == 0 {
			w.log = append(w.log, "ask-states → no time")
			return Answer{Failure: errNoTime, At: w.clock}
		}
		return w.do(e)
	})
	return true
}

// through walks a machine, which is watched in some of the walks: that takes long.
func through[M machine[M]](t *testing.T, w *account, m M, do func(capacity.Effect) Answer) M {
	if w.IntN(20) > 0 {
		return walk(m, Answer{At: w.clock}, do)
	}
	return walk[pure[M]](pure[M]{m, t}, Answer{At: w.clock}, do).m
}

// Whatever is answered, and wherever the hook is killed and run again: what may be paid as an ODCR is
// in the ledger, each instance of a node that is not sent down is known to Slurm, ended, or found by
// its tags, and each node has at most one that Slurm knows.
func TestWalks(t *testing.T) {
	const walks = 1000
	killedRuns, launches, holds := 0, 0, 0
	for seed := range uint64(walks) {
		w := &account{Rand: rand.New(rand.NewPCG(seed, 7)), ledger: map[string]capacity.Held{}, odcrs: map[string]string{}, ordered: map[string]time.Time{}, instances: map[string]*instanceOf{},
			addressed: map[string]string{}, down: map[string]bool{}, clock: noon}
		f := *holdingFacts()
		groups := []group{pair(), {nodes: []string{"gpu-3"}, jobs: []capacity.Job{nlp(3, "gpu-3")}}}
		if w.IntN(2) == 0 {
			f = *newFacts(twoReservations())
			groups = append(groups, group{nodes: []string{"gpu-4"}, jobs: []capacity.Job{nlp(4, "gpu-4")}})
		}
		f.began = noon.Add(-clockSlack)
		if w.IntN(2) == 0 {
			w.steps = 1 + w.IntN(25)
		}
		if !w.run(t, f, groups) {
			killedRuns++
			w.log = append(w.log, "killed, and run again")
			w.check(t, seed, true)
			w.steps = 0
			w.run(t, f, groups)
		}
		w.check(t, seed, false)
		launches, holds = launches+len(w.instances), holds+len(w.odcrs)
		if t.Failed() {
			t.Fatalf("walk %d:\n%s", seed, strings.Join(w.log, "\n"))
		}
	}
	if killedRuns < walks/10 || launches < walks || holds == 0 {
		t.Errorf("%d runs were killed, %d instances, %d ODCRs: that says little", killedRuns, launches, holds)
	}
}

func (w *account) check(t *testing.T, seed uint64, killed bool) {
	t.Helper()
	for id, token := range w.odcrs {
		if _, listed := w.ledger[token]; !listed {
			t.Errorf("walk %d: %s is paid, and the ledger does not have it", seed, id)
		}
	}
	for id, i := range w.instances {
		// What an answer was lost of ends with its node, or as an orphan of sync.
		if i.runs && !killed && !w.unknown && w.addressed[i.node] != id && !w.down[i.node] && !w.leftToTimeout(i.node) {
			t.Errorf("walk %d: %s of %s runs, and nobody has it", seed, id, i.node)
		}
	}
}

// leftToTimeout: Slurm did not take the node down; it does at ResumeTimeout.
func (w *account) leftToTimeout(node string) bool {
	return slices.ContainsFunc(w.log, func(line string) bool {
		return strings.HasPrefix(line, "send-down") && !strings.HasSuffix(line, "→ ")
	})
}
