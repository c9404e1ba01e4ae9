package timeline

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Usage is a chart of blocks with what became of their hours below it.
type Usage struct {
	Chart
	// Heading is above all of it, Under says the rest in a line.
	Heading, Under string
	// Classes are those of Bar.Hours, from the bottom of a bar to its top.
	Classes []UsageClass
	Bars    []Bar
	// Each is what a bar stands for: "day" or "hour".
	Each string
}

// UsageClass is one class of hours.
type UsageClass struct {
	Name, Meaning string
}

// Bar is the node-hours of a time by class.
type Bar struct {
	From, To time.Time
	Hours    []float64
}

// usageColours are those of the classes, in their order. They keep a contrast of 3 to the
// page, as WCAG 2 asks for shapes; the hatched ones can be told without colour.
var usageColours = []colour{
	{"use0", "#0f766e", "#2dd4bf"}, // useful; "open for jobs", above the bars, is another green
	{"use1", "#8250df", "#bc8cff"}, // lost to a requeue
	{"use2", "#bf3989", "#f778ba"}, // to a time limit
	{"use3", "#cf222e", "#ff7b72"}, // to a failure
	{"use4", "#0969da", "#58a6ff"}, // boot
	{"use5", "#9a6700", "#e3b341"}, // idle, jobs waiting
	{"use6", "#848d97", "#8b949e"}, // idle
	{"use7", "#bc4c00", "#f0883e"}, // fence tail
	{"use8", "#24292f", "#d0d7de"}, // hardware
	{"use9", "#6e7781", "#6e7681"}, // unknown
}

// usageHatches are those of the classes that are drawn hatched, by their index.
var usageHatches = map[int]hatch{5: {"pcs-usage-hatch5", 5, 45}, 7: {"pcs-usage-hatch7", 5, 135}}

const usageRules = `
.use0{fill:{use0}}
.use1{fill:{use1}}
.use2{fill:{use2}}
.use3{fill:{use3}}
.use4{fill:{use4}}
.use5{fill:{use5}}
.use6{fill:{use6};fill-opacity:.45;stroke:{use6}}
.use7{fill:{use7}}
.use8{fill:{use8}}
.use9{fill:none;stroke:{use9};stroke-width:1.5;stroke-dasharray:3 3}
`

// Measures of the bars.
const (
	usageHeight = 220
	usageLegend = 2 // classes on a line
)

// SVG draws both on one axis of time, as Chart.SVG does: a document of its own that follows
// the reader's light or dark scheme.
func (u Usage) SVG() ([]byte, error) {
	body := &picture{Chart: u.Chart, y: axisTop}
	body.lanes()
	lanes := body.y
	p := &picture{Chart: u.Chart}
	legend := p.legendLines()
	barsTop := lanes + 60
	bottom := barsTop + usageHeight
	classes := u.used()
	lines := (len(classes) + usageLegend - 1) / usageLegend
	height := bottom + 44 + lines*22 + 20 + len(legend)*24 + 8
	p.rect("page", 0, 0, svgWidth, height)
	p.label("ink heading", margin, 38, clean(u.Heading))
	p.label("soft", margin, 60, clean(u.Under))
	p.axis(axisTop, -8, bottom, u.Zone)
	p.marks = append(p.marks, body.shapes...)
	p.now(lanes)
	p.marks = append(p.marks, body.marks...)

	p.label("ink name", margin, barsTop-26, "Node-hours of each "+u.Each)
	u.bars(p, barsTop, bottom)
	p.axis(bottom, 18, bottom, u.Zone)
	p.y = bottom + 50
	u.legend(p, classes)
	p.y += 20
	p.legend(legend)
	return page{
		ID:          "pcs-usage",
		Title:       clean(u.Heading),
		Description: u.description(),
		Width:       svgWidth,
		Height:      height,
		Style:       style(append(slices.Clone(colours), usageColours...), rules+strings.TrimPrefix(usageRules, "\n")),
		Hatches:     []hatch{reclaimedHatch, usageHatches[5], usageHatches[7]},
		Marks:       p.marks,
	}.svg()
}

