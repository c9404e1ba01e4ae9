package market

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

func hours(n int) time.Duration { return time.Duration(n) * time.Hour }

func hour(n int) time.Time { return opening.Add(hours(n)) }

// forecastOf has jobs on a block of some nodes that is open for some hours. Its times are whole hours: nothing boots,
// fences are the ends, and a job that is requeued runs for an hour at least.
func forecastOf(nodes, until int, jobs ...capacity.Job) Forecast {
	group := capacity.NodeGroup{
		Name:           "gpu",
		InstanceType:   "p5.48xlarge",
		PurchaseOption: capacity.CapacityBlock,
		MaxNodes:       8,
		Slots: []capacity.Slot{
			{Name: "gpu-a", Nodes: "gpu-a-[1-8]", ReservationIDs: []string{dollarBlock}},
			{Name: "gpu-b", Nodes: "gpu-b-[1-8]"},
		},
	}

	return Forecast{
		Queue: capacity.Queue{Partition: "gpu", Jobs: jobs, Now: opening},
		Snapshot: &capacity.Snapshot{
			Partitions: []capacity.Partition{{
				Name:     "gpu",
				Provider: capacity.ProviderEC2,
				MinTime:  capacity.Duration{Duration: 58 * time.Minute},
				Groups:   []capacity.NodeGroup{group},
			}},
			Reservations: []capacity.Reservation{{
				ID:           dollarBlock,
				Kind:         capacity.CapacityBlock,
				State:        capacity.StateActive,
				InstanceType: "p5.48xlarge",
				Total:        nodes,
				Start:        hour(-24),
				End:          hour(until),
			}},
		},
	}
}

func waiting(nodes, limit int, comment string) capacity.Job {
	return capacity.Job{
		Shown:     fmt.Sprintf("%dx%d", nodes, limit),
		Partition: "gpu",
		State:     "PENDING",
		NumNodes:  nodes,
		TimeLimit: capacity.Minutes(60 * limit),
		Comment:   comment,
		Batch:     true,
		Requeue:   true,
	}
}

func offered(id string, nodes, from, until int, fee capacity.Money) Offer {
	return Search{}.offer(capacity.Offering{
		ID:           id,
		InstanceType: "p5.48xlarge",
		Count:        nodes,
		Start:        hour(from),
		End:          hour(until),
		Fee:          fee,
	}, 8)
}

// grid counts the free nodes of a window hour by hour.
type grid [80]int

func newGrid(nodes, from, until int) *grid {
	var g grid
	for h := from; h < until; h++ {
		g[h] = nodes
	}

	return &g
}

// packGrids runs jobs in the plainest way: each begins in the first hour in which some window has it, or, if it is
// requeued, all that is left of the window.
func packGrids(jobs []capacity.Job, grids ...*grid) (undone, last int) {
	for _, j := range jobs {
		rest := j.TimeLimit.Minutes / 60
		end := 0
		for h := 0; h < 60 && rest > 0; h++ {
			for _, g := range grids {
				n := 0
				for n < rest && g[h+n] >= j.NumNodes {
					n++
				}

				atFence := n > 0 && g[h+n] == 0 && g.over(h+n)
				if h < end || n == 0 || n < rest && !(atFence && j.Comment != "") {
					continue
				}

				for k := range n {
					g[h+k] -= j.NumNodes
				}

				rest -= n
				end = h + n

				break
			}
		}

		if rest > 0 {
			undone++
		}

		last = max(last, end)
	}

	return undone, last
}

// over reports whether a window has ended. Its marks are behind what any job can take.
func (g *grid) over(h int) bool { return h >= g[len(g)-1] }

