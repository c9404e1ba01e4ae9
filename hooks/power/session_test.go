package power

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// session walks a machine through a script: a line is an effect, as say words it, and after " → " what
// came of it, if it was not simply done. It holds next to its word: the same twice, and the state that
// it was given stays as it was.
func session[M machine[M]](t *testing.T, m M, answers map[string]Answer, script string) M {
	t.Helper()
	s := newSayer(answers)
	var want, got []string
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line != "" {
			want = append(want, line)
		}
	}
	end := walk[pure[M]](pure[M]{m, t}, Answer{At: noon}, func(e capacity.Effect) Answer {
		line, word := s.say(e), ""
		if len(got) < len(want) {
			_, word, _ = strings.Cut(want[len(got)], " → ")
		}
		if word != "" {
			line += " → " + word
		}
		if got = append(got, line); len(got) > 200 {
			t.Fatalf("it does not end: %s", strings.Join(got, "\n"))
		}
		return s.answer(e, word)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	return end.m
}

// pure is a machine that is watched.
type pure[M machine[M]] struct {
	m M
	t *testing.T
}

func (p pure[M]) next(a Answer) (pure[M], []capacity.Effect) {
	before, given := shown(p.m), shown(a)
	after, effects := p.m.next(a)
	if now := shown(p.m); now != before || shown(a) != given {
		p.t.Errorf("next changed what it was given:\n%s\n%s", before, now)
	}
	again, same := p.m.next(a)
	if shown(again) != shown(after) || shown(same) != shown(effects) {
		p.t.Errorf("next says something else the second time:\n%s %s\n%s %s", shown(after), shown(effects), shown(again), shown(same))
	}
	return pure[M]{after, p.t}, effects
}

// shown is a value with all that it points to.
func shown(v any) string {
	var b strings.Builder
	show(&b, reflect.ValueOf(v), 0)
	return b.String()
}

func show(b *strings.Builder, v reflect.Value, depth int) {
	switch {
	case depth > 20:
		b.WriteString("…")
	case !v.IsValid():
		b.WriteString("nil")
	case v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface:
		if v.Type() == reflect.TypeFor[*time.Location]() {
			return
		}
		show(b, v.Elem(), depth+1)
	case v.Kind() == reflect.Struct:
		b.WriteString("{")
		for i := range v.NumField() {
			b.WriteString(v.Type().Field(i).Name + ":")
			show(b, v.Field(i), depth+1)
			b.WriteString(" ")
		}
		b.WriteString("}")
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		b.WriteString("[")
		for i := range v.Len() {
			show(b, v.Index(i), depth+1)
			b.WriteString(" ")
		}
		b.WriteString("]")
	case v.Kind() == reflect.Map:
		lines := map[string]string{}
		for _, k := range v.MapKeys() {
			var value strings.Builder
			show(&value, v.MapIndex(k), depth+1)
			lines[fmt.Sprint(k)] = value.String()
		}
		fmt.Fprint(b, lines) // sorted
	default:
		fmt.Fprint(b, v)
	}
}

// sayer words effects, and answers them. ClientTokens are A, B, … in the order in which they appear.
type sayer struct {
	tokens  map[string]string
	answers map[string]Answer
	now     time.Time
}

func newSayer(answers map[string]Answer) *sayer {
	return &sayer{tokens: map[string]string{}, answers: answers, now: noon}
}

func (s *sayer) token(token string) string {
	if s.tokens[token] == "" {
		s.tokens[token] = string(rune('A' + len(s.tokens)))
	}
	return s.tokens[token]
}

func (s *sayer) say(e capacity.Effect) string {
	words := []string{e.Code()}
	add := func(more ...any) { words = append(words, strings.TrimSuffix(fmt.Sprintln(more...), "\n")) }
	list := func(names []string) string { return strings.Join(names, ",") }
	switch e := e.(type) {
	case Adopt:
		add(hostlist.Compress(e.Nodes))
	case Terminate:
		add(list(e.Instances))
	case Enlist:
		add(e.Count, s.token(e.Token))
		if e.ReservationID != "" {
			add(e.ReservationID)
		}
	case Unlist:
		add(s.token(e.Token))
	case Hold:
		add(e.Count, strings.TrimSuffix(e.InstanceType, ".48xlarge"), e.AZID, s.token(e.ClientToken))
	case Release:
		add(list(e.Reservations))
	case Launch:
		where := e.ReservationID
		if where == "" {
			where = string(e.Kind)
		}
		add(hostlist.Compress(e.Nodes), where, e.SubnetID[len(e.SubnetID)-1:], s.token(e.ClientToken))
	case MarkFull:
		add(e.Reservation, e.Nodes)
	case SetAddresses:
		add(e.About().Node)
	case Tell:
		for _, r := range e.Records {
			add(r.Hook, r.Code, r.Nodes+";")
		}
		if len(e.Notify) > 0 {
			add("notify", list(e.Notify))
		}
	case SendDown:
		add(hostlist.Compress(e.Nodes))
	case Begin:
		add(e.Job, e.At.Sub(noon))
	case Comment:
		add(list(e.Jobs))
	case AllowRequeue:
		add(list(e.Jobs), e.Allow)
	case Requeue:
		add(list(e.Jobs))
	case Cancel:
		add(list(e.Jobs))
	case HoldJobs:
		add(list(e.Jobs))
		if e.ByAdmin {
			add("by admin")
		}
	case GoOn:
		add(e.Job, e.Partitions)
	case AskStates:
		add(list(e.Instances))
	case Configure:
		add(e.Slot, e.Reservation.ID)
	}
	return strings.Join(words, " ")
}

// failures are the words for what came of a call.
var failures = map[string]*Failure{
	"no room":    {Outcome: capacity.NoRoom, Code: "InsufficientInstanceCapacity", EC2Code: "InsufficientInstanceCapacity", Message: "We have none."},
	"no query":   {Outcome: capacity.NoRoom, Code: "failed", Message: "a query failed"},
	"token used": {Outcome: capacity.TokenUsed, Code: "IdempotentParameterMismatch", EC2Code: "IdempotentParameterMismatch", Message: "It is used."},
	"refused":    {Outcome: capacity.Refused, Code: "UnauthorizedOperation", EC2Code: "UnauthorizedOperation", Message: "You may not."},
	"unknown":    {Outcome: capacity.Unknown, Code: "failed", Message: "connection reset by peer"},
	"no time":    errNoTime,
	"limit":      {Outcome: capacity.NoRoom, Code: "reserve-limit", Message: "more than may be held"},
}

func (s *sayer) answer(e capacity.Effect, word string) Answer {
	s.now = s.now.Add(time.Second)
	a, known := s.answers[word]
	a.At = s.now
	if known {
		return a
	}
	if f := failures[word]; f != nil {
		if release, ok := e.(Release); ok {
			a.Failures = map[string]*Failure{release.Reservations[0]: f}
		}
		a.Failure = f
		return a
	}
	switch e := e.(type) {
	case AskImage:
		a.Platform = capacity.LinuxUNIX
	case Hold:
		a.Reservation = capacity.Reservation{ID: "held-in-" + e.AZID, State: capacity.StateActive, InstanceType: e.InstanceType, AZID: e.AZID, End: e.End}
		if word == "dead" {
			a.Reservation.State = capacity.StateCancelled
		}
	case Launch:
		for i, n := range e.Nodes {
			if word == "one" && i > 0 {
				break
			}
			in := capacity.Instance{ID: "i-" + n, PrivateIP: "10.0.0.1", Type: e.InstanceType, SubnetID: e.SubnetID, LaunchIndex: i, State: "pending"}
			if word == "ended" {
				in.State = "terminated"
			}
			if word == "no address" {
				in.PrivateIP = ""
			}
			a.Instances = append(a.Instances, in)
		}
	case AskStates:
		a.States = map[string]string{}
		for _, id := range e.Instances {
			if word != "not shown" {
				a.States[id] = stateRunning
			}
			if word == "pending" || word == "shutting-down" {
				a.States[id] = word
			}
		}
	case AskJobs:
		a.Jobs = []capacity.Job{}
	}
	return a
}
