// Package timeline draws when reserved capacity can be used, for `pcs-capacity timeline`: as text that fits a terminal
// ([Chart.Text]) and as SVG ([Chart.SVG]).
//
// Both draw the same rows with the same placement, in which the shortest block and the shortest drain margin can still
// be seen; nothing but these short ones is out of scale.
package timeline

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Chart draws the time from From to To, with times in Zone.
type Chart struct {
	Region string          `json:"region"`
	Now    time.Time       `json:"now"`
	From   time.Time       `json:"from"`
	To     time.Time       `json:"to"`
	Lanes  []capacity.Lane `json:"lanes"`
	Zone   *time.Location  `json:"-"`
}

// Phase classifies the state of a block, or of a partition, for some time.
type Phase int

// The phases, in the order of the legend.
const (
	Blank Phase = iota // nothing to draw
	Waiting
	Open
	Unpaid
	Draining
	Reclaimed
	Gap
	Now
	phases // how many there are
)

// looks show the phases: in the legend, in text, on a light and on a dark page with a contrast of 3 (WCAG 2).
var looks = [phases]struct{ meaning, glyph, light, dark string }{
	Blank:   {"", " ", "", ""},
	Waiting: {"not open yet", "·", "#57606a", "#9da7b3"},
	Open:    {"open for jobs", "█", "#1a7f37", "#3fb950"},
	Unpaid: {
		"payment pending",
		"░",
		"#9a6700",
		"#d29922",
	},
	Draining: {"drain margin: no jobs", "▄", "#bc6c00", "#e3b341"},
	Reclaimed: {
		"EC2 takes instances back",
		"╳",
		"#cf222e",
		"#ff7b72",
	},
	Gap: {"gap: no capacity", "╌", "#8250df", "#bc8cff"},
	Now: {"now", "│", "#1f2328", "#f0f6fc"},
}

// Span is a phase from From to To.
type Span struct {
	Phase    Phase
	From, To time.Time
}

// Spans returns the phases of a block at a time, in order and without overlap.
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
		return append(spans, Span{usable, start, start.AddDate(100, 0, 0)})
	}
	// A window shorter than the margin has its fence before its start.
	fence := latest(start, b.Window.Fence)
	reclaim := latest(start, b.Window.Reclaim)
	add(usable, start, fence)
	add(Draining, fence, reclaim)
	add(Reclaimed, reclaim, b.Window.End)

	return spans
}

// shows reports whether some of a span is inside the chart.
func (c Chart) shows(s Span) bool { return s.From.Before(c.To) && s.To.After(c.From) }

func latest(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

func earliest(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }

// The least range of a chart, and how far after now it goes.
const leastRange, leastAhead = 7 * 24 * time.Hour, 14 * 24 * time.Hour

// MostBehind bounds how far before now a chart begins unless it is told otherwise.
const MostBehind = 7 * 24 * time.Hour

// Fit sets From and To so that all blocks are in the chart: from the day of the first start, at most a week ago, until
// the last end, at least two weeks ahead. A time that is set already stays.
func (c *Chart) Fit() {
	from := c.Now
	to := c.Now.Add(leastAhead)
	for _, lane := range c.Lanes {
		for _, b := range lane.Blocks {
			for _, s := range Spans(b, c.Now) {
				from = earliest(from, s.From)
				if !b.Window.Unbounded() {
					to = latest(to, s.To)
				}
			}
		}
	}

	if c.From.IsZero() {
		local := latest(from, c.Now.Add(-MostBehind)).In(c.Zone)
		c.From = time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, c.Zone)
	}

	if c.To.IsZero() {
		c.To = latest(to, c.From.Add(leastRange))
	}
}

// days are the distances of two ticks that are read easily.
var days = []int{1, 2, 3, 4, 7, 14, 28, 42, 91}

// ticks marks the axis at local midnights, at most most of them and at least 1.
func (c Chart) ticks(most int) (all []time.Time) {
	const day = 24 * time.Hour

	i := slices.IndexFunc(
		days,
		func(n int) bool { return c.To.Sub(c.From)/(time.Duration(n)*day) < time.Duration(max(most, 1)) },
	)
	step := days[len(days)-1]
	if i >= 0 {
		step = days[i]
	}

	first := c.From.In(c.Zone)
	if step >= 7 { // weeks begin on Monday
		first = first.AddDate(0, 0, -(int(first.Weekday())+6)%7)
	}
	// Wall time, so that a day of 23 or 25 hours shifts nothing.
	midnight := time.Date(first.Year(), first.Month(), first.Day(), 0, 0, 0, 0, c.Zone)
	for at := midnight; at.Before(c.To); at = at.AddDate(0, 0, step) {
		if !at.Before(c.From) {
			all = append(all, at)
		}
	}

	return all
}

