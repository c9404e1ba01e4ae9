package timeline

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// Measures of the picture in pixels.
const (
	svgWidth   = 1040
	margin     = 24
	chartLeft  = 250
	chartWidth = svgWidth - chartLeft - margin
	axisTop    = 88
	barHeight  = 16
	leastBar   = 5 // how wide the shortest phase is drawn
)

// svgColours are those of the phases on a light and on a dark page, with a contrast of 3 (WCAG 2).
var svgColours = [phases][2]string{
	Waiting: {"#57606a", "#9da7b3"}, Open: {"#1a7f37", "#3fb950"}, Extended: {"#0969da", "#58a6ff"}, Unpaid: {"#9a6700", "#d29922"},
	Draining: {"#bc6c00", "#e3b341"}, Reclaimed: {"#cf222e", "#ff7b72"}, Gap: {"#8250df", "#bc8cff"}, Now: {"#1f2328", "#f0f6fc"},
	Beyond: {"#1a7f37", "#3fb950"},
}

// picture is a chart on its way to SVG; y is how far down it has come.
type picture struct {
	Chart
	out strings.Builder
	y   int
}

// SVG draws the chart as a document of its own, without fonts, scripts or references to anything outside. It follows
// the reader's light or dark scheme.
func (c Chart) SVG() []byte {
	p := &picture{Chart: c, y: axisTop}
	p.text(margin, 36, "head", "Capacity in "+clean(c.Region))
	p.text(margin, 58, "", "Drawn "+c.Now.In(c.Zone).Format("2006-01-02 15:04 MST"))
	for _, t := range c.ticks(chartWidth / 88) {
		x := chartLeft + max(0, c.column(t.at, chartWidth))
		p.bar(Waiting, x, axisTop-4, 1, 8)
		p.text(x, axisTop-10, "", t.label)
	}
	used := c.draw(p)
	if at, ok := c.nowColumn(chartWidth); ok {
		p.bar(Now, chartLeft+at, axisTop-4, 2, 8)
	}
	p.y += 2 * barHeight
	for i, phase := range used {
		x := margin + i%4*(svgWidth-2*margin)/4
		p.bar(phase, x, p.y+i/4*24-12, 22, barHeight)
		p.text(x+30, p.y+i/4*24, "", meanings[phase])
	}
	height := p.y + (len(used)+3)/4*24
	var light, dark strings.Builder
	for phase, colours := range svgColours {
		fmt.Fprintf(&light, ".p%d{fill:%s}", phase, colours[0])
		fmt.Fprintf(&dark, ".p%d{fill:%s}", phase, colours[1])
	}
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">
<style>text{font:12px system-ui,sans-serif;fill:#1f2328}.head{font-size:20px;font-weight:600}.name{font-weight:600}.page{fill:#fff}%s
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.page{fill:#0d1117}%s}</style>
<rect class="page" width="%d" height="%d"/>
%s</svg>
`, svgWidth, height, &light, &dark, svgWidth, height, p.out.String())
}

func (p *picture) text(x, y int, class, text string) {
	fmt.Fprintf(&p.out, "<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, html.EscapeString(text))
}

// bar draws one phase; a pointer over it shows which.
func (p *picture) bar(phase Phase, x, y, width, height int) {
	if phase == Waiting && width > 1 {
		y, height = y+height/2, 2
	}
	fmt.Fprintf(&p.out, "<rect class=\"p%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"><title>%s</title></rect>\n", phase, x, y, width, height, meanings[phase])
}

func (p *picture) row(name string, spans []Span) {
	class := "name"
	if strings.HasPrefix(name, " ") {
		class = ""
	}
	p.y += barHeight + 12
	p.text(margin+4*(len(name)-len(strings.TrimLeft(name, " "))), p.y, class, strings.TrimSpace(name))
	for _, s := range p.place(spans, chartWidth, leastBar) {
		p.bar(s.Phase, chartLeft+s.from, p.y-12, s.to-s.from, barHeight)
	}
	if at, ok := p.nowColumn(chartWidth); ok { // on the bars alone: a line would cross out the notes
		p.bar(Now, chartLeft+at, p.y-16, 2, barHeight+4)
	}
	if slices.ContainsFunc(spans, p.endsAfter) {
		p.text(chartLeft+chartWidth+4, p.y, "name", "›")
	}
}

func (p *picture) note(parts ...string) {
	p.y += barHeight
	p.text(chartLeft, p.y, "", strings.Join(parts, " "))
}
