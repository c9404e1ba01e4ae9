package timeline

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Measures of the picture in its own units, which are pixels where it is not scaled.
const (
	svgWidth   = 1040
	margin     = 24
	chartLeft  = 250
	chartWidth = svgWidth - chartLeft - margin
	axisTop    = 104
	lineHeight = 16
	barHeight  = 18
	// leastBar is how wide the shortest phase is drawn.
	leastBar = 5
	// tickRoom is what a label on the axis needs.
	tickRoom = 88
	// longest names that fit left of the chart, in characters.
	longestName = 30
)

// picture is a chart on its way to SVG; y is how far down it has come. Bars are kept
// apart, so that the line of now is above them and below all text.
type picture struct {
	Chart
	marks
	shapes marks
	y      int
}

// SVG draws the chart as a document of its own, without fonts, scripts or references to
// anything outside. It follows the reader's light or dark scheme on a ground of its own,
// and has all times in UTC and in Zone.
func (c Chart) SVG() ([]byte, error) {
	body := &picture{Chart: c, y: axisTop}
	body.lanes()
	bottom := body.y

	p := &picture{Chart: c}
	legend := p.legendLines()
	height := bottom + 54 + len(legend)*24
	p.rect("page", 0, 0, svgWidth, height)
	p.head()
	p.axis(axisTop, -8, bottom, c.Zone)
	if !c.onlyUTC() {
		p.axis(bottom, 18, bottom, time.UTC)
	}
	p.marks = append(p.marks, body.shapes...)
	p.now(bottom)
	p.marks = append(p.marks, body.marks...)
	p.y = bottom + 46
	p.legend(legend)
	return page{
		ID:          "pcs-timeline",
		Title:       "Capacity in " + clean(c.Region),
		Description: c.description(),
		Width:       svgWidth,
		Height:      height,
		Style:       style(colours, rules),
		Hatches:     []hatch{reclaimedHatch},
		Marks:       p.marks,
	}.svg()
}

// zones are those that times are written in.
func (c Chart) zones() []*time.Location {
	if c.onlyUTC() {
		return []*time.Location{time.UTC}
	}
	return []*time.Location{time.UTC, c.Zone}
}

// onlyUTC reports whether local time is UTC all through the chart.
func (c Chart) onlyUTC() bool {
	for _, at := range []time.Time{c.From, c.Now, c.To} {
		if name, offset := at.In(c.Zone).Zone(); offset != 0 || name != "UTC" {
			return false
		}
	}
	return true
}

// description is what a screen reader says: all of the picture in sentences.
func (c Chart) description() string {
	says := []string{"Now " + c.Now.UTC().Format("2006-01-02 15:04 MST") + "."}
	for _, lane := range c.Lanes {
		for _, b := range lane.Blocks {
			parts := append(about(b), blockTimes(b, c.Now, time.UTC)...)
			for _, e := range extensionTimes(b, time.UTC) {
				parts = append(parts, strings.Join(e, " "))
			}
			says = append(says, title(lane)+": "+clean(b.Reservation.ID)+", "+strings.Join(parts, ", ")+".")
		}
		for _, g := range lane.Gaps {
			says = append(says, title(lane)+": "+strings.Join(gapTimes(g, time.UTC), " ")+".")
		}
	}
	return strings.Join(says, " ")
}

// head writes the title and the time of the drawing.
func (p *picture) head() {
	p.label("ink heading", margin, 38, "Capacity in "+clean(p.Region))
	var now []string
	for _, zone := range p.zones() {
		now = append(now, p.Now.In(zone).Format("2006-01-02 15:04 MST"))
	}
	p.label("soft", margin, 60, "Drawn "+strings.Join(now, ", "))
}

// axis writes the days of a zone at a height, and fine lines down to bottom.
func (p *picture) axis(y, labels, bottom int, zone *time.Location) {
	p.line("axis", chartLeft, y, chartLeft+chartWidth, y)
	abbreviation := p.Now.In(zone).Format("MST")
	p.add(mark{Kind: "text", Class: "soft small", X: chartLeft - 10, Y: y + labels, Anchor: "end", Text: abbreviation})
	for _, t := range p.ticks(zone, chartWidth/tickRoom, "Mon 2 Jan") {
		x := chartLeft + max(0, p.column(t.at, chartWidth))
		if y < bottom {
			p.line("grid", x, y, x, bottom)
		}
		p.line("axis", x, y-3, x, y+3)
		if x+textWidth(t.label) <= svgWidth {
			p.label("soft small over", x, y+labels, t.label)
		}
	}
}