// stretch places a span in columns (or pixels): from is its first, to the one after its last.
type stretch struct {
	Phase
	from, to int
}

// column places a time in a chart of some width; outside of it the result is below 0, or width and more.
func (c Chart) column(t time.Time, width int) int {
	at := float64(t.Sub(c.From)) / float64(c.To.Sub(c.From)) * float64(width)
	return int(min(max(at+0.5, -1), float64(width)+1)) // far away times do not fit an int of every machine
}

// nowColumn returns the column that the time of the drawing falls into.
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
		default:
			row = append(row, stretch{s.Phase, max(0, c.column(s.From, width)), min(c.column(s.To, width), width)})
		}
	}

	leftmost := 0
	if last := len(spans) - 1; len(row) > 0 && spans[last].To.After(c.Now) {
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

// cells returns the columns of one row, width in all.
func (c Chart) cells(spans []Span, width int) []Phase {
	row := make([]Phase, width)
	for _, s := range c.place(spans, width, 1) {
		for i := s.from; i < min(s.to, width); i++ {
			row[i] = s.Phase
		}
	}

	at, ok := c.nowColumn(width)
	alone := ok && row[at] != Blank && (at == 0 || row[at-1] != row[at]) && (at == width-1 || row[at+1] != row[at])
	if ok && !alone { // what is one column wide stays
		row[at] = Now
	}

	return row
}

// row is one line of the picture, with what is said below it.
type row struct {
	name  string
	spans []Span
	notes []string
}

// rows returns the partitions, each with its blocks.
func (c Chart) rows() (all []row) {
	for _, lane := range c.Lanes {
		of := row{name: clean(cmp.Or(lane.Partition, "no partition"))}
		for _, g := range lane.Gaps {
			span := Span{Gap, g.From, g.To}
			of.spans = append(of.spans, span)
			if c.shows(span) {
				of.notes = append(
					of.notes,
					fmt.Sprintf(
						"gap of %s: from %s to %s",
						capacity.FormatDuration(g.To.Sub(g.From)),
						c.time(g.From),
						c.time(g.To),
					),
				)
			}
		}

		if len(lane.Blocks) == 0 {
			of.notes = append(of.notes, "no reservation in this time")
		}

		all = append(all, of)
		for _, b := range lane.Blocks {
			all = append(all, row{"  " + clean(b.Reservation.ID), Spans(b, c.Now), []string{about(b), c.times(b)}})
		}
	}

	return all
}

// The forms of times, in the zone that the head names; years are in the head too.
const timeForm, tickForm = "Jan 02 15:04", "Jan 02"

func (c Chart) time(at time.Time) string { return at.In(c.Zone).Format(timeForm) }

// head says where and when it is.
func (c Chart) head() string {
	return fmt.Sprintf(
		"Capacity in %s, %s to %s, now %s",
		clean(c.Region),
		c.From.In(c.Zone).Format(time.DateOnly),
		c.To.In(c.Zone).Format(time.DateOnly),
		c.Now.In(c.Zone).Format("2006-01-02 15:04 MST"),
	)
}

// times returns the points in the life of a block.
func (c Chart) times(b capacity.Block) string {
	w := b.Window
	if !b.Reservation.Kind.IsBlock() { // EC2 takes nothing back from an ODCR
		w.Reclaim = time.Time{}
	}

	var parts []string
	for i, at := range []time.Time{w.Start, w.Fence, w.Reclaim, w.End} {
		if !at.IsZero() {
			parts = append(parts, []string{"start", "fence", "reclaim", "end"}[i]+" "+c.time(at))
		}
	}

	if w.Unbounded() {
		parts = append(parts, "no end")
	}

	return strings.Join(parts, ", ")
}

// about says what a block is: size and type, state, zone, slot.
func about(b capacity.Block) string {
	r := b.Reservation
	parts := []string{fmt.Sprintf("%d x %s", r.Size(), r.InstanceType)}
	switch {
	case r.UltraServer:
		parts = append(parts, "UltraServer")
	case !r.Kind.IsBlock():
		parts = append(parts, string(r.Kind))
	}

	parts = append(parts, string(r.State))
	if zone := capacity.FormatZone(r.AZID, r.AZ); zone != "" {
		parts = append(parts, zone)
	}

	if b.Slot != "" {
		parts = append(parts, "node group "+b.Slot)
	}

	return clean(strings.Join(parts, ", "))
}

// clean replaces what could steer a terminal: names come from settings and from EC2.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

const (
	// LeastWidth of a picture in columns.
	LeastWidth = 60
	// labelWidth holds a reservation id, indented by 2, and 2 blanks.
	labelWidth = 24
)

// Text draws the chart in so many columns, at least 60. Notes may be longer.
func (c Chart) Text(width int) string {
	var out strings.Builder

	line := func(text string) { out.WriteString(strings.TrimRight(text, " ") + "\n") }

	width = max(width, LeastWidth) - labelWidth
	labels := []rune(strings.Repeat(" ", width))
	axis := []rune(strings.Repeat("─", width))
	for _, t := range c.ticks(width / len(tickForm+"   ")) {
		if at := c.column(t, width); at+len(tickForm) <= width {
			axis[at] = '┬'
			copy(labels[at:], []rune(t.Format(tickForm)))
		}
	}

	// Last, over a tick: the present is what a reader looks for.
	if at, ok := c.nowColumn(width); ok {
		axis[at] = '▼'
	}

	indent := strings.Repeat(" ", labelWidth)
	for _, text := range []string{c.head(), "", indent + string(labels), indent + string(axis)} {
		line(text)
	}

	for _, r := range c.rows() {
		label := r.name
		if utf8.RuneCountInString(label)+2 > labelWidth { // it gets a line of its own
			line(label)
			label = ""
		}

		label += strings.Repeat(" ", labelWidth-utf8.RuneCountInString(label))
		for _, p := range c.cells(r.spans, width) {
			label += looks[p].glyph
		}

		line(label)

		for _, note := range r.notes {
			line("  " + note)
		}
	}

	line("")

	for p := Waiting; p < phases; p++ {
		line(looks[p].glyph + " " + looks[p].meaning)
	}

	return out.String()
}

// Measures of the picture in pixels; leastBar is how wide the shortest phase is drawn.
const (
	svgWidth              = 1040
	margin                = 24
	axisTop               = 88
	barHeight             = 16
	leastBar              = 5
	chartLeft, chartWidth = 250, svgWidth - 250 - margin
)

// SVG draws the chart as a document of its own, without fonts, scripts or references to anything outside. It follows
// the reader's light or dark scheme.
func (c Chart) SVG() []byte {
	var out, light, dark strings.Builder

	text := func(x, y int, class, text string) {
		fmt.Fprintf(&out, "<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, html.EscapeString(text))
	}
	bar := func(phase Phase, x, y, width, height int) { // a pointer over it shows which
		fmt.Fprintf(
			&out,
			"<rect class=\"p%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"><title>%s</title></rect>\n",
			phase,
			x,
			y,
			width,
			height,
			looks[phase].meaning,
		)
	}

	text(margin, 40, "head", c.head())

	for _, t := range c.ticks(chartWidth / 88) {
		x := chartLeft + max(0, c.column(t, chartWidth))
		bar(Waiting, x, axisTop-4, 1, 8)
		text(x, axisTop-10, "", t.Format(tickForm))
	}

	now, inside := c.nowColumn(chartWidth)
	y := axisTop
	for _, r := range c.rows() {
		y += barHeight + 12
		if block, ok := strings.CutPrefix(r.name, "  "); ok {
			text(margin+8, y, "", block)
		} else {
			text(margin, y, "name", r.name)
		}

		for _, s := range c.place(r.spans, chartWidth, leastBar) {
			height := barHeight
			if s.Phase == Waiting {
				height = 2
			}

			bar(s.Phase, chartLeft+s.from, y-4-height/2, s.to-s.from, height)
		}

		if inside { // on the bars alone: a line would cross out the notes
			bar(Now, chartLeft+now, y-16, 2, barHeight+4)
		}

		for _, note := range r.notes {
			y += barHeight
			text(chartLeft, y, "", note)
		}
	}

	y += 2 * barHeight
	for p := Waiting; p < phases; p++ {
		x := margin + (int(p)-1)%4*(svgWidth-2*margin)/4
		y := y + (int(p)-1)/4*24
		bar(p, x, y-12, 22, barHeight)
		text(x+30, y, "", looks[p].meaning)
	}

	// Both schemes are in the document: the viewer chooses.
	for phase, look := range looks {
		fmt.Fprintf(&light, ".p%d{fill:%s}", phase, look.light)
		fmt.Fprintf(&dark, ".p%d{fill:%s}", phase, look.dark)
	}

	height := y + (int(phases)+2)/4*24

	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">
<style>text{font:12px system-ui,sans-serif;fill:#1f2328}.head{font-size:18px;font-weight:600}.name{font-weight:600}.page{fill:#fff}%s
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.page{fill:#0d1117}%s}</style>
<rect class="page" width="%d" height="%d"/>
%s</svg>
`, svgWidth, height, &light, &dark, svgWidth, height, out.String())
}
