//go:build !race

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// fault is what happens to one call of a program, to AWS or to Slurm.
type fault struct {
	name string
	// before keeps the call from its effect; else the effect comes first.
	before bool
	// interrupt the program (Ctrl-C), and let it do with the call what it likes; kill it; answer
	// with the HTTP status; hang until the program gives up; answer late; answer what is no
	// answer; else the connection is cut.
	interrupt, kill, hang, slow, garbage bool
	status                               int
	// rest does the same to every later call: AWS is down from then on.
	rest bool
}

// The shim of Slurm's programs knows these by name.
var callFaults = []fault{
	{name: "throttled", before: true, status: http.StatusServiceUnavailable},
	{name: "500 before the effect", before: true, status: http.StatusInternalServerError},
	{name: "500 after the effect", status: http.StatusInternalServerError},
	{name: "cut before the effect", before: true},
	{name: "cut after the effect"},
	{name: "slow", slow: true},
	{name: "garbage", garbage: true},
	{name: "killed before the effect", before: true, kill: true},
	{name: "killed after the effect", kill: true},
}

// slowAnswer is how late a slow answer is: later than people wait for nothing, sooner than
// anything of ours gives up.
const slowAnswer = 2 * time.Second

// gate stands between a program and AWS, and between it and Slurm. It notes the calls, and
// does a fault to one of them.
type gate struct {
	url string // stands for AWS
	dir string // of the programs that stand for Slurm's
	// attempts is what the SDK may make of a call that it retries.
	attempts int

	mu  sync.Mutex
	sim *awssim.Sim
	// calls are those to AWS: service, operation, and how many calls of it that makes.
	calls []string
	// fault hits the call that at names; nil once AWS is well.
	fault *fault
	at    string
	hit   bool
	// signal goes to the program that runs.
	signal func(os.Signal)
}

// newGate makes a gate in front of Slurm's programs; AWS comes with serve.
func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{attempts: 1, signal: func(os.Signal) {}, dir: t.TempDir()}
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if g.sim != nil {
			_ = g.sim.Close()
		}
	})
	g.url = server.URL
	for _, program := range []string{"scontrol", "squeue", "sinfo", "sacctmgr"} {
		real, err := exec.LookPath(program)
		if err != nil {
			continue
		}
		g.stand(t, program, real)
	}
	g.arm(t, nil, "")
	return g
}

// shim notes the call under the name of the program and its first two words without values,
// and does what the fault says.
const shim = `#!/bin/sh
dir=%[1]s
call='slurm %[2]s'
words=0
for word; do
	case $word in -*) ;; *) call="$call ${word%%%%[=0-9]*}" words=$((words+1)) ;; esac
	[ $words = 2 ] && break
done
exec 9>>$dir/lock
flock 9
call="$call $(($(grep -cxF "$call" $dir/counts) + 1))"
echo "${call%% *}" >>$dir/counts
echo "$call" >>$dir/calls
fault=
if [ "$call" = "$(cat $dir/at)" ]; then
	fault=$(cat $dir/fault)
	echo >$dir/hit
fi
exec 9>&-
case $fault in
throttled) echo "slurm_receive_msg error: Socket timed out on send/recv operation" >&2; exit 1 ;;
'500 before the effect') echo "error: Unable to contact slurm controller (connect failure)" >&2; exit 1 ;;
'500 after the effect') %[3]s "$@" >/dev/null 2>&1; echo "error: Zero Bytes were transmitted or received" >&2; exit 1 ;;
'cut before the effect') kill -9 $$ ;;
'cut after the effect') %[3]s "$@" | head -c 40; kill -9 $$ ;;
slow) sleep %[4]v ;;
garbage) %[3]s "$@" >/dev/null 2>&1; printf '\0<html>502\n=,|%%s\n{"jobs": [{' ; exit 0 ;;
'killed before the effect') kill -9 $PPID; exit 1 ;;
'killed after the effect') %[3]s "$@" >/dev/null 2>&1; kill -9 $PPID; exit 1 ;;
esac
exec %[3]s "$@"
`

