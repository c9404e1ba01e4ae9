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

func pair() group {
	return group{nodes: []string{"gpu-1", "gpu-2"}, jobs: []capacity.Job{nlp(1, "gpu-1", "gpu-2")}}
}

func single(n int) group {
	node := fmt.Sprintf("gpu-%d", n)
	return group{nodes: []string{node}, jobs: []capacity.Job{nlp(n, node)}}
}

// launches launches groups that are one unit, and words what came of each: its nodes, and its failure.
func launches(t *testing.T, w *fake, f *facts, groups ...group) (came string, outcomes []outcome, held []odcr) {
	t.Helper()
	units, refused := f.plan(groups)
	if len(units) != 1 || len(refused) != 0 {
		t.Fatalf("%d units, refused %+v", len(units), refused)
	}
	outcomes, held = launch(w, begun(w, f), units[0])
	var all []string
	for _, o := range outcomes {
		text := strings.Join(slices.Sorted(maps.Keys(o.launched)), ",")
		if o.failure != nil {
			text += " " + o.failure.Code
		}
		all = append(all, text)
	}
	return strings.Join(all, "; "), outcomes, held
}

// has gives the World, and the facts, an instance from before the call.
func (w *fake) has(f *facts, id, node string, after time.Duration, reservation string) {
	i := &capacity.Instance{ID: id, PrivateIP: "10.0.1.1", State: "running", Launched: noon.Add(after), ReservationID: reservation,
		Tags: map[string]string{capacity.TagCluster: "ml", capacity.TagNode: node, capacity.TagReservation: reservation}}
	w.instances[id] = i
	if f != nil {
		f.see([]capacity.Instance{*i})
	}
}

// done is the end of a launch of the pair.
const done = `
	address gpu-[1-2]
	record resume ok gpu-[1-2];`

// What a launch into reservations does.
func TestLaunchStories(t *testing.T) {
	const both = `
		launch gpu-[1-2] ` + two + ` 2 A → no room
		launch gpu-[1-2] ` + one + ` 1 B → no room`
	for name, c := range map[string]struct {
		change func(*fake, *facts)
		script string
		want   string
	}{
		"it is done": {nil, `launch gpu-[1-2] ` + two + ` 2 A` + done, "gpu-1,gpu-2"},
		"the first reservation is full": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → no room
			launch gpu-[1-2] ` + one + ` 1 B` + done, "gpu-1,gpu-2"},
		"both are": {nil, both, " InsufficientInstanceCapacity"},
		"nobody knows whether it is full": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → no query
			launch gpu-[1-2] ` + one + ` 1 B` + done, "gpu-1,gpu-2"},
		"a token is used": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → token used
			launch gpu-[1-2] ` + two + ` 2 B → ended
			launch gpu-[1-2] ` + two + ` 2 C` + done, "gpu-1,gpu-2"},
		"EC2 refuses":       {nil, "launch gpu-[1-2] " + two + " 2 A → refused", " UnauthorizedOperation"},
		"nobody knows":      {nil, "launch gpu-[1-2] " + two + " 2 A → unknown", " failed"},
		"there is no time":  {func(w *fake, _ *facts) { w.stop() }, "", " interrupted"},
		"too few instances": {nil, "launch gpu-[1-2] " + two + " 2 A → one", "gpu-1 failed"},
		"an instance without an address": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → no address`, "gpu-1,gpu-2 failed"},
		"Slurm takes the addresses late": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A
			address gpu-[1-2] → unknown` + done, "gpu-1,gpu-2"},
		"Slurm does not take the addresses": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A` + strings.Repeat("\naddress gpu-[1-2] → unknown", 15), "gpu-1,gpu-2 failed"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				f := newFacts(twoReservations())
				if c.change != nil {
					c.change(w, f)
				}
				if got, _, _ := launches(t, w, f, pair()); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
				for _, r := range w.records {
					if len(r.Instances) != 2 || !strings.HasPrefix(r.Instances[1], "i-gpu-2-") || r.Reservation == "" || r.Partition != "gpu" || r.Jobs[0] != "1" {
						t.Errorf("%+v", r)
					}
				}
				for _, l := range w.launches {
					if l.Count != 2 || l.Least != 2 || l.Kind != capacity.ODCR || l.LaunchTemplate != "lt-1:1" || l.Tags[capacity.TagCluster] != "ml" || l.Tags[capacity.TagReservation] != l.ReservationID {
						t.Errorf("%+v", l)
					}
				}
			})
		})
	}
}

