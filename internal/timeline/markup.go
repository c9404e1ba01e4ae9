package timeline

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// markup writes XML. Everything goes through encoding/xml, which escapes it. The first
// error stays, and bytes returns it.
type markup struct {
	out  bytes.Buffer
	enc  *xml.Encoder
	ends []xml.EndElement
	err  error
}

func newMarkup() *markup {
	m := &markup{}
	m.enc = xml.NewEncoder(&m.out)
	return m
}

func (m *markup) token(t xml.Token) {
	if m.err == nil {
		m.err = m.enc.EncodeToken(t)
	}
}

// open begins an element with attributes: name, value, name, value, ….
func (m *markup) open(name string, attributes ...string) {
	start := xml.StartElement{Name: xml.Name{Local: name}}
	for i := 0; i+1 < len(attributes); i += 2 {
		start.Attr = append(start.Attr, xml.Attr{Name: xml.Name{Local: attributes[i]}, Value: attributes[i+1]})
	}
	m.token(start)
	m.ends = append(m.ends, start.End())
}

// close ends the element that was opened last.
func (m *markup) close() {
	last := len(m.ends) - 1
	m.token(m.ends[last])
	m.ends = m.ends[:last]
}

func (m *markup) text(s string) { m.token(xml.CharData(s)) }

// leaf writes an element that holds text only.
func (m *markup) leaf(name, text string, attributes ...string) {
	m.open(name, attributes...)
	m.text(text)
	m.close()
	m.text("\n")
}

// raw puts in what another markup wrote.
func (m *markup) raw(other *markup) {
	text, err := other.bytes()
	if m.err == nil {
		m.err = err
	}
	if m.err == nil {
		m.err = m.enc.Flush()
	}
	m.out.Write(text)
}

func (m *markup) bytes() ([]byte, error) {
	if m.err == nil {
		m.err = m.enc.Flush()
	}
	return m.out.Bytes(), m.err
}

func (m *markup) label(class string, x, y int, text string) {
	m.leaf("text", text, "class", class, "x", strconv.Itoa(x), "y", strconv.Itoa(y))
}

func (m *markup) rect(class string, x, y, width, height int, more ...string) {
	m.leaf("rect", "", append([]string{"class", class, "x", strconv.Itoa(x), "y", strconv.Itoa(y),
		"width", strconv.Itoa(width), "height", strconv.Itoa(height)}, more...)...)
}

func (m *markup) line(class string, x1, y1, x2, y2 int) {
	m.leaf("line", "", "class", class, "x1", strconv.Itoa(x1), "y1", strconv.Itoa(y1), "x2", strconv.Itoa(x2), "y2", strconv.Itoa(y2))
}

// bar draws one phase, barHeight high.
func (m *markup) bar(p Phase, x, y, width int) {
	switch p {
	case Waiting:
		m.line("waiting", x, y+barHeight/2, x+width, y+barHeight/2)
	case Reclaimed:
		m.rect(shapes[p], x, y, width, barHeight)
		m.rect("", x, y, width, barHeight, "fill", "url(#pcs-timeline-hatch)")
	case Now:
		m.line("now", x+width/2, y, x+width/2, y+barHeight)
	case Beyond:
		m.leaf("path", "", "class", "beyond", "d", fmt.Sprintf("M%d %dl9 %dl-9 %dz", x+2, y+1, barHeight/2-1, barHeight/2-1))
	default:
		m.rect(shapes[p], x, y, width, barHeight)
	}
}

// hatch is the pattern that tells Reclaimed apart without its colour.
func (m *markup) hatch() {
	m.open("defs")
	m.open("pattern", "id", "pcs-timeline-hatch", "width", "6", "height", "6", "patternUnits", "userSpaceOnUse", "patternTransform", "rotate(45)")
	m.leaf("line", "", "class", "hatch", "x1", "1", "y1", "0", "x2", "1", "y2", "6")
	m.close()
	m.close()
}

// legendColumns is how many phases are explained on one line.
const legendColumns = 4

// legendLines are the phases that are drawn, so many on a line as fit.
func (p *picture) legendLines() [][]Phase {
	var lines [][]Phase
	for i, phase := range p.used() {
		if i%legendColumns == 0 {
			lines = append(lines, nil)
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], phase)
	}
	return lines
}

