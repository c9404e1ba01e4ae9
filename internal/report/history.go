package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// history follows one reservation through the samples.
type history struct {
	id string
	// start is its own; what stays say follows it.
	start time.Time
	stays []stay
	gone  time.Time // when it was no longer there; zero if it was in the last sample
}

// stay holds a time in which nothing changed, as far as it was seen.
type stay struct {
	from, to time.Time
	paid     *state.Paid
	known    bool // sync ran
}

// replay reads the samples, up to a time.
func replay(samples []state.Sample, until time.Time) []*history {
	byID := map[string]*history{}

	var (
		all []*history
		now state.Sample
	)
	for i, line := range samples {
		if !line.At.Before(until) {
			break
		}

		now.Apply(line)

		next := until
		last := true
		if i+1 < len(samples) && samples[i+1].At.Before(until) {
			next = samples[i+1].At
			last = false
		}

		holds := now.At.Add(now.ValidFor.Duration)
		for id, paid := range now.Paid {
			h := byID[id]
			if h == nil {
				h = &history{id: id}
				byID[id] = h
				all = append(all, h)
			}

			h.start = paid.Start
			h.gone = time.Time{}
			switch {
			case !next.After(holds):
				h.add(stay{now.At, next, paid, true})
			case last: // and nothing came after it
				h.add(stay{now.At, holds, paid, true})
				h.add(stay{holds, next, paid, false})
			default:
				h.add(stay{now.At, next, paid, false})
			}
		}

		for id, h := range byID {
			if now.Paid[id] == nil && h.gone.IsZero() {
				h.gone = now.At
			}
		}
	}

	slices.SortFunc(all, func(a, b *history) int { return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.id, b.id)) })

	return all
}

// add appends a stay, as a part of the last one where nothing has changed.
func (h *history) add(s stay) {
	n := len(h.stays)
	if n == 0 {
		h.stays = append(h.stays, s)
		return
	}

	last := &h.stays[n-1]
	if last.paid == s.paid && last.known == s.known && last.to.Equal(s.from) {
		last.to = s.to
		return
	}

	h.stays = append(h.stays, s)
}

func (h *history) last() *state.Paid { return h.stays[len(h.stays)-1].paid }

// end returns when it ends or ended; zero if it has no end. A block is paid for to its end whatever happens.
func (h *history) end() time.Time {
	end := h.last().End
	if !h.gone.IsZero() && !h.last().Kind.IsBlock() && (end.IsZero() || h.gone.Before(end)) {
		return h.gone
	}

	return end
}

// paidUntil returns up to when it is paid for at a time.
func (h *history) paidUntil(now time.Time) time.Time {
	if end := h.end(); !end.IsZero() {
		return earliest(end, now)
	}
	return now
}

// within returns the stays from a time to another without a hole: what no sample saw is not known, and as it was
// before, or, if it was not seen before, after.
func (h *history) within(from, to time.Time) (whole []stay) {
	at := from
	before := h.stays[0].paid
	for _, s := range h.stays {
		if s.from.After(at) && at.Before(to) {
			whole = append(whole, stay{at, earliest(s.from, to), before, false})
		}

		before = s.paid
		s.from = latest(s.from, from)

		s.to = earliest(s.to, to)
		if s.from.Before(s.to) {
			whole = append(whole, s)
		}

		at = latest(at, s.to)
	}

	if at.Before(to) {
		whole = append(whole, stay{at, to, before, false})
	}

	return whole
}

// run holds one time that a job held nodes.
type run struct {
	capacity.Run
	class Class
	// from and to are its time; to is far away for one that still runs.
	from, to time.Time
	vague    bool // nobody saw how it ended, and so not when, if sync did not run then
}

// forever is after every end.
var forever = time.Unix(1<<40, 0)

// runs returns all that are known, by node and in the order of their starts.
func (in Input) runs() (map[string][]*run, error) {
	accounted := map[string][]capacity.Run{}
	for _, r := range in.Accounted {
		accounted[r.Job] = append(accounted[r.Job], r)
	}

	byNode := map[string][]*run{}
	add := func(r capacity.Run, vague bool) error {
		one := &run{Run: r, class: kindOf(r.State), from: r.Start, to: endOf(r), vague: vague}
		if !one.from.Before(one.to) {
			return nil
		}

		names, err := hostlist.Expand(r.Nodes)
		if err != nil {
			return fmt.Errorf("nodes of job %s: %w", r.Job, err)
		}

		for _, name := range names {
			byNode[name] = append(byNode[name], one)
		}

		return nil
	}

	for _, r := range in.sampled() {
		if slices.ContainsFunc(accounted[r.Job], func(a capacity.Run) bool { return overlap(a, r) }) {
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
		slices.SortFunc(runs, func(a, b *run) int { return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.Job, b.Job)) })
	}

	return byNode, nil
}

// sampled returns the runs that sync saw. One that still ran in the last sample counts as long as that holds.
func (in Input) sampled() map[string]capacity.Run {
	all := map[string]capacity.Run{}
	closed := func(at time.Time, still map[string]capacity.Run) {
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

		now.Apply(line)

		if line.Full {
			closed(line.At, line.Runs)
		}

		maps.Copy(all, line.Runs)
	}

	closed(now.At.Add(now.ValidFor.Duration), nil)

	return all
}

// endOf returns the end of a run; forever if it still goes on.
func endOf(r capacity.Run) time.Time { return cmp.Or(r.End, forever) }

func overlap(a, b capacity.Run) bool {
	return a.Start.Before(endOf(b)) && b.Start.Before(endOf(a))
}
