package power_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

const (
	// The attack ends when so many jobs have run in blocks, so many hooks were killed and slurmctld was restarted so
	// often; everything is so fast here that it is about as many power-ups as in an hour.
	fewestRuns, fewestKills, restarts = 10, 5, 2
	longestAttack                     = 10 * time.Minute
	// calmTime is the time in which the cluster has to come to rest afterwards. Slurm 24.11 asks
	// a node after KillWait and two MessageTimeouts, looking once a minute, whether a job is over
	// that had ended before a restart of slurmctld and was requeued after it: 50 and 60 seconds.
	calmTime = 10 * time.Minute
)

// TestRare_Adversary: two users without rights submit, hold, release, requeue, cancel, move and
// change jobs, theirs and the other's, while hooks and sync are killed, one call of EC2 in
// five fails and slurmctld is restarted. When that ends, the cluster comes to rest by
// itself: no instance is left, no node is down, every allowed job is done, and none that is
// refused ever ran on a node of a block.
//
// The users' choices follow from the seed, which ADVERSARY_SEED replaces; what they meet
// does not.
func TestRare_Adversary(t *testing.T) {
	seed := uint64(7)
	if text := os.Getenv("ADVERSARY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("ADVERSARY_SEED=%d", seed)
	a := startAdversary(t)
	users := []*user{
		{adversary: a, name: "daemon", rng: rand.New(rand.NewPCG(seed, 1))}, // has account nlp (by default) and vision
		{adversary: a, name: "games", rng: rand.New(rand.NewPCG(seed, 2))},  // has vision (by default) and nlp
	}
	for i, u := range users {
		u.other = users[1-i]
	}

	ctx, cancel := context.WithTimeout(t.Context(), longestAttack)
	defer cancel()
	var attack sync.WaitGroup
	attack.Go(func() {
		defer cancel()
		_ = slurmlab.Until(ctx, func() bool {
			a.mu.Lock()
			kills, restarted := a.killedHooks, a.restarted
			a.mu.Unlock()
			return len(a.runsInBlocks()) >= fewestRuns && kills >= fewestKills && restarted >= restarts
		})
	})
	for _, u := range users {
		attack.Go(func() { u.attack(ctx) })
	}
	attack.Go(func() { a.failCalls(ctx, rand.New(rand.NewPCG(seed, 3))) })
	attack.Go(func() { a.killHooks(ctx, rand.New(rand.NewPCG(seed, 4))) })
	attack.Go(func() { a.keepSync(ctx) })
	attack.Go(func() { a.restartSlurmctld(ctx) })
	attack.Wait()
	a.sim.ClearFaults()
	t.Logf("%d jobs, %d power-ups and %d power-downs, %d of them killed; %d kills of sync, %d calls failed, %d instances",
		len(a.jobs()), a.runs("pcs-capacity-resume"), a.runs("pcs-capacity-suspend"), a.killedHooks, a.killedSyncs, a.failedCalls, a.launches(""))

	calm, endSync := context.WithCancel(t.Context())
	defer endSync()
	attack.Go(func() { a.keepSync(calm) })
	defer func() {
		if log, err := os.ReadFile(a.cluster.Log("slurmctld")); err == nil && t.Failed() {
			for line := range strings.Lines(string(log)) {
				if strings.Contains(line, "pcs-capacity") {
					t.Log(strings.TrimSpace(line))
				}
			}
		}
	}()
	a.comeToRest(users)
	a.check()
	endSync()
	attack.Wait()
}

// adversary is a cluster that is attacked: partitions gpu, whose AllowAccounts locks it in
// slurmctld as well, and other, which only our own programs guard; both are for account nlp.
type adversary struct {
	*power
	cfg slurmlab.Config
	ran string // the file in which jobs write that they ran

	mu          sync.Mutex
	unchecked   map[string]bool // jobs that the filter let through, and said so
	several     map[string]bool // jobs that were in two partitions, of which one admits them
	cancelled   map[string]bool // by their owners
	killedHooks int
	killedSyncs int
	failedCalls int
	restarted   int // slurmctld
}

func startAdversary(t *testing.T) *adversary {
	a := &adversary{unchecked: map[string]bool{}, several: map[string]bool{}, cancelled: map[string]bool{}}
	a.power = startPower(t, powerConfig, func(c *slurmlab.Config) {
		folder := filepath.Join(filepath.Dir(c.Dir), "state")
		c.Accounting = true
		c.CloudGroups[0].Count, c.CloudGroups[1].Count = 2, 2 // as many as the blocks have
		c.Partitions = []slurmlab.Partition{{Name: "gpu", Groups: []string{"gpu-"}, Options: "AllowAccounts=nlp"}}
		c.SuspendTime, c.ResumeTimeout = 3*time.Second, 20*time.Second
		c.JobSubmitLua = submit.JobSubmit(state.Dir(folder).PlanPath(), folder, hookstest.Program(t, "pcs-capacity-filter"))
		a.cfg = *c
	})
	a.pollOften()
	settings, err := os.ReadFile(a.settings())
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.ReplaceAll(string(settings), `provider = "ec2"`, `provider = "ec2"`+"\nmin_time = \"1m\"\nallow_accounts = [\"nlp\"]")
	if err := os.WriteFile(a.settings(), []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"add account nlp,vision",
		"add user root account=nlp",
		"add user daemon account=nlp defaultaccount=nlp", "add user daemon account=vision",
		"add user games account=vision defaultaccount=vision", "add user games account=nlp",
	} {
		a.sacctmgr(strings.Fields(line)...)
	}
	a.ran = filepath.Join(a.dir, "ran")
	if err := os.WriteFile(a.ran, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{a.dir: 0o755, a.ran: 0o666} { // the users may enter
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() { a.keepSync(ctx) })
	a.until("the first pass is made", func() bool {
		_, err := os.Stat(a.state.PlanPath())
		return err == nil
	})
	cancel()
	first.Wait()
	return a
}

// comeToRest waits until no allowed job and no instance is left. The users do nothing any
// more but to release jobs of theirs that are allowed and held; AWS's time passes.
func (a *adversary) comeToRest(users []*user) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.ctx, calmTime)
	defer cancel()
	// sync ends an instance that no node stands for when it is old enough.
	a.sim.Clock().Advance(6 * time.Minute)
	var left []string
	round := 0
	if err := slurmlab.Until(ctx, func() bool {
		if round++; round%5 == 1 {
			for _, u := range users {
				u.releaseAllowed()
			}
			a.startAgain()
			a.sim.Clock().Advance(40 * time.Second)
		}
		left = a.unrest()
		return len(left) == 0
	}); err != nil {
		a.t.Errorf("not at rest: %v:\n%s", err, strings.Join(left, "\n"))
	}
}

