package lifecycle

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file proves nodes before users do: a script of the site's runs as a job of root's in the wait over the nodes of
// a block that opens, and over nodes that are launched again. capacity.Prove finds the bad ones by halves; they are
// launched again once where we launch, else drained. The wait ends for a node when it has passed, and when its time is
// over (R6). Slurm shows the jobs of a pass that was killed: they are those in a wait of ours.

const (
	// testReason begins the Reason of a node that failed.
	testReason = "open_test: "
	testJob    = "pcs-capacity-open-test"
	// testSlack is how much longer than its tests a wait lasts: Slurm starts no job that does not end in time.
	testSlack = 2 * time.Minute
)

// job returns the script of the job that runs a test: on the first of its nodes, as root. The test's last line becomes
// the job's AdminComment, which Slurm shows wherever sync runs.
func (s script) job(block, group string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(string(s.text), "#!"), "\n")
	interpreter, argument, _ := strings.Cut(strings.TrimSpace(first), " ")

	command := quote(interpreter)

	argument = strings.TrimSpace(argument)
	if argument != "" {
		command += " " + quote(argument)
	}

	return fmt.Sprintf(`#!/bin/sh
unset SLURM_EXPORT_ENV # srun would pass on no more than sbatch did
export HOME=/root PCS_CAPACITY_RESERVATION=%s PCS_CAPACITY_NODE_GROUP=%s
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
base64 -d >"$folder/test" <<END
%s
END
%s "$folder/test" >"$folder/out" 2>&1 </dev/null
status=$?
[ $status = 0 ] && exit
line=$(tr -cd '[:print:]\n' <"$folder/out" | grep '[^ ]' | tail -n 1 | cut -c 1-200)
scontrol update jobid="$SLURM_JOB_ID" admincomment="${line:-no output} (exit status $status)"
exit $status
`, quote(block), quote(group), base64.StdEncoding.EncodeToString(s.text), command)
}

// quote returns a word for a shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// tests returns what is known of the tests of a slot's nodes in its present block.
func (s View) tests(v capacity.SlotState) state.NodeTests {
	t := s.Tests[v.Slot.Name]
	if t.Block != v.Reservation.ID {
		return state.NodeTests{Block: v.Reservation.ID}
	}

	return t
}

// canTest reports whether nodes of an open block can be tested before its fence.
func (s View) canTest(v capacity.SlotState, takes time.Duration) bool {
	return v.Group.OpenTest != "" && s.Scripts[v.Group.OpenTest].text != nil && !v.Former &&
		!s.Now.Add(takes).After(v.Window.Fence)
}

// launchedAgain returns the nodes of an open block that are about to be launched again, and not for a job: they are
// tested when they are up.
func (s View) launchedAgain(v capacity.SlotState) []string {
	if !s.canTest(v, s.openFor(v.Turn)) || v.Reservation.State != capacity.StateActive {
		return nil
	}

	nodes := s.Cluster.SlotNodes(v.Slot.Name)
	nodes = nodes[:countLaunchable(v, nodes)]
	lost := s.Cluster.lostNodes(v, nodes)
	off := s.nodesToPowerUp(v)

	return s.Cluster.filterNodes(nodes, func(n capacity.Node) bool {
		comes := n.PoweringUp() || n.PoweringDown() || slices.Contains(off, n.Name)
		return comes && !n.IsBusy() && !slices.Contains(lost, n.Name)
	})
}

// untestedNodes returns, of nodes under the wait of an open block, those that a test still keeps from jobs.
func (s View) untestedNodes(v capacity.SlotState, under []string) []string {
	tests := s.tests(v)
	good := capacity.Prove(under, tests.Runs).Good
	powered := s.nodesToPowerUp(v)
	byName := s.Cluster.byName()

	return slices.DeleteFunc(slices.Clone(under), func(name string) bool {
		n, shown := byName[name]
		switch {
		case runsTest(tests, name):
			return false
		case !shown, n.OutState() == "drained":
			return true
		case n.PoweredDown(): // a job may boot it, where nobody else does
			return v.Partition.Provider.Launches() && !slices.Contains(powered, name)
		}

		return n.IsUp() && (slices.Contains(good, name) || !s.Now.Before(s.testEnd(v, tests, name)))
	})
}

