package power_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// killHooks kills a hook or sync at any point of its work, ever again.
func (a *adversary) killHooks(ctx context.Context, rng *rand.Rand) {
	for pause(ctx, rng, 2*time.Second) {
		names := []string{"pcs-capacity-resume", "pcs-capacity-suspend"}
		if rng.IntN(6) == 0 {
			names = []string{"sync-watch"}
		}
		var alive []int
		for _, name := range names {
			text, _ := os.ReadFile(filepath.Join(a.dir, name+".pids"))
			for _, word := range strings.Fields(string(text)) {
				pid, _ := strconv.Atoi(word)
				// The kernel may have given its number to another process.
				cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if bytes.Contains(cmdline, []byte(a.dir)) || bytes.Contains(cmdline, []byte(hookstest.Program(a.t, name))) {
					alive = append(alive, pid)
				}
			}
		}
		if len(alive) == 0 || rng.IntN(3) > 0 || syscall.Kill(alive[rng.IntN(len(alive))], syscall.SIGKILL) != nil {
			continue
		}
		a.mu.Lock()
		if names[0] == "sync-watch" {
			a.killedSyncs++
		} else {
			a.killedHooks++
		}
		a.mu.Unlock()
	}
}

// failCalls makes one call of EC2 in five fail, up to four in a row: the SDK tries three
// times.
func (a *adversary) failCalls(ctx context.Context, rng *rand.Rand) {
	for pause(ctx, rng, 10*time.Millisecond) {
		if len(a.sim.Faults()) == 0 {
			f := awssim.Fault{Service: "ec2", Skip: rng.IntN(21), Count: 1 + rng.IntN(4)} // 10 and 2.5 on average
			switch rng.IntN(6) {
			case 0:
				f.Effect = awssim.CutBefore
			case 1:
				f.Effect = awssim.CutAfter
			case 2:
				f.Effect = awssim.FailAfter
			case 3:
				f.Effect, f.Code, f.Status = awssim.FailBefore, "RequestLimitExceeded", 503
			case 4:
				f.Effect, f.Code, f.Status = awssim.FailBefore, "Unavailable", 503
			case 5:
				f.Effect, f.Code, f.Status, f.Latency = awssim.FailBefore, "InternalError", 500, awssim.Duration(time.Second)
			}
			a.mu.Lock()
			a.failedCalls += f.Count
			a.mu.Unlock()
			if _, err := a.sim.AddFault(f); err != nil {
				a.t.Error(err)
				return
			}
		}
	}
}

// restartSlurmctld does so, each time when some jobs have run.
func (a *adversary) restartSlurmctld(ctx context.Context) {
	for n := range restarts {
		if slurmlab.Until(ctx, func() bool { return len(a.runsInBlocks()) >= 3*(n+1) }) != nil {
			return
		}
		err := a.cluster.Reload(hookstest.Deadline(a.t), a.cfg)
		if err != nil && strings.Contains(err.Error(), "did not end on SIGTERM") { // it looks for the addresses of nodes
			err = a.cluster.Reload(hookstest.Deadline(a.t), a.cfg)
		}
		if err != nil {
			a.t.Errorf("restarting slurmctld: %v", err)
		}
		a.mu.Lock()
		a.restarted++
		a.mu.Unlock()
	}
}

// pause waits for a time up to the longest; false if ctx has ended.
func pause(ctx context.Context, rng *rand.Rand, longest time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Duration(rng.Int64N(int64(longest)))):
		return true
	}
}

// user is one without rights.
type user struct {
	*adversary
	name  string
	rng   *rand.Rand
	other *user
	ids   []string // of its jobs
}

// mostJobs is how many a user submits.
const mostJobs = 40

func (u *user) attack(ctx context.Context) {
	for pause(ctx, u.rng, time.Second) {
		if len(u.ids) == 0 || len(u.ids) < mostJobs && u.rng.IntN(2) == 0 {
			u.submit(ctx)
			continue
		}
		u.act(ctx)
	}
}

func one(rng *rand.Rand, words ...string) string { return words[rng.IntN(len(words))] }

// Half of what is chosen is right, so that there is something to disturb.
func (u *user) partition() string {
	return one(u.rng, "gpu", "gpu", "gpu", "other", "other", "static", "gpu,static")
}
func (u *user) account() string {
	return one(u.rng, "nlp", "nlp", "nlp", "nlp", "vision", "root", "nobodys")
}
func (u *user) comment() string {
	return one(u.rng, "", "", "", "run=3", "capacity_reservation_id="+hookstest.BlockID, "capacity_reservation_id="+hookstest.OtherID,
		"capacity_reservation_id=cr-0ffffffffffffffff", "capacity_reservation_id=$(reboot)\nNodeName=gpu-1 State=DOWN")
}

