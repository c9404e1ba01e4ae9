package power

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
)

// groupOf is the group of a job, by its number, on some of the nodes gpu-1, gpu-2, …
func groupOf(job int, nodes ...int) group {
	var names []string
	for _, n := range nodes {
		names = append(names, fmt.Sprintf("gpu-%d", n))
	}

	return group{nodes: names, jobs: []capacity.Job{nlp(job, names...)}}
}

func pair() group { return groupOf(1, 1, 2) }

// launches launches groups that share calls, and returns the ODCRs that are held for it.
func launches(t *testing.T, w *fake, f launchFacts, groups ...group) []odcr {
	t.Helper()

	for _, g := range groups {
		w.queue(g.jobs...)
	}

	l := begun(w, f)

	ready, unplaced := f.plan(groups, map[string]int{})
	if len(ready) != 1 || len(unplaced) != 0 {
		t.Fatalf("%d lists of groups, unplaced %+v", len(ready), unplaced)
	}

	held, _ := l.launch(ready[0], time.Time{})

	return held
}

// failing is the end of a launch of the pair that fails with a code; done that of one that does not.
func failing(code string) string {
	if code == "" {
		return done
	}
	return failed(code, "gpu-[1-2]", "1")
}

// failed is the end of launches that fail with a code.
func failed(code, nodes string, jobs ...string) string {
	return "\nrecord resume " + code + " " + nodes + "\nnotify " + strings.Join(jobs, "\nnotify ") +
		"\npower down by force " + nodes + "\nadmin comment " + strings.Join(jobs, ",")
}

// has gives the World, and the facts, an instance from before the call.
func (w *fake) has(f *launchFacts, id, node string, after time.Duration, reservation string) *capacity.Instance {
	w.Instances = append(
		w.Instances,
		capacity.Instance{
			ID:            id,
			PrivateIP:     "10.0.1.1",
			State:         "running",
			Launched:      noon.Add(after),
			ReservationID: reservation,
			Tags: map[string]string{
				capacity.TagCluster:     "ml",
				capacity.TagNode:        node,
				capacity.TagReservation: reservation,
			},
		},
	)
	if f != nil {
		f.live = liveByNode(capacity.WithNodes(w.Instances))
	}

	return &w.Instances[len(w.Instances)-1]
}

// done is the end of a launch of the pair.
const done = `
	set addresses gpu-[1-2]
	record resume ok gpu-[1-2]`

// What a launch into reservations does.
func TestLaunchStories(t *testing.T) {
	const both = `
		launch gpu-[1-2] ` + two + ` 2 A → no room
		launch gpu-[1-2] ` + one + ` 1 B → no room`
	for name, c := range map[string]struct {
		change func(*fake)
		script string
		want   string
	}{
		"it is done": {nil, `launch gpu-[1-2] ` + two + ` 2 A`, ""},
		"the first reservation is full": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → no room
			launch gpu-[1-2] ` + one + ` 1 B`, ""},
		"both are": {nil, both, "InsufficientInstanceCapacity"},
		"nobody knows whether it is full": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → no query
			launch gpu-[1-2] ` + one + ` 1 B`, ""},
		"a token is used": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → token used
			launch gpu-[1-2] ` + two + ` 2 B → ended
			launch gpu-[1-2] ` + two + ` 2 C`, ""},
		"EC2 refuses": {nil, "launch gpu-[1-2] " + two + " 2 A → refused", "UnauthorizedOperation"},
		"EC2 throttles, then does not answer, then answers": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → throttled
			launch gpu-[1-2] ` + two + ` 2 A → throttled
			launch gpu-[1-2] ` + two + ` 2 A → lost
			launch gpu-[1-2] ` + two + ` 2 A`, ""},
		"EC2 throttles for the whole time": {
			nil,
			strings.Repeat("launch gpu-[1-2] "+two+" 2 A → throttled\n", 8),
			"RequestLimitExceeded",
		},
		"nobody knows":      {nil, strings.Repeat("launch gpu-[1-2] "+two+" 2 A → unknown\n", 8), "failed"},
		"there is no time":  {func(w *fake) { w.stop() }, "", "interrupted"},
		"too few instances": {nil, "launch gpu-[1-2] " + two + " 2 A → one", "failed"},
		"an instance without an address": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A → no address`, "failed"},
		"Slurm takes the addresses late": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A
			set addresses gpu-[1-2] → unknown`, ""},
		"Slurm does not take the addresses": {nil, `
			launch gpu-[1-2] ` + two + ` 2 A` + strings.Repeat("\nset addresses gpu-[1-2] → unknown", 15), "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script+failing(c.want), func(t *testing.T, w *fake) {
				if c.change != nil {
					c.change(w)
				}

				launches(t, w, newFacts(twoReservations()), pair())

				newest := fmt.Sprintf("i-%d", w.IDs)
				for _, r := range w.kept(t) {
					whole := len(r.Instances) == 2 && r.Instances[1] == newest && r.Reservation != ""
					if r.Code == "ok" && !whole || r.Partition != "gpu" || r.Jobs[0] != "1" {
						t.Errorf("%+v", r)
					}
				}

				for _, l := range w.launches {
					if l.Count != 2 || l.Kind != capacity.ODCR || l.LaunchTemplate != "lt-1:1" ||
						l.Tags[capacity.TagCluster] != "ml" ||
						l.Tags[capacity.TagReservation] != l.ReservationID {
						t.Errorf("%+v", l)
					}
				}
			})
		})
	}
}