// runsTest reports whether a test has a node now.
func runsTest(t state.NodeTests, node string) bool {
	return slices.ContainsFunc(t.Runs, func(r capacity.TestRun) bool {
		return r.Result == capacity.TestRuns && slices.Contains(r.Nodes, node)
	})
}

// testEnd returns when some nodes take jobs even if their tests have no result.
func (s View) testEnd(v capacity.SlotState, t state.NodeTests, nodes ...string) time.Time {
	end := s.Now.Add(v.Group.OpenTestLimit.Duration)
	for _, r := range t.Runs {
		last := r.At.Add(v.Group.OpenTestLimit.Duration)
		isOf := func(n string) bool { return slices.Contains(r.Nodes, n) }
		if slices.ContainsFunc(nodes, isOf) && last.Before(end) {
			end = last
		}
	}

	if last := s.toAWSTime(s.openWait(v).End).Add(-testSlack); last.Before(end) {
		end = last
	}

	return end
}

// decideTests learns from the tests that have ended, cancels those whose time is over, launches or drains bad nodes,
// and submits the next tests.
func decideTests(s View) (actions []Action) {
	if s.Jobs == nil { // Slurm did not show the jobs
		return nil
	}

	saved := maps.Clone(s.Tests)
	if saved == nil {
		saved = map[string]state.NodeTests{}
	}

	for _, v := range s.slotStates() {
		if v.Group.OpenTest == "" || v.Former || v.Reservation.ID == "" {
			continue
		}

		under := s.waitingNodes(v)
		r := &tester{
			View:  s,
			v:     v,
			tests: s.learn(v, s.tests(v)),
		}
		actions = slices.Concat(actions, r.cancel(), r.removeBad(under), r.submit(under))
		actions = append(actions, newAction("keep-tests", capacity.Subject{}, "",
			func(_ context.Context, w World) error {
				if len(r.tests.Runs) > 0 || len(r.tests.Replaced) > 0 {
					saved[v.Slot.Name] = r.tests
				}

				if reflect.DeepEqual(saved, s.Tests) {
					return nil
				}

				return w.State.NodeTests().Save(saved)
			}))
	}

	return actions
}

func isUnfinished(r capacity.TestRun) bool { return r.Result == capacity.TestRuns }

// tester decides on the tests of one slot. Its actions add to tests what they do.
type tester struct {
	View
	v     capacity.SlotState
	tests state.NodeTests
}

// learn returns what is known of tests by what Slurm now shows of their jobs and nodes.
func (s View) learn(v capacity.SlotState, t state.NodeTests) state.NodeTests {
	up := s.Cluster.filterNodes(s.Cluster.SlotNodes(v.Slot.Name), capacity.Node.IsUp)
	isGone := func(n string) bool { return !slices.Contains(up, n) }
	known := map[string]bool{}

	var runs []capacity.TestRun
	for _, r := range t.Runs {
		known[r.Job] = true

		j, shown := s.TestJobs[r.Job]
		over := !s.Now.Before(s.testEnd(v, t, r.Nodes...))
		switch {
		case r.Result != capacity.TestRuns:
		case shown && !j.Ended():
		case j.State == "COMPLETED":
			r.Result = capacity.TestPassed
		case over:
			r.Result = capacity.TestNone
		case !shown, j.State == "CANCELLED": // somebody has cancelled it, or Slurm has forgotten it: again
			continue
		default:
			r.Result = capacity.TestFailed
			r.Line = cmp.Or(j.AdminComment, j.State)
		}

		// What was found of a node is over when its instance is.
		if all := len(r.Nodes); r.Result != capacity.TestRuns {
			r.Nodes = slices.DeleteFunc(slices.Clone(r.Nodes), isGone)
			r.Lost = r.Lost || len(r.Nodes) < all
		}

		runs = append(runs, r)
	}

	t.Replaced = s.died(v, t)

	// Those of a pass that was killed.
	for _, name := range slices.Sorted(maps.Keys(s.TestJobs)) {
		j := s.TestJobs[name]
		if g, _ := capacity.ParseGuard(j.Reservation); j.Active() && !known[name] && g.Slot == v.Slot.Name {
			run := capacity.TestRun{
				Job:   name,
				Nodes: j.Nodes,
				At:    s.nowInSeconds(),
			}
			if !j.Start.IsZero() {
				run.At = s.toAWSTime(j.Start)
			}

			runs = append(runs, run)
		}
	}

	t.Runs = runs

	return t
}