// Ten attempts, each with another token.
func TestLaunchAttempts(t *testing.T) {
	for word, want := range map[string]string{"token used": "IdempotentParameterMismatch: It is used.", "ended": "failed: 10 launches of gpu-[1-2] have ended already"} {
		script := ""
		for i := range mostAttempts {
			script += fmt.Sprintf("launch gpu-[1-2] %s 2 %c → %s\n", two, 'A'+i, word)
		}
		story(t, script, func(t *testing.T, w *fake) {
			if _, outcomes, _ := launches(t, w, newFacts(twoReservations()), pair()); outcomes[0].failure.Error() != want {
				t.Errorf("%v, want %s", outcomes[0].failure, want)
			}
		})
	}
}

// Nodes of one-node groups share a call: those for which there is room are launched, and the rest is
// asked for again, there and then elsewhere.
func TestLaunchOfSharedCalls(t *testing.T) {
	story(t, `
		launch gpu-[1-2] `+two+` 2 A → one
		launch gpu-2 `+two+` 2 B → no room
		launch gpu-2 `+one+` 1 C → refused
		address gpu-1
		record resume ok gpu-1;`, func(t *testing.T, w *fake) {
		if got, _, _ := launches(t, w, newFacts(twoReservations()), single(1), single(2)); got != "gpu-1;  UnauthorizedOperation" {
			t.Error(got)
		}
		if l := w.launches[0]; l.Count != 2 || l.Least != 1 {
			t.Errorf("%d of %d", l.Least, l.Count)
		}
	})
	for index, fits := range map[int]bool{-1: false, 0: true, 1: true, 2: false} {
		if _, failure := byNode([]string{"gpu-1", "gpu-2"}, []capacity.Instance{{LaunchIndex: index}}, 1); (failure == nil) != fits {
			t.Errorf("launch index %d: %v", index, failure)
		}
	}
}

