package timeline

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Look is what a terminal can show.
type Look struct {
	// Width in columns; below 40 it counts as 40.
	Width int
	// Colour allows ANSI colours; Unicode allows more than ASCII.
	Colour, Unicode bool
}

// glyph is how a phase looks in text.
type glyph struct {
	unicode, ascii rune
	colour         string // of ANSI's Select Graphic Rendition; "" for the terminal's own
}

var glyphs = [phases]glyph{
	Blank:     {' ', ' ', ""},
	Waiting:   {'·', '.', ""},
	Open:      {'█', '#', "32"},
	Extended:  {'▓', '+', "36"},
	Unpaid:    {'░', '?', "33"},
	Draining:  {'▄', '~', "33"},
	Reclaimed: {'╳', 'x', "31"},
	Gap:       {'╌', '-', "35"},
	Now:       {'│', '|', "1"},
	Beyond:    {'▶', '>', "32"},
}

const (
	leastWidth = 40
	// labelWidth holds a reservation id, indented by 2, and 2 blanks.
	labelWidth = 24
	// narrow is the width below which labels get lines of their own.
	narrow = 60
	// noteIndent is that of the lines below a row.
	noteIndent = "    "
)

// drawing is a chart on its way to text.
type drawing struct {
	Chart
	Look
	out   strings.Builder
	label int // columns before a row's cells
	cells int // columns of a row
}

// Text draws the chart for a terminal. Without colours and in ASCII it shows the same.
func (c Chart) Text(look Look) string {
	look.Width = max(look.Width, leastWidth)
	d := drawing{Chart: c, Look: look, label: labelWidth}
	if look.Width < narrow {
		d.label = 2
	}
	d.cells = look.Width - d.label
	d.head()
	for _, lane := range c.Lanes {
		d.row(title(lane), gapSpans(lane))
		if len(lane.Blocks) == 0 {
			d.line(noteIndent + "no reservation in this time")
		}
		for _, g := range lane.Gaps {
			if c.shows(Span{Gap, g.From, g.To}) {
				d.wrap(noteIndent, gapTimes(g, c.Zone))
			}
		}
		for _, b := range lane.Blocks {
			d.row("  "+clean(b.Reservation.ID), Spans(b, c.Now))
			d.wrap(noteIndent, commas(about(b)))
			d.wrap(noteIndent, commas(blockTimes(b, c.Now, c.Zone)))
			for _, e := range extensionTimes(b, c.Zone) {
				d.wrap(noteIndent, e)
			}
		}
	}
	d.legend()
	return d.out.String()
}

// head writes the region, the time now, and the axis.
func (d *drawing) head() {
	day := func(t time.Time) string { return t.In(d.Zone).Format(time.DateOnly) }
	d.wrap("", []string{"Capacity in " + clean(d.Region) + ",", day(d.From), "to " + day(d.To) + ",",
		"now " + d.Now.In(d.Zone).Format("2006-01-02 15:04 MST")})
	d.out.WriteByte('\n')
	const layout = "Jan 02"
	labels := []rune(strings.Repeat(" ", d.cells))
	axis := []rune(strings.Repeat(string(d.either('─', '-')), d.cells))
	for _, t := range d.ticks(d.Zone, d.cells/(len(layout)+3), layout) {
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

// row writes a label and the cells of its spans. A label that is too long gets a line
// of its own, and a row without spans has then no other.
func (d *drawing) row(label string, spans []Span) {
	if n := utf8.RuneCountInString(label); n+2 > d.label {
		d.line(label)
		if len(spans) == 0 {
			return
		}
		label = ""
	}
	d.line(label + strings.Repeat(" ", d.label-utf8.RuneCountInString(label)) + d.paint(d.Chart.cells(spans, d.cells)))
}

// paint writes cells, each run of one phase in its colour.
func (d *drawing) paint(cells []Phase) string {
	var out strings.Builder
	for i := 0; i < len(cells); {
		n := 1
		for i+n < len(cells) && cells[i+n] == cells[i] {
			n++
		}
		out.WriteString(d.glyphs(cells[i], n))
		i += n
	}
	return out.String()
}

func (d *drawing) glyphs(p Phase, n int) string {
	g := glyphs[p]
	text := strings.Repeat(string(d.either(g.unicode, g.ascii)), n)
	if d.Colour && g.colour != "" {
		return "\033[" + g.colour + "m" + text + "\033[0m"
	}
	return text
}

// wrap writes parts in as few lines as they need; it never breaks a part.
func (d *drawing) wrap(indent string, parts []string) {
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

// commas puts one behind each part but the last.
func commas(parts []string) []string {
	for i := range len(parts) - 1 {
		parts[i] += ","
	}
	return parts
}

func (d *drawing) line(s string) { d.out.WriteString(strings.TrimRight(s, " ") + "\n") }

// legend explains the glyphs that were drawn.
func (d *drawing) legend() {
	d.out.WriteByte('\n')
	line, used := "", 0
	for _, p := range d.used() {
		n := 2 + utf8.RuneCountInString(meanings[p])
		if used > 0 && used+3+n > d.Width {
			d.line(line)
			line, used = "", 0
		}
		if used > 0 {
			line, used = line+"   ", used+3
		}
		line, used = line+d.glyphs(p, 1)+" "+meanings[p], used+n
	}
	d.line(line)
}
