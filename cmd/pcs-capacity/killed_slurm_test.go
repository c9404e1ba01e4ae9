package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestR5_SyncKilledAtEachCall: `sync --watch` is killed with signal 9 at each of its calls to
// AWS and to Slurm in turn, before the call and after its effect; then passes go on as if
// nothing had been. The first pass has everything to do: fences and waits to place, jobs to
// requeue, to hold, to tell, limits to lower, to raise and to set, owners to tell.
func TestR5_SyncKilledAtEachCall(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	k := newKills(t)
	want, calls := k.undisturbed()
	t.Logf("a pass makes %d calls to AWS, and %d to Slurm that change something", calls["aws"], calls["change"])
	check := func(what string) {
		t.Helper()
		passes := k.passes()
		if diff := cmp.Diff(want, k.seen()); diff != "" {
			t.Errorf("killed %s, and %d passes later (-undisturbed +killed):\n%s%s", what, passes, diff, strings.Join(k.did, "\n"))
		}
	}
	// What comes before the first change leaves nothing: one after the other.
	k.prepare()
	for n := 1; n <= calls["aws"]; n++ {
		k.killedAt("aws", n, "before")
		k.killedAt("aws", n, "after")
	}
	for n := 1; n <= k.readsBeforeChanges(); n++ {
		k.killedAt("read", n, "before")
	}
	check("before anything was changed")
	// A kill before a call leaves what one after the call before it leaves.
	for n := 1; n <= calls["change"]; n++ {
		k.prepare()
		k.killedAt("change", n, "after")
		check(fmt.Sprintf("after change %d of Slurm, %s", n, k.killed()))
	}
	// In the end the hold is its owner's, who can release it.
	id := k.jobs["held"]
	k.until("the note of job "+id+" is off", func() bool {
		k.passes()
		_, _, ours := capacity.ReadHoldNote(k.job(id).AdminComment)
		return !ours
	})
	if j := k.job(id); !j.Held || j.AdminHeld() && !j.HoldUntold() {
		t.Errorf("the hold of job %s is not its owner's: %+v", id, j)
	}
}

// kills is a rehearsal in which calls can be told to kill who makes them.
type kills struct {
	*rehearsal
	dir   string // of the programs that stand for Slurm's
	proxy string
	jobs  map[string]string // ids by what becomes of them
	first map[string][]string
	did   []string // by the passes of passes

	mu       sync.Mutex
	aws      []string // the calls
	victim   *os.Process
	killAWS  int
	afterAWS bool
}

const killsWorldEnd = `count = 4, start = "-1h", end = "+45m" },
  { id = "cr-0e2000000000000e5", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 4, start = "+46m", end = "+30h" },`