// died returns the nodes that are launched again, with those of a test that are down now.
func (s View) died(v capacity.SlotState, t state.NodeTests) map[string]time.Time {
	replaced := maps.Clone(t.Replaced)
	isDown := func(n capacity.Node) bool { return n.PoweredDown() || n.PoweringDown() || n.BaseState() == "DOWN" }

	for _, n := range s.Cluster.filterNodes(s.waitingNodes(v), isDown) {
		isOf := func(r capacity.TestRun) bool { return slices.Contains(r.Nodes, n) }
		if _, is := replaced[n]; is || !slices.ContainsFunc(t.Runs, isOf) {
			continue
		}

		if replaced == nil {
			replaced = map[string]time.Time{}
		}

		replaced[n] = s.nowInSeconds()
	}

	return replaced
}

// cancel ends the tests whose time is over, and those that wait for a node that is gone.
func (r *tester) cancel() (actions []Action) {
	for _, run := range r.tests.Runs {
		if run.Result != capacity.TestRuns {
			continue
		}

		j := r.TestJobs[run.Job]
		up := r.Cluster.filterNodes(run.Nodes, capacity.Node.IsUp)
		why := ""
		switch {
		case !r.Now.Before(r.testEnd(r.v, r.tests, run.Nodes...)):
			why = "no result within " + r.v.Group.OpenTestLimit.String()
		case j.Pending() && (len(up) < len(run.Nodes) || len(run.Nodes) == 0):
			why = "it waits for a node that is not up"
		default:
			continue
		}

		actions = append(actions, newAction("cancel-test", aboutNodes(r.v.Slot.Name, run.Nodes),
			fmt.Sprintf("cancel job %s, the test of %s: %s", run.Job, hostlist.Compress(run.Nodes), why),
			func(ctx context.Context, w World) error { return w.Slurm.Cancel(ctx, run.Job) }))
	}

	return actions
}

// removeBad has bad nodes launched again, once, or drains them.
func (r *tester) removeBad(under []string) (actions []Action) {
	up := r.Cluster.filterNodes(under, capacity.Node.IsUp)
	again := r.v.Partition.Provider.Launches() && r.canTest(r.v, r.openFor(r.v.Turn))
	line := func(node string) string {
		i := slices.IndexFunc(r.tests.Runs, func(run capacity.TestRun) bool { return run.FailedAlone(node) })

		return r.tests.Runs[i].Line
	}

	for _, node := range capacity.Prove(up, r.tests.Runs).Bad {
		about := aboutNodes(r.v.Slot.Name, []string{node})
		reason := testReason + line(node)
		if !again || !r.tests.Replaced[node].IsZero() {
			actions = append(actions, newAction("drain-node", about,
				fmt.Sprintf("drain %s, which fails its test: %s", node, line(node)),
				func(ctx context.Context, w World) error { return w.Slurm.Drain(ctx, []string{node}, reason) }))

			continue
		}

		actions = append(actions, newAction("replace-node", about,
			fmt.Sprintf("launch %s again, which fails its test: %s", node, line(node)),
			func(ctx context.Context, w World) error {
				// First the record: a node is launched again once, even if this pass is killed.
				replaced := map[string]time.Time{node: r.nowInSeconds()}
				maps.Copy(replaced, r.tests.Replaced)
				r.tests.Replaced = replaced

				return w.Slurm.PowerDownForce(ctx, []string{node}, reason)
			}))
	}

	return actions
}