// Ten attempts, each with another token.
func TestLaunchAttempts(t *testing.T) {
	for word, want := range map[string]string{
		"token used": "IdempotentParameterMismatch It is used",
		"ended":      "failed 10 launches of gpu-[1-2] have ended already",
	} {
		script := ""
		for i := range maxAttempts {
			script += fmt.Sprintf("launch gpu-[1-2] %s 2 %c → %s\n", two, 'A'+i, word)
		}

		code, _, _ := strings.Cut(want, " ")
		story(t, script+failing(code), func(t *testing.T, w *fake) {
			launches(t, w, newFacts(twoReservations()), pair())

			if r := w.kept(t)[0]; r.Code+" "+r.Message != want {
				t.Errorf("%+v, want %s", r, want)
			}
		})
	}
}

// Groups share a call while there is room for all of them, and then by halves. What no group gets in one place it is
// asked for in the next. What is wrong with a call is wrong for all of its groups; what is wrong with an instance, for its
// own.
func TestLaunchOfSharedCalls(t *testing.T) {
	pairs := []group{groupOf(1, 1, 4), groupOf(2, 2, 3), groupOf(3, 5, 6), groupOf(4, 7, 8)}
	for name, c := range map[string]struct {
		groups []group
		script string
	}{
		"for all": {pairs, `
			launch gpu-[1-8] ` + two + ` 2 A
			set addresses gpu-[1-8]
			record resume ok gpu-[1,4], resume ok gpu-[2-3], resume ok gpu-[5-6], resume ok gpu-[7-8]`},
		"for half, and for the others elsewhere": {pairs, `
			launch gpu-[1-8] ` + two + ` 2 A → no room
			launch gpu-[1-4] ` + two + ` 2 B
			set addresses gpu-[1-4]
			record resume ok gpu-[1,4], resume ok gpu-[2-3]
			launch gpu-[5-8] ` + two + ` 2 C → no room
			launch gpu-[5-6] ` + two + ` 2 D → no room
			launch gpu-[5-8] ` + one + ` 1 E
			set addresses gpu-[5-8]
			record resume ok gpu-[5-6], resume ok gpu-[7-8]`},
		"for small ones only": {[]group{groupOf(1, 1, 2, 3, 4), groupOf(2, 5, 6), groupOf(3, 7)}, `
			launch gpu-[1-7] ` + two + ` 2 A → no room
			launch gpu-[1-4] ` + two + ` 2 B → no room
			launch gpu-[5-7] ` + two + ` 2 C
			set addresses gpu-[5-7]
			record resume ok gpu-[5-6], resume ok gpu-7
			launch gpu-[1-4] ` + one + ` 1 D → no room` + failed("InsufficientInstanceCapacity", "gpu-[1-4]", "1")},
		"for none": {pairs, `
			launch gpu-[1-8] ` + two + ` 2 A → no room
			launch gpu-[1-4] ` + two + ` 2 B → no room
			launch gpu-[1,4] ` + two + ` 2 C → no room
			launch gpu-[1-8] ` + one + ` 1 D → no room
			launch gpu-[1-4] ` + one + ` 1 E → no room
			launch gpu-[1,4] ` + one + ` 1 F → no room` +
			failed("InsufficientInstanceCapacity", "gpu-[1-8]", "1", "2", "3", "4")},
		"refused": {pairs, `
			launch gpu-[1-8] ` + two + ` 2 A → refused` +
			failed("UnauthorizedOperation", "gpu-[1-8]", "1", "2", "3", "4")},
		"one instance has no address": {pairs, `
			launch gpu-[1-8] ` + two + ` 2 A → no address
			set addresses gpu-[2-3,5-8]
			record resume ok gpu-[2-3], resume ok gpu-[5-6], resume ok gpu-[7-8]` + failed("failed", "gpu-[1,4]", "1")},
		"the first half is refused": {pairs, `
			launch gpu-[1-8] ` + two + ` 2 A → no room
			launch gpu-[1-4] ` + two + ` 2 B → refused
			launch gpu-[5-8] ` + two + ` 2 C
			set addresses gpu-[5-8]
			record resume ok gpu-[5-6], resume ok gpu-[7-8]` +
			failed("UnauthorizedOperation", "gpu-[1-4]", "1", "2")},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				launches(t, w, newFacts(roomyReservations()), c.groups...)

				on := map[string]string{} // instances that run, by node
				for _, i := range capacity.WithNodes(w.Instances) {
					on[i.Tags[capacity.TagNode]] = i.ID
				}

				for _, r := range w.kept(t) {
					nodes, _ := hostlist.Expand(r.Nodes)
					for i, id := range r.Instances {
						if r.Code == "ok" && on[nodes[i]] != id {
							t.Errorf("%s has %s, and the record %+v", nodes[i], on[nodes[i]], r)
						}
					}
				}
			})
		})
	}

	for index, fits := range map[int]bool{-1: false, 0: true, 1: false} {
		s := &sharedLaunch{launched: map[string]launched{}}
		if err := s.assignByIndex(target{}, []string{"gpu-1"},
			[]capacity.Instance{{ID: "i-1", LaunchIndex: index, PrivateIP: "10.0.0.1"}}); (err == nil) != fits {
			t.Errorf("launch index %d: %v", index, err)
		}
	}
}