// lanes writes every lane below each other.
func (p *picture) lanes() {
	if len(p.Lanes) == 0 {
		p.y += 12
		p.label("soft", margin, p.y+16, "No reservation is known.")
		p.y += 36
	}
	for _, lane := range p.Lanes {
		p.shapes.rect("band", 0, p.y+6, svgWidth, 26)
		p.label("ink name", margin, p.y+24, short(title(lane)))
		p.bars(p.y+10, gapSpans(lane), func(Phase) string { return title(lane) + ": gap" })
		p.y += 34
		notes := 0
		for _, g := range lane.Gaps {
			if p.shows(Span{Gap, g.From, g.To}) {
				p.notes(func(zone *time.Location) string { return strings.Join(gapTimes(g, zone), " ") })
				notes++
			}
		}
		if len(lane.Blocks) == 0 {
			p.y += lineHeight
			p.label("soft small over", chartLeft, p.y, "no reservation in this time")
			notes++
		}
		if notes > 0 {
			p.y += 6
		}
		for _, b := range lane.Blocks {
			p.block(b)
		}
	}
	p.y += 10
}

// block writes one reservation: what it is on the left; its bar, and the times below it.
func (p *picture) block(b capacity.Block) {
	p.y += 6
	left := p.y + 14
	p.label("ink id", margin+12, left, short(clean(b.Reservation.ID)))
	parts := about(b)
	for i, part := range parts {
		p.label("soft small", margin+12, left+(i+1)*lineHeight, short(part))
	}
	whole := clean(b.Reservation.ID) + ": " + strings.Join(blockTimes(b, p.Now, time.UTC), ", ")
	p.bars(p.y, Spans(b, p.Now), func(phase Phase) string { return meanings[phase] + "\n" + whole })
	end := left + len(parts)*lineHeight + 10
	p.y += barHeight + 2
	p.notes(func(zone *time.Location) string { return strings.Join(blockTimes(b, p.Now, zone), " · ") })
	for i := range b.Extensions {
		p.notes(func(zone *time.Location) string { return strings.Join(extensionTimes(b, zone)[i], " ") })
	}
	p.y = max(p.y+10, end)
}

// notes writes a line in every zone.
func (p *picture) notes(says func(*time.Location) string) {
	for _, zone := range p.zones() {
		p.y += lineHeight
		p.label("soft small over", chartLeft, p.y, says(zone))
	}
}

// bars draws the spans of one row; says is what a pointer over one shows.
func (p *picture) bars(y int, spans []Span, says func(Phase) string) {
	for _, s := range p.place(spans, chartWidth, leastBar) {
		if s.to > s.from {
			var bar marks
			bar.bar(s.Phase, chartLeft+s.from, y, s.to-s.from)
			p.shapes.add(mark{Kind: "g", Text: says(s.Phase), Marks: bar})
		}
	}
	for _, s := range spans {
		if p.endsAfter(s) {
			p.shapes.bar(Beyond, chartLeft+chartWidth, y, 0)
			break
		}
	}
}

// now draws the time of the drawing through all rows.
func (p *picture) now(bottom int) {
	at, ok := p.nowColumn(chartWidth)
	if !ok {
		return
	}
	x := chartLeft + at
	p.line("now", x, axisTop-22, x, bottom+4)
	p.add(mark{Kind: "text", Class: "ink small name", X: x, Y: axisTop - 27, Anchor: "middle", Text: "now"})
}

// textWidth is the most that small text takes, in pixels: fonts differ, and DejaVu Sans,
// which is a wide one, takes 7.4 for each character of a date.
func textWidth(s string) int { return 8 * utf8.RuneCountInString(s) }

// short cuts a name that would reach into the chart.
func short(name string) string {
	if r := []rune(name); len(r) > longestName {
		return string(r[:longestName-1]) + "…"
	}
	return name
}
