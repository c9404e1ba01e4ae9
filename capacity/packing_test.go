package capacity_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

var packStart = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func hourOf(n int) time.Time { return packStart.Add(time.Duration(n) * time.Hour) }

// packHours runs jobs, and returns when each is done, in hours; 0 for never.
func packHours(jobs []capacity.QueuedJob, windows []capacity.NodeWindow) (hours []int) {
	_, done := capacity.Pack(jobs, windows, packStart)
	for _, at := range done {
		if at.IsZero() {
			hours = append(hours, 0)
		} else {
			hours = append(hours, int(at.Sub(packStart)/time.Hour))
		}
	}

	return hours
}

func queued(nodes, hours int, windows ...int) capacity.QueuedJob {
	limit := time.Duration(hours) * time.Hour
	return capacity.QueuedJob{Nodes: nodes, Limit: limit, Least: limit, Windows: windows}
}

func goesOn(j capacity.QueuedJob) capacity.QueuedJob {
	j.Least = time.Hour
	j.GoesOn = true

	return j
}

func TestPack(t *testing.T) {
	t.Parallel()

	window := func(nodes, from, until int) capacity.NodeWindow {
		return capacity.NodeWindow{Nodes: nodes, From: hourOf(from), Until: hourOf(until)}
	}
	running := queued(2, 3, 0)
	running.Running = true
	overrun := goesOn(queued(4, 20, 0, 1))
	overrun.Running = true
	fitted := queued(4, 20, 0)
	fitted.Least = time.Hour
	later := queued(1, 1, 0)
	later.Ready = hourOf(6)

	for name, c := range map[string]struct {
		jobs    []capacity.QueuedJob
		windows []capacity.NodeWindow
		done    []int
	}{
		"one after the other": {
			[]capacity.QueuedJob{queued(4, 3, 0), queued(4, 3, 0)},
			[]capacity.NodeWindow{window(4, 0, 10)},
			[]int{3, 6},
		},
		"a short job goes first where it delays nobody": {
			[]capacity.QueuedJob{queued(3, 4, 0), queued(4, 2, 0), queued(1, 4, 0), queued(1, 5, 0)},
			[]capacity.NodeWindow{window(4, 0, 20)},
			[]int{4, 6, 4, 11},
		},
		"what does not fit before the fence waits for the next window": {
			[]capacity.QueuedJob{queued(1, 6, 0, 1), queued(1, 30, 0, 1)},
			[]capacity.NodeWindow{window(1, 0, 5), window(1, 10, 20)},
			[]int{16, 0},
		},
		"requeueable work is cut at the fence and goes on": {
			[]capacity.QueuedJob{goesOn(queued(1, 8, 0, 1)), goesOn(queued(1, 30, 0, 1))},
			[]capacity.NodeWindow{window(1, 0, 5), window(1, 10, 20)},
			[]int{13, 0},
		},
		"a rest that is shorter than the least run": {
			[]capacity.QueuedJob{{Nodes: 1, Limit: 6 * time.Hour, Least: 3 * time.Hour, GoesOn: true, Windows: []int{0, 1}}},
			[]capacity.NodeWindow{window(1, 0, 5), window(1, 10, 11)},
			[]int{11},
		},
		"who runs keeps its nodes": {
			[]capacity.QueuedJob{queued(4, 1, 0), running},
			[]capacity.NodeWindow{window(4, 0, 9)},
			[]int{4, 3},
		},
		"who runs is cut at the fence": {
			[]capacity.QueuedJob{overrun},
			[]capacity.NodeWindow{window(4, 0, 9), window(4, 9, 30)},
			[]int{20},
		},
		"a limit of ours ends it": {
			[]capacity.QueuedJob{fitted},
			[]capacity.NodeWindow{window(4, 0, 9)},
			[]int{9},
		},
		"no start before it is ready": {
			[]capacity.QueuedJob{later},
			[]capacity.NodeWindow{window(4, 0, 9)},
			[]int{7},
		},
		"no window": {
			[]capacity.QueuedJob{queued(1, 1)},
			nil,
			[]int{0},
		},
		"more nodes than there are": {
			[]capacity.QueuedJob{queued(5, 1, 0)},
			[]capacity.NodeWindow{window(4, 0, 9)},
			[]int{0},
		},
		"a window without an end": {
			[]capacity.QueuedJob{queued(1, 900, 0)},
			[]capacity.NodeWindow{{Nodes: 1}},
			[]int{900},
		},
		"the window that is free earlier": {
			[]capacity.QueuedJob{queued(1, 2, 0, 1)},
			[]capacity.NodeWindow{window(1, 3, 9), window(1, 1, 9)},
			[]int{3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := packHours(c.jobs, c.windows); !cmp.Equal(got, c.done) {
				t.Errorf("done after %v hours, not %v", got, c.done)
			}
		})
	}
}

