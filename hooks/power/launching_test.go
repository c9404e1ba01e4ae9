package power

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// ready is the machine of a unit of the plan for one group.
func ready(t *testing.T, f *facts, groups ...group) launching {
	t.Helper()
	units, refused, _ := f.plan(groups)
	if len(units) != 1 || len(refused) != 0 {
		t.Fatalf("%d units, refused %+v", len(units), refused)
	}
	return launching{facts: f, what: units[0]}
}

func pair() group {
	return group{nodes: []string{"gpu-1", "gpu-2"}, jobs: []capacity.Job{nlp(1, "gpu-1", "gpu-2")}}
}

// came words what came of each group.
func came(s launching) string {
	var all []string
	for _, o := range s.outcomes {
		text := strings.Join(slices.Sorted(maps.Keys(o.launched)), ",")
		if o.failure != nil {
			text += " " + o.failure.Code
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// What a launch into reservations does, from answer to answer.
func TestLaunchStories(t *testing.T) {
	someNodes := func(f *facts) { f.all = false }
	for name, c := range map[string]struct {
		change func(*facts)
		script string
		want   string
	}{
		"it is done": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A
			set-addresses gpu-[1-2]
			tell resume ok gpu-[1-2];`, "gpu-1,gpu-2"},
		"the first reservation is full": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → no room
			mark-full ` + two + ` 2
			launch gpu-[1-2] ` + one + ` 1 B
			set-addresses gpu-[1-2]
			tell resume ok gpu-[1-2];`, "gpu-1,gpu-2"},
		"both are": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → no room
			mark-full ` + two + ` 2
			launch gpu-[1-2] ` + one + ` 1 B → no room
			mark-full ` + one + ` 2`, " InsufficientInstanceCapacity"},
		"nobody knows whether it is full": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → no query
			launch gpu-[1-2] ` + one + ` 1 B
			set-addresses gpu-[1-2]
			tell resume ok gpu-[1-2];`, "gpu-1,gpu-2"},
		"both are, and not all instances are known": {someNodes, `
			launch gpu-[1-2] ` + two + ` 2 A → no room
			mark-full ` + two + ` 2
			launch gpu-[1-2] ` + one + ` 1 B → no room
			mark-full ` + one + ` 2
			ask-left → left
			terminate i-old`, " InsufficientInstanceCapacity"},
		"nobody knows what is left": {someNodes, `
			launch gpu-[1-2] ` + two + ` 2 A → no room
			mark-full ` + two + ` 2
			launch gpu-[1-2] ` + one + ` 1 B → no room
			mark-full ` + one + ` 2
			ask-left → unknown`, " InsufficientInstanceCapacity"},
		"a token is used": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → token used
			launch gpu-[1-2] ` + two + ` 2 B → ended
			launch gpu-[1-2] ` + two + ` 2 C
			set-addresses gpu-[1-2]
			tell resume ok gpu-[1-2];`, "gpu-1,gpu-2"},
		"EC2 refuses":       {nil, "launch gpu-[1-2] " + two + " 2 A → refused", " UnauthorizedOperation"},
		"nobody knows":      {nil, "launch gpu-[1-2] " + two + " 2 A → unknown", " failed"},
		"there is no time":  {nil, "launch gpu-[1-2] " + two + " 2 A → no time", " interrupted"},
		"too few instances": {nil, "launch gpu-[1-2] " + two + " 2 A → one", "gpu-1 failed"},
		"an instance without an address": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → no address`, "gpu-1,gpu-2 failed"},
		"Slurm does not take the addresses": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A
			set-addresses gpu-[1-2] → unknown`, "gpu-1,gpu-2 failed"},
		"the template is not known": {func(f *facts) { f.templates = map[string]template{"": {failure: failures["refused"]}} }, "", " UnauthorizedOperation"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFacts(twoReservations())
			if c.change != nil {
				c.change(f)
			}
			node := func(id, node string, ago time.Duration) capacity.Instance {
				return capacity.Instance{ID: id, Launched: noon.Add(-ago), State: "running", Tags: map[string]string{capacity.TagNode: node}}
			}
			ended := node("i-ended", "gpu-1", time.Hour)
			ended.State = "terminated"
			left := map[string]Answer{"left": {Instances: []capacity.Instance{node("i-old", "gpu-1", time.Hour), node("i-new", "gpu-2", time.Second), node("i-other", "gpu-9", time.Hour), ended}}}
			s := session(t, ready(t, f, pair()), left, c.script)
			if got := came(s); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Ten attempts, each with another token.
func TestLaunchAttempts(t *testing.T) {
	for _, word := range []string{"token used", "ended"} {
		script := ""
		for i := range mostAttempts {
			script += fmt.Sprintf("launch gpu-[1-2] %s 2 %c → %s\n", two, 'A'+i, word)
		}
		want := map[string]string{"token used": " IdempotentParameterMismatch", "ended": " failed"}[word]
		if got := came(session(t, ready(t, newFacts(twoReservations()), pair()), nil, script)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Nodes of one-node groups share a call: those for which there is room are launched, and the rest is
// asked for again, there and then elsewhere.
func TestLaunchOfSharedCalls(t *testing.T) {
	single := func(n int) group {
		node := fmt.Sprintf("gpu-%d", n)
		return group{nodes: []string{node}, jobs: []capacity.Job{nlp(n, node)}}
	}
	s := session(t, ready(t, newFacts(twoReservations()), single(1), single(2)), nil, `
		launch gpu-[1-2] `+two+` 2 A → one
		launch gpu-2 `+two+` 2 B → no room
		mark-full `+two+` 1
		launch gpu-2 `+one+` 1 C → refused
		set-addresses gpu-1
		tell resume ok gpu-1;`)
	if got := came(s); got != "gpu-1;  UnauthorizedOperation" {
		t.Error(got)
	}
}

// A node has what an earlier run launched for it if that is one instance, of this power-up, in a
// reservation that it may have. Of two nobody knows which one Slurm waits for: both end.
func TestAdopt(t *testing.T) {
	instance := func(id string, after time.Duration, reservation string) capacity.Instance {
		return capacity.Instance{ID: id, PrivateIP: "10.0.0.2", Launched: noon.Add(after), Tags: map[string]string{capacity.TagReservation: reservation}}
	}
	nodes := []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6"}
	known := func(reservations ...string) launching {
		f := newFacts(twoReservations())
		f.began = noon.Add(-clockSlack)
		f.live = map[string][]capacity.Instance{
			"gpu-1": {instance("i-1", time.Second, one)},
			"gpu-2": {instance("i-2", time.Second, one), instance("i-2b", time.Second, one)},
			"gpu-3": {instance("i-3", -time.Minute, one)},
			"gpu-4": {instance("i-4", time.Second, ended)},
			"gpu-5": {instance("i-5", -clockSlack, one)},
		}
		at := f.place(t, "gpu-1")
		p := part{place: at, nodes: nodes, targets: []target{{reservationID: one, subnetID: subnet1, azID: "az1", instanceType: wanted}}}
		return launching{facts: f, what: unit{groups: []group{{nodes: nodes, jobs: []capacity.Job{nlp(1, nodes...)}}}, parts: []part{p}}}
	}
	s := session(t, known(), nil, `
		adopt gpu-[1,5]
		terminate i-2,i-2b,i-3,i-4
		launch gpu-[2-4,6] `+one+` 1 A
		set-addresses gpu-[1-6]
		tell resume ok gpu-[1-6];`)
	if s.outcomes[0].launched["gpu-1"].instance.ID != "i-1" || s.outcomes[0].launched["gpu-2"].instance.ID != "i-gpu-2" {
		t.Errorf("%+v", s.outcomes)
	}
	s = session(t, known(), nil, `
		adopt gpu-[1,5]
		terminate i-2,i-2b,i-3,i-4 → unknown`)
	if got := came(s); got != "gpu-1,gpu-5 failed" {
		t.Errorf("what is older could not be ended: %s", got)
	}
}

// holdingFacts are of a slot on demand in two zones, for whose jobs capacity is held.
func holdingFacts() *facts {
	f := newFacts(holdingSnapshot())
	price := map[string]capacity.Money{}
	f.settings.Reserve = capacity.Reserve{Enabled: true, MaxInstances: 8, Prices: price}
	return f
}

// What is held for a launch is in the ledger before it is ordered and until it is known to be gone, is
// launched into, and is given back if nothing runs there.
func TestHoldStories(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   string
		holds  int
	}{
		"it is done": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A
			enlist 2 A held-in-az1
			launch gpu-[1-2] held-in-az1 1 B
			set-addresses gpu-[1-2]
			tell resume ok gpu-[1-2];`, "gpu-1,gpu-2", 1},
		"nobody knows what the image runs": {"ask-image → unknown", " failed", 0},
		"the first zone has no room": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A → no room
			unlist A
			enlist 2 B
			hold 2 p5 az2 B
			enlist 2 B held-in-az2
			launch gpu-[1-2] held-in-az2 2 C
			set-addresses gpu-[1-2]
			tell resume ok gpu-[1-2];`, "gpu-1,gpu-2", 1},
		"no zone has room": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A → no room
			unlist A
			enlist 2 B
			hold 2 p5 az2 B → no room
			unlist B`, " InsufficientInstanceCapacity", 0},
		"no more may be held": {`
			ask-image
			enlist 2 A → limit
			enlist 2 B → limit`, " reserve-limit", 0},
		"there is no ledger": {`
			ask-image
			enlist 2 A → unknown`, " failed", 0},
		"EC2 refuses the hold": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A → refused
			unlist A`, " UnauthorizedOperation", 0},
		"nobody knows whether it is held": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A → unknown`, " failed", 0},
		"there is no time to hold": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A → no time
			unlist A`, " interrupted", 0},
		"EC2 answers with what was given back": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A → dead
			unlist A
			enlist 2 B
			hold 2 p5 az1 B → token used
			enlist 2 C
			hold 2 p5 az1 C
			enlist 2 C held-in-az1
			launch gpu-[1-2] held-in-az1 1 D
			set-addresses gpu-[1-2]
			tell resume ok gpu-[1-2];`, "gpu-1,gpu-2", 1},
		"the launch finds no room all the same": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A
			enlist 2 A held-in-az1
			launch gpu-[1-2] held-in-az1 1 B → no room
			release held-in-az1
			unlist A
			tell hold ok ;
			enlist 2 C
			hold 2 p5 az2 C
			enlist 2 C held-in-az2
			launch gpu-[1-2] held-in-az2 2 D
			set-addresses gpu-[1-2]
			tell resume ok gpu-[1-2];`, "gpu-1,gpu-2", 1},
		"the launch is refused": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A
			enlist 2 A held-in-az1
			launch gpu-[1-2] held-in-az1 1 B → refused
			release held-in-az1
			unlist A
			tell hold ok ;`, " UnauthorizedOperation", 0},
		"it cannot be given back": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A
			enlist 2 A held-in-az1
			launch gpu-[1-2] held-in-az1 1 B → no time
			release held-in-az1 → refused
			tell hold UnauthorizedOperation ;`, " interrupted", 0},
		"the token of the launch is used": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A
			enlist 2 A held-in-az1
			launch gpu-[1-2] held-in-az1 1 B → token used
			launch gpu-[1-2] held-in-az1 1 C
			set-addresses gpu-[1-2]
			tell resume ok gpu-[1-2];`, "gpu-1,gpu-2", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := session(t, ready(t, holdingFacts(), pair()), nil, c.script)
			if got := came(s); got != c.want || len(s.holds) != c.holds {
				t.Errorf("%q, want %q; holds %+v", got, c.want, s.holds)
			}
			for _, h := range s.holds {
				if h.launched.IsZero() || h.since.IsZero() || len(h.instances) != 2 || h.token == "" || h.Total != 2 {
					t.Errorf("%+v", h)
				}
			}
		})
	}
}

