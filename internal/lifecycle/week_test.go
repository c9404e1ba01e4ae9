//go:build !race

package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/report"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// week is what the simulator and Slurm wrote down of a week, apart from what sync saw of it.
type week struct {
	*world
	instances map[string]*ledgerLine // by id
	alive     map[string]string      // id by node
	accounted []state.Run
	waits     []waitLine
	dead      []ledgerLine // nodes whose host has failed
	changes   int          // of nodes and jobs, each of which a pass sees a little late
}

// ledgerLine is an instance of the simulator.
type ledgerLine struct {
	node, block string
	from, to    time.Time
}

// waitLine is a time in which a job could have run and did not.
type waitLine struct {
	partition string
	from, to  time.Time
}

// seenLate is how long after a change a pass comes: the poll of an idle cluster.
const seenLate = time.Minute

// TestRareReportOfAWeek drives the passes of sync through a week of two blocks: jobs that complete,
// fail, are cancelled, run into their limits or are requeued, a host that fails under a job,
// nights without jobs, and three hours in which sync is dead. The report's classes add up to what
// the simulator's ledger says was paid. Each is compared with a sum that uses neither samples nor
// the report's code: a walk through the simulator's instances and Slurm's accounting.
func TestRareReportOfAWeek(t *testing.T) {
	w := &week{world: newWorld(t, 5), instances: map[string]*ledgerLine{}, alive: map[string]string{}}
	w.sources.Poll = 5 * time.Minute
	w.sim.OnInstance(func(ev awssim.InstanceEvent) {
		switch ev.Kind {
		case awssim.Launched:
			w.instances[ev.Instance.ID] = &ledgerLine{node: ev.Instance.Tags["node"], block: ev.Instance.ReservationID, from: ev.At}
		case awssim.Terminated:
			w.instances[ev.Instance.ID].to = ev.At
		}
	})
	w.slurm.powered, w.slurm.ran = w.power, w.ran
	for _, b := range []struct {
		team  string
		count int
		days  int
	}{{"solo", 4, 7}, {"gpu", 2, 2}} {
		for before := len(w.sim.Ledger()); len(w.sim.Ledger()) == before; {
			w.buy(b.team, b.count, time.Duration(b.days)*24*time.Hour)
		}
	}
	w.goTo(w.now().Add(30 * time.Minute)) // paid
	w.seeBlocks()
	if len(w.blocks) != 2 {
		t.Fatalf("%d blocks", len(w.blocks))
	}
	begins, ends := w.now(), w.now()
	for _, b := range w.blocks {
		ends = latest(ends, b.end)
	}
	dies, lives := begins.Add(100*time.Hour), begins.Add(103*time.Hour)
	var deadFrom, deadTo time.Time
	lastPass, seen := begins, 0
	requeue := func(j *modelJob) {
		if err := w.slurm.requeue(j.Shown); err != nil {
			t.Fatal(err)
		}
	}
	happens := []struct {
		after time.Duration
		to    func(j *modelJob)
	}{
		{30 * time.Hour, func(j *modelJob) { w.slurm.end(j, "CANCELLED") }},
		{40 * time.Hour, requeue},
		{60 * time.Hour, func(j *modelJob) { w.failHost(j.Nodes[0]) }},
		{120 * time.Hour, requeue},
	}
	for w.now().Before(ends.Add(time.Minute)) {
		next := w.now().Add(10 * time.Minute)
		if at := w.slurm.next(next.Add(w.skew)).Add(-w.skew + seenLate); at.Before(next) {
			next = at
		}
		if w.changes > seen {
			next = w.now().Add(seenLate)
		}
		seen = w.changes
		w.goTo(next)
		if w.now().After(dies) && w.now().Before(lives) {
			continue
		}
		if w.now().Sub(lastPass) > time.Hour {
			deadFrom, deadTo = lastPass, w.now()
		}
		lastPass = w.now()
		snap, err := w.pass(false)
		if err != nil {
			t.Fatal(err)
		}
		w.holds(snap)
		w.paid()
		if w.now().Hour() >= 8 && w.chance(8) { // nobody submits at night
			w.submitOne(snap)
		}
		for _, j := range w.slurm.jobs {
			if len(happens) == 0 || w.now().Before(begins.Add(happens[0].after)) {
				break
			}
			if j.Partition == "solo" && j.State == "RUNNING" && !j.Configuring() && j.Requeue {
				happens[0].to(j)
				happens = happens[1:]
			}
		}
	}
	if len(happens) > 0 || deadTo.IsZero() {
		t.Fatalf("too little happened: %d are left, sync was dead until %s", len(happens), deadTo)
	}
	for _, j := range w.slurm.jobs {
		if j.State == "PENDING" {
			w.waits = append(w.waits, waitLine{j.Partition, latest(j.submitted, j.Eligible), w.slurm.now})
		}
	}

	samples, err := w.sources.State.Samples(begins)
	if err != nil {
		t.Fatal(err)
	}
	made := map[bool]report.Report{}
	for _, accounting := range []bool{true, false} {
		in := report.Input{Samples: samples, Until: ends, Expand: hostlist.Expand}
		if accounting {
			in.Accounted = w.accounted
		}
		if made[accounting], err = report.Make(in); err != nil {
			t.Fatal(err)
		}
	}
	want := w.sums(deadFrom, deadTo)
	slack := int64(w.changes) * 4 * int64(seenLate/time.Second)
	for accounting, got := range made {
		var paid, classes int64
		slack := slack
		if !accounting { // how the jobs ended that did so while sync was dead, nobody knows
			slack += 6 * int64(deadTo.Sub(deadFrom)/time.Second)
		}
		for _, p := range w.sim.Ledger() {
			paid += int64(p.Count) * int64(p.End.Sub(p.Start)/time.Second)
		}
		for _, c := range report.Classes {
			n := got.Total[c]
			classes += n
			off := n - want[c]
			exact := c == report.FenceTail || accounting && slices.Contains([]report.Class{report.Useful, report.LostFailure, report.LostRequeue, report.LostTimeout}, c)
			if exact && off != 0 || max(off, -off) > slack || want[c] == 0 {
				t.Errorf("accounting %t: %s has %d node-seconds, the ledger and the accounting have %d", accounting, c, n, want[c])
			}
		}
		if classes != paid {
			t.Errorf("accounting %t: the classes add up to %d node-seconds, %d were paid", accounting, classes, paid)
		}
		t.Logf("accounting %t: paid %d, %v", accounting, paid, got.Total)
	}
	t.Logf("the ledger and the accounting: %v, within %d; %v", want, slack, w.counts)
}

