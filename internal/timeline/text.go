package timeline

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// sheet is what a chart is drawn on: rows of spans with a name, and words below them.
type sheet interface {
	row(name string, spans []Span)
	note(parts ...string)
}

// draw draws all lanes, and returns the phases that are drawn, for a legend.
func (c Chart) draw(on sheet) (used []Phase) {
	var seen [phases]bool
	_, seen[Now] = c.nowColumn(1)
	row := func(name string, spans []Span) {
		on.row(name, spans)
		for _, s := range spans {
			seen[s.Phase] = seen[s.Phase] || c.shows(s)
			seen[Beyond] = seen[Beyond] || c.endsAfter(s)
		}
	}
	for _, lane := range c.Lanes {
		name := "no partition"
		if lane.Partition != "" {
			name = clean(lane.Partition)
		}
		var gaps []Span
		for _, g := range lane.Gaps {
			gaps = append(gaps, Span{Gap, g.From, g.To})
		}
		row(name, gaps)
		if len(lane.Blocks) == 0 {
			on.note("no reservation in this time")
		}
		for _, g := range gaps {
			if c.shows(g) {
				on.note(append([]string{"gap of " + capacity.FormatDuration(g.To.Sub(g.From)) + ":"},
					c.times(moment{"from", g.From}, moment{"to", g.To})...)...)
			}
		}
		for _, b := range lane.Blocks {
			row("  "+clean(b.Reservation.ID), Spans(b, c.Now))
			on.note(commas(about(b))...)
			on.note(commas(c.blockTimes(b))...)
			for _, e := range b.Extensions {
				says := "extended"
				if e.State != capacity.ExtensionPaid {
					says = "extension " + clean(e.State) + ":"
				}
				on.note(append([]string{says}, c.times(moment{"from", e.From}, moment{"to", e.To})...)...)
			}
		}
	}
	for p, yes := range seen {
		if yes {
			used = append(used, Phase(p))
		}
	}
	return used
}

// moment is a point in time, with the word for it.
type moment struct {
	word string
	at   time.Time
}

// times writes moments one after the other. A date is not repeated, and the zone is written at the end and wherever
// the clocks change.
func (c Chart) times(all ...moment) (parts []string) {
	date := ""
	for i, m := range all {
		at := m.at.In(c.Zone)
		layout := "2006-01-02 15:04"
		if at.Format(time.DateOnly) == date {
			layout = "15:04"
		}
		date = at.Format(time.DateOnly)
		if i == len(all)-1 || all[i+1].at.In(c.Zone).Format("MST") != at.Format("MST") {
			layout += " MST"
		}
		parts = append(parts, m.word+" "+at.Format(layout))
	}
	return parts
}

// blockTimes are the points in the life of a block: start, fence, reclaim, end.
func (c Chart) blockTimes(b capacity.Block) []string {
	w, opens, ends := b.Window, "opens", "ends"
	if !w.Start.After(c.Now) {
		opens = "opened"
	}
	if !w.End.After(c.Now) {
		ends = "ended"
	}
	all := []moment{{opens, w.Start}}
	if w.Unbounded() {
		all = slices.DeleteFunc(all, func(m moment) bool { return m.at.IsZero() })
		return append(c.times(all...), "no end")
	}
	all = append(all, moment{"fence", w.Fence})
	if !w.Reclaim.Equal(w.End) { // EC2 takes nothing back from an ODCR
		all = append(all, moment{"reclaim", w.Reclaim})
	}
	all = slices.DeleteFunc(append(all, moment{ends, w.End}), func(m moment) bool { return m.at.IsZero() })
	return c.times(all...)
}

// about says what a block is, in parts: size and type, state, zone, slot.
func about(b capacity.Block) []string {
	r := b.Reservation
	state := string(r.State)
	switch {
	case r.UltraServer:
		state = "UltraServer, " + state
	case !r.Kind.Bought():
		state = string(r.Kind) + ", " + state
	}
	parts := []string{clean(fmt.Sprintf("%d x %s", r.Size(), r.InstanceType)), clean(state)}
	if zone := capacity.FormatZone(r.AZID, r.AZ); zone != "" {
		parts = append(parts, clean(zone))
	}
	if b.Slot != "" {
		slot := "node group " + clean(b.Slot)
		if b.NodesIdle != nil {
			slot += fmt.Sprintf(": %d idle", *b.NodesIdle)
		}
		parts = append(parts, slot)
	}
	return parts
}