// stand puts a program in front of another one.
func (g *gate) stand(t *testing.T, program, real string) {
	t.Helper()
	text := fmt.Sprintf(shim, g.dir, program, real, slowAnswer.Seconds())
	if err := os.WriteFile(filepath.Join(g.dir, program), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// hide keeps the nodes of gpu-b from being shown until PCS has a node group of that name, and a
// queue with it, as Slurm on PCS does.
func (g *gate) hide(t *testing.T) {
	t.Helper()
	real, err := exec.LookPath("scontrol")
	if err != nil {
		t.Fatal(err)
	}
	show := filepath.Join(g.dir, "show")
	text := fmt.Sprintf(`#!/bin/sh
case "$*" in
*'show node'*) [ -e %[1]s/group ] || { %[2]s "$@" | sed '/NodeName=gpu-b-/d'; exit; } ;;
*'show partition'*) [ -e %[1]s/queue ] || { %[2]s "$@" | sed 's/gpu-b-\[1-2\],*//'; exit; } ;;
esac
exec %[2]s "$@"
`, g.dir, real)
	if err := os.WriteFile(show, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	g.stand(t, "scontrol", show)
}

// shown says whether PCS has that node group, and a queue with it.
func (g *gate) shown() {
	var group, queue bool
	for _, cluster := range g.sim.PCSClusters() {
		group = group || slices.ContainsFunc(cluster.NodeGroups, func(one awssim.PCSNodeGroup) bool { return one.Name == "gpu-b" })
		queue = queue || slices.ContainsFunc(cluster.Queues, func(one awssim.PCSQueue) bool { return slices.Contains(one.NodeGroups, "gpu-b") })
	}
	for name, there := range map[string]bool{"group": group, "queue": queue} {
		if path := filepath.Join(g.dir, name); there {
			_ = os.WriteFile(path, nil, 0o644)
		} else {
			_ = os.Remove(path)
		}
	}
}

// serve puts another AWS behind the gate.
func (g *gate) serve(sim *awssim.Sim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sim != nil {
		_ = g.sim.Close()
	}
	g.sim = sim
	g.shown()
}

// arm forgets all calls, and does the fault to the call of that name; nil is no fault.
func (g *gate) arm(t *testing.T, f *fault, at string) {
	t.Helper()
	g.mu.Lock()
	g.calls, g.fault, g.at, g.hit = nil, f, at, false
	g.mu.Unlock()
	name := ""
	if f != nil {
		name = f.name
	}
	for file, text := range map[string]string{"at": at, "fault": name, "calls": "", "counts": ""} {
		if err := os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Remove(filepath.Join(g.dir, "hit"))
}

// made are all calls, to AWS and to Slurm.
func (g *gate) made(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return append(slices.Clone(g.calls), slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return line == "" })...)
}

// struck reports whether the fault has hit.
func (g *gate) struck() bool {
	_, err := os.Stat(filepath.Join(g.dir, "hit"))
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hit || err == nil
}

var signedFor = regexp.MustCompile(`/([a-z0-9-]+)/aws4_request`)

// operation names what is called.
func operation(r *http.Request, body []byte) string {
	service := "ec2"
	if m := signedFor.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		service = m[1]
	}
	if _, name, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok {
		return service + " " + name
	}
	form, _ := url.ParseQuery(string(body))
	return service + " " + form.Get("Action")
}

// ServeHTTP hands a call to AWS, unless the fault is its.
func (g *gate) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	name := operation(r, body)
	g.mu.Lock()
	nth := 1
	for _, call := range g.calls {
		if call[:strings.LastIndexByte(call, ' ')] == name {
			nth++
		}
	}
	call := fmt.Sprintf("%s %d", name, nth)
	g.calls = append(g.calls, call)
	f, sim, signal := g.fault, g.sim, g.signal
	if f != nil && call != g.at && !(f.rest && g.hit) {
		f = nil
	}
	g.hit = g.hit || f != nil
	g.mu.Unlock()

	if f != nil && f.interrupt {
		signal(os.Interrupt)
		if !buys(name) {
			<-r.Context().Done() // a program that goes on with the call would hang here
		}
		f = nil
	}
	answer := httptest.NewRecorder()
	if f == nil || !f.before {
		r.Body = io.NopCloser(bytes.NewReader(body))
		sim.Handler().ServeHTTP(answer, r)
		if strings.HasSuffix(name, "ComputeNodeGroup") || strings.HasSuffix(name, "Queue") {
			g.mu.Lock()
			g.shown()
			g.mu.Unlock()
		}
	}
	switch {
	case f == nil:
	case f.slow:
		time.Sleep(slowAnswer)
	case f.kill:
		signal(syscall.SIGKILL)
		panic(http.ErrAbortHandler)
	case f.hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case f.garbage:
		answer = httptest.NewRecorder()
		answer.WriteString("<html><body>It works!</body></html")
	case f.status != 0:
		answer = httptest.NewRecorder()
		answer.Header().Set("Date", sim.Clock().Now().Format(http.TimeFormat))
		refuse(answer, strings.HasPrefix(name, "pcs "), f.status)
	default:
		panic(http.ErrAbortHandler)
	}
	for name, values := range answer.Header() {
		rw.Header()[name] = values
	}
	rw.WriteHeader(answer.Code)
	_, _ = answer.Body.WriteTo(rw)
}

// refuse answers as EC2 or PCS does that throttles (503) or is broken (500).
func refuse(w http.ResponseWriter, pcs bool, status int) {
	throttled := status == http.StatusServiceUnavailable
	if pcs {
		code := "InternalServerException"
		if throttled {
			code, status = "ThrottlingException", http.StatusBadRequest
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"__type": "com.amazonaws.pcs#%s", "message": "injected", "retryAfterSeconds": 1}`, code)
		return
	}
	code := "InternalError"
	if throttled {
		code = "RequestLimitExceeded"
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `<Response><Errors><Error><Code>%s</Code><Message>injected</Message></Error></Errors><RequestID>x</RequestID></Response>`, code)
}

// env is the environment of a program behind the gate.
func (g *gate) env(more ...string) []string {
	return append(append(os.Environ(), g.sim.Env()...), append([]string{"AWS_ENDPOINT_URL=" + g.url, "PATH=" + g.dir + ":" + os.Getenv("PATH"),
		fmt.Sprintf("AWS_MAX_ATTEMPTS=%d", g.attempts), "AWS_EC2_METADATA_DISABLED=true", "TZ=UTC", "GOMAXPROCS=1", "XDG_CACHE_HOME=" + g.dir}, more...)...)
}

// outcome is what one run of the program did.
type outcome struct {
	status         int
	killed         bool
	stdout, stderr string
}

// run runs a program to its end, or kills it when the limit is over.
func (g *gate) run(t *testing.T, limit time.Duration, env, words []string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second // what a killed program has started may live on
	g.mu.Lock()
	err := cmd.Start()
	g.signal = func(s os.Signal) { _ = cmd.Process.Signal(s) }
	g.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), cmd.ProcessState.ExitCode() < 0, stdout.String(), stderr.String()}
}
