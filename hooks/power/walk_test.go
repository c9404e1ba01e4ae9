package power

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// chance is what comes of each verb in a walk; the same for the same seed and line.
func chance(seed uint64) func(line string) string {
	times := map[string]uint64{}

	return func(line string) string {
		hash := fnv.New64()
		_, _ = hash.Write([]byte(line))

		times[line]++
		n := rand.New(rand.NewPCG(seed+times[line], hash.Sum64())).IntN(12)
		word := []string{"no room", "token used", "refused", "unknown", "lost", "one", "", "", "", "", "", ""}[n]
		switch {
		case n < 3 && !strings.HasPrefix(line, "launch ") && !strings.HasPrefix(line, "create ODCR "):
			return "refused"
		case n < 3 && times[line] > 1: // what a token has made is there
			return ""
		}

		return word
	}
}

// run is a power-up of gpu-1 to gpu-4 for a job of two nodes, and two of one, with what is in the World by now; false
// if it was killed. In another one, gpu-3 is that of another job, of two nodes.
func (w *fake) run(f launchFacts, other bool) bool {
	f.now = time.Now()
	f.live = liveByNode(capacity.WithNodes(w.Instances))

	up := powerUp{
		nodes:  []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4"},
		jobs:   []capacity.Job{nlp(1, "gpu-1", "gpu-2"), batch(nlp(3, "gpu-3")), batch(nlp(4, "gpu-4"))},
		facts:  f,
		budget: budget,
	}
	if other {
		up.nodes = append(up.nodes, "gpu-5")
		up.jobs = []capacity.Job{nlp(1, "gpu-1", "gpu-2"), batch(nlp(5, "gpu-3", "gpu-5")), batch(nlp(4, "gpu-4"))}
	}

	for _, n := range up.nodes {
		up.states = append(up.states, capacity.Node{Name: n, State: "ALLOCATED+CLOUD+POWERING_UP"})
	}

	w.Jobs = nil
	w.queue(up.jobs...)

	for _, n := range w.Slurm.All {
		n.State = model.Boots
	}

	var hook sync.WaitGroup
	hook.Go(func() { _ = w.hook(f.settings).resume(context.Background(), up, nil) })
	hook.Wait()

	return w.kill == 0 || w.calls < w.kill
}

// Whatever is answered, and wherever the hook is killed and run again, also for other jobs: what may be paid as an ODCR
// is in the ledger; each instance of a node that is not taken down is known to Slurm and recorded, ended, or found by
// its tags; and a node is not taken down without a record that says why.
func TestR5_Walks(t *testing.T) {
	const walks = 200

	killed, launches, holds := 0, 0, 0
	for seed := range uint64(walks) {
		synctest.Test(t, func(t *testing.T) {
			w := newFake(t)
			w.word = chance(seed)
			f := func() launchFacts {
				if seed%2 == 0 {
					return holdingFacts()
				}
				return newFacts(twoReservations())
			}

			if seed%3 > 0 {
				w.kill = 1 + int(seed)%23
			}

			if !w.run(f(), false) {
				killed++

				w.check(t, true)
				w.lines = append(w.lines, "killed, and run again")
				w.kill = 0
				w.run(f(), seed&2 == 0)
			}

			w.check(t, false)

			launches, holds = launches+len(w.launches), holds+len(w.orders)
			if t.Failed() {
				t.Fatalf("walk %d:\n%s", seed, strings.Join(w.lines, "\n"))
			}
		})
	}

	if killed < walks/4 || launches < walks || holds < walks/4 {
		t.Errorf("%d runs were killed, %d instances, %d ODCRs: that says little", killed, launches, holds)
	}
}

// failed reports whether a call about a node, or about anything, came to one of the words, or to anything at all.
func (w *fake) failed(verb, node string, words ...string) bool {
	return slices.ContainsFunc(w.lines, func(line string) bool {
		line, word, _ := strings.Cut(line, " → ")
		of, is := strings.CutPrefix(line, verb+" ")
		if !is || word == "" || len(words) > 0 && !slices.Contains(words, word) {
			return false
		}

		of, _, _ = strings.Cut(of, " ")
		nodes, _ := hostlist.Expand(of)

		return node == "" || slices.Contains(nodes, node)
	})
}

func (w *fake) check(t *testing.T, killed bool) {
	t.Helper()

	ledger, err := w.Holds(time.Now())
	if err != nil {
		t.Fatal(err)
	}

	for _, r := range w.EC2.All {
		if one, _ := w.Real(r.ID); r.Tags[capacity.TagHold] == "" || !one.State.IsLive() {
			continue
		}

		if listed := slices.ContainsFunc(ledger,
			func(h capacity.Hold) bool { return h.Token == r.Tags[capacity.TagToken] }); !listed &&
			!w.failed("unlist", "") {
			t.Errorf("%s is paid, and the ledger does not have it", r.ID)
		}

		if !killed && !w.failed("cancel reservation", "") && !w.failed("create ODCR", "", "lost") &&
			!slices.Contains(w.lines, "killed, and run again") {
			t.Errorf("%s stays", r.ID)
		}
	}

	records := w.kept(t)
	recorded := func(node string, is func(state.Record) bool) bool {
		return slices.ContainsFunc(records, func(r state.Record) bool {
			nodes, _ := hostlist.Expand(r.Nodes)
			return r.Hook == "resume" && slices.Contains(nodes, node) && is(r)
		})
	}
	unrecorded := w.failed("record", "")
	for _, n := range w.Slurm.All {
		if n.PoweredDown() && !unrecorded &&
			!recorded(n.Name, func(r state.Record) bool { return r.Code != string(capacity.OK) && n.Reason != "" }) {
			t.Errorf("%s is down, and nobody knows why", n.Name)
		}
	}

	for _, i := range capacity.WithNodes(w.Instances) {
		n := w.Node(i.Tags[capacity.TagNode])
		if killed || w.failed("launch", n.Name, "lost") || w.failed("power down by force", n.Name) {
			continue // what an answer was lost of ends with its node, or as an orphan of sync
		}

		known := n.Address == i.PrivateIP && !n.PoweredDown()
		if !known && !n.PoweredDown() {
			t.Errorf("%s of %s runs, and nobody has it", i.ID, n.Name)
		}

		if known && !unrecorded &&
			!recorded(n.Name, func(r state.Record) bool { return slices.Contains(r.Instances, i.ID) }) {
			t.Errorf("%s of %s is not recorded", i.ID, n.Name)
		}
	}
}
