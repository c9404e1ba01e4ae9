package power

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// fake is the World in memory. Each verb takes a second, is written down as a line, and does what it says, unless the
// word for the line is another.
type fake struct {
	World
	ahead   time.Duration            // AWS's clock
	word    func(line string) string // what comes of a verb: see do
	ctx     context.Context
	stop    func() // ends the time in which something may begin
	console string // what instances say on it
	kill    int    // the verb at which the hook is killed; 0: it is not

	mu        sync.Mutex
	verbs     int
	lines     []string
	tokens    map[string]string
	ledger    map[string]capacity.Held // by token
	odcrs     map[string]string        // live ones, with their tokens
	ordered   map[string]time.Time     // the end that EC2 binds a token to
	instances map[string]*capacity.Instance
	addresses map[string]string // node to address
	down      map[string]bool
	records   []state.Record
	jobs      []capacity.Job
	nodes     []capacity.Node
	launches  []capacity.Launch
	orders    []capacity.HoldOrder
	said      map[string]string // AdminComments, and reasons of nodes
}

func newFake() *fake {
	return &fake{ctx: context.Background(), word: func(string) string { return "" }, stop: func() {}, tokens: map[string]string{}, ledger: map[string]capacity.Held{}, odcrs: map[string]string{},
		ordered: map[string]time.Time{}, instances: map[string]*capacity.Instance{}, addresses: map[string]string{}, down: map[string]bool{}, said: map[string]string{}}
}

// answer is an error of EC2.
type answer struct {
	code, message string
	outcome       error
}

func (a *answer) Error() string        { return a.code + ": " + a.message }
func (a *answer) ErrorCode() string    { return a.code }
func (a *answer) ErrorMessage() string { return a.message }
func (a *answer) Unwrap() error        { return a.outcome }

var answers = map[string]error{
	"no room":    &answer{"InsufficientInstanceCapacity", "We have none.", capacity.ErrNoRoom},
	"no query":   fmt.Errorf("a query failed: %w", capacity.ErrNoRoom),
	"token used": &answer{"IdempotentParameterMismatch", "It is used.", capacity.ErrTokenUsed},
	"refused":    &answer{"UnauthorizedOperation", "You may not.", capacity.ErrRefused},
	"unknown":    fmt.Errorf("connection reset by peer"),
	"lost":       fmt.Errorf("connection reset by peer"), // after the effect
}

// do is one verb: a line, what comes of it, and its effect. After "then no time" nothing may begin.
func (w *fake) do(effect func(word string), form string, args ...any) error {
	time.Sleep(time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.verbs++; w.kill > 0 && w.verbs >= w.kill {
		runtime.Goexit() // in each goroutine that goes on
	}
	line := strings.TrimSpace(fmt.Sprintf(form, args...))
	word := w.word(line)
	if word != "" {
		line += " → " + word
	}
	w.lines = append(w.lines, line)
	if word == "then no time" {
		w.stop()
	}
	err := answers[word]
	if effect != nil && (err == nil || word == "lost") {
		effect(word)
	}
	return err
}

// list are names, sorted.
func list(names []string) string { return strings.Join(slices.Sorted(slices.Values(names)), ",") }

// token is A, B, … in the order in which tokens appear.
func (w *fake) token(token string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tokens[token] == "" {
		w.tokens[token] = string(rune('A' + len(w.tokens)))
	}
	return w.tokens[token]
}

func (w *fake) Now() time.Time             { return time.Now().Add(w.ahead) }
func (w *fake) Offset() time.Duration      { return w.ahead }
func (w *fake) Remember(string, time.Time) {}
func (w *fake) Records() ([]state.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.records), nil
}

func (w *fake) BriefJobs(context.Context) (jobs []capacity.Job, err error) {
	return jobs, w.do(func(string) { jobs = slices.Clone(w.jobs) }, "ask-jobs")
}

func (w *fake) NodeStates(context.Context, ...string) (nodes []capacity.Node, err error) {
	return nodes, w.do(func(string) { nodes = w.nodes }, "ask-nodes")
}

func (w *fake) SetAddresses(_ context.Context, addresses map[string]netip.Addr) error {
	return w.do(func(string) {
		for n, ip := range addresses {
			w.addresses[n] = ip.String()
		}
	}, "address %s", hostlist.Compress(slices.Collect(maps.Keys(addresses))))
}