// A group that lacks fewer nodes than another, of which an earlier run has launched some, may find room where that one
// does not.
func TestLaunchOfWhatIsMissing(t *testing.T) {
	story(t, `
		launch gpu-[1-2,4] `+two+` 2 A → no room
		launch gpu-[1-2] `+two+` 2 B → no room
		launch gpu-4 `+two+` 2 C
		set addresses gpu-[3-4]
		record resume ok gpu-[3-4]
		launch gpu-[1-2] `+one+` 1 D
		set addresses gpu-[1-2]
		record resume ok gpu-[1-2]`, func(t *testing.T, w *fake) {
		f := newFacts(roomyReservations())
		w.has(&f, "i-3", "gpu-3", time.Second, two)
		launches(t, w, f, pair(), groupOf(2, 3, 4))
	})
}

// A node has what an earlier run launched for it if that is one instance, of this power-up, in a
// reservation that it may have. Of two nobody knows which one Slurm waits for: both end.
func TestAdopt(t *testing.T) {
	for script, want := range map[string]string{
		`
		terminate i-2,i-2b,i-3,i-4
		launch gpu-[2-4,6] ` + one + ` 1 A
		set addresses gpu-[1-6]
		record resume ok gpu-[1-6]`: "i-1 i-101 i-102 i-103 i-5 i-104",
		"terminate i-2,i-2b,i-3,i-4 → unknown\nterminate i-2,i-2b,i-3,i-4 → refused" + strings.ReplaceAll(
			failing("UnauthorizedOperation"), "[1-2]", "[1-6]"): "i-1 i-5",
	} {
		story(t, script, func(t *testing.T, w *fake) {
			snap := twoReservations()
			snap.Reservations[0].Available, snap.Reservations[0].Total = 8, 8
			snap.Partitions[0].Groups[0].Slots[0].ReservationIDs = []string{one}
			c := newFacts(snap)
			w.has(&c, "i-1", "gpu-1", time.Second, one)
			w.has(&c, "i-2", "gpu-2", time.Second, one)
			w.has(&c, "i-2b", "gpu-2", time.Second, one)
			w.has(&c, "i-3", "gpu-3", -time.Minute, one)
			w.has(&c, "i-4", "gpu-4", time.Second, ended)
			w.has(&c, "i-5", "gpu-5", -clockSlack, one)

			nodes := []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6"}
			launches(t, w, c, group{nodes: nodes, jobs: []capacity.Job{nlp(1, nodes...)}})

			if got := strings.Join(w.kept(t)[0].Instances, " "); got != want {
				t.Errorf("%q, want %s", got, want)
			}
		})
	}
}