// A node has what an earlier run launched for it if that is one instance, of this power-up, in a
// reservation that it may have. Of two nobody knows which one Slurm waits for: both end.
func TestAdopt(t *testing.T) {
	for script, want := range map[string]string{`
		terminate i-2,i-2b,i-3,i-4
		launch gpu-[2-4,6] ` + one + ` 1 A
		address gpu-[1-6]
		record resume ok gpu-[1-6];`: "i-1 i-gpu-2-A i-gpu-3-A i-gpu-4-A i-5 i-gpu-6-A",
		"terminate i-2,i-2b,i-3,i-4 → unknown": "failed i-1 i-5"} {
		story(t, script, func(t *testing.T, w *fake) {
			snap := twoReservations()
			snap.Reservations[0].Available, snap.Reservations[0].Total = 8, 8
			snap.Partitions[0].Groups[0].Slots[0].ReservationIDs = []string{one}
			f := newFacts(snap)
			w.has(f, "i-1", "gpu-1", time.Second, one)
			w.has(f, "i-2", "gpu-2", time.Second, one)
			w.has(f, "i-2b", "gpu-2", time.Second, one)
			w.has(f, "i-3", "gpu-3", -time.Minute, one)
			w.has(f, "i-4", "gpu-4", time.Second, ended)
			w.has(f, "i-5", "gpu-5", -clockSlack, one)
			nodes := []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6"}
			_, outcomes, _ := launches(t, w, f, group{nodes: nodes, jobs: []capacity.Job{nlp(1, nodes...)}})
			var got []string
			if outcomes[0].failure != nil {
				got = append(got, outcomes[0].failure.Code)
			}
			for _, n := range nodes {
				if l, ok := outcomes[0].launched[n]; ok {
					got = append(got, l.instance.ID)
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%q, want %s", got, want)
			}
		})
	}
}

// holdingFacts are of a slot on demand in two zones, for whose jobs capacity is held.
func holdingFacts() *facts {
	f := newFacts(onDemand())
	f.snap.Partitions[0].Groups[0].Reserve = capacity.ReservePerJob
	f.settings.Reserve = capacity.Reserve{MaxInstances: 8}
	return f
}

// What is held for a launch is in the ledger before it is ordered and until it is known to be gone, is
// launched into, and is given back if nothing runs there.
func TestHoldStories(t *testing.T) {
	const order = `
			ask-image
			enlist 2 A
			odcr 2 p5 az1 A`
	const held = order + `
			enlist 2 A cr-A
			launch gpu-[1-2] cr-A 1 B`
	const cancelled = `
			cancel-odcr cr-A
			unlist A
			record hold ok ;`
	none := func(f *facts) { f.settings.Reserve.MaxInstances = 1 }
	for name, c := range map[string]struct {
		script string
		want   string
		holds  int
		change func(*facts)
	}{
		"it is done":                       {held + done, "gpu-1,gpu-2", 1, nil},
		"nobody knows what the image runs": {"ask-image → unknown", " failed", 0, nil},
		"the platform is known": {strings.Replace(held, "ask-image", "", 1) + done, "gpu-1,gpu-2", 1,
			func(f *facts) { f.snap.Partitions[0].Groups[0].Platform = capacity.LinuxUNIX }},
		"the first zone has no room": {order + ` → no room
			unlist A
			ask-image
			enlist 2 B
			odcr 2 p5 az2 B
			enlist 2 B cr-B
			launch gpu-[1-2] cr-B 2 C` + done, "gpu-1,gpu-2", 1, nil},
		"no zone has room": {order + ` → no room
			unlist A
			ask-image
			enlist 2 B
			odcr 2 p5 az2 B → no room
			unlist B`, " InsufficientInstanceCapacity", 0, nil},
		"no more may be held": {`
			ask-image
			enlist 2 A
			ask-image
			enlist 2 B`, " reserve-limit", 0, none},
		"there is no ledger": {`
			ask-image
			enlist 2 A → unknown`, " failed", 0, nil},
		"EC2 refuses the hold":            {order + " → refused\nunlist A", " UnauthorizedOperation", 0, nil},
		"nobody knows whether it is held": {order + " → unknown", " failed", 0, nil},
		"there is no time to hold": {`
			ask-image
			enlist 2 A → then no time
			unlist A`, " interrupted", 0, nil},
		"EC2 answers with what was given back": {order + ` → dead
			unlist A
			enlist 2 B
			odcr 2 p5 az1 B → token used
			enlist 2 C
			odcr 2 p5 az1 C
			enlist 2 C cr-C
			launch gpu-[1-2] cr-C 1 D` + done, "gpu-1,gpu-2", 1, nil},
		"the launch finds no room all the same": {held + ` → no room` + cancelled + `
			ask-image
			enlist 2 C
			odcr 2 p5 az2 C
			enlist 2 C cr-C
			launch gpu-[1-2] cr-C 2 D` + done, "gpu-1,gpu-2", 1, nil},
		"the launch is refused": {held + " → refused" + cancelled, " UnauthorizedOperation", 0, nil},
		"it cannot be given back": {held + ` → refused
			cancel-odcr cr-A → refused
			record hold UnauthorizedOperation ;`, " UnauthorizedOperation", 0, nil},
		"the token of the launch is used": {held + ` → token used
			launch gpu-[1-2] cr-A 1 C` + done, "gpu-1,gpu-2", 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				f := holdingFacts()
				if c.change != nil {
					c.change(f)
				}
				got, outcomes, holds := launches(t, w, f, pair())
				if f := outcomes[0].failure; name == "no zone has room" && f.Message != "nothing could be held for all 2 nodes at once in p5.48xlarge in az1, p5.48xlarge in az2: We have none." {
					t.Errorf("%+v", f)
				}
				if got != c.want || len(holds) != c.holds {
					t.Errorf("%q, want %q; holds %+v", got, c.want, holds)
				}
				for _, h := range holds {
					if h.launched.IsZero() || h.since.IsZero() || len(h.instances) != 2 || h.token == "" || h.Total != 2 || h.partition != "gpu" {
						t.Errorf("%+v", h)
					}
				}
				for _, l := range w.launches {
					if _, tagged := l.Tags[capacity.TagReservation]; tagged || !l.Fresh || l.Kind != capacity.ODCR { // it is cancelled soon and backs nothing
						t.Errorf("%+v", l)
					}
				}
				for _, o := range w.orders {
					if o.Tags[capacity.TagHold] != "jobs 1/0" || o.Tags[capacity.TagName] != "held for gpu-[1-2]" || o.Platform != "Linux/UNIX" || !o.End.Equal(noon.Add(capacity.HoldTime)) {
						t.Errorf("%+v", o)
					}
				}
			})
		})
	}
}