// legend explains the phases.
func (p *picture) legend(lines [][]Phase) {
	for _, line := range lines {
		for i, phase := range line {
			x := margin + i*(svgWidth-2*margin)/legendColumns
			p.bar(phase, x, p.y-14, 22)
			p.label("ink small", x+30, p.y, meanings[phase])
		}
		p.y += 24
	}
}

// shapes are the classes of the phases that are boxes.
var shapes = map[Phase]string{Open: "open", Extended: "extended", Unpaid: "unpaid", Draining: "draining", Reclaimed: "reclaimed", Gap: "gap"}

// colour has a name, and is another one on a light and on a dark page.
type colour struct{ name, light, dark string }

// colours by name, for a light and for a dark page. They keep the contrast that WCAG 2
// asks for: 4.5 for text, 3 for shapes.
var colours = []colour{
	{"page", "#ffffff", "#0d1117"},
	{"band", "#f1f4f7", "#1b222c"},
	{"ink", "#1f2328", "#f0f6fc"},
	{"soft", "#57606a", "#9da7b3"},
	{"grid", "#e3e8ed", "#262d37"},
	{"open", "#1a7f37", "#3fb950"},
	{"extended", "#0969da", "#58a6ff"},
	{"unpaid", "#9a6700", "#d29922"},
	{"draining", "#bc6c00", "#e3b341"},
	{"reclaimed", "#cf222e", "#ff7b72"},
	{"gap", "#8250df", "#bc8cff"},
}

// rules are the looks; {name} stands for a colour.
const rules = `
text{font:13px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
.heading{font-size:20px;font-weight:600}
.name{font-weight:600}
.small{font-size:12px}
.id{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:12px}
.page{fill:{page}}
.band{fill:{band}}
.ink{fill:{ink}}
.soft{fill:{soft}}
.over{stroke:{page};stroke-width:4px;paint-order:stroke}
.grid{stroke:{grid}}
.axis{stroke:{soft}}
.waiting{stroke:{soft};stroke-width:2;stroke-dasharray:2 5}
.open{fill:{open}}
.beyond{fill:{open}}
.extended{fill:{extended}}
.unpaid{fill:{unpaid};fill-opacity:.25;stroke:{unpaid};stroke-width:1.5;stroke-dasharray:5 3}
.draining{fill:{draining}}
.reclaimed{fill:{reclaimed}}
.hatch{stroke:{page};stroke-width:2}
.gap{fill:{gap};fill-opacity:.18;stroke:{gap};stroke-width:1.5;stroke-dasharray:3 3}
.now{stroke:{ink};stroke-width:1.5}
`

// style writes the rules below the picture's own class, since a page may hold the SVG
// inline. Colours are variables, which a page may set as well; a program without CSS
// variables takes the light colour that stands before each.
func style(colours []colour, rules string) string {
	var light, dark strings.Builder
	for _, c := range colours {
		fmt.Fprintf(&light, "--pcs-%s:%s;", c.name, c.light)
		fmt.Fprintf(&dark, "--pcs-%s:%s;", c.name, c.dark)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n.pcs-timeline{%s}\n@media (prefers-color-scheme:dark){.pcs-timeline{%s}}\n", light.String(), dark.String())
	for rule := range strings.Lines(strings.TrimPrefix(rules, "\n")) {
		selector, body, _ := strings.Cut(strings.TrimSuffix(rule, "}\n"), "{")
		var declarations []string
		for declaration := range strings.SplitSeq(body, ";") {
			declarations = append(declarations, coloured(declaration, colours)...)
		}
		fmt.Fprintf(&out, ".pcs-timeline %s{%s}\n", selector, strings.Join(declarations, ";"))
	}
	return out.String()
}

// coloured writes a declaration that names a colour twice: as it is, and as a variable.
func coloured(declaration string, colours []colour) []string {
	for _, c := range colours {
		if name := "{" + c.name + "}"; strings.Contains(declaration, name) {
			return []string{strings.ReplaceAll(declaration, name, c.light), strings.ReplaceAll(declaration, name, "var(--pcs-"+c.name+")")}
		}
	}
	return []string{declaration}
}