func (w *fake) PowerDownForce(_ context.Context, nodes []string, reason string) error {
	return w.do(func(string) {
		for _, n := range nodes { // Slurm calls SuspendProgram
			w.down[n], w.said[n] = true, reason
			for _, i := range w.instances {
				if i.Tags[capacity.TagNode] == n {
					i.State = "terminated"
				}
			}
		}
	}, "down %s", hostlist.Compress(nodes))
}

func (w *fake) Begin(_ context.Context, job string, at time.Time) error {
	return w.do(nil, "begin %s %s", job, at.Sub(noon))
}

func (w *fake) SetAdminComments(_ context.Context, text string, jobs ...string) error {
	return w.do(func(string) {
		for _, j := range jobs {
			w.said[j] = text
		}
	}, "comment %s", list(jobs))
}

func (w *fake) Notify(_ context.Context, job, _ string) error { return w.do(nil, "notify %s", job) }
func (w *fake) RequeueHold(_ context.Context, jobs ...string) error {
	return w.do(nil, "requeue %s", list(jobs))
}
func (w *fake) Cancel(_ context.Context, jobs ...string) error {
	return w.do(nil, "cancel %s", list(jobs))
}
func (w *fake) UserHold(_ context.Context, jobs ...string) error {
	return w.do(nil, "user-hold %s", list(jobs))
}

func (w *fake) Launch(_ context.Context, l capacity.Launch) (launched []capacity.Instance, err error) {
	nodes, _ := hostlist.Expand(capacity.LaunchedNodes(l.Tags))
	where := l.ReservationID
	if where == "" {
		where = string(l.Kind)
	}
	return launched, w.do(func(word string) {
		w.launches = append(w.launches, l)
		for i, n := range nodes {
			if word == "one" && i > 0 || word == "some" && i >= l.Least {
				break
			}
			id := fmt.Sprintf("i-%s-%s", n, w.tokens[l.ClientToken])
			if w.instances[id] == nil {
				tags := maps.Clone(l.Tags)
				tags[capacity.TagNode] = n
				w.instances[id] = &capacity.Instance{ID: id, PrivateIP: fmt.Sprintf("10.0.0.%d", len(w.instances)), State: "running", Launched: w.Now().Truncate(time.Second),
					Type: l.InstanceType, SubnetID: l.SubnetID, ReservationID: l.ReservationID, LaunchIndex: i, Tags: tags}
			}
			in := *w.instances[id]
			if word == "ended" {
				in.State, w.instances[id].State = "terminated", "terminated"
			}
			if word == "no address" {
				in.PrivateIP = ""
			}
			launched = append(launched, in)
		}
	}, "launch %s %s %s %s", hostlist.Compress(nodes), where, l.SubnetID[len(l.SubnetID)-1:], w.token(l.ClientToken))
}

func (w *fake) Terminate(_ context.Context, ids []string) error {
	return w.do(func(string) {
		for _, id := range ids {
			if i := w.instances[id]; i != nil {
				i.State = "terminated"
			}
		}
	}, "terminate %s", list(ids))
}

func (w *fake) CreateODCR(_ context.Context, o capacity.HoldOrder) (r capacity.Reservation, err error) {
	name := w.token(o.ClientToken)
	err = w.do(func(word string) {
		w.orders = append(w.orders, o)
		id := "cr-" + name
		r = capacity.Reservation{ID: id, State: capacity.StateActive, InstanceType: o.InstanceType, AZID: o.AZID, End: o.End}
		end, used := w.ordered[o.ClientToken]
		switch {
		case word == "dead" || used && w.odcrs[id] == "":
			r.State = capacity.StateCancelled
		case used && !end.Equal(o.End):
			err = answers["token used"]
		default:
			w.odcrs[id], w.ordered[o.ClientToken] = o.ClientToken, o.End
		}
	}, "odcr %d %s %s %s", o.Count, strings.TrimSuffix(o.InstanceType, ".48xlarge"), o.AZID, name)
	return r, err
}

func (w *fake) CancelODCR(_ context.Context, id string) error {
	return w.do(func(string) { delete(w.odcrs, id) }, "cancel-odcr %s", id)
}

