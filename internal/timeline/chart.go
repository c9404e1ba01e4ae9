// Package timeline draws when reserved capacity can be used, as text that fits a terminal and as SVG. Both draw the
// same rows with the same placement, in which the shortest block and the shortest drain margin can still be seen;
// nothing but these short ones is out of scale.
package timeline

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Chart is what is drawn: the time from From to To, with times in Zone.
type Chart struct {
	Region        string
	Now, From, To time.Time
	Lanes         []capacity.Lane
	Zone          *time.Location
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

// shows reports whether some of a span is inside the chart.
func (c Chart) shows(s Span) bool {
	return s.From.Before(c.To) && (s.To.IsZero() || s.To.After(c.From))
}

func (c Chart) endsAfter(s Span) bool { return s.To.IsZero() || s.To.After(c.To) }

func latest(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
func earliest(a, b time.Time) time.Time {
	return slices.MinFunc([]time.Time{a, b}, time.Time.Compare)
}

// The default range of a chart. EC2 sells blocks of up to 182 days that start up to 8 weeks ahead (EC2 User Guide,
// "Capacity Blocks"), so nothing that was bought ends later.
const (
	leastAhead = 14 * 24 * time.Hour
	mostAhead  = (182 + 56) * 24 * time.Hour
)

// MostBehind is how far before now a chart begins that is told nothing else.
const MostBehind = 7 * 24 * time.Hour

// Fit sets From and To so that all blocks are in the chart: from the day of the first start, at most a week ago, until
// the last end, at least two weeks ahead. A time that is set already stays.
func (c *Chart) Fit() {
	from, to := c.Now, c.Now.Add(leastAhead)
	for _, lane := range c.Lanes {
		for _, b := range lane.Blocks {
			if !b.Window.Start.IsZero() {
				from = earliest(from, b.Window.Start)
			}
			for _, s := range Spans(b, c.Now) {
				to = latest(to, s.To)
			}
		}
	}
	if c.From.IsZero() {
		local := latest(from, c.Now.Add(-MostBehind)).In(c.Zone)
		c.From = time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, c.Zone)
	}
	if c.To.IsZero() {
		c.To = latest(earliest(to, c.Now.Add(mostAhead)), c.From.Add(time.Hour))
	}
}

// tick is a mark on the axis.
type tick struct {
	at    time.Time
	label string
}

// steps are those between two ticks: minutes within a day, then days.
var steps = []struct{ minutes, days int }{{1, 0}, {2, 0}, {5, 0}, {10, 0}, {15, 0}, {30, 0}, {60, 0}, {120, 0}, {180, 0},
	{360, 0}, {720, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 7}, {0, 14}, {0, 28}, {0, 42}, {0, 91}, {0, 364}}

// ticks marks the axis at round local times, at most most of them and at least 1.
func (c Chart) ticks(most int) []tick {
	i := slices.IndexFunc(steps, func(s struct{ minutes, days int }) bool {
		length := time.Duration(s.minutes)*time.Minute + time.Duration(s.days)*24*time.Hour
		return c.To.Sub(c.From)/length < time.Duration(max(most, 1))
	})
	step := steps[len(steps)-1]
	if i >= 0 {
		step = steps[i]
	}
	first := c.From.In(c.Zone)
	day := first.Day()
	if step.days >= 7 { // weeks begin on Monday
		day -= (int(first.Weekday()) + 6) % 7
	}
	var all []tick
	for i := 0; ; i++ {
		// Wall time, so that a day of 23 or 25 hours shifts nothing.
		at := time.Date(first.Year(), first.Month(), day+i*step.days, 0, i*step.minutes, 0, 0, c.Zone)
		if !at.Before(c.To) {
			return all
		}
		if at.Before(c.From) || len(all) > 0 && !at.After(all[len(all)-1].at) {
			continue
		}
		label := at.Format("Jan 02")
		if h, m, _ := at.Clock(); h != 0 || m != 0 {
			label = at.Format("15:04")
		}
		all = append(all, tick{at, label})
	}
}

// stretch is where a span is drawn: columns (or pixels) from from to to, to not included.
type stretch struct {
	Phase
	from, to int
}

// column is where a time is drawn in a chart of some width; outside of it the result is below 0, or width and more.
func (c Chart) column(t time.Time, width int) int {
	at := float64(t.Sub(c.From)) / float64(c.To.Sub(c.From)) * float64(width)
	return int(min(max(at+0.5, -1), float64(width)+1)) // far away times do not fit an int of every machine
}

// nowColumn is the column that the time of the drawing falls into.
func (c Chart) nowColumn(width int) (int, bool) {
	if c.Now.Before(c.From) || !c.Now.Before(c.To) {
		return 0, false
	}
	return min(c.column(c.Now, width), width-1), true
}

// place puts the spans of one row into width columns. Each gets at least least columns, which it takes from the one
// before it: the end stays where it is. Where that would move a start that is not over to the left, the rest is moved
// to the right instead, so that nothing to come is drawn before now.
func (c Chart) place(spans []Span, width, least int) []stretch {
	var row []stretch
	waits := false
	for _, s := range spans {
		switch {
		case !c.shows(s):
		case s.Phase == Waiting:
			waits = true
		case c.endsAfter(s):
			row = append(row, stretch{s.Phase, max(0, c.column(s.From, width)), width})
		default:
			row = append(row, stretch{s.Phase, max(0, c.column(s.From, width)), min(c.column(s.To, width), width)})
		}
	}
	leftmost := 0
	if last := len(spans) - 1; len(row) > 0 && (spans[last].To.IsZero() || spans[last].To.After(c.Now)) {
		leftmost = max(0, min(row[0].from, width-least*len(row)))
	}
	limit := width
	for i := len(row) - 1; i >= 0; i-- {
		s := &row[i]
		s.to = min(s.to, limit)
		s.from = min(s.from, s.to-least)
		limit = s.from
	}
	limit = leftmost
	for i := range row {
		s := &row[i]
		s.from = max(s.from, limit)
		s.to = max(s.to, s.from+least)
		limit = s.to
	}
	if waits { // it leads the eye from now to the start, wherever that is drawn
		wait := stretch{Waiting, max(0, c.column(c.Now, width)), width}
		if len(row) > 0 {
			wait.to = row[0].from
		}
		row = append([]stretch{wait}, row...)
	}
	return row
}

// cells are the columns of one row, width in all.
func (c Chart) cells(spans []Span, width int) []Phase {
	row := make([]Phase, width)
	for _, s := range c.place(spans, width, 1) {
		for i := s.from; i < min(s.to, width); i++ {
			row[i] = s.Phase
		}
	}
	if slices.ContainsFunc(spans, c.endsAfter) {
		row[width-1] = Beyond
	}
	at, ok := c.nowColumn(width)
	alone := ok && row[at] != Blank && (at == 0 || row[at-1] != row[at]) && (at == width-1 || row[at+1] != row[at])
	if ok && !alone { // what is one column wide stays
		row[at] = Now
	}
	return row
}
