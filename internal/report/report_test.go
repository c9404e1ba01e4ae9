package report

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(minutes float64) time.Time { return noon.Add(time.Duration(minutes * float64(time.Minute))) }

// The amounts of a reservation share their currency: a price in another one is nothing to compare with.
func TestCostsAreInOneCurrency(t *testing.T) {
	money := func(currency string) capacity.Money {
		m, err := capacity.ParseMoney("80", currency)
		if err != nil {
			t.Fatal(err)
		}

		return m
	}

	dollars := money(capacity.USD)
	none := capacity.Money{}
	for name, c := range map[string]struct {
		fee, onDemand capacity.Money
		want          string
	}{
		"both in dollars":   {dollars, dollars, "80.00 USD 40.00 USD 10.00 USD USD"},
		"a fee in yuan":     {money("CNY"), dollars, "80.00 CNY 40.00 CNY 0.00 CNY"},
		"no fee is known":   {none, dollars, "0.00 0.00 10.00 USD USD"},
		"no price is known": {dollars, none, "80.00 USD 40.00 USD 0.00 USD"},
		"nothing is known":  {none, none, "0.00 0.00 0.00 "},
	} {
		r := Reservation{Paid: *paid(nil), Sums: Sums{Useful: 3600}, Whole: 7200}

		got := r.Costs(c.fee, c.onDemand)
		if text := fmt.Sprint(got.Fee, got.InReport, got.OnDemand, " ", got.Currency); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

// paid is a block of 2 nodes, open from noon for 10 hours, with its fence 40 minutes before.
func paid(change func(p *state.Paid)) *state.Paid {
	p := &state.Paid{
		Partition:    "gpu",
		Slot:         "gpu",
		Kind:         capacity.CapacityBlock,
		InstanceType: "p5.48xlarge",
		GPUs:         8,
		Size:         2,
		Start:        noon,
		Fence:        at(560),
		End:          at(600),
		Nodes:        map[string]string{"up": "gpu-[1-2]"},
	}
	if change != nil {
		change(p)
	}

	return p
}

const id = "cr-0aaaaaaaaaaaaaaa1"

// line is a sample that says how the block is, 9 minutes of which it holds.
func line(minutes float64, p *state.Paid, runs map[string]capacity.Run) state.Sample {
	return state.Sample{
		At:       at(minutes),
		ValidFor: capacity.Duration{Duration: 9 * time.Minute},
		Paid:     map[string]*state.Paid{id: p},
		Runs:     runs,
	}
}

// beats are samples without news, every 5 minutes.
func beats(from, to float64) (all []state.Sample) {
	for m := from; m <= to; m += 5 {
		all = append(all, state.Sample{At: at(m)})
	}
	return all
}

func ran(job, nodes string, from, to float64, ended string) capacity.Run {
	r := capacity.Run{
		Job:       job,
		User:      "alice",
		Account:   "nlp",
		Partition: "gpu",
		Nodes:     nodes,
		Start:     at(from),
		State:     ended,
	}
	if to > 0 {
		r.End = at(to)
	}

	return r
}

// Each class, by hand: minutes of nodes.
func TestClasses(t *testing.T) {
	up := paid(nil)
	lendsNodes := paid(func(p *state.Paid) { p.Spare = "scavenge" })

	inSpare := func(r capacity.Run) capacity.Run { r.Partition = "scavenge"; return r }
	all := func(lists ...[]state.Sample) (samples []state.Sample) {
		for _, l := range lists {
			samples = append(samples, l...)
		}
		return samples
	}
	one := func(s ...state.Sample) []state.Sample { return s }
	for name, c := range map[string]struct {
		samples   []state.Sample
		accounted []capacity.Run
		until     float64
		want      map[Class]int // minutes
	}{
		"nothing runs": {
			samples: all(one(line(0, up, nil)), beats(5, 595)),
			until:   700,
			want:    map[Class]int{Idle: 1120, FenceTail: 80},
		},
		"until now": {samples: all(one(line(0, up, nil)), beats(5, 30)), until: 32, want: map[Class]int{Idle: 64}},
		"boot, then a job, and another that waits": {
			samples: all(one(line(0, paid(func(p *state.Paid) { p.Nodes, p.Waits = nil, true }), nil),
				line(1, paid(func(p *state.Paid) {
					p.Nodes, p.Waits = map[string]string{"boot": "gpu-[1-2]"}, true
				}), nil),
				line(6, paid(func(p *state.Paid) {
					p.Waits = true
				}), map[string]capacity.Run{"7.0": ran("7", "gpu-1", 5, 0, "")})), beats(10, 20)),
			// 2 nodes wait for 1 minute; they boot for 4 (the job starts then) and 5 minutes.
			until: 20, want: map[Class]int{IdleWaiting: 2 + 14, Boot: 9, Useful: 15},
		},
		"all that wait are too long": {
			samples: one(line(0, paid(func(p *state.Paid) { p.Waits, p.Tail = true, true }), nil)),
			until:   5,
			want:    map[Class]int{TailIdle: 10},
		},
		"requeued, and requeued at the fence": {
			samples: all(one(line(0, up, nil)), beats(5, 545), one(line(550, up, map[string]capacity.Run{
				"1.0": ran("1", "gpu-1", 550, 0, ""),
				"2.0": ran("2", "gpu-2", 550, 0, ""),
			}),
				line(554, up, map[string]capacity.Run{"2.0": ran("2", "gpu-2", 550, 554, "REQUEUED")}),
				line(558, up, map[string]capacity.Run{"1.0": ran("1", "gpu-1", 550, 558, "REQUEUED")})), beats(559, 560)),
			until: 560,
			want:  map[Class]int{Useful: 8, LostRequeue: 4, Idle: 1100 + 2 + 6},
		},
		"lent, and taken back": {
			samples: all(one(line(0, lendsNodes, map[string]capacity.Run{
				"1.0": inSpare(ran("1", "gpu-1", 0, 0, "")),
				"2.0": inSpare(ran("2", "gpu-2", 0, 0, "")),
			}), line(5, lendsNodes, map[string]capacity.Run{
				"1.0": inSpare(ran("1", "gpu-1", 0, 4, "REQUEUED")),
				"2.0": inSpare(ran("2", "gpu-2", 0, 3, "FAILED")),
				"3.0": ran("3", "gpu-[1-2]", 4, 0, ""),
			})), beats(6, 9)),
			until: 10,
			want:  map[Class]int{Lent: 4, LostFailure: 3, Idle: 1, Useful: 12},
		},
		"a partition of that name that lends nothing": {
			samples: one(line(0, up, map[string]capacity.Run{"1.0": inSpare(ran("1", "gpu-1", 0, 4, "REQUEUED"))})),
			until:   5,
			want:    map[Class]int{LostRequeue: 4, Idle: 6},
		},
		"how jobs end": {
			samples: all(one(line(0, up, nil), line(1, up, map[string]capacity.Run{
				"1.0": ran("1", "gpu-1", 1, 0, ""),
				"2.0": ran("2", "gpu-2", 1, 0, ""),
			}),
				line(5, up, map[string]capacity.Run{
					"1.0": ran("1", "gpu-1", 1, 4, "FAILED"),
					"2.0": ran("2", "gpu-2", 1, 3, "TIMEOUT"),
					"3.0": ran("3", "gpu-[1-2]", 4, 0, ""),
				}),
				line(8, up, map[string]capacity.Run{
					"3.0": ran("3", "gpu-[1-2]", 4, 8, "REQUEUED"),
					"4.0": ran("4", "gpu-2", 8, 9, "CANCELLED"),
				})), beats(10, 10)),
			until: 10,
			want:  map[Class]int{Idle: 2 + 1 + 2 + 1, LostFailure: 3, LostTimeout: 2, LostRequeue: 8, Useful: 1},
		},
		"jobs that share a node": {samples: one(line(0, up, map[string]capacity.Run{
			"1.0": ran("1", "gpu-1", 0, 4, "COMPLETED"),
			"2.0": ran("2", "gpu-1", 0, 8, "FAILED"),
		})), until: 8, want: map[Class]int{Useful: 2, LostFailure: 6, Idle: 8}},
		"a host fails": {
			samples: one(line(0, up, map[string]capacity.Run{"1.0": ran("1", "gpu-[1-2]", 0, 0, "")}),
				line(3, paid(func(p *state.Paid) {
					p.Unhealthy, p.Nodes = 1, map[string]string{"up": "gpu-2", "down": "gpu-1"}
				}), map[string]capacity.Run{"1.0": ran("1", "gpu-[1-2]", 0, 3, "NODE_FAIL")}),
				line(5, paid(func(p *state.Paid) { p.Unhealthy, p.Nodes = 1, map[string]string{"up": "gpu-2"} }), nil)),
			until: 8, want: map[Class]int{LostFailure: 6, Hardware: 5, Idle: 5},
		},
		"drained, and a job goes on": {
			samples: one(line(0, paid(func(p *state.Paid) {
				p.Nodes = map[string]string{"drain": "gpu-[1-2]"}
			}), map[string]capacity.Run{"1.0": ran("1", "gpu-1", 0, 4, "COMPLETED")})),
			until: 6, want: map[Class]int{Useful: 4, Hardware: 8},
		},
		"sync begins late": {samples: one(line(20, up, nil)), until: 25, want: map[Class]int{Unknown: 40, Idle: 10}},
		"sync dies": {
			// Its last line holds for 9 minutes. One job runs through, nobody saw the other's end.
			samples: one(line(0, up, map[string]capacity.Run{
				"1.0": ran("1", "gpu-1", 0, 0, ""),
				"2.0": ran("2", "gpu-2", 0, 0, ""),
			}),
				line(60, up, map[string]capacity.Run{"2.0": ran("2", "gpu-2", 0, 60, "")})),
			until: 61, want: map[Class]int{Useful: 61, Unknown: 60, Idle: 1},
		},
		"sync dies, and the accounting knows": {
			samples: one(line(0, up, map[string]capacity.Run{"1.0": ran("1", "gpu-1", 0, 0,
				""), "2.0": ran("2", "gpu-2", 0, 0, "")}), line(60, up, map[string]capacity.Run{
				"2.0": ran("2", "gpu-2", 0, 60, ""),
			})),
			accounted: []capacity.Run{
				ran("1", "gpu-1", 0, 0, "RUNNING"),
				ran("2", "gpu-2", 0, 20, "FAILED"),
				ran("3", "gpu-2", 20,
					50, "COMPLETED"),
			}, until: 61, want: map[Class]int{Useful: 91, LostFailure: 20, Unknown: 10, Idle: 1},
		},
		"sync dies for good": {
			samples: one(line(0, up, map[string]capacity.Run{"1.0": ran("1", "gpu-1", 0, 0, "")})),
			until:   600, want: map[Class]int{Useful: 9, Idle: 9, Unknown: 2 * 551, FenceTail: 80},
		},
		"a job behind the fence, though it may not": {
			samples: all(one(line(0, up, nil)), beats(5, 550), one(line(555, up, map[string]capacity.Run{
				"1.0": ran("1", "gpu-1", 555, 570, "COMPLETED"),
			})), beats(560, 595)),
			until: 600, want: map[Class]int{Idle: 1115, Useful: 15, FenceTail: 70},
		},
		"a short job on a node that was off at both samples": {
			samples: one(line(0, paid(func(p *state.Paid) {
				p.Nodes = map[string]string{"up": "gpu-[1-2]"}
			}), nil), line(5, paid(func(p *state.Paid) {
				p.Nodes = nil
			}), nil)), accounted: []capacity.Run{ran("1", "gpu-1", 6, 8, "COMPLETED")}, until: 10,
			want: map[Class]int{Useful: 2, Idle: 18},
		},
		"another job on other nodes": {samples: one(line(0, up, nil)), accounted: []capacity.Run{ran("1", "cpu-1", 0, 8,
			"COMPLETED")}, until: 8, want: map[Class]int{Idle: 16}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Make(Input{Samples: c.samples, Accounted: c.accounted, Until: at(c.until)})
			if err != nil || len(got.Reservations) != 1 {
				t.Fatal(err, got)
			}

			want := Sums{}
			for class, minutes := range c.want {
				want[class] = int64(minutes) * 60
			}

			sums := Sums{}
			for class, n := range got.Reservations[0].Sums {
				if n != 0 {
					sums[class] = n
				}
			}

			if diff := cmp.Diff(want, sums); diff != "" {
				t.Error(diff)
			}

			addsUp(t, got)
		})
	}
}

// addsUp: what is paid is the sum of the classes, and of the reservations.
func addsUp(t *testing.T, r Report) {
	t.Helper()

	reservations := Sums{}

	var want int64
	for _, one := range r.Reservations {
		for c, n := range one.Sums {
			if reservations[c] += n; n < 0 {
				t.Errorf("%s has %d node-seconds of %s", one.ID, n, c)
			}
		}

		end := r.Until
		if !one.End.IsZero() {
			end = earliest(end, one.End)
		}

		want += int64(one.Paid.Size) * secondsBetween(latest(one.Start, r.From), end)
	}

	var jobs int64
	for _, j := range r.Jobs {
		jobs += j.Sums.Total()
	}

	if ran := r.Total[Useful] + r.Total[Lent] + r.Total[LostRequeue] + r.Total[LostTimeout] + r.Total[LostFailure]; ran != jobs {
		t.Errorf("%d node-seconds with a job, and the jobs have %d", ran, jobs)
	}

	for _, c := range Classes {
		if reservations[c] != r.Total[c] {
			t.Errorf("%s: %d in all, %d by reservation", c, r.Total[c], reservations[c])
		}
	}

	if r.Total.Total() != want {
		t.Errorf("%d node-seconds in all, %d were paid", r.Total.Total(), want)
	}
}

// Whatever the samples say, every paid second is in one class: nodes come and go, jobs overlap
// and share nodes, sync dies, the size of an ODCR changes, and lines say what cannot be.
func TestAnySamplesAddUp(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))

		states := []string{"up", "boot", "drain", "down", ""}

		var samples []state.Sample

		runs := map[string]capacity.Run{}
		for m, n := 0.0, 0; m < 620; n++ {
			p := paid(func(next *state.Paid) {
				next.Nodes, next.Waits, next.Unhealthy = map[string]string{}, r.IntN(2) == 0, r.IntN(3)
				names := map[string][]string{}
				for i := range 2 {
					if s := states[r.IntN(len(states))]; s != "" {
						names[s] = append(names[s], fmt.Sprintf("gpu-%d", i+1))
					}
				}

				for s, of := range names {
					next.Nodes[s] = hostlist.Compress(of)
				}
			})
			s := state.Sample{At: at(m), ValidFor: capacity.Duration{Duration: 9 * time.Minute}, Full: r.IntN(9) == 0}
			if s.Full || r.IntN(3) == 0 {
				s.Paid = map[string]*state.Paid{id: p}
			}

			if r.IntN(2) == 0 {
				start := m - r.Float64()*20
				one := ran(fmt.Sprint(n), []string{"gpu-1", "gpu-2", "gpu-[1-2]", "cpu-3"}[r.IntN(4)], start, 0, "")
				if r.IntN(3) > 0 {
					one.End, one.State = one.Start.Add(
						time.Duration(r.IntN(3000))*time.Second,
					), []string{"COMPLETED", "FAILED", "TIMEOUT", "", "REQUEUED"}[r.IntN(5)]
				}

				runs[fmt.Sprintf("%d.0", n)] = one
				s.Runs = map[string]capacity.Run{fmt.Sprintf("%d.0", n): one}
			}

			samples = append(samples, s)
			m += []float64{0.5, 1, 5, 5, 5, 25}[r.IntN(6)]
		}

		var accounted []capacity.Run
		for _, one := range runs {
			if seed%2 == 0 {
				accounted = append(accounted, one)
			}
		}

		got, err := Make(
			Input{
				Samples:   samples,
				Accounted: accounted,
				From:      at(float64(r.IntN(100)) - 50),
				Until:     at(float64(r.IntN(700))),
			},
		)
		if err != nil {
			t.Fatal(err)
		}

		if addsUp(t, got); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