func (w *fake) InstancesByTag(_ context.Context, tags map[string][]string) (all []capacity.Instance, err error) {
	others := func(i capacity.Instance) bool {
		for key, values := range tags {
			if !slices.Contains(values, i.Tags[key]) {
				return true
			}
		}
		return len(tags) == 0
	}
	return all, w.do(func(string) { all = slices.DeleteFunc(w.all(), others) }, "ask-instances")
}

func (w *fake) all() (all []capacity.Instance) {
	for _, id := range slices.Sorted(maps.Keys(w.instances)) {
		all = append(all, *w.instances[id])
	}
	return all
}

func (w *fake) InstanceStates(_ context.Context, ids []string) (map[string]string, error) {
	states := map[string]string{}
	return states, w.do(func(word string) {
		for _, id := range ids {
			if i := w.instances[id]; word == "not shown" || i == nil {
				continue
			} else if states[id] = i.State; word == "pending" {
				states[id] = word
			}
		}
	}, "ask-states %s", list(ids))
}

func (w *fake) ImagePlatform(context.Context, string) (capacity.ImagePlatform, error) {
	return capacity.ImagePlatform{Platform: capacity.LinuxUNIX}, w.do(nil, "ask-image")
}

func (w *fake) Configure(_ context.Context, r pcs.ConfigureRequest) (changed bool, err error) {
	return changed, w.do(func(word string) { changed = word == "changed" }, "configure %s %s %s", r.Group, r.Reservation.ID, list(r.SubnetIDs))
}

func (w *fake) Enlist(h capacity.Held, _ time.Time, allowed func(more capacity.Held, others []capacity.Held) error) (capacity.Held, error) {
	var refused error
	err := w.do(func(string) {
		if before, there := w.ledger[h.Token]; there {
			h.Until = before.Until
		} else if refused = allowed(h, slices.Collect(maps.Values(w.ledger))); refused != nil {
			return
		}
		w.ledger[h.Token] = h
	}, "enlist %d %s %s", h.Count, w.token(h.Token), h.ReservationID)
	if err == nil {
		err = refused
	}
	return h, err
}

func (w *fake) Released(_ time.Time, names ...string) error {
	return w.do(func(string) { delete(w.ledger, names[0]) }, "unlist %s", w.token(names[0]))
}

func (w *fake) AppendRecords(records ...state.Record) error {
	line := "record"
	for _, r := range records {
		line += fmt.Sprintf(" %s %s %s;", r.Hook, r.Code, r.Nodes)
	}
	return w.do(func(string) { w.records = append(w.records, records...) }, "%s", line)
}

// begun is the call after it has begun in the World, unless that has stopped.
func begun(w *fake, c *call) *call {
	c.World, c.journal, c.budget = w, logless(), 118*time.Second // no deadline is a whole second
	c.begin(w.ctx)
	return c
}

// within is time that does not end with a whole second, as verbs do.
func within(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d-500*time.Millisecond)
}

// story compares what is done in a World with a script: a line for each verb, and after " → " what comes of it, if it
// is not simply done. Lines of verbs that are done side by side are sorted.
func story(t *testing.T, script string, do func(t *testing.T, w *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		words := map[string][]string{}
		var want []string
		for line := range strings.Lines(script) {
			if line = strings.TrimSpace(line); line != "" {
				text, word, _ := strings.Cut(line, " → ")
				words[text] = append(words[text], word)
				want = append(want, line)
			}
		}
		w := newFake()
		w.ctx, w.stop = context.WithCancel(t.Context())
		w.word = func(line string) (word string) {
			if len(words[line]) > 0 {
				word, words[line] = words[line][0], words[line][1:]
			}
			return word
		}
		do(t, w)
		for i := 1; i < len(w.lines); i++ {
			if was := w.lines[i-1]; strings.HasPrefix(was, "cancel-odcr") && strings.HasPrefix(w.lines[i], "cancel-odcr") && was > w.lines[i] {
				w.lines[i-1], w.lines[i] = w.lines[i], was
			}
		}
		if diff := cmp.Diff(want, w.lines); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func (w *fake) ConsoleSays(context.Context, string) (string, error) { return w.console, nil }
