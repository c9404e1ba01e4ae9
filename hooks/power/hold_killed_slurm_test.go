package power_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// callLog is an AWS that writes down the calls of the first run of the hook, and at one of
// them, when it has taken effect, does something instead of answering.
type callLog struct {
	mu     sync.Mutex
	calls  []string
	at     int // 0: at none
	do     func()
	answer http.Handler
}

func (l *callLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, _ := url.ParseQuery(string(body))
	l.mu.Lock()
	l.calls = append(l.calls, form.Get("Action"))
	now := len(l.calls) == l.at
	l.mu.Unlock()
	if !now {
		l.answer.ServeHTTP(w, r)
		return
	}
	l.answer.ServeHTTP(httptest.NewRecorder(), r)
	l.do()
	panic(http.ErrAbortHandler)
}

// startHoldWith is a world with capacity held for jobs, in which a test sees the hooks' calls.
func startHoldWith(t *testing.T, log *callLog) *power {
	t.Helper()
	p := startPowerWith(t, holdConfig, room(1, 2), func(c *slurmlab.Config) { c.ResumeTimeout = 15 * time.Second })
	log.answer = p.sim.Handler()
	server := httptest.NewServer(log)
	t.Cleanup(server.Close)
	path := filepath.Join(p.dir, "pcs-capacity-resume")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "\nexec ", "\nexport AWS_ENDPOINT_URL="+server.URL+"\nexec ", 1)
	if err := os.WriteFile(path, []byte(changed), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestR5_HoldingHookKilled kills the resume hook after each of its calls of AWS in turn, as the
// log of a run that nothing befell has them. One pass of sync later nothing is held, no
// instance runs for no node, and the job has run.
func TestR5_HoldingHookKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Slurm cluster for each call")
	}
	var whole callLog
	p := startHoldWith(t, &whole)
	p.wait(p.submit("-p", "gpu", "-N2"), "COMPLETED")
	p.nothingHeld()
	whole.mu.Lock()
	calls := append([]string(nil), whole.calls...)
	whole.mu.Unlock()
	t.Logf("the calls: %s", strings.Join(calls, " "))
	if text := strings.Join(calls, " "); !strings.Contains(text, "CreateCapacityReservation") || !strings.Contains(text, "RunInstances") || !strings.Contains(text, "CancelCapacityReservation") {
		t.Fatalf("the calls are %s", text)
	}
	for n := range calls {
		t.Run(fmt.Sprintf("%d %s", n+1, calls[n]), func(t *testing.T) {
			log := callLog{at: n + 1}
			var p *power
			killed := make(chan bool, 1)
			log.do = func() {
				log.mu.Lock()
				hooks := p
				log.mu.Unlock()
				_ = syscall.Kill(hooks.lastPid("pcs-capacity-resume"), syscall.SIGKILL)
				killed <- true
			}
			started := startHoldWith(t, &log)
			log.mu.Lock()
			p = started
			log.mu.Unlock()
			id, err := p.cluster.Submit(hookstest.Deadline(t), "sleep 600", "-p", "gpu", "-N2")
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-killed:
			case <-hookstest.Deadline(t).Done():
				t.Fatal("the hook was not killed")
			}
			// Slurm 26.05 takes other nodes at the second try.
			var nodes []string
			runs := func() bool {
				job := p.show("job", id)
				_, list, _ := strings.Cut(job, " NodeList=")
				nodes, _ = slurm.Expand(strings.Fields(list + " -")[0])
				return strings.Contains(job, "JobState=RUNNING") && len(nodes) == 2 && p.up(nodes[0]) && p.up(nodes[1])
			}
			// What the dead hook has left may be all the room that there is.
			p.until("the job runs, or Slurm has given the power-up up", func() bool { return runs() || p.restarts(id) > 0 })
			done := p.pass().Done
			p.until("the job runs", runs)
			p.until("its hook is done", func() bool { return len(p.recordsOf("hold")) > 0 || p.restarts(id) == 0 })
			now, ever := p.heldNow()
			if len(now) != 0 {
				t.Errorf("still held after a pass that did %v: %+v", done, now)
			}
			used := map[string]bool{}
			for _, node := range nodes {
				if id, ok := p.booted.Load(node); ok {
					used[id.(string)] = true
				}
			}
			for _, i := range p.sim.Instances(region) {
				if (i.State == "running" || i.State == "pending") && !used[i.ID] {
					t.Errorf("instance %s runs for nothing", i.ID)
				}
			}
			t.Logf("held %d times, %d instances ever, %d restarts, the pass did %v", len(ever), p.launches(), p.restarts(id), done)
		})
	}
}

// up reports whether a node's slurmd answers.
func (p *power) up(node string) bool {
	text := p.show("node", node)
	return !strings.Contains(text, "POWERING") && !strings.Contains(text, "NOT_RESPONDING") && !strings.Contains(text, "POWERED")
}
