package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// fake is the model of the world, in which each call takes a second, is written down as a line, and does what it says,
// unless the word for the line is another.
type fake struct {
	model.Host
	world *model.Model
	word  func(line string) string // what comes of a call: see answers and the calls below
	ctx   context.Context
	stop  func() // ends the time in which something may begin
	kill  int    // the call at which the hook is killed; 0: it is not

	mu       sync.Mutex
	calls    int
	lines    []string
	came     map[string]string // the word for a call that goes on, by its token or verb
	letters  map[string]string // A, B, … of tokens, and of the ODCRs that they made
	launches []capacity.Launch
	orders   []capacity.HoldOrder
}

// newFake has reservations one and two, and nodes that boot.
func newFake(t *testing.T) *fake {
	m := model.New(time.Now())
	w := &fake{
		Host:    model.Host{Slurm: m.Slurm, EC2: m.EC2, PCS: m.PCS, Dir: state.Dir(model.Dir(t))},
		world:   m,
		word:    func(string) string { return "" },
		ctx:     context.Background(),
		stop:    func() {},
		came:    map[string]string{},
		letters: map[string]string{},
	}
	m.Slurm.Add("gpu", "gpu", 8)

	m.Slurm.RequeueDelay = 0
	for _, n := range m.Slurm.All {
		n.State = model.Boots
	}

	for _, r := range twoReservations().Reservations {
		r.Total, r.Available = 8, 8
		m.EC2.Reserve(r)
	}

	m.EC2.OnDemand, m.EC2.IDs = 100, 100
	m.Before, m.After = w.before, func(c model.Call) error {
		if c.Verb != "" && w.is(w.key(c)) == "lost" {
			return answers["lost"]
		}
		return nil
	}

	return w
}

var answers = map[string]error{
	"no room": &model.Refusal{
		Code:    "InsufficientInstanceCapacity",
		Message: "We have none.",
		Outcome: capacity.ErrNoRoom,
	},
	"no query": fmt.Errorf("a query failed: %w", capacity.ErrNoRoom),
	"token used": &model.Refusal{
		Code:    "IdempotentParameterMismatch",
		Message: "It is used.",
		Outcome: capacity.ErrTokenUsed,
	},
	"refused": &model.Refusal{Code: "UnauthorizedOperation", Message: "You may not.", Outcome: capacity.ErrRefused},
	"throttled": &model.Refusal{
		Code:    "RequestLimitExceeded",
		Message: "Slow down.",
		Outcome: errors.Join(capacity.ErrRefused, ec2.ErrUndecided),
	},
	"unknown": fmt.Errorf("connection reset by peer%.0w", ec2.ErrUndecided),
	"lost":    fmt.Errorf("connection reset by peer%.0w", ec2.ErrUndecided), // after the effect
}

var (
	tokens = regexp.MustCompile(`\b[0-9a-f]{64}\b|token of \w+`)
	orders = regexp.MustCompile(`cr-odcr-\d+`)
	clocks = regexp.MustCompile(`2000-01-\d\d \d\d:\d\d:\d\d`)
	fluff  = strings.NewReplacer(
		"of job ",
		"",
		"job ",
		"",
		"of ",
		"",
		" into ",
		" ",
		" in ",
		" ",
		", token ",
		" ",
		"token ",
		"",
		"not before ",
		"",
		"subnet-0000000000000000",
		"",
	)
)

// line is a call in short, with letters for tokens and the time since noon.
func (w *fake) line(c model.Call) string {
	text, _, _ := strings.Cut(c.Text, ": ")
	text = tokens.ReplaceAllStringFunc(text, func(token string) string {
		if w.letters[token] == "" {
			w.letters[token] = string(rune('A' + len(w.letters)))
		}
		return w.letters[token]
	})
	text = orders.ReplaceAllStringFunc(text, func(id string) string { return "cr-" + w.ordered(id) })
	text = clocks.ReplaceAllStringFunc(text, func(at string) string {
		t, _ := time.Parse(time.DateTime, at)
		return t.Sub(noon).String()
	})

	return strings.TrimSpace(c.Verb + " " + fluff.Replace(text))
}

// ordered is the letter of the token that made an ODCR.
func (w *fake) ordered(id string) string {
	var r capacity.Reservation
	w.change(func() { r, _ = w.Real(id) })
	return w.letters[r.Tags[capacity.TagToken]]
}

// is the word for a call that goes on.
func (w *fake) is(key string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.came[key]
}

// change changes the world outside of any call.
func (w *fake) change(do func()) {
	_ = w.world.Do(model.Call{}, func() error { do(); return nil })
}

func (w *fake) key(c model.Call) string { return cmp.Or(tokens.FindString(c.Text), c.Verb) }