// The first choice is the one that trying all of them hour by hour finds, for the queue, then for the fee.
func TestBestChoiceOfSmallQueues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(from, to int, of string) int { return rapid.IntRange(from, to).Draw(rt, of) }

		var jobs []capacity.Job
		for range draw(1, 6, "jobs") {
			comment := rapid.SampledFrom([]string{"", "on_end=requeue"}).Draw(rt, "comment")
			jobs = append(jobs, waiting(draw(1, 4, "nodes"), draw(1, 10, "limit"), comment))
		}

		size := draw(1, 4, "size")
		until := draw(1, 15, "until")
		f := forecastOf(size, until, jobs...)

		window := func(nodes, from, until int) *grid {
			g := newGrid(nodes, from, until)
			g[len(g)-1] = until
			return g
		}
		bestUndone, bestDone := packGrids(jobs, window(size, 0, until))
		bestFee := 0

		var sold []Choice

		try := func(c Choice, fee int, grids ...*grid) {
			sold = append(sold, c)

			undone, done := packGrids(jobs, grids...)
			better := undone < bestUndone ||
				bestFee > 0 && undone == bestUndone && (undone > 0 && fee < bestFee ||
					undone == 0 && (done < bestDone || done == bestDone && fee < bestFee))
			if better {
				bestUndone = undone
				bestDone = done
				bestFee = fee
			}
		}

		for i := range draw(0, 6, "choices") {
			fee := 1 + i // each another
			price := usd(t, fmt.Sprint(fee))
			lasts := draw(1, 12, "lasts")
			if rapid.Bool().Draw(rt, "extends") {
				e := wantedExtension{f.Snapshot.Reservations[0], hours(lasts)}
				try(f.withExtension(e, offered("cbe-1", size, until, until+lasts, price)), fee,
					window(size, 0, until+lasts))

				continue
			}

			nodes := draw(1, 5, "block")
			from := draw(0, 12, "from")
			try(f.withBlock(offered("cb-1", nodes, from, from+lasts, price), day), fee,
				window(size, 0, until), window(nodes, from, from+lasts))
		}

		all := bestChoices(f.nothing(), sold)
		got := all[0]

		wantFee := capacity.Money{}
		if bestFee > 0 {
			wantFee = usd(t, fmt.Sprint(bestFee))
		}

		if len(all) > maxChoices || len(got.Undone) != bestUndone || got.Offer.Offering.Fee != wantFee ||
			bestUndone == 0 && !got.Done.Equal(hour(bestDone)) {
			rt.Errorf("of %d: %d undone, done at %v for %s; not %d, %v, %s", len(all), len(got.Undone), got.Done,
				got.Offer.Offering.Fee, bestUndone, hour(bestDone), wantFee)
		}
	})
}

// What is asked for is no longer and no larger than the jobs need that stay undone.
func TestWhatAQueueAsksFor(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		change                func(*Forecast)
		jobs                  []capacity.Job
		extensions, offerings string
	}{
		"a job that is too long": {
			jobs:       []capacity.Job{waiting(2, 30, ""), waiting(2, 3, "")},
			extensions: "1d", offerings: "2 for 2d from 0h",
		},
		"one that is too wide": {
			jobs: []capacity.Job{waiting(6, 30, ""), waiting(2, 3, "")}, offerings: "6 for 2d from 0h",
		},
		"wider than the node group": {jobs: []capacity.Job{waiting(9, 3, "")}},
		"several at once": {
			jobs:       []capacity.Job{waiting(2, 20, ""), waiting(2, 20, ""), waiting(4, 20, "")},
			extensions: "2d", offerings: "4 for 2d from 0h; 8 for 1d from 0h",
		},
		"in time": {
			change:     func(f *Forecast) { f.Queue.By = hour(25) },
			jobs:       []capacity.Job{waiting(4, 8, ""), waiting(4, 16, "")},
			extensions: "1d", offerings: "4 for 1d from 0h",
		},
		"behind the block that has the slot": {
			change: func(f *Forecast) {
				g := &f.Snapshot.Partitions[0].Groups[0]
				g.Slots = g.Slots[:1]
			},
			jobs:       []capacity.Job{waiting(4, 30, "")},
			extensions: "1d", offerings: "4 for 2d from 12h",
		},
		"of reservations without an end": {
			change: func(f *Forecast) {
				f.Snapshot.Partitions[0].Groups[0].PurchaseOption = capacity.ODCR
				f.Snapshot.Reservations[0].Kind = capacity.ODCR
			},
			jobs: []capacity.Job{waiting(4, 30, "")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := forecastOf(4, 12, c.jobs...)
			if c.change != nil {
				c.change(&f)
			}

			var extensions, offerings string

			undone := f.nothing().Undone
			for _, e := range f.extensions(undone) {
				extensions += capacity.FormatDuration(e.length)
			}

			for _, q := range f.blocks(undone) {
				if offerings != "" {
					offerings += "; "
				}

				offerings += describeQuery(q)
			}

			if extensions != c.extensions || offerings != c.offerings {
				t.Errorf("extensions %q, not %q; blocks %q, not %q", extensions, c.extensions, offerings, c.offerings)
			}
		})
	}
}

func describeQuery(q ec2.OfferingQuery) string {
	return fmt.Sprintf(
		"%d for %s from %dh",
		q.Count,
		capacity.FormatDuration(q.Duration),
		q.StartAfter.Sub(opening)/time.Hour,
	)
}

// An extension is to be paid when jobs reach the old fence; if it cannot be for sure any more, now.
func TestBuyBy(t *testing.T) {
	t.Parallel()

	for until, want := range map[int]int{36: 24, 12: 0, 6: 0} {
		f := forecastOf(4, until)

		c := f.withExtension(
			wantedExtension{f.Snapshot.Reservations[0], day},
			offered("cbe-1", 4, until, until+24, usd(t, "1")),
		)
		if !c.BuyBy.Equal(hour(want)) {
			t.Errorf("end after %d h: buy by %v", until, c.BuyBy)
		}
	}
}
