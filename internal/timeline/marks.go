package timeline

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
)

//go:embed svg.tmpl
var svgText string

// svgPage writes a page as SVG, and escapes all that is put in.
var svgPage = template.Must(template.New("svg").Parse(svgText))

// page is a picture as the template takes it.
type page struct {
	// ID begins the ids of the title and the description.
	ID, Title, Description string
	Width, Height          int
	Style                  template.CSS
	Hatches                []hatch
	Marks                  []mark
}

// hatch is a pattern of lines that tells shapes apart without their colour. Size is the
// distance of its lines in pixels, Angle is in degrees.
type hatch struct {
	ID          string
	Size, Angle int
}

// reclaimedHatch is that of Reclaimed.
var reclaimedHatch = hatch{"pcs-timeline-hatch", 6, 45}

func (p page) svg() ([]byte, error) {
	var out bytes.Buffer
	if err := svgPage.Execute(&out, p); err != nil {
		return nil, fmt.Errorf("drawing the picture: %w", err)
	}
	return out.Bytes(), nil
}

// mark is one element of a picture; Kind is text, rect, line, diamond or g.
type mark struct {
	Kind, Class string
	// X2 and Y2 are the other end of a line, the width and height of a rect.
	X, Y, X2, Y2 int
	// Anchor is the side of a text that stands at X: start where it is empty.
	Anchor string
	// Hatch is the id of the pattern that fills a rect.
	Hatch string
	// Text is that of a text, and what a pointer over a g shows.
	Text string
	// Marks are the elements of a g.
	Marks []mark
	// Name stands before the Text in bold.
	Name string
}

// marks are elements in the order in which they are drawn.
type marks []mark

func (m *marks) add(one mark) { *m = append(*m, one) }

func (m *marks) label(class string, x, y int, text string) {
	m.add(mark{Kind: "text", Class: class, X: x, Y: y, Text: text})
}

func (m *marks) rect(class string, x, y, width, height int) {
	m.add(mark{Kind: "rect", Class: class, X: x, Y: y, X2: width, Y2: height})
}

func (m *marks) line(class string, x1, y1, x2, y2 int) {
	m.add(mark{Kind: "line", Class: class, X: x1, Y: y1, X2: x2, Y2: y2})
}

// hatched fills a rect with a pattern.
func (m *marks) hatched(h hatch, x, y, width, height int) {
	m.add(mark{Kind: "rect", X: x, Y: y, X2: width, Y2: height, Hatch: h.ID})
}

// bar draws one phase, barHeight high.
func (m *marks) bar(p Phase, x, y, width int) {
	switch p {
	case Waiting:
		m.line("waiting", x, y+barHeight/2, x+width, y+barHeight/2)
	case Reclaimed:
		m.rect(shapes[p], x, y, width, barHeight)
		m.hatched(reclaimedHatch, x, y, width, barHeight)
	case Now:
		m.line("now", x+width/2, y, x+width/2, y+barHeight)
	case Beyond:
		m.add(mark{Kind: "diamond", Class: "beyond", X: x + 2, Y: y + 1, Y2: barHeight/2 - 1})
	default:
		m.rect(shapes[p], x, y, width, barHeight)
	}
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
func style(colours []colour, rules string) template.CSS {
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
	return template.CSS(out.String())
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