// used are the indexes of the classes that some bar has.
func (u Usage) used() []int {
	var used []int
	for i := range u.Classes {
		if slices.ContainsFunc(u.Bars, func(b Bar) bool { return b.Hours[i] > 0 }) {
			used = append(used, i)
		}
	}
	return used
}

// bars draws the axis of hours and each bar, the classes above each other.
func (u Usage) bars(p *picture, top, bottom int) {
	highest := 0.0
	for _, b := range u.Bars {
		highest = max(highest, b.total())
	}
	step := roundStep(highest / 4)
	most := step * math.Ceil(max(highest, step)/step)
	at := func(hours float64) int { return bottom - int(hours/most*float64(bottom-top)+0.5) }
	for hours := 0.0; hours <= most+step/2; hours += step {
		p.line("grid", chartLeft, at(hours), chartLeft+chartWidth, at(hours))
		p.add(mark{Kind: "text", Class: "soft small", X: chartLeft - 10, Y: at(hours) + 4, Anchor: "end", Text: hoursLabel(hours)})
	}
	for _, b := range u.Bars {
		left, right := max(0, p.column(b.From, chartWidth)), min(chartWidth, p.column(b.To, chartWidth))
		if right-left > 4 { // a gap between two bars
			left, right = left+1, right-1
		}
		var boxes marks
		sum := 0.0
		for i, hours := range b.Hours {
			from := at(sum)
			sum += hours
			if to := at(sum); from > to {
				u.box(&boxes, i, chartLeft+left, to, max(1, right-left), from-to)
			}
		}
		p.add(mark{Kind: "g", Text: u.says(b, p.Zone), Marks: boxes})
	}
}

// box draws one class.
func (u Usage) box(m *marks, class, x, y, width, height int) {
	m.rect("use"+strconv.Itoa(class), x, y, width, height)
	if h, is := usageHatches[class]; is {
		m.hatched(h, x, y, width, height)
	}
}

func (b Bar) total() (sum float64) {
	for _, hours := range b.Hours {
		sum += hours
	}
	return sum
}

// says is what a pointer over a bar shows, and what a screen reader says.
func (u Usage) says(b Bar, zone *time.Location) string {
	until := "15:04 MST"
	if b.From.In(zone).Format(time.DateOnly) != b.To.In(zone).Format(time.DateOnly) {
		until = "2006-01-02 15:04 MST"
	}
	lines := []string{fmt.Sprintf("%s to %s: %.2f node-hours", b.From.In(zone).Format("2006-01-02 15:04"), b.To.In(zone).Format(until), b.total())}
	for i, hours := range b.Hours {
		if hours > 0 {
			lines = append(lines, fmt.Sprintf("%s %.2f", u.Classes[i].Name, hours))
		}
	}
	return strings.Join(lines, "\n")
}

// legend explains the classes, those on top of a bar first.
func (u Usage) legend(p *picture, classes []int) {
	columns := [usageLegend]int{margin, margin + (svgWidth-2*margin)/usageLegend}
	for n, class := range classes {
		x := columns[n%usageLegend]
		u.box(&p.marks, class, x, p.y-13, 22, 16)
		p.add(mark{Kind: "text", Class: "small", X: x + 32, Y: p.y, Name: u.Classes[class].Name, Text: u.Classes[class].Meaning})
		if n%usageLegend == usageLegend-1 || n == len(classes)-1 {
			p.y += 22
		}
	}
}

// description is all of it in sentences.
func (u Usage) description() string {
	says := []string{u.Under + ".", u.Chart.description()}
	for _, b := range u.Bars {
		says = append(says, strings.ReplaceAll(u.says(b, u.Zone), "\n", ", ")+".")
	}
	return strings.Join(says, " ")
}

// hoursLabel writes a multiple of a step: three steps of 0.2 are not 0.6 to a computer.
func hoursLabel(hours float64) string {
	return strconv.FormatFloat(math.Round(hours*100)/100, 'f', -1, 64)
}

// roundStep is the smallest of 1, 2, 5, 10, 20, … (and 0.1, 0.2, 0.5) that is not below a number.
func roundStep(least float64) float64 {
	for unit := 0.01; ; unit *= 10 {
		for _, n := range []float64{1, 2, 5} {
			if step := n * unit; step >= least {
				return math.Round(step*100) / 100
			}
		}
	}
}
