package capacity

import (
	"slices"
	"strings"
	"time"
)

// TestRun is one run of a site's test over nodes of a block, as a job.
type TestRun struct {
	Job    string     `json:"job,omitempty"` // as Slurm shows it; "" if Slurm refused it
	Nodes  []string   `json:"nodes"`
	At     time.Time  `json:"at"` // when it was submitted, in AWS's time
	Result TestResult `json:"result,omitempty"`
	Line   string     `json:"line,omitempty"` // the last line that a failed one printed
	// Lost: a node of it has gone since, which may have been the bad one.
	Lost bool `json:"lost,omitempty"`
}

// FailedAlone reports whether the run shows that a node is bad: it failed, and had no other node.
func (r TestRun) FailedAlone(node string) bool {
	return r.Result == TestFailed && len(r.Nodes) == 1 && r.Nodes[0] == node && !r.Lost
}

// TestResult says how a run has ended.
type TestResult string

// The results.
const (
	TestRuns   TestResult = ""       // it has not ended
	TestPassed TestResult = "passed" // all of its nodes are good together
	TestFailed TestResult = "failed" // one of its nodes is bad, or they are together
	TestNone   TestResult = "none"   // it has not ended within its time, or could not begin
)

// Proof says what runs of a test tell of nodes.
type Proof struct {
	Good []string
	Bad  []string // that have failed alone
	// Together are runs that failed although each of their nodes is good.
	Together []TestRun
	// Next are the sets of nodes to test now, side by side. Fresh are nodes of no run that has failed, to be tested
	// together.
	Next  [][]string
	Fresh []string
}

// Prove finds bad nodes by halves: nodes that fail together are tested as two halves, side by side, until each has
// passed in some run or has failed alone. For n nodes that takes at most 1 + log2(n) rounds, rounded up, however many
// are bad. nodes are those that can be tested now.
func Prove(nodes []string, runs []TestRun) (p Proof) {
	failed := map[string]TestRun{} // by node: the smallest run of it that failed
	state := map[string]TestResult{}
	busy := map[string]bool{}
	for _, r := range runs {
		for _, n := range r.Nodes {
			switch {
			case r.Result == TestRuns:
				busy[n] = true
			case r.Result == TestPassed, r.FailedAlone(n):
				state[n] = r.Result
			case r.Result == TestFailed && (len(failed[n].Nodes) == 0 || len(r.Nodes) < len(failed[n].Nodes)):
				failed[n] = r
			}
		}
	}

	split := map[string][]string{} // by the run that failed
	order := []string{}
	for _, n := range nodes {
		run := strings.Join(failed[n].Nodes, ",")
		switch {
		case state[n] == TestPassed:
			p.Good = append(p.Good, n)
		case state[n] == TestFailed:
			p.Bad = append(p.Bad, n)
		case busy[n]:
		case run == "":
			p.Fresh = append(p.Fresh, n)
		default:
			if split[run] == nil {
				order = append(order, run)
			}

			split[run] = append(split[run], n)
		}
	}

	for _, run := range order {
		half := (len(split[run]) + 1) / 2
		for part := range slices.Chunk(split[run], half) {
			p.Next = append(p.Next, part)
		}
	}

	isNotGood := func(n string) bool { return state[n] != TestPassed }
	for _, r := range runs {
		isExplained := r.Result != TestFailed || r.Lost || len(r.Nodes) < 2
		if !isExplained && !slices.ContainsFunc(r.Nodes, isNotGood) {
			p.Together = append(p.Together, r)
		}
	}

	return p
}