// before is called before each call. After "then no time" nothing may begin.
func (w *fake) before(c model.Call) error {
	if c.Verb == "" || c.Verb == "read a console" {
		return nil
	}

	time.Sleep(time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.calls++; w.kill > 0 && w.calls >= w.kill {
		runtime.Goexit() // in each goroutine that goes on
	}

	w.change(func() { w.Slurm.Now = time.Now() })

	line := w.line(c)
	word := w.word(line)
	w.came[w.key(c)] = word
	if word != "" {
		line += " → " + word
	}

	if w.lines = append(w.lines, line); word == "then no time" {
		w.stop()
	}

	if word == "lost" {
		return nil
	}

	return answers[word]
}

// Launch launches one node, what has ended already, or what has no address.
func (w *fake) Launch(ctx context.Context, l capacity.Launch) (launched []capacity.Instance, err error) {
	w.change(func() { w.launches = append(w.launches, l) })

	launched, err = w.Host.Launch(ctx, l)
	has := len(launched)
	switch word := w.is(l.ClientToken); {
	case word == "one":
		has = min(has, 1)
	case word == "ended":
		has = 0
	case word == "no address" && has > 0:
		launched[0].PrivateIP = ""
	}

	for i := has; i < len(launched); i++ {
		w.change(func() { w.EC2.End(launched[i].ID) })

		launched[i].State = "terminated"
	}

	if w.is(l.ClientToken) != "ended" {
		launched = launched[:has]
	}

	return launched, err
}

// CreateODCR answers with what has been cancelled.
func (w *fake) CreateODCR(ctx context.Context, o capacity.HoldOrder) (r capacity.Reservation, err error) {
	w.change(func() { w.orders = append(w.orders, o) })

	r, err = w.Host.CreateODCR(ctx, o)
	if w.is(o.ClientToken) == "dead" {
		r.State = capacity.StateCancelled
		w.change(func() { w.Change(r.ID, func(r *capacity.Reservation) { r.State = capacity.StateCancelled }) })
	}

	return r, err
}

// FindInstances shows none, or some that boot still.
func (w *fake) FindInstances(ctx context.Context, q capacity.InstanceQuery) ([]capacity.Instance, error) {
	found, err := w.Host.FindInstances(ctx, q)
	switch w.is("find instances") {
	case "not shown":
		found = nil
	case "pending":
		for i := range found {
			found[i].State = "pending"
		}
	}

	return found, err
}

// BriefJobs leaves out what Slurm's does.
func (w *fake) BriefJobs(ctx context.Context) ([]capacity.Job, error) {
	jobs, err := w.Host.BriefJobs(ctx)
	for i := range jobs {
		jobs[i].NumNodes = 0
	}

	return jobs, err
}

// PowerDownForce has SuspendProgram end the instances.
func (w *fake) PowerDownForce(ctx context.Context, nodes []string, reason string) error {
	err := w.Host.PowerDownForce(ctx, nodes, reason)
	w.change(func() {
		for _, i := range capacity.WithNodes(w.Instances) {
			if node := i.Tags[capacity.TagNode]; slices.Contains(nodes, node) && w.Node(node).PoweredDown() {
				w.EC2.End(i.ID)
			}
		}
	})

	return err
}

// queue gives Slurm jobs; those that have nodes run on them.
func (w *fake) queue(jobs ...capacity.Job) {
	for _, j := range jobs {
		one := &model.Job{Job: j}
		w.Jobs = append(w.Jobs, one)
		for _, n := range j.Nodes {
			w.Node(n).Job = one
		}
	}
}

// said is the AdminComment of a job, or the reason of a node.
func (w *fake) said(name string) string {
	for _, j := range w.Jobs {
		if j.Shown == name {
			return j.AdminComment
		}
	}

	return w.Node(name).Reason
}

// remember has records from before.
func (w *fake) remember(t *testing.T, records ...state.Record) {
	if err := w.Dir.AppendRecords(records...); err != nil {
		t.Fatal(err)
	}
}

// kept are the records.
func (w *fake) kept(t *testing.T) []state.Record {
	all, err := w.Records()
	if err != nil {
		t.Fatal(err)
	}

	return all
}

// budget has no deadline in it that is a whole second, as calls are.
const budget = 118 * time.Second

// hook is a call by slurmctld in the World.
func (w *fake) hook(settings capacity.Settings) *Hook {
	return NewHook(w, w.Dir, settings, "ml", "", slog.New(slog.DiscardHandler))
}

// begun is the call after it has read the facts and begun to launch, unless the World has stopped.
func begun(w *fake, f launchFacts) *launcher {
	l, _ := newLauncher(w.ctx, w.hook(f.settings), powerUp{facts: f, budget: budget})

	return l
}

// within is time that does not end with a whole second, as calls do.
func within(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d-500*time.Millisecond)
}

// story compares what is done in a World with a script: a line for each call, and after " → " what comes of it, if it
// is not simply done. Lines of calls that are made side by side are sorted.
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

		w := newFake(t)
		w.ctx, w.stop = context.WithCancel(t.Context())
		w.word = func(line string) (word string) {
			if len(words[line]) > 0 {
				word, words[line] = words[line][0], words[line][1:]
			}
			return word
		}
		do(t, w)

		for i := 1; i < len(w.lines); i++ {
			if was := w.lines[i-1]; strings.HasPrefix(was, "cancel reservation") &&
				strings.HasPrefix(w.lines[i], "cancel reservation") &&
				was > w.lines[i] {
				w.lines[i-1], w.lines[i] = w.lines[i], was
			}
		}

		if diff := diff.Diff(want, w.lines); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}