// An instance of another cluster is neither adopted nor terminated, whatever its node is called.
func TestInstancesOfAnotherClusterAreNotOurs(t *testing.T) {
	w := newFake(t)
	w.has(nil, "i-1", "gpu-1", 0, one)

	w.has(nil, "i-2", "gpu-1", 0, one).Tags[capacity.TagCluster] = "other"

	found, err := w.hook(capacity.Settings{}).listInstances(t.Context(), "ml")
	if err != nil || len(found) != 1 || found[0].ID != "i-1" {
		t.Errorf("%+v, %v", found, err)
	}
}

// holdingFacts are of a slot on demand in two zones, for whose jobs capacity is held.
func holdingFacts() launchFacts {
	f := newFacts(onDemand())
	f.snap.Partitions[0].Groups[0].Reserve = capacity.ReservePerJob
	f.settings.Reserve = capacity.Reserve{MaxInstances: 8}
	return f
}

// What is held for a launch is in the ledger before it is ordered and until it is known to be gone, is
// launched into, and is given back if nothing runs there.
func TestHoldStories(t *testing.T) {
	const (
		order = `
			describe an image
			enlist 2 A
			create ODCR 2 p5.48xlarge az1 A`
		held = order + `
			enlist 2 A cr-A
			launch gpu-[1-2] cr-A 1 B`
		cancelled = `
			cancel reservation cr-A
			unlist A
			record hold ok`
	)

	none := func(f *launchFacts) { f.settings.Reserve.MaxInstances = 1 }
	for name, c := range map[string]struct {
		script string
		want   string
		holds  int
		change func(*launchFacts)
	}{
		"it is done": {held, "", 1, nil},
		"nobody may know what the image runs": {
			"describe an image → unknown\ndescribe an image → refused", "UnauthorizedOperation", 0, nil,
		},
		"the first zone has no room": {order + ` → no room
			unlist A
			describe an image
			enlist 2 B
			create ODCR 2 p5.48xlarge az2 B
			enlist 2 B cr-B
			launch gpu-[1-2] cr-B 2 C`, "", 1, nil},
		"no zone has room": {order + ` → no room
			unlist A
			describe an image
			enlist 2 B
			create ODCR 2 p5.48xlarge az2 B → no room
			unlist B`, "InsufficientInstanceCapacity", 0, nil},
		"no more may be held": {`
			describe an image
			enlist 2 A
			describe an image
			enlist 2 B`, "reserve-limit", 0, none},
		"there is no ledger": {`
			describe an image
			enlist 2 A → unknown`, "failed", 0, nil},
		"EC2 refuses the hold": {order + " → refused\nunlist A", "UnauthorizedOperation", 0, nil},
		"nobody knows whether it is held": {
			order + strings.Repeat(" → unknown\ncreate ODCR 2 p5.48xlarge az1 A", 7) + " → unknown",
			"failed",
			0,
			nil,
		},
		"there is no time to hold": {`
			describe an image → then no time`, "interrupted", 0, nil},
		"EC2 answers with what was given back": {order + ` → dead
			unlist A
			enlist 2 B
			create ODCR 2 p5.48xlarge az1 B → token used
			enlist 2 C
			create ODCR 2 p5.48xlarge az1 C
			enlist 2 C cr-C
			launch gpu-[1-2] cr-C 1 D`, "", 1, nil},
		"the launch finds no room all the same": {held + ` → no room` + cancelled + `
			describe an image
			enlist 2 C
			create ODCR 2 p5.48xlarge az2 C
			enlist 2 C cr-C
			launch gpu-[1-2] cr-C 2 D`, "", 1, nil},
		"the launch is refused": {held + " → refused" + cancelled, "UnauthorizedOperation", 0, nil},
		"it cannot be given back": {held + ` → refused
			cancel reservation cr-A → refused
			record hold UnauthorizedOperation`, "UnauthorizedOperation", 0, nil},
		"the token of the launch is used": {held + ` → token used
			launch gpu-[1-2] cr-A 1 C`, "", 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script+failing(c.want), func(t *testing.T, w *fake) {
				f := holdingFacts()
				if c.change != nil {
					c.change(&f)
				}

				holds := launches(t, w, f, pair())
				if len(holds) != c.holds {
					t.Errorf("holds %+v", holds)
				}

				for _, h := range holds {
					if h.launched.IsZero() || h.since.IsZero() || len(h.instances) != 2 || h.token == "" ||
						h.Total != 2 ||
						h.partition != "gpu" {
						t.Errorf("%+v", h)
					}
				}

				for _, l := range w.launches {
					if _, tagged := l.Tags[capacity.TagReservation]; tagged || !l.Fresh ||
						l.Kind != capacity.ODCR { // it is cancelled soon and backs nothing
						t.Errorf("%+v", l)
					}
				}

				for _, o := range w.orders {
					if o.Tags[capacity.TagHold] != "jobs 1/0" || o.Tags[capacity.TagName] != "held for gpu-[1-2]" ||
						o.Platform != "Linux/UNIX" ||
						!o.End.Equal(noon.Add(capacity.HoldTime)) {
						t.Errorf("%+v", o)
					}
				}
			})
		})
	}
}