// A hold and its repetition are one order: EC2 binds a token to the end, which the ledger knows.
func TestHoldIsRepeated(t *testing.T) {
	script := `
		ask-image
		enlist 2 A
		odcr 2 p5 az1 A → lost
		ask-image
		enlist 2 A
		odcr 2 p5 az1 A
		enlist 2 A cr-A
		launch gpu-[1-2] cr-A 1 B` + done
	story(t, script, func(t *testing.T, w *fake) {
		for _, now := range []time.Duration{0, time.Minute} {
			f := holdingFacts()
			f.now = noon.Add(now)
			launches(t, w, f, pair())
		}
		if len(w.orders) != 2 || !w.orders[1].End.Equal(noon.Add(capacity.HoldTime)) {
			t.Errorf("%+v", w.orders)
		}
	})
}

// A job over two node groups is launched in one zone that has room for both, or not at all.
func TestPartsInOneZone(t *testing.T) {
	const first = `
			ask-image
			enlist 2 A
			odcr 2 p5 az1 A
			enlist 2 A cr-A
			launch gpu-[1-2] cr-A 1 B
			ask-image
			enlist 1 C
			odcr 1 p5e az1 C`
	for name, c := range map[string]struct {
		script string
		want   string
	}{
		"the first zone": {first + `
			enlist 1 C cr-C
			launch big-1 cr-C 1 D
			address big-1,gpu-[1-2]
			record resume ok gpu-[1-2]; resume ok big-1;`, "big-1,gpu-1,gpu-2"},
		"the first has room for one of two": {first + ` → no room
			unlist C
			terminate i-gpu-1-B,i-gpu-2-B
			ask-image
			enlist 2 D
			odcr 2 p5 az2 D
			enlist 2 D cr-D
			launch gpu-[1-2] cr-D 2 E
			ask-image
			enlist 1 F
			odcr 1 p5e az2 F
			enlist 1 F cr-F
			launch big-1 cr-F 2 G
			address big-1,gpu-[1-2]
			record resume ok gpu-[1-2]; resume ok big-1;`, "big-1,gpu-1,gpu-2"},
		"what was launched does not end": {first + ` → no room
			unlist C
			terminate i-gpu-1-B,i-gpu-2-B → unknown`, "gpu-1,gpu-2 failed"},
		"no zone has room": {`
			ask-image
			enlist 2 A
			odcr 2 p5 az1 A → no room
			unlist A
			ask-image
			enlist 2 B
			odcr 2 p5 az2 B → no room
			unlist B`, " InsufficientInstanceCapacity"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				f := holdingFacts()
				more := f.snap.Partitions[0].Groups[0]
				more.Name, more.InstanceType, more.Slots = "big", second, []capacity.Slot{{Name: "big"}}
				f.snap.Partitions[0].Groups = append(f.snap.Partitions[0].Groups, more)
				f.settings.Partitions[0].Groups = append(f.settings.Partitions[0].Groups, capacity.GroupSettings{Name: "big", MaxNodes: 8})
				g := group{nodes: []string{"gpu-1", "gpu-2", "big-1"}, jobs: []capacity.Job{nlp(1, "big-1", "gpu-1", "gpu-2")}}
				if got, _, _ := launches(t, w, f, g); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		})
	}
}