func (u *user) submit(ctx context.Context) {
	partition := u.partition()
	args := []string{"--parsable", "--output=/dev/null", "--partition=" + partition, "--nodes=" + one(u.rng, "1", "1", "2", "3")}
	if u.rng.IntN(4) > 0 {
		args = append(args, "--account="+u.account())
	}
	if u.rng.IntN(5) > 0 {
		args = append(args, "--time="+one(u.rng, "1", "2", "5", "5", "2-0"))
	}
	if comment := u.comment(); comment != "" {
		args = append(args, "--comment="+comment)
	}
	if u.rng.IntN(6) == 0 {
		args = append(args, "--hold")
	}
	if u.rng.IntN(4) == 0 {
		args = append(args, "--exclusive")
	}
	script := fmt.Sprintf(`echo "$SLURM_JOB_ID $SLURM_JOB_PARTITION $SLURM_JOB_ACCOUNT $SLURM_JOB_NODELIST" >>%s; sleep %s`, u.ran, one(u.rng, "0", "1", "3"))
	out, err := u.run(ctx, append([]string{"sbatch", "--wrap=" + script}, args...)...)
	if err != nil {
		return
	}
	lines := strings.Split(out, "\n")
	id := lines[len(lines)-1]
	u.ids = append(u.ids, id)
	u.note(id, out, partition)
}

// unchecked is how the Lua script tells of a job that the filter did not judge.
const unchecked = "let through unchecked"

// toldUnchecked counts the jobs that slurmctld's log says were let through unchecked.
func (u *user) toldUnchecked() int {
	log, err := os.ReadFile(u.cluster.Log("slurmctld"))
	if err != nil {
		u.t.Error(err)
	}
	return strings.Count(string(log), unchecked)
}

// note keeps in mind what the filter let through unchecked, and that a job was in several
// partitions.
func (u *user) note(id, out, change string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if strings.Contains(out, unchecked) {
		u.unchecked[id] = true
	}
	if strings.Contains(change, "gpu,static") {
		u.several[id] = true
	}
}

// act does something to a job of its own, or tries what only others may do.
func (u *user) act(ctx context.Context) {
	id := one(u.rng, u.ids...)
	update := func(change string) {
		before := u.toldUnchecked()
		out, _ := u.run(ctx, "scontrol", "update", "jobid="+id, change)
		if u.toldUnchecked() > before {
			out += unchecked // slurmctld tells only its log of it when a job is changed
		}
		u.note(id, out, change)
	}
	switch u.rng.IntN(14) {
	case 0:
		if _, err := u.run(ctx, "scancel", id); err == nil {
			u.mu.Lock()
			u.cancelled[id] = true
			u.mu.Unlock()
		}
	case 1, 2:
		u.run(ctx, "scontrol", "hold", id)
	case 3, 4, 5:
		u.run(ctx, "scontrol", "release", id)
	case 6:
		u.run(ctx, "scontrol", "requeue", id)
	case 7, 8:
		update("partition=" + u.partition())
	case 9:
		update("account=" + u.account())
	case 10, 11:
		update("comment=" + u.comment())
	case 12:
		update("timelimit=" + one(u.rng, "1", "5", "2-0"))
	case 13:
		u.trespass(ctx)
	}
}

// trespass tries what only an operator or another user may do.
func (u *user) trespass(ctx context.Context) {
	tries := [][]string{
		{"scontrol", "update", "nodename=gpu-1", "state=DOWN", "reason=mine"},
		{"scontrol", "update", "nodename=other-[1-2]", "state=POWER_DOWN_FORCE"},
		{"scontrol", "update", "partitionname=gpu", "allowaccounts=ALL"},
		{"sacctmgr", "--immediate", "add", "user", u.name, "account=root"},
	}
	client := slurm.Client{Conf: u.cluster.Conf()}
	reservations, _ := client.Reservations(ctx) // none while slurmctld is away
	for _, r := range reservations {
		switch capacity.PlainName(r.Name) {
		case "pcs-capacity-fence-gpu":
			tries = append(tries, []string{"scontrol", "delete", "reservationname=" + r.Name})
		case "pcs-capacity-fence-other":
			tries = append(tries, []string{"scontrol", "update", "reservationname=" + r.Name, "starttime=now+1minute"})
		}
	}
	jobs, _ := client.Jobs(ctx) // none while slurmctld is away
	for _, j := range jobs {
		if id := j.Shown; j.User == u.other.name {
			tries = append(tries, []string{"scontrol", "requeue", id}, []string{"scontrol", "hold", id}, []string{"scontrol", "update", "jobid=" + id, "comment=mine"})
		}
	}
	try := tries[u.rng.IntN(len(tries))]
	if out, err := u.run(ctx, try...); err == nil {
		u.t.Errorf("user %s may %q: %s", u.name, try, out)
	}
}

// releaseAllowed releases the user's jobs that are held and may run. Slurm takes a hold of
// their owner for an administrator's after a requeue; that one only an administrator can
// release, who does so where the hold is not ours.
func (u *user) releaseAllowed() {
	for _, j := range u.jobs() {
		switch {
		case j.User != u.name || !j.Held || !j.Pending() || !allowed(j):
		case j.Reason == "JobHeldAdmin" && !strings.Contains(j.AdminComment, "release it"): // as each hold of ours says
			u.scontrol("release", j.Shown)
		default:
			_, _ = u.run(u.ctx, "scontrol", "release", j.Shown)
		}
	}
}

// run runs one of Slurm's commands as the user. slurmctld may be away.
func (u *user) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return u.cluster.Command(ctx, "setpriv", append([]string{"--reuid=" + u.name, "--clear-groups"}, args...)...)
}