func newKills(t *testing.T) *kills {
	k := &kills{jobs: map[string]string{}, first: map[string][]string{}, dir: t.TempDir()}
	k.rehearsal = newRehearsalIn(t,
		strings.Replace(rehearsalWorld, `count = 4, start = "-1h", end = "+205s" },`, killsWorldEnd, 1),
		strings.NewReplacer(`["cr-0e2000000000000a1"]`, `["cr-0e2000000000000a1", "cr-0e2000000000000e5"]`, `min_time = "1m"`, "min_time = \"1m\"\non_end = \"requeue\"").Replace(rehearsalConfig),
		// What is requeued is so an hour before the fence, which is in 44 minutes; it asks for
		// more time than that, so that it does not start again before.
		func(c *slurmlab.Config) { c.Extra = []string{"KillWait=3600"} })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	k.ctx = ctx
	for _, program := range []string{"scontrol", "squeue", "sacctmgr", "sinfo"} {
		real, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		writeKiller(t, k.dir, program, real)
	}
	sim, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL"))
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(sim)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := readAll(r)
		action := regexp.MustCompile(`Action=\w+`).FindString(body)
		k.mu.Lock()
		k.aws = append(k.aws, action)
		after, victim := k.afterAWS, k.victim
		// What an earlier victim still had under way counts too, so that the number may be passed.
		due := k.killAWS > 0 && len(k.aws) >= k.killAWS && victim != nil
		k.mu.Unlock()
		if due && after {
			forward.ServeHTTP(httptest.NewRecorder(), r)
		}
		if due {
			_ = victim.Kill()
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	k.proxy = server.URL
	for _, r := range [][]string{{"gpu-scheduled", "MAINT,IGNORE_JOBS"}, {"pcs-capacity-fence-mine", "MAINT"}} {
		k.scontrol("create", "reservation", "ReservationName="+r[0], "Nodes=static-1", "StartTime=now+20hour", "Duration=10", "Flags="+r[1], "Users=root")
	}
	return k
}

// writeKiller writes a program that stands for one of Slurm's. It kills who calls it at the call
// that the files say. Reads, many of which run side by side, and changes are counted apart,
// and the calls of each caller for themselves: some of a caller that was killed are still
// under way when the next one begins.
func writeKiller(t *testing.T, dir, program, real string) {
	t.Helper()
	text := fmt.Sprintf(`#!/bin/sh
kind=change
case "%[2]s $*" in squeue*|sinfo*|sacctmgr*|"scontrol show"*|"scontrol -- show"*|"scontrol --oneliner show"*|"scontrol --oneliner -- show"*|"scontrol --all --oneliner show"*|"scontrol --version"*) kind=read ;; esac
exec 9>%[1]s/lock; flock 9
echo "$kind %[2]s $*" | tr '\n' ' ' >>%[1]s/calls; echo >>%[1]s/calls
n=$(($(cat %[1]s/$kind.$PPID 2>/dev/null || echo 0) + 1)); echo $n >%[1]s/$kind.$PPID
due=$(cat %[1]s/at)
if [ "$kind" = "${due%% *}" ] && [ $n -ge "${due#* }" ]; then
	echo "%[2]s $*" >%[1]s/killed
	flock -u 9; exec 9>&-
	[ "$(cat %[1]s/when)" = after ] && %[3]s "$@"
	kill -9 $PPID
	exit 1
fi
flock -u 9; exec 9>&-
exec %[3]s "$@"
`, dir, program, real)
	if err := os.WriteFile(filepath.Join(dir, program), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestKillersCountByCaller: a call that another caller still had under way takes no number away.
func TestKillersCountByCaller(t *testing.T) {
	dir := t.TempDir()
	writeKiller(t, dir, "scontrol", "true")
	for name, text := range map[string]string{"at": "read 2", "when": "before"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	call := func(calls string) string {
		cmd := exec.Command("/bin/sh", "-c", strings.ReplaceAll(calls, "scontrol", dir+"/scontrol")+"\nexit 7")
		return fmt.Sprint(cmd.Run())
	}
	for _, c := range []struct{ calls, want string }{
		{"scontrol show node", "exit status 7"},
		{"scontrol --oneliner show node", "exit status 7"}, // the second in all, of another caller
		{"scontrol update a=1\nscontrol --version\nscontrol update a=2", "exit status 7"},
		{"scontrol show node & scontrol show job & wait", "signal: killed"},
		{"scontrol show node\nscontrol show job", "signal: killed"},
	} {
		if got := call(c.calls); got != c.want {
			t.Errorf("%q: %s, want %s", c.calls, got, c.want)
		}
	}
}

func readAll(r *http.Request) (string, error) {
	var b bytes.Buffer
	_, err := b.ReadFrom(r.Body)
	r.Body = http.NoBody
	if b.Len() > 0 {
		r.Body = nopCloser{bytes.NewReader(b.Bytes())}
	}
	return b.String(), err
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

// prepare takes everything back that passes have done, and starts new jobs.
func (k *kills) prepare() {
	k.Helper()
	all, err := (&slurm.Client{}).Reservations(k.ctx)
	if err != nil {
		k.Fatal(err)
	}
	for _, r := range all {
		if slot, ok := strings.CutPrefix(r.Name, "pcs-capacity-"); ok && slot != "fence-mine" {
			k.scontrol("delete", "reservationname="+r.Name)
		}
	}
	for _, id := range k.jobs {
		k.cancel(id)
	}
	k.jobs = map[string]string{}
	for _, dir := range []string{k.cfg.StateDir, k.cfg.LocalDir} {
		if err := os.RemoveAll(dir); err != nil {
			k.Fatal(err)
		}
	}
	submit := func(what string, args ...string) {
		k.jobs[what] = k.submit(args...)
	}
	submit("requeued", "-w", "gpu-1", "-t", "60", "--time-min=50", "--comment=time=fit")
	submit("held", "-w", "gpu-2", "-t", "60", "--time-min=50", "--comment=time=fit on_end=hold")
	submit("told", "-w", "gpu-3", "-t", "40", "--no-requeue")
	submit("lowered", "-w", "gpu-4", "-t", "600", "--comment=on_end=stop")
	submit("raised", "-w", "long-1", "-t", "5", "--time-min=5", "--comment=time=fit")
	for _, id := range k.jobs {
		k.running(id)
	}
	submit("fitted", "--begin=now+2hour")
	submit("never", "--begin=now+2hour", "-t", "5", "--comment=capacity_reservation_id=cr-0123456789abcdef0")
}

// set tells the proxy, or the programs that stand for Slurm's, at which call they kill their caller.
// The kind is aws, read or change.
func (k *kills) set(kind string, n int, when string) {
	k.Helper()
	at := "none 0"
	k.mu.Lock()
	k.aws, k.killAWS, k.afterAWS, k.victim = nil, 0, when == "after", nil
	if kind == "aws" {
		k.killAWS = n
	} else if kind != "" {
		at = fmt.Sprint(kind, " ", n)
	}
	k.mu.Unlock()
	for name, text := range map[string]string{"at": at, "when": when, "calls": ""} {
		if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o644); err != nil {
			k.Fatal(err)
		}
	}
}

func (k *kills) program(args ...string) *exec.Cmd {
	k.Helper()
	path, err := exec.LookPath("pcs-capacity")
	if err != nil {
		k.Fatal(err)
	}
	cmd := exec.CommandContext(k.ctx, path, append([]string{"--config", k.path}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+k.dir+":"+os.Getenv("PATH"), "AWS_ENDPOINT_URL="+k.proxy)
	return cmd
}

// undisturbed is what passes come to that nobody kills, and how many calls the first makes.
func (k *kills) undisturbed() (any, map[string]int) {
	k.Helper()
	k.prepare()
	k.set("", 0, "")
	if out, err := k.program("sync").CombinedOutput(); err != nil {
		k.Fatalf("sync: %v: %s", err, out)
	} else {
		k.Logf("the first pass:\n%s", out)
	}
	text, err := os.ReadFile(filepath.Join(k.dir, "calls"))
	if err != nil {
		k.Fatal(err)
	}
	k.first["slurm"], k.first["aws"] = strings.Split(strings.TrimSpace(string(text)), "\n"), slices.Clone(k.aws)
	k.passes()
	changes := 0
	for _, call := range k.first["slurm"] {
		if strings.HasPrefix(call, "change ") {
			changes++
		}
	}
	return k.seen(), map[string]int{"change": changes, "aws": len(k.first["aws"])}
}

// readsBeforeChanges is how many calls the first pass made to Slurm before it changed anything.
func (k *kills) readsBeforeChanges() int {
	return slices.IndexFunc(k.first["slurm"], func(call string) bool { return strings.HasPrefix(call, "change ") })
}

// killed is the call at which the last victim was killed.
func (k *kills) killed() string {
	text, _ := os.ReadFile(filepath.Join(k.dir, "killed"))
	return strings.TrimSpace(string(text))
}

// killedWithin is how long a `sync --watch` may take to come to the call at which it is killed.
const killedWithin = 2 * time.Minute

// killedAt runs `sync --watch` until it is killed.
func (k *kills) killedAt(kind string, n int, when string) {
	k.Helper()
	k.set(kind, n, when)
	cmd := k.program("sync", "--watch")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // not the kill that is waited for
	k.mu.Lock()
	err := cmd.Start()
	k.victim = cmd.Process
	k.mu.Unlock()
	if err != nil {
		k.Fatal(err)
	}
	late := time.AfterFunc(killedWithin, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer late.Stop()
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		k.Fatalf("%s call %d to %s: %v: %s", when, n, kind, err, said.String())
	}
	k.set("", 0, "")
}

// passes makes passes until one has nothing to do, and returns how many did something. Slurm
// has to clean up behind a job before its hold can be given to its owner.
func (k *kills) passes() int {
	k.Helper()
	k.did = nil
	for n := range 5 {
		for _, what := range []string{"requeued", "held"} {
			k.until("job "+k.jobs[what]+" runs or waits", func() bool { j := k.job(k.jobs[what]); return j.State == "RUNNING" || j.Settled() })
		}
		out, err := k.program("-o", "json", "sync").Output()
		var report struct {
			Done []struct{ Message, Error string }
		}
		if err == nil {
			err = json.Unmarshal(out, &report)
		}
		if err != nil {
			k.Fatalf("sync: %v: %s", err, out)
		}
		for _, d := range report.Done {
			k.did = append(k.did, fmt.Sprintf("%d: %s %s", n, d.Message, d.Error))
		}
		if len(report.Done) == 0 && n > 0 { // a second pass keeps what the first has found
			return n
		}
	}
	k.Errorf("there is always something to do")
	return 5
}

// seen is the state of things, without what differs from one time to the next.
func (k *kills) seen() any {
	k.Helper()
	type job struct {
		State, Limit, AdminComment, Comment string
		Restarts                            int
		OwnersHold, Mark                    bool
	}
	type reservation struct {
		Nodes, Start, End string
		Endless           bool
	}
	out := struct {
		Jobs         map[string]job
		Reservations map[string]reservation
		Snapshot     *capacity.Snapshot
		Problems     []string
	}{map[string]job{}, map[string]reservation{}, nil, nil}
	number := regexp.MustCompile(`\d+`)
	dir := state.Dir(k.cfg.StateDir)
	marks, err := dir.Marks()
	if err != nil {
		k.Fatal(err)
	}
	for what, id := range k.jobs {
		j := k.job(id)
		_, marked := marks[id]
		says := j.AdminComment
		_, rest, ours := capacity.ReadHoldNote(says) // which stays for ten seconds: then the owner has the hold
		if ours {
			says = rest
		}
		seen := job{State: j.State, Limit: j.TimeLimit.String(), AdminComment: number.ReplaceAllString(says, "0"), Comment: j.Comment,
			Restarts: j.Restarts, OwnersHold: j.Held && (ours || !j.AdminHeld() || j.HoldUntold()), Mark: marked}
		if j.TimeLimit.Bounded() { // roughly: fences are at fixed times, and jobs start at others
			seen.Limit = fmt.Sprint("about ", (j.TimeLimit.Minutes+120)/240*4, "h")
		}
		out.Jobs[what] = seen
	}
	for name, r := range k.reservations() {
		seen := reservation{Nodes: slurm.Compress(r.Nodes), Endless: r.Infinite()}
		if round := func(t time.Time) string { return t.Round(10 * time.Minute).UTC().Format(time.DateTime) }; !seen.Endless {
			seen.End = round(r.End)
		} else if !r.Active {
			seen.Start = round(r.Start)
		}
		out.Reservations[name] = seen
	}
	if out.Snapshot, err = dir.ReadSnapshot(); err != nil {
		k.Fatal(err)
	}
	out.Snapshot.TakenAt, out.Snapshot.ClockOffset.Duration = time.Time{}, 0
	for _, p := range out.Snapshot.All() {
		out.Problems = append(out.Problems, number.ReplaceAllString(p.Text(), "0"))
	}
	out.Snapshot.Said = capacity.Said{}
	return out
}
