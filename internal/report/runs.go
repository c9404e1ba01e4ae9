package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// run is one time that a job held nodes.
type run struct {
	state.Run
	class Class
	// from and to are its time; to is far away for one that still runs.
	from, to time.Time
	// vague: nobody saw how it ended, and so not when, if sync did not run then.
	vague bool
}

// forever is after every end.
var forever = time.Unix(1<<40, 0)

// runs are all that are known, by node and in the order of their starts.
func (in Input) runs() (map[string][]*run, error) {
	all := in.sampled()
	accounted := map[string][]state.Run{}
	for _, r := range in.Accounted {
		accounted[r.Job] = append(accounted[r.Job], r)
	}
	byNode := map[string][]*run{}
	add := func(r state.Run, vague bool) error {
		one := &run{Run: r, class: KindOf(r.State), from: r.Start, to: r.End, vague: vague}
		if r.End.IsZero() {
			one.to = forever
		}
		if !one.from.Before(one.to) {
			return nil
		}
		names, err := in.Expand(r.Nodes)
		if err != nil {
			return fmt.Errorf("nodes of job %s: %w", r.Job, err)
		}
		for _, name := range names {
			byNode[name] = append(byNode[name], one)
		}
		return nil
	}
	for _, r := range all {
		if slices.ContainsFunc(accounted[r.Job], func(a state.Run) bool { return overlap(a, r) }) {
			continue
		}
		// Of one that was only missed nobody knows when it ended.
		if err := add(r, r.State == "" || r.State == "REQUEUED"); err != nil {
			return nil, err
		}
	}
	for _, r := range in.Accounted {
		if err := add(r, false); err != nil {
			return nil, err
		}
	}
	for _, runs := range byNode {
		slices.SortFunc(runs, func(a, b *run) int {
			if c := a.from.Compare(b.from); c != 0 {
				return c
			}
			return strings.Compare(a.Job, b.Job)
		})
	}
	return byNode, nil
}

// sampled are the runs that sync saw. One that still ran in the last sample counts as long as
// that holds.
func (in Input) sampled() map[string]state.Run {
	all := map[string]state.Run{}
	closed := func(at time.Time, still map[string]state.Run) {
		for id, r := range all {
			if _, there := still[id]; r.End.IsZero() && !there {
				r.End = at
				all[id] = r
			}
		}
	}
	var now state.Sample
	for _, line := range in.Samples {
		if !line.At.Before(in.Until) {
			break
		}
		now.Add(line)
		if line.Full {
			closed(line.At, line.Runs)
		}
		maps.Copy(all, line.Runs)
	}
	closed(now.At.Add(now.Holds.Duration), nil)
	return all
}

func overlap(a, b state.Run) bool {
	ends := func(r state.Run) time.Time {
		if r.End.IsZero() {
			return forever
		}
		return r.End
	}
	return a.Start.Before(ends(b)) && b.Start.Before(ends(a))
}