// A hold that is only preferred does not keep a launch from EC2 when there is no room for it.
func TestPreferredHoldStories(t *testing.T) {
	const (
		order = `
			describe an image
			enlist 2 A
			create ODCR 2 p5.48xlarge az1 A`
		second = `
			describe an image
			enlist 2 B
			create ODCR 2 p5.48xlarge az2 B`
	)

	full := order + ` → no room
			unlist A` + second + ` → no room
			unlist B`

	for name, c := range map[string]struct {
		script string
		want   string
		most   int // instances that may be held
	}{
		"there is room": {order + `
			enlist 2 A cr-A
			launch gpu-[1-2] cr-A 1 B`, "", 8},
		"no zone has room for it": {full + `
			launch gpu-[1-2] on-demand 1 C`, "", 8},
		"nor for the launch, but in another zone": {full + `
			launch gpu-[1-2] on-demand 1 C → no room
			launch gpu-[1-2] on-demand 2 D`, "", 8},
		"nor for any launch": {full + `
			launch gpu-[1-2] on-demand 1 C → no room
			launch gpu-[1-2] on-demand 2 D → no room`, "InsufficientInstanceCapacity", 8},
		"no more may be held": {`
			describe an image
			enlist 2 A
			describe an image
			enlist 2 B
			launch gpu-[1-2] on-demand 1 C`, "", 1},
		"EC2 refuses it for another reason": {order + ` → refused
			unlist A`, "UnauthorizedOperation", 8},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script+failing(c.want), func(t *testing.T, w *fake) {
				f := holdingFacts()
				f.settings.Reserve.MaxInstances = c.most
				g := pair()
				g.jobs[0].Comment = "capacity=prefer"

				held := launches(t, w, f, g)
				for _, l := range w.launches {
					if l.Fresh != (l.ReservationID != "") || (l.Kind == capacity.ODCR) != l.Fresh {
						t.Errorf("%+v", l)
					}
				}

				if strings.Contains(c.script, "cr-A") != (len(held) == 1) {
					t.Errorf("holds %+v", held)
				}
			})
		})
	}
}