// A hold and its repetition are one order: EC2 binds a token to the end, which the ledger knows.
func TestHoldIsRepeated(t *testing.T) {
	until := noon.Add(20 * time.Minute)
	s := session(t, ready(t, holdingFacts(), pair()), map[string]Answer{"known": {Held: capacity.Held{Until: until}}}, `
		ask-image
		enlist 2 A → known
		hold 2 p5 az1 A → refused
		unlist A`)
	if !s.order.End.Equal(until) {
		t.Errorf("the end is %s", s.order.End)
	}
}

// What could be held nowhere is said with all places.
func TestNowhere(t *testing.T) {
	s := session(t, ready(t, holdingFacts(), pair()), nil, `
		ask-image
		enlist 2 A
		hold 2 p5 az1 A → no room
		unlist A
		enlist 2 B
		hold 2 p5 az2 B → no room
		unlist B`)
	want := "nothing could be held for all 2 nodes at once in p5.48xlarge in az1, p5.48xlarge in az2: We have none."
	if f := s.outcomes[0].failure; f.Message != want || !f.is(capacity.NoRoom) || f.EC2Code != "InsufficientInstanceCapacity" {
		t.Errorf("%+v", f)
	}
}

// A job over two node groups is launched in one zone that has room for both, or not at all.
func TestPartsInOneZone(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   string
	}{
		"the first zone": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A
			enlist 2 A held-in-az1
			launch gpu-[1-2] held-in-az1 1 B
			ask-image
			enlist 1 C
			hold 1 p5e az1 C
			enlist 1 C held-in-az1
			launch big-1 held-in-az1 1 D
			set-addresses big-1,gpu-[1-2]
			tell resume ok big-1,gpu-[1-2];`, "big-1,gpu-1,gpu-2"},
		"the first has room for one of two": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A
			enlist 2 A held-in-az1
			launch gpu-[1-2] held-in-az1 1 B
			ask-image
			enlist 1 C
			hold 1 p5e az1 C → no room
			unlist C
			terminate i-gpu-1,i-gpu-2
			ask-image
			enlist 2 D
			hold 2 p5 az2 D
			enlist 2 D held-in-az2
			launch gpu-[1-2] held-in-az2 2 E
			ask-image
			enlist 1 F
			hold 1 p5e az2 F
			enlist 1 F held-in-az2
			launch big-1 held-in-az2 2 G
			set-addresses big-1,gpu-[1-2]
			tell resume ok big-1,gpu-[1-2];`, "big-1,gpu-1,gpu-2"},
		"what was launched does not end": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A
			enlist 2 A held-in-az1
			launch gpu-[1-2] held-in-az1 1 B
			ask-image
			enlist 1 C
			hold 1 p5e az1 C → no room
			unlist C
			terminate i-gpu-1,i-gpu-2 → unknown`, "gpu-1,gpu-2 failed"},
		"no zone has room": {`
			ask-image
			enlist 2 A
			hold 2 p5 az1 A → no room
			unlist A
			ask-image
			enlist 2 B
			hold 2 p5 az2 B → no room
			unlist B`, " InsufficientInstanceCapacity"},
	} {
		t.Run(name, func(t *testing.T) {
			f := holdingFacts()
			more := f.snap.Partitions[0].Groups[0]
			more.Name, more.InstanceType, more.Slots = "big", second, []capacity.Slot{{Name: "big"}}
			f.snap.Partitions[0].Groups = append(f.snap.Partitions[0].Groups, more)
			f.settings.Partitions[0].Groups = append(f.settings.Partitions[0].Groups, capacity.GroupSettings{Name: "big", MaxNodes: 8})
			g := group{nodes: []string{"gpu-1", "gpu-2", "big-1"}, jobs: []capacity.Job{nlp(1, "big-1", "gpu-1", "gpu-2")}}
			s := session(t, ready(t, f, g), nil, c.script)
			if got := came(s); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// What is held is given back when its instances run, or one is gone, or there is no time left; not
// because EC2 does not show them yet.
func TestReleaseStories(t *testing.T) {
	h := func(id string) held {
		return held{Reservation: capacity.Reservation{ID: id, Total: 1, InstanceType: wanted, AZID: "az1"}, token: "token of " + id, since: noon, launched: noon.Add(time.Second), instances: []string{"i-" + id}}
	}
	for name, script := range map[string]string{
		"they run": `
			ask-states i-a,i-b
			release a,b
			unlist A
			tell hold ok ;
			unlist B
			tell hold ok ;`,
		"later": `
			ask-states i-a,i-b → not shown
			wait
			ask-states i-a,i-b → unknown
			wait
			ask-states i-a,i-b → pending
			wait
			ask-states i-a,i-b
			release a,b
			unlist A
			tell hold ok ;
			unlist B
			tell hold ok ;`,
		"one is gone": `
			ask-states i-a,i-b → pending
			wait
			ask-states i-a,i-b → a is gone
			release a
			unlist A
			tell hold ok ;
			wait
			ask-states i-b → shutting-down
			release b → unknown
			tell hold failed ;`,
		"there is no time": `
			ask-states i-a,i-b → no time
			release a,b
			unlist A
			tell hold ok ;
			unlist B
			tell hold ok ;`,
	} {
		t.Run(name, func(t *testing.T) {
			session(t, releasing{waiting: []held{h("a"), h("b")}}, map[string]Answer{"a is gone": {States: map[string]string{"i-b": "pending"}}}, script)
		})
	}
	session(t, releasing{}, nil, "")
}
