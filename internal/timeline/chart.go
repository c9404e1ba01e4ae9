// Package timeline draws when reserved capacity can be used, as text that fits a
// terminal and as SVG. Both draw the same spans of time with the same placement, in
// which the shortest block and the shortest drain margin can still be seen; nothing
// but these short ones is out of scale.
package timeline

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Chart is what is drawn: the time from From to To.
type Chart struct {
	Region        string
	Now, From, To time.Time
	Lanes         []capacity.Lane
	// Zone is the zone of the times in text; SVG has them in UTC as well.
	Zone *time.Location
}

// Phase is what is true of a block, or of a partition, for some time.
type Phase int

// The phases, in the order of the legend.
const (
	Blank     Phase = iota // nothing to draw
	Waiting                // bought, not open yet
	Open                   // jobs can run
	Extended               // jobs can run, because of an extension that was paid
	Unpaid                 // a block or an extension whose payment is pending
	Draining               // from the fence until EC2 takes instances back
	Reclaimed              // EC2 takes instances back, until the end
	Gap                    // a partition has no block to run in, and a later one comes
	Now                    // the time of the drawing
	Beyond                 // it goes on to the right of the drawing
	phases                 // how many there are
)

var meanings = [phases]string{
	Waiting: "not open yet", Open: "open for jobs", Extended: "open, by an extension", Unpaid: "payment pending",
	Draining: "drain margin: no jobs", Reclaimed: "EC2 takes instances back", Gap: "gap: no capacity", Now: "now", Beyond: "goes on",
}

// Span is a phase from From to To; a zero To is never.
type Span struct {
	Phase    Phase
	From, To time.Time
}

// Spans are the phases of a block at a time, in order and without overlap.
func Spans(b capacity.Block, now time.Time) []Span {
	var spans []Span
	add := func(p Phase, from, to time.Time) {
		if to.After(from) {
			spans = append(spans, Span{p, from, to})
		}
	}
	start := b.Window.Start
	if start.IsZero() { // EC2 gives none to a reservation that it still assesses
		start = now
	}
	usable := Open
	if b.Reservation.State == capacity.StatePaymentPending {
		usable = Unpaid
	}
	add(Waiting, now, start)
	if b.Window.Unbounded() {
		return append(spans, Span{usable, start, time.Time{}})
	}
	// A window shorter than the margin has its fence before its start.
	fence, reclaim := latest(start, b.Window.Fence), latest(start, b.Window.Reclaim)
	extended := fence
	for _, e := range b.Extensions {
		if e.State == capacity.ExtensionPaid {
			extended = earliest(extended, latest(start, e.From))
		}
	}
	add(usable, start, extended)
	add(Extended, extended, fence)
	add(Draining, fence, reclaim)
	add(Reclaimed, reclaim, b.Window.End)
	for _, e := range b.Extensions {
		if e.State == capacity.ExtensionPending {
			add(Unpaid, latest(b.Window.End, e.From), e.To)
		}
	}
	return spans
}

// gapSpans are the gaps of a lane.
func gapSpans(lane capacity.Lane) []Span {
	var spans []Span
	for _, g := range lane.Gaps {
		spans = append(spans, Span{Gap, g.From, g.To})
	}
	return spans
}

// used are the phases that a chart draws, for its legend.
func (c Chart) used() []Phase {
	var used [phases]bool
	used[Now] = !c.Now.Before(c.From) && c.Now.Before(c.To)
	for _, lane := range c.Lanes {
		spans := gapSpans(lane)
		for _, b := range lane.Blocks {
			spans = append(spans, Spans(b, c.Now)...)
		}
		for _, s := range spans {
			used[s.Phase] = used[s.Phase] || c.shows(s)
			used[Beyond] = used[Beyond] || c.endsAfter(s)
		}
	}
	var list []Phase
	for p, yes := range used {
		if yes {
			list = append(list, Phase(p))
		}
	}
	return list
}

// shows reports whether some of a span is inside the chart.
func (c Chart) shows(s Span) bool {
	return s.From.Before(c.To) && (s.To.IsZero() || s.To.After(c.From))
}

func (c Chart) endsAfter(s Span) bool { return s.To.IsZero() || s.To.After(c.To) }

func latest(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
func earliest(a, b time.Time) time.Time {
	return slices.MinFunc([]time.Time{a, b}, time.Time.Compare)
}
