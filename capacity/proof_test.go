package capacity

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// prove runs a test over nodes until all is known, in rounds of runs side by side. fails says whether a run fails.
func prove(nodes []string, fails func([]string) bool) (p Proof, rounds int) {
	var runs []TestRun
	for {
		p = Prove(nodes, runs)

		next := p.Next
		if len(p.Fresh) > 0 {
			next = append(next, p.Fresh)
		}

		if len(next) == 0 {
			return p, rounds
		}

		rounds++

		for _, group := range next {
			r := TestRun{Nodes: group, Result: TestPassed}
			if fails(group) {
				r.Result = TestFailed
			}

			runs = append(runs, r)
		}
	}
}

func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("gpu-%d", i+1))
	}

	return all
}

// Any set of bad nodes is found, and no good node with them, in as many rounds as there are halves of halves.
func TestBadNodesAreFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := names(rapid.IntRange(1, 64).Draw(t, "nodes"))
		bad := rapid.SliceOfDistinct(rapid.SampledFrom(nodes), rapid.ID[string]).Draw(t, "bad")
		isBad := func(n string) bool { return slices.Contains(bad, n) }

		p, rounds := prove(nodes, func(group []string) bool { return slices.ContainsFunc(group, isBad) })

		slices.Sort(bad)
		slices.Sort(p.Bad)

		if diff := cmp.Diff(bad, p.Bad, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("bad nodes (-are +found):\n%s", diff)
		}

		if len(p.Good)+len(p.Bad) != len(nodes) || len(p.Together) > 0 {
			t.Errorf("found %+v", p)
		}

		log := math.Log2(float64(len(nodes)))
		if most := 1 + int(math.Ceil(log)); rounds > most || float64(rounds) > 2*log+1 {
			t.Errorf("%d rounds for %d nodes, want at most %d", rounds, len(nodes), most)
		}
	})
}

func TestNodesThatFailTogetherOnly(t *testing.T) {
	all := func(group []string) bool { return len(group) == 4 }

	p, rounds := prove(names(4), all)
	if len(p.Good) != 4 || rounds != 2 || len(p.Together) != 1 || len(p.Together[0].Nodes) != 4 {
		t.Errorf("after %d rounds: %+v", rounds, p)
	}
}

func TestProve(t *testing.T) {
	nodes := names(4)
	run := func(result TestResult, of ...string) TestRun { return TestRun{Nodes: of, Result: result} }

	for name, c := range map[string]struct {
		nodes []string
		runs  []TestRun
		want  Proof
	}{
		"nothing was tested": {nodes, nil, Proof{Fresh: nodes}},
		"a test runs":        {nodes, []TestRun{run(TestRuns, nodes...)}, Proof{}},
		"one boots later": {
			nodes,
			[]TestRun{run(TestRuns, nodes[:3]...)},
			Proof{Fresh: nodes[3:]},
		},
		"a test had no result": {nodes, []TestRun{run(TestNone, nodes...)}, Proof{Fresh: nodes}},
		"a node died in the test": {
			[]string{nodes[0], nodes[1], nodes[3]},
			[]TestRun{run(TestFailed, nodes...)},
			Proof{Next: [][]string{nodes[:2], nodes[3:]}},
		},
		"the bad one of two has left, and the other is tested": {
			nodes[:1],
			[]TestRun{{Nodes: nodes[:1], Result: TestFailed, Lost: true}, run(TestRuns, nodes[:1]...)},
			Proof{},
		},
		"the bad one of two has left": {
			nodes[:1],
			[]TestRun{{Nodes: nodes[:1], Result: TestFailed, Lost: true}},
			Proof{Next: [][]string{nodes[:1]}},
		},
		"one half runs, the other has failed": {
			nodes,
			[]TestRun{run(TestFailed, nodes...), run(TestRuns, nodes[:2]...), run(TestFailed, nodes[2:]...)},
			Proof{Next: [][]string{nodes[2:3], nodes[3:]}},
		},
	} {
		if diff := cmp.Diff(c.want, Prove(c.nodes, c.runs), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
