package power_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/report"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// instanceLedger is how long instances ran, as the simulator tells it.
type instanceLedger struct {
	mu              sync.Mutex
	launched, ended map[string]time.Time
}

func (l *instanceLedger) event(e awssim.InstanceEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Kind {
	case awssim.Launched:
		l.launched[e.Instance.ID] = e.At
	case awssim.Terminated:
		l.ended[e.Instance.ID] = e.At
	}
}

// seconds are those of all instances, up to a time.
func (l *instanceLedger) seconds(until time.Time) (sum int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, from := range l.launched {
		to, over := l.ended[id]
		if !over || to.After(until) {
			to = until
		}
		sum += int64(to.Sub(from) / time.Second)
	}
	return sum
}

// The life of a block on a real Slurm with a real slurmdbd, its nodes launched by the real
// hooks: what the report says of it adds up to what was paid, and its jobs to what
// sacct says, with the accounting and from sync's samples alone.
func TestReportOfABlock(t *testing.T) {
	if !hookstest.OwnProcess(t) {
		return
	}
	const opens, lasts, tail = 20 * time.Second, 180 * time.Second, 20 * time.Second
	settings := strings.Replace(powerConfig, "\n[[partition]]", "\n[timing]\npoll = \"1s\"\ndrain_margin = \"10s\"\nreclaim_lead = \"10s\"\nboot_allowance = \"0s\"\n\n[[partition]]", 1)
	settings = strings.ReplaceAll(settings, `provider = "ec2"`, "provider = \"ec2\"\nmin_time = \"1m\"")
	moment := func(text string) (m awssim.Moment) {
		if err := m.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return m
	}
	ledger := &instanceLedger{launched: map[string]time.Time{}, ended: map[string]time.Time{}}
	p := startPowerWith(t, settings, func(s *awssim.Scenario) {
		s.ReclaimLead = awssim.Duration(10 * time.Second)
		block := &s.Regions[0].Reservations[0]
		block.Start, block.End = moment("+"+opens.String()), moment("+"+(opens+lasts).String())
	}, func(cfg *slurmlab.Config) { cfg.Accounting = true })
	p.bootTime.Store(int64(5 * time.Second)) // so that a pass of sync, each second, sees it
	p.sim.OnInstance(ledger.event)
	for _, line := range []string{"add account nlp,bio", "add user root account=nlp", "add user root account=bio"} {
		p.sacctmgr(strings.Fields(line)...)
	}
	p.wrapper("sync-watch")
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { p.keepSync(ctx) })
	defer watch.Wait()
	defer cancel()

	job := func(node, shell string, args ...string) string {
		t.Helper()
		id, err := p.cluster.Submit(hookstest.Deadline(t), shell, append([]string{"-p", "gpu", "-w", node}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	p.until("sync has seen the block", func() bool { return p.reservation("pcs-capacity-fence-gpu").Name != "" })
	timeout := job("gpu-1", "sleep 900", "-A", "nlp", "-t", "1", "--exclusive")
	failed := job("gpu-2", "sleep 8; exit 3", "-A", "bio", "-t", "1", "--exclusive")
	done := job("gpu-2", "sleep 12", "-A", "nlp", "-t", "1", "--exclusive")
	p.wait(failed, "FAILED")
	p.wait(done, "COMPLETED")
	together := []string{job("gpu-2", "sleep 7", "-A", "nlp", "-t", "1", "-c", "1"), job("gpu-2", "sleep 7", "-A", "bio", "-t", "1", "-c", "1")}
	for _, id := range together {
		p.wait(id, "COMPLETED")
	}
	again := job("gpu-2", "[ $SLURM_RESTART_COUNT ] && exec sleep 5; exec sleep 900", "-A", "bio", "-t", "1", "--exclusive")
	p.wait(again, "RUNNING")
	time.Sleep(8 * time.Second)
	p.scontrol("requeue", again)
	p.wait(again, "COMPLETED")
	p.wait(timeout, "TIMEOUT")

	snap, err := p.state.ReadSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := snap.Reservation(hookstest.BlockID)
	p.until("the block is over", func() bool { return time.Now().After(block.End.Add(3 * time.Second)) })
	cancel()
	watch.Wait()

	client := &slurm.Client{Conf: p.cluster.Conf()}
	samples, err := p.state.Samples(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var accounted []state.Run
	p.until("slurmdbd has all of it", func() bool {
		accounted, err = report.Accounted(hookstest.Deadline(t), client, block.Start, time.Now(), 0)
		return err == nil && len(accounted) == 7
	})
	size := int64(block.Size())
	paid := size * int64(block.End.Sub(block.Start)/time.Second)
	for name, runs := range map[string][]state.Run{"with Slurm's accounting": accounted, "from samples alone": nil} {
		t.Run(name, func(t *testing.T) {
			// What AWS says is AWS's time, which is this machine's here.
			got, err := report.Make(report.Input{Samples: samples, Accounted: runs, Until: time.Now(), Expand: slurm.Expand})
			if err != nil {
				t.Fatal(err)
			}
			var one report.Reservation
			for _, r := range got.Reservations {
				if r.ID == hookstest.BlockID {
					one = r
				}
			}
			t.Logf("%v", one.Sums)
			if one.Sums.Total() != paid || one.Whole != paid {
				t.Errorf("the classes add up to %d node-seconds, %d (%d) were paid", one.Sums.Total(), paid, one.Whole)
			}
			// Each sum of jobs is sacct's, asked by this test in its own way.
			want := p.sacct(block.Start, block.End)
			slack := int64(1)
			if runs == nil {
				slack = 4 * 2 // a poll, and a pass that takes a while
			}
			for class, states := range map[report.Class]string{report.Useful: "COMPLETED", report.LostFailure: "FAILED", report.LostTimeout: "TIMEOUT", report.LostRequeue: "REQUEUED"} {
				if off := one.Sums[class] - want[states]; want[states] == 0 || off > slack || off < -slack {
					t.Errorf("%s: %d node-seconds, sacct has %d %s", class, one.Sums[class], want[states], states)
				}
			}
			if tailed := size * int64(tail/time.Second); one.Sums[report.FenceTail] != tailed {
				t.Errorf("%d node-seconds behind the fence, want %d", one.Sums[report.FenceTail], tailed)
			}
			// The instances ran for what is neither tail nor idle, and for some of that.
			ran := one.Sums.Of(report.Useful, report.LostFailure, report.LostRequeue, report.LostTimeout, report.Boot)
			if had := ledger.seconds(block.End); ran > had+slack || had > paid || one.Sums[report.Boot] == 0 {
				t.Errorf("%d node-seconds of jobs and %d of boots; instances ran for %d, %d were paid", ran, one.Sums[report.Boot], had, paid)
			}
			// Of a pass that came late, on a busy machine, the report says that it knows nothing.
			if one.Sums[report.Unknown] > paid/20 || one.Sums[report.Hardware] > 0 || one.Sums[report.Idle] == 0 {
				t.Errorf("%v: %+v", one.Sums, got.Gaps)
			}
			var unknown int64
			for _, gap := range got.Gaps {
				if gap.Reservation == hookstest.BlockID {
					unknown += gap.NodeSeconds
				}
			}
			if unknown != one.Sums[report.Unknown] {
				t.Errorf("%d node-seconds are not known, the gaps have %d: %+v", one.Sums[report.Unknown], unknown, got.Gaps)
			}
			accounts := map[string]int64{}
			for _, a := range got.Accounts {
				accounts[a.Account] = a.Sums.Total()
			}
			if got := accounts["nlp"] + accounts["bio"]; accounts["bio"] == 0 || got != ran-one.Sums[report.Boot] {
				t.Errorf("accounts: %v", accounts)
			}
		})
	}
}

// sacct are the seconds of jobs within a time by their ends, nodes that several share divided.
func (p *power) sacct(from, until time.Time) map[string]int64 {
	p.t.Helper()
	out, err := p.cluster.Command(hookstest.Deadline(p.t), "env", "SLURM_TIME_FORMAT=%s", "sacct", "-a", "-X", "-D", "-n", "-P", "-r", "gpu", "-S", "now-1hour", "-o", "start,end,state,alloccpus")
	if err != nil {
		p.t.Fatal(err, out)
	}
	type span struct{ from, to int64 }
	sums := map[string]int64{}
	var shared []span
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		start, _ := strconv.ParseInt(f[0], 10, 64)
		end, _ := strconv.ParseInt(f[1], 10, 64)
		s := span{max(start, from.Unix()), min(end, until.Unix())}
		if f[len(f)-1] == "1" {
			shared = append(shared, s)
			continue
		}
		sums[f[2]] += s.to - s.from
	}
	// Of the two that share a node: as long as one of them ran.
	if len(shared) != 2 {
		p.t.Fatalf("jobs that share a node: %v of %s", shared, out)
	}
	a, b := shared[0], shared[1]
	sums["COMPLETED"] += a.to - a.from + b.to - b.from - max(0, min(a.to, b.to)-max(a.from, b.from))
	return sums
}