// smallQueue draws jobs and windows in whole hours.
func smallQueue(t *rapid.T) (jobs []capacity.QueuedJob, windows []capacity.NodeWindow) {
	draw := func(from, to int, of string) int { return rapid.IntRange(from, to).Draw(t, of) }
	for range draw(1, 3, "windows") {
		from := draw(0, 12, "from")
		windows = append(windows, capacity.NodeWindow{
			Nodes: draw(1, 4, "size"),
			From:  hourOf(from),
			Until: hourOf(from + draw(1, 12, "lasts")),
		})
	}

	for range draw(1, 6, "jobs") {
		var in []int
		for w := range windows {
			if draw(0, 3, "excluded") > 0 {
				in = append(in, w)
			}
		}

		j := queued(draw(1, 4, "nodes"), draw(1, 10, "limit"), in...)
		j.Ready = hourOf(draw(0, 4, "ready"))
		if rapid.Bool().Draw(t, "requeueable") {
			j = goesOn(j)
		}

		jobs = append(jobs, j)
	}

	return jobs, windows
}

// packByHour packs as Pack says that it does, in the plainest way: it tries every hour of every window, and counts nodes
// hour by hour.
func packByHour(jobs []capacity.QueuedJob, windows []capacity.NodeWindow) (done []int) {
	const hours = 60

	used := make([][hours]int, len(windows))
	free := func(w, hour int) int {
		if hourOf(hour).Before(windows[w].From) || !hourOf(hour).Before(windows[w].Until) {
			return 0
		}
		return windows[w].Nodes - used[w][hour]
	}

	for _, j := range jobs {
		end := 0
		rest := int(j.Limit / time.Hour)
		for hour := 0; hour < hours-12 && rest > 0; hour++ {
			if hourOf(hour).Before(j.Ready) || hour < end {
				continue
			}

			for _, w := range j.Windows {
				n := 0
				for n < rest && free(w, hour+n) >= j.Nodes {
					n++
				}

				atFence := hourOf(hour + n).Equal(windows[w].Until)
				if n < rest && (!j.GoesOn || !atFence || n == 0) {
					continue
				}

				for k := range n {
					used[w][hour+k] += j.Nodes
				}

				rest -= n
				end = hour + n

				break
			}
		}

		if rest > 0 {
			end = 0
		}

		done = append(done, end)
	}

	return done
}

// The same jobs are done at the same time as where every hour is tried.
func TestPackIsFirstFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		jobs, windows := smallQueue(t)
		if diff := cmp.Diff(packByHour(jobs, windows), packHours(jobs, windows)); diff != "" {
			t.Errorf("by hour, and by Pack: %s", diff)
		}
	})
}

// No job runs past a fence, the runs of one that is done add up to its limit, and no window has more jobs than nodes.
func TestPackedRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		jobs, windows := smallQueue(t)
		runs, done := capacity.Pack(jobs, windows, packStart)
		ran := make([]time.Duration, len(jobs))
		for _, r := range runs {
			w := windows[r.Window]
			if r.From.Before(w.From) || r.To.After(w.Until) || r.From.Before(jobs[r.Job].Ready) {
				t.Errorf("%+v is not in %+v", r, w)
			}

			ran[r.Job] += r.To.Sub(r.From)
			busy := 0
			for _, other := range runs {
				if other.Window == r.Window && !other.From.After(r.From) && other.To.After(r.From) {
					busy += jobs[other.Job].Nodes
				}
			}

			if busy > w.Nodes {
				t.Errorf("%d nodes are busy at %v, of %d", busy, r.From, w.Nodes)
			}
		}

		for i, at := range done {
			if isDone := !at.IsZero(); isDone != (ran[i] == jobs[i].Limit) {
				t.Errorf("job %d ran for %v of %v, done: %v", i, ran[i], jobs[i].Limit, isDone)
			}
		}
	})
}

// BenchmarkPack packs 5,000 jobs of all sizes on 64 nodes.
func BenchmarkPack(b *testing.B) {
	var jobs []capacity.QueuedJob
	for i := range 5000 {
		j := queued(1+i*7%16, 1, 0, 1)
		j.Limit = time.Duration(30+i*37%2000) * time.Minute
		j.Least = j.Limit
		j.GoesOn = i%3 == 0
		jobs = append(jobs, j)
	}

	windows := []capacity.NodeWindow{{Nodes: 64, Until: hourOf(24 * 182)}, {Nodes: 64, From: hourOf(24 * 182)}}
	for b.Loop() {
		capacity.Pack(jobs, windows, packStart)
	}
}
