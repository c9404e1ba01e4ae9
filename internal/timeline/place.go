package timeline

import "time"

// stretch is where a span is drawn: columns (or pixels) from to to, to not included.
type stretch struct {
	Phase
	from, to int
}

// column is where a time is drawn in a chart of some width; outside of it the result
// is below 0, or width and more.
func (c Chart) column(t time.Time, width int) int {
	total := c.To.Sub(c.From)
	at := float64(t.Sub(c.From)) / float64(total) * float64(width)
	// Far away times do not fit an int of every machine.
	return int(min(max(at+0.5, -1), float64(width)+1))
}

// place puts the spans of one row into width columns. Each gets at least least
// columns, which it takes from the one before it: the end stays where it is. Where
// that would move a start that is not over to the left, the rest is moved to the right
// instead, so that nothing to come is drawn before now.
func (c Chart) place(spans []Span, width, least int) []stretch {
	var row []stretch
	waits := false
	for _, s := range spans {
		if !c.shows(s) {
			continue
		}
		if s.Phase == Waiting {
			waits = true
			continue
		}
		to := width
		if !c.endsAfter(s) {
			to = min(c.column(s.To, width), width)
		}
		row = append(row, stretch{s.Phase, max(0, c.column(s.From, width)), to})
	}
	leftmost := 0
	if len(row) > 0 && !ended(spans, c.Now) {
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

// ended reports whether the last of some spans has ended.
func ended(spans []Span, now time.Time) bool {
	last := spans[len(spans)-1]
	return !last.To.IsZero() && !last.To.After(now)
}

// cells are the columns of one row, width in all.
func (c Chart) cells(spans []Span, width int) []Phase {
	row := make([]Phase, width)
	for _, s := range c.place(spans, width, 1) {
		for i := s.from; i < min(s.to, width); i++ {
			row[i] = s.Phase
		}
	}
	for _, s := range spans {
		if c.endsAfter(s) {
			row[width-1] = Beyond
		}
	}
	if at, ok := c.nowColumn(width); ok && !alone(row, at) {
		row[at] = Now
	}
	return row
}

// nowColumn is the column that the time of the drawing falls into.
func (c Chart) nowColumn(width int) (int, bool) {
	if c.Now.Before(c.From) || !c.Now.Before(c.To) {
		return 0, false
	}
	return min(c.column(c.Now, width), width-1), true
}

// alone reports whether a column is all that is drawn of something.
func alone(row []Phase, at int) bool {
	p := row[at]
	if p == Blank {
		return false
	}
	return p == Beyond || (at == 0 || row[at-1] != p) && (at == len(row)-1 || row[at+1] != p)
}