// What is held is given back when its instances run, or one is gone, or there is no time left; not
// because EC2 does not show them yet.
func TestLetGoStories(t *testing.T) {
	h := func(id string) odcr {
		return odcr{Reservation: capacity.Reservation{ID: id, Total: 1, InstanceType: wanted, AZID: "az1"}, token: "token of " + id, since: noon, launched: noon.Add(time.Second), instances: []string{"i-" + id}}
	}
	const both = `
			cancel-odcr a
			cancel-odcr b
			unlist A
			record hold ok ;
			unlist B
			record hold ok ;`
	for name, script := range map[string]string{
		"they run": "ask-states i-a,i-b" + both,
		"later": `
			ask-states i-a,i-b → not shown
			ask-states i-a,i-b → unknown
			ask-states i-a,i-b → pending
			ask-states i-a,i-b` + both,
		"one is gone": `
			ask-states i-a,i-b → pending
			ask-states i-a,i-b → a is gone
			cancel-odcr a
			unlist A
			record hold ok ;
			ask-states i-b → b ends
			cancel-odcr b → unknown
			record hold failed ;`,
		"there is no time": "ask-states i-a,i-b → then no time" + both,
	} {
		t.Run(name, func(t *testing.T) {
			story(t, script, func(t *testing.T, w *fake) {
				w.has(nil, "i-a", "gpu-1", 0, "")
				w.has(nil, "i-b", "gpu-2", 0, "")
				words := w.word
				w.word = func(line string) string {
					word := words(line)
					switch word {
					case "a is gone":
						delete(w.instances, "i-a")
						w.instances["i-b"].State = "pending"
					case "b ends":
						w.instances["i-b"].State = "shutting-down"
					case "then no time":
						w.instances["i-b"].State = "pending"
					}
					return word
				}
				c := begun(w, newFacts(nil))
				c.letGo(w, []odcr{h("a"), h("b")})
				c.letGo(w, nil)
			})
		})
	}
}

// How long an ODCR was held for nothing is in its record.
func TestRecordsOfHeldCapacity(t *testing.T) {
	h := odcr{Reservation: capacity.Reservation{ID: one, InstanceType: wanted, AZID: "az1", Total: 2, End: noon.Add(time.Hour)}, token: "t", partition: "gpu", jobs: []string{"1"}, since: noon.Add(-time.Hour)}
	launched := h
	launched.launched = noon.Add(-30 * time.Minute)
	refused := &Failure{Code: "x", EC2Code: "y", Message: "no"}
	const base = "held 2 × p5.48xlarge in az1 for 1h0m0s, idle for "
	const left = "; it could not be cancelled: no; EC2 ends it at 2000-01-01 01:00 UTC, or up to an hour later; until then places that are free are paid"
	for name, c := range map[string]struct {
		h    odcr
		why  *Failure
		want string
		code string
	}{
		"nothing ran":   {h, nil, base + "1h0m0s", "ok"},
		"it was used":   {launched, nil, base + "30m0s", "ok"},
		"not cancelled": {h, refused, base + "1h0m0s" + left, "x"},
	} {
		if r := c.h.record(noon, c.why); r.Message != c.want || r.Code != c.code || r.Reservation != one || r.Partition != "gpu" || r.Jobs[0] != "1" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// onDemand is a slot on demand with a subnet in each of two zones.
func onDemand() *capacity.Snapshot {
	snap := twoReservations()
	g := &snap.Partitions[0].Groups[0]
	g.PurchaseOption, g.Slots[0].ReservationIDs = capacity.OnDemand, nil
	g.Subnets = g.Subnets[:2]
	return snap
}