// commas puts one behind each part but the last.
func commas(parts []string) []string {
	for i := range len(parts) - 1 {
		parts[i] += ","
	}
	return parts
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

// Look is what a terminal can show.
type Look struct {
	// Width in columns; below 40 it counts as 40.
	Width int
	// Unicode allows more than ASCII.
	Unicode bool
}

// glyphs are how phases look in text.
var glyphs = [phases]struct{ unicode, ascii rune }{
	{' ', ' '}, {'·', '.'}, {'█', '#'}, {'▓', '+'}, {'░', '?'}, {'▄', '~'}, {'╳', 'x'}, {'╌', '-'}, {'│', '|'}, {'▶', '>'},
}

const (
	leastWidth = 40
	// labelWidth holds a reservation id, indented by 2, and 2 blanks; a terminal below narrow has it on a line of its own.
	labelWidth = 24
	narrow     = 60
)

// drawing is a chart on its way to text.
type drawing struct {
	Chart
	Look
	out   strings.Builder
	label int // columns before a row's cells
	cells int // columns of a row
}

// Text draws the chart for a terminal. In ASCII it shows the same.
func (c Chart) Text(look Look) string {
	look.Width = max(look.Width, leastWidth)
	d := drawing{Chart: c, Look: look, label: labelWidth}
	if look.Width < narrow {
		d.label = 2
	}
	d.cells = look.Width - d.label
	d.head()
	used := c.draw(&d)
	d.out.WriteByte('\n')
	line, width := "", 0
	for _, p := range used {
		n := 2 + utf8.RuneCountInString(meanings[p])
		if width > 0 && width+3+n > d.Width {
			d.line(line)
			line, width = "", 0
		}
		if width > 0 {
			line, width = line+"   ", width+3
		}
		line, width = line+d.glyph(p)+" "+meanings[p], width+n
	}
	d.line(line)
	return d.out.String()
}

// head writes the region, the time now, and the axis.
func (d *drawing) head() {
	day := func(t time.Time) string { return t.In(d.Zone).Format(time.DateOnly) }
	d.wrap("", "Capacity in "+clean(d.Region)+",", day(d.From), "to "+day(d.To)+",", "now "+d.Now.In(d.Zone).Format("2006-01-02 15:04 MST"))
	d.out.WriteByte('\n')
	labels := []rune(strings.Repeat(" ", d.cells))
	axis := []rune(strings.Repeat(string(d.either('─', '-')), d.cells))
	for _, t := range d.ticks(d.cells / len("Jan 02   ")) {
		at := d.column(t.at, d.cells)
		if at >= d.cells {
			continue
		}
		axis[at] = d.either('┬', '+')
		if at+len(t.label) <= d.cells {
			copy(labels[at:], []rune(t.label))
		}
	}
	if at, ok := d.nowColumn(d.cells); ok {
		axis[at] = d.either('▼', 'v')
	}
	d.line(strings.Repeat(" ", d.label) + string(labels))
	d.line(strings.Repeat(" ", d.label) + string(axis))
}

func (d *drawing) either(unicode, ascii rune) rune {
	if d.Unicode {
		return unicode
	}
	return ascii
}

// row writes a label and the cells of its spans. A label that is too long gets a line of its own, and a row without
// spans has then no other.
func (d *drawing) row(label string, spans []Span) {
	if n := utf8.RuneCountInString(label); n+2 > d.label {
		d.line(label)
		if len(spans) == 0 {
			return
		}
		label = ""
	}
	text := label + strings.Repeat(" ", d.label-utf8.RuneCountInString(label))
	for _, p := range d.Chart.cells(spans, d.cells) {
		text += d.glyph(p)
	}
	d.line(text)
}

func (d *drawing) glyph(p Phase) string { return string(d.either(glyphs[p].unicode, glyphs[p].ascii)) }

func (d *drawing) note(parts ...string) { d.wrap("    ", parts...) }

// wrap writes parts in as few lines as they need; it never breaks a part.
func (d *drawing) wrap(indent string, parts ...string) {
	line := indent
	for _, p := range parts {
		if line != indent {
			if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(p) > d.Width {
				d.line(line)
				line = indent
			} else {
				line += " "
			}
		}
		line += p
	}
	d.line(line)
}

func (d *drawing) line(s string) { d.out.WriteString(strings.TrimRight(s, " ") + "\n") }