// startAgain does what an administrator does for jobs that slurmctld took to be started
// when it was stopped, and which no slurmd knows: they stay RUNNING up to their limit, or
// fail when their launch is asked for again.
func (a *adversary) startAgain() {
	for _, j := range a.jobs() {
		lost := j.State == "TIMEOUT" || j.State == "FAILED" && j.Reason == "JobLaunchFailure" || j.State == "RUNNING" && !j.Configuring() && time.Since(j.Start) > 20*time.Second
		if lost && allowed(j) {
			out, err := a.cluster.Command(hookstest.Deadline(a.t), "scontrol", "requeue", j.Shown)
			a.t.Logf("job %s was %s since %s, and is requeued: %v %s", j.Shown, j.State, j.Start.Format(time.TimeOnly), err, out)
		}
	}
}

// unrest is what keeps the cluster from being at rest.
func (a *adversary) unrest() (left []string) {
	for _, j := range a.jobs() {
		if allowed(j) && (j.Pending() || j.Completing() || !done(j)) {
			left = append(left, fmt.Sprintf("job %s of account %s in partition %s is %s (%s), restarts %d, limit %s, least %s, %q", j.Shown, j.Account, j.Partition, j.State, j.Reason, j.Restarts, j.TimeLimit, j.TimeMin, j.AdminComment))
		}
	}
	client := slurm.Client{Conf: a.cluster.Conf()}
	nodes, err := client.Nodes(hookstest.Deadline(a.t))
	if err != nil {
		return append(left, err.Error())
	}
	for _, n := range nodes {
		shown := strings.ReplaceAll(n.State, "+PLANNED", "") // for a job that may not run
		if shown != "IDLE+CLOUD+POWERED_DOWN" && !(n.Name == "static-1" && shown == "IDLE") {
			left = append(left, fmt.Sprintf("node %s is %s, %q", n.Name, shown, n.Reason))
		}
	}
	for node, i := range a.instances() {
		left = append(left, fmt.Sprintf("instance %s of node %s, launched %s, in %s", i.ID, node, i.LaunchTime.Format(time.TimeOnly), i.ReservationID))
	}
	slices.Sort(left)
	return left
}