// submit begins the tests that are next.
func (r *tester) submit(under []string) (actions []Action) {
	if !r.canTest(r.v, r.v.Group.OpenTestLimit.Duration) {
		return nil
	}

	up := r.Cluster.filterNodes(under, capacity.Node.IsUp)
	proof := capacity.Prove(up, r.tests.Runs)
	groups := proof.Next

	// Nodes that boot at about the same time are tested together, except those that are launched again.
	isAwaited := func(n string) bool { return r.tests.Replaced[n].IsZero() && !slices.Contains(up, n) }

	isReady := !slices.ContainsFunc(under, isAwaited) ||
		!r.Now.Before(r.firstUp(r.v, proof.Fresh).Add(openTogether))
	if len(proof.Fresh) > 0 && isReady {
		groups = append(groups, proof.Fresh)
	}

	account := ""
	if allowed := r.v.Partition.AllowAccounts; len(allowed) > 0 {
		account = allowed[0]
	}

	for _, nodes := range groups {
		left := r.testEnd(r.v, r.tests, nodes...).Sub(r.Now)
		if left <= 0 {
			continue
		}

		job := capacity.Batch{
			Name:        testJob,
			Partition:   r.v.Partition.Name,
			Account:     account,
			Reservation: r.openWait(r.v).Name,
			Nodes:       nodes,
			Minutes:     int((left + time.Minute - 1) / time.Minute),
			Script:      r.Scripts[r.v.Group.OpenTest].job(r.v.Reservation.ID, r.v.Group.Name),
		}
		text := fmt.Sprintf("test %s with %s", hostlist.Compress(nodes), r.v.Group.OpenTest)
		actions = append(actions, newAction("test-nodes", aboutNodes(r.v.Slot.Name, nodes), text,
			func(ctx context.Context, w World) error { return r.begin(ctx, w, job) }))
	}

	return actions
}

// begin submits a test. If Slurm refuses it, its nodes open without.
func (r *tester) begin(ctx context.Context, w World, job capacity.Batch) error {
	name, err := w.Slurm.SubmitBatch(ctx, job)
	run := capacity.TestRun{
		Job:   name,
		Nodes: job.Nodes,
		At:    r.nowInSeconds(),
	}

	if isUnanswered(err) {
		return err
	}

	if err != nil {
		run.At = run.At.Add(-r.v.Group.OpenTestLimit.Duration)
		run.Result = capacity.TestNone
		run.Line = err.Error()
	}

	r.tests.Runs = append(slices.Clone(r.tests.Runs), run)

	return err
}

// checkTests reports what tests have not found out, and tests that cannot run.
func checkTests(s View) (problems []capacity.Problem) {
	for _, v := range s.slotStates() {
		test := v.Group.OpenTest
		if test == "" || v.Former || v.Reservation.ID == "" {
			continue
		}

		about := aboutSlot(v)
		if err := s.Scripts[test].err; err != nil && !errors.Is(err, fs.ErrPermission) {
			problems = append(problems, capacity.Problemf(capacity.TestUnusable, about, "",
				"open_test of node group %s: %v; its blocks open without a test", v.Group.Name, err))
		}

		tests := s.tests(v)
		for _, r := range capacity.Prove(nil, tests.Runs).Together {
			about.Node = hostlist.Compress(r.Nodes)
			problems = append(problems, capacity.Problemf(capacity.NodesUntested, about, "",
				"%s fails on nodes %s together and on none of them alone, so they take jobs: %s", test, about.Node,
				r.Line))
		}

		for _, r := range tests.Runs {
			if r.Result != capacity.TestNone || s.Now.Sub(r.At) > recently {
				continue
			}

			about.Node = hostlist.Compress(r.Nodes)
			why := cmp.Or(r.Line, "no result within "+v.Group.OpenTestLimit.String())
			problems = append(problems, capacity.Problemf(capacity.NodesUntested, about, "",
				"nodes %s take jobs without having passed %s: %s", about.Node, test, why))
		}
	}

	return problems
}

// testFailed reports nodes that are drained because they failed, with the text of a case for AWS Support.
func (s View) testFailed(v capacity.SlotState, o capacity.NodesOut, line string) capacity.Problem {
	about := aboutSlot(v)
	about.Node = o.Nodes

	names, _ := hostlist.Expand(o.Nodes)

	ids := map[string]string{} // by node
	for _, i := range s.Instances {
		ids[i.Node()] = i.ID
	}

	var instances []string
	for _, n := range s.Cluster.visibleNodes(names) {
		instances = append(instances, cmp.Or(n.InstanceID, ids[n.Name], n.Name))
	}

	r := v.Reservation
	fix := fmt.Sprintf(
		"open a case with AWS Support: \"Capacity Block %s (%s, %s): our test fails on %s: %s. "+
			"Please replace each host.\" When that is done: `%s`",
		r.ID,
		r.InstanceType,
		cmp.Or(r.AZID, r.AZ),
		strings.Join(instances, ", "),
		line,
		capacity.ReturnCommand(o.Nodes, o.State, v.Partition.Provider),
	)

	return capacity.Problemf(capacity.NodesFailed, about, fix, "nodes %s of %s failed %s and take no jobs: %s", o.Nodes,
		r.ID, v.Group.OpenTest, line)
}