func (w *week) submitOne(snap *capacity.Snapshot) {
	before := len(w.slurm.jobs)
	w.submit(snap)
	if len(w.slurm.jobs) == before {
		return
	}
	j := w.slurm.jobs[before]
	j.User, j.Account = []string{"alice", "bob"}[w.rng.IntN(2)], "nlp"
	if w.chance(4) {
		j.fails = "FAILED"
	}
	if w.chance(3) && j.Partition == "solo" {
		j.NumNodes = 3
	}
}

// power is an instance of the simulator that is launched or terminated for a node.
func (w *week) power(node string, on bool) {
	w.changes++
	w.sim.Clock().Set(w.slurm.now.Add(-w.skew))
	if !on {
		if err := w.sim.Terminate("us-east-2", []string{w.alive[node]}, "done"); err != nil {
			w.Error(err)
		}
		return
	}
	made, err := w.sim.Launch(awssim.LaunchRequest{Region: "us-east-2", ReservationID: w.slurm.node(node).block, InstanceType: "p5.48xlarge", SubnetID: "subnet-0e200000000000a01",
		MinCount: 1, MaxCount: 1, MarketType: "capacity-block", ImageID: "ami-0e200000000000a01", Tags: map[string]string{"node": node}})
	if err != nil {
		w.Fatal(err)
	}
	w.alive[node] = made[0].ID
}

// failHost breaks a host; Slurm ends its job, and an administrator powers the node down.
func (w *week) failHost(node string) {
	n := w.slurm.node(node)
	if err := w.sim.FailHost("us-east-2", w.alive[node]); err != nil {
		w.Fatal(err)
	}
	w.lost[n.block]++
	w.dead = append(w.dead, ledgerLine{node: node, block: n.block, from: w.now()})
	w.slurm.end(n.job, "NODE_FAIL")
	w.slurm.off(n)
}

// ran is Slurm's accounting.
func (w *week) ran(j *modelJob, how string) {
	w.changes++
	if !j.Configuring() {
		w.accounted = append(w.accounted, state.Run{Job: j.Shown, User: j.User, Account: j.Account, Partition: j.Partition, Nodes: hostlist.Compress(j.Nodes), Start: j.Start, End: w.slurm.now, State: how})
	}
	w.waits = append(w.waits, waitLine{j.Partition, latest(j.submitted, j.Eligible), j.Start})
}

// sums walks through the blocks in steps and looks what each place of theirs was used for.
func (w *week) sums(deadFrom, deadTo time.Time) report.Sums {
	const step = 10 * time.Second
	in := func(t, from, to time.Time) bool { return !t.Before(from) && (to.IsZero() || t.Before(to)) }
	sums := report.Sums{}
	of := map[string]report.Class{"COMPLETED": report.Useful, "CANCELLED": report.Useful, "REQUEUED": report.LostRequeue, "TIMEOUT": report.LostTimeout, "FAILED": report.LostFailure, "NODE_FAIL": report.LostFailure}
	for _, r := range w.accounted {
		nodes, _ := hostlist.Expand(r.Nodes)
		sums[of[r.State]] += int64(len(nodes)) * int64(r.End.Sub(r.Start)/time.Second)
	}
	for _, p := range w.sim.Ledger() {
		team := ""
		for _, r := range w.sim.Reservations("us-east-2") {
			if r.ID == p.ReservationID {
				team = r.Tags["team"]
			}
		}
		for at := p.Start; at.Before(p.End); at = at.Add(step) {
			free := p.Count
			for _, r := range w.accounted {
				if strings.HasPrefix(r.Nodes, team) && in(at, r.Start, r.End) {
					nodes, _ := hostlist.Expand(r.Nodes)
					free -= len(nodes)
				}
			}
			boots, lost, waits := 0, 0, false
			for _, i := range w.instances {
				if i.block == p.ReservationID && in(at, i.from, i.to) && at.Before(i.from.Add(w.slurm.boot)) {
					boots++
				}
			}
			for _, d := range w.dead {
				if d.block == p.ReservationID && !at.Before(d.from) {
					lost++
				}
			}
			for _, one := range w.waits {
				waits = waits || one.partition == team && in(at, one.from, one.to)
			}
			add := func(c report.Class, n int) { sums[c] += int64(n) * int64(step/time.Second) }
			switch {
			case !at.Before(p.End.Add(-40 * time.Minute)):
				add(report.FenceTail, free)
			case in(at, deadFrom, deadTo):
				add(report.Unknown, free)
			default:
				add(report.Boot, boots)
				add(report.Hardware, lost)
				if free -= boots + lost; waits {
					add(report.IdleWaiting, free)
				} else {
					add(report.Idle, free)
				}
				if free < 0 {
					w.Fatalf("%s: %d places of %s are used twice", at, -free, p.ReservationID)
				}
			}
		}
	}
	return sums
}