// check looks at everything that happened, and whether the blocks can still be used.
func (a *adversary) check() {
	t := a.t
	t.Helper()
	jobs := map[string]capacity.Job{}
	finished := 0
	for _, j := range a.jobs() {
		jobs[strconv.Itoa(j.ID)] = j
		id := j.Shown
		switch {
		case !allowed(j):
		case j.State == "COMPLETED":
			finished++
		case j.State != "CANCELLED" || !a.cancelled[id]:
			t.Errorf("job %s of account %s in partition %s is %s (%s), restarts %d, %q; cancelled by its owner: %t",
				id, j.Account, j.Partition, j.State, j.Reason, j.Restarts, j.AdminComment, a.cancelled[id])
		}
	}
	runs := a.runsInBlocks()
	for _, line := range runs {
		words := strings.Fields(line)
		id, account, block := words[0], words[2], hookstest.BlockID
		if strings.HasPrefix(words[3], "other-") {
			block = hookstest.OtherID
		}
		if account != "nlp" && (block == hookstest.BlockID || !a.unchecked[id]) {
			t.Errorf("a job of account %s ran in %s: %s", account, block, line)
		}
		wish, _ := jobs[id].Wish()
		if wish.ReservationID != "" && wish.ReservationID != block && !a.unchecked[id] && !a.several[id] {
			t.Errorf("a job that asks for %s ran in %s: %s", wish.ReservationID, block, line)
		}
	}
	for _, i := range a.sim.Instances(region) {
		want := hookstest.BlockID
		if i.Tags[capacity.TagPartition] == "other" {
			want = hookstest.OtherID
		}
		if i.ReservationID != want {
			t.Errorf("instance %s of %s was in %s", i.ID, i.Tags[capacity.TagNodes], i.ReservationID)
		}
	}
	t.Logf("%d jobs completed, %d runs in blocks, %d let through unchecked", finished, len(runs), len(a.unchecked))
	if len(runs) < fewestRuns {
		t.Errorf("%d runs in blocks: the test proves little", len(runs))
	}
	for _, name := range []string{"pcs-capacity-fence-gpu", "pcs-capacity-fence-other"} {
		if a.reservation(name).Name == "" {
			t.Errorf("no fence %s", name)
		}
	}
	for _, partition := range []string{"gpu", "other"} {
		id, err := a.cluster.Submit(hookstest.Deadline(t), "true", "-p", partition, "-A", "nlp", "-N2", "-t", "5")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.cluster.WaitJob(hookstest.Deadline(t), id, "COMPLETED"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
}

// runsInBlocks are the lines of the jobs that ran on nodes of blocks: id, partition, account
// and nodes.
func (a *adversary) runsInBlocks() (runs []string) {
	text, err := os.ReadFile(a.ran)
	if err != nil {
		a.t.Error(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 4 {
			a.t.Errorf("a job wrote %q", line)
		} else if strings.HasPrefix(words[3], "gpu-") || strings.HasPrefix(words[3], "other-") {
			runs = append(runs, strings.TrimSpace(line))
		}
	}
	return runs
}

// jobs are all jobs that slurmctld knows, which are all that there ever were.
func (a *adversary) jobs() []capacity.Job {
	client := slurm.Client{Conf: a.cluster.Conf()}
	var jobs []capacity.Job
	a.until("slurmctld shows its jobs", func() (ok bool) {
		jobs = nil
		return client.EachJob(a.ctx, nil, func(j capacity.Job) error { jobs = append(jobs, j); return nil }) == nil
	})
	return jobs
}

func done(j capacity.Job) bool { return j.State == "COMPLETED" || j.State == "CANCELLED" }

// allowed reports whether a job, as it is, may run where it wants to, and fits there.
func allowed(j capacity.Job) bool {
	wish, problems := j.Wish()
	// Moved here without a limit, it waits behind the fence; nobody edits what is moved. So it
	// does with one of two days that the filter let through unchecked.
	long := j.TimeLimit.Unlimited || j.TimeLimit.Duration() > 24*time.Hour
	fits := false
	for p := range strings.SplitSeq(j.Partition, ",") {
		if p == "static" {
			fits = fits || j.NumNodes <= 1
			continue
		}
		fits = fits || j.NumNodes <= 2 && !long
		block := map[string]string{"gpu": hookstest.BlockID, "other": hookstest.OtherID}[p]
		if j.Account != "nlp" || len(problems) > 0 || wish.ReservationID != "" && wish.ReservationID != block {
			return false
		}
	}
	return fits
}

// runs counts the calls of a hook.
func (a *adversary) runs(hook string) int {
	text, _ := os.ReadFile(filepath.Join(a.dir, hook+".pids"))
	return len(strings.Fields(string(text)))
}

func (p *power) sacctmgr(args ...string) {
	p.t.Helper()
	if out, err := p.cluster.Command(hookstest.Deadline(p.t), "sacctmgr", append([]string{"--immediate"}, args...)...); err != nil {
		p.t.Fatal(err, out)
	}
}

// reservation is the first of Slurm's with a name, which is ours without block and owner; the zero
// one if there is none.
func (p *power) reservation(name string) capacity.SlurmReservation {
	p.t.Helper()
	all, err := (&slurm.Client{Conf: p.cluster.Conf()}).Reservations(hookstest.Deadline(p.t))
	if err != nil {
		p.t.Fatal(err)
	}
	slices.SortStableFunc(all, func(a, b capacity.SlurmReservation) int { return a.Start.Compare(b.Start) })
	i := slices.IndexFunc(all, func(r capacity.SlurmReservation) bool { return capacity.PlainName(r.Name) == name })
	if i < 0 {
		return capacity.SlurmReservation{}
	}
	return all[i]
}