// A hold and its repetition are one order: EC2 binds a token to the end, which the ledger knows.
func TestHoldIsRepeated(t *testing.T) {
	script := `
		describe an image
		enlist 2 A
		create ODCR 2 p5.48xlarge az1 A → lost` +
		strings.Repeat("\n\t\tcreate ODCR 2 p5.48xlarge az1 A → unknown", 7) + failing("failed") + `
		describe an image
		enlist 2 A
		create ODCR 2 p5.48xlarge az1 A
		enlist 2 A cr-A
		launch gpu-[1-2] cr-A 1 B` + done
	story(t, script, func(t *testing.T, w *fake) {
		for _, now := range []time.Duration{0, time.Minute} {
			f := holdingFacts()
			f.now = noon.Add(now)
			launches(t, w, f, pair())
		}

		if len(w.orders) != 9 || !w.orders[8].End.Equal(noon.Add(capacity.HoldTime)) {
			t.Errorf("%+v", w.orders)
		}
	})
}

// What is held is given back when all instances run or have ended, or there is no time left; not
// because EC2 does not show them yet.
func TestLetGoStories(t *testing.T) {
	h := func(id string) odcr {
		return odcr{
			Reservation: capacity.Reservation{ID: id, Total: 1, InstanceType: wanted, AZID: "az1"},
			token:       "token of " + id,
			since:       noon,
			launched:    noon.Add(time.Second),
			instances:   []string{"i-" + id},
		}
	}

	const both = `
			cancel reservation a
			cancel reservation b
			unlist A
			record hold ok
			unlist B
			record hold ok`
	for name, script := range map[string]string{
		"they run": "find instances i-a,i-b" + both,
		"later": `
			find instances i-a,i-b → not shown
			find instances i-a,i-b → unknown
			find instances i-a,i-b → pending
			find instances i-a,i-b → b ends
			find instances i-b` + both,
		"one cannot be given back": `find instances i-a,i-b
			cancel reservation a
			cancel reservation b → refused
			unlist A
			record hold ok
			record hold UnauthorizedOperation`,
		"there is no time": "find instances i-a,i-b → then no time" + both,
	} {
		t.Run(name, func(t *testing.T) {
			story(t, script, func(t *testing.T, w *fake) {
				w.has(nil, "i-a", "gpu-1", 0, "")
				w.has(nil, "i-b", "gpu-2", 0, "")
				words := w.word
				w.word = func(line string) string {
					word := words(line)
					switch {
					case word == "b ends", word == "then no time":
						w.Instances[1].State = "pending"
					case line == "find instances i-b":
						w.Instances[1].State = "shutting-down"
					}

					return word
				}
				begun(w, newFacts(nil)).releaseHolds([]odcr{h("a"), h("b")})
			})
		})
	}
}

// How long an ODCR was held for nothing is in its record.
func TestRecordsOfHeldCapacity(t *testing.T) {
	h := odcr{
		Reservation: capacity.Reservation{
			ID:           one,
			InstanceType: wanted,
			AZID:         "az1",
			Total:        2,
			End:          noon.Add(time.Hour),
		},
		token:     "t",
		partition: "gpu",
		jobs:      []string{"1"},
		since:     noon.Add(-time.Hour),
	}
	launched := h
	launched.launched = noon.Add(-30 * time.Minute)

	refused := &model.Refusal{Code: "x", Message: "no"}

	const (
		base = "held 2 × p5.48xlarge in az1 for 1h0m0s, idle for "
		left = "; it could not be cancelled: no; EC2 ends it at 2000-01-01 01:00 UTC, or up to an hour later; " +
			"until then its unused instances are paid for"
	)
	for name, c := range map[string]struct {
		h    odcr
		why  error
		want string
		code string
	}{
		"nothing ran":   {h, nil, base + "1h0m0s", "ok"},
		"it was used":   {launched, nil, base + "30m0s", "ok"},
		"not cancelled": {h, refused, base + "1h0m0s" + left, "x"},
	} {
		if r := c.h.record(noon, c.why); r.Message != c.want || r.Code != c.code || r.Reservation != one ||
			r.Partition != "gpu" ||
			r.Jobs[0] != "1" {
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
