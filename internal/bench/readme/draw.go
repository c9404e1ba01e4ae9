package main

import (
	"fmt"
	"math"
	"strings"
)

// Measures of the plot, in pixels. A line of text of a figure is above its bar.
const (
	wide    = 860
	left    = 20
	right   = 70
	top     = 56
	lineGap = 18
	rowGap  = 44
	bar     = 12
)

// draw is a bar for each figure, up to its ratio; a range is a lighter bar from its least
// to its most. Colours follow the reader's own, on a ground of their own.
func draw(figures []figure) string {
	most := 2.0
	for _, f := range figures {
		most = max(most, f.most, f.bound)
	}
	most = math.Ceil(most)
	x := func(ratio float64) float64 { return left + ratio/most*(wide-left-right) }
	high := top + rowGap*len(figures) + 26

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%d" role="img" aria-label="Time in units of what runs beside it">
<style>
text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; paint-order: stroke; stroke: #ffffff; stroke-width: 5px }
.ground { fill: #ffffff } .grid { stroke: #d1d9e0 } .one { stroke: #1f2328 }
.bar { fill: #0969da } .range { fill: #80b3f0 } .bound { stroke: #bc4c00; stroke-width: 2 }
.small { font-size: 12px; fill: #59636e }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; stroke: #0d1117 } .ground { fill: #0d1117 } .grid { stroke: #3d444d } .one { stroke: #f0f6fc }
.bar { fill: #4493f8 } .range { fill: #1f5aa8 } .bound { stroke: #f0883e } .small { fill: #9198a1 }
}
</style>
<rect class="ground" width="%[1]d" height="%[2]d" rx="6"/>
<text x="%d" y="24">Time in units of what runs beside it</text>
<text class="small" x="%[3]d" y="42">blue: measured, lighter where it depends on the size; orange: what it is to be at most</text>
`, wide, high, left)
	for ratio := 0.0; ratio <= most; ratio++ {
		class := "grid"
		if ratio == 1 {
			class = "one"
		}
		fmt.Fprintf(&b, `<line class="%s" x1="%.1f" x2="%.1[2]f" y1="%d" y2="%d"/>`, class, x(ratio), top, high-22)
		fmt.Fprintf(&b, `<text class="small" text-anchor="middle" x="%.1f" y="%d">%.0f</text>`+"\n", x(ratio), high-8, ratio)
	}
	for i, f := range figures {
		y := top + rowGap*i + lineGap
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s <tspan class="small">vs. %s</tspan></text>`+"\n", left+4, y, plain(f.work), plain(f.beside))
		fmt.Fprintf(&b, `<rect class="range" x="%d" y="%d" width="%.1f" height="%d"/>`, left, y+6, x(f.most)-left, bar)
		fmt.Fprintf(&b, `<rect class="bar" x="%d" y="%d" width="%.1f" height="%d"/>`, left, y+6, x(f.least)-left, bar)
		fmt.Fprintf(&b, `<line class="bound" x1="%.1f" x2="%.1[1]f" y1="%d" y2="%d"/>`, x(f.bound), y+3, y+9+bar)
		fmt.Fprintf(&b, `<text class="small" x="%.1f" y="%d">%s</text>`+"\n", x(max(f.most, f.bound))+6, y+5+bar, f.ratio())
	}
	b.WriteString("</svg>\n")
	return b.String()
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", "`", "")

// plain is text of Markdown as XML.
func plain(text string) string { return escape.Replace(text) }
