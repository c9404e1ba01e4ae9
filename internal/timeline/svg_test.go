package timeline

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// readSVG parses a document to its end and returns its elements' names and its text.
func readSVG(t *testing.T, svg []byte) (elements map[string]int, text string) {
	t.Helper()
	elements = map[string]int{}
	var all strings.Builder
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return elements, all.String()
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements[token.Name.Local]++
		case xml.CharData:
			all.Write(token)
		}
	}
}

func TestSVG(t *testing.T) {
	c := sample(berlin(t))
	svg, err := c.SVG()
	if err != nil {
		t.Fatal(err)
	}
	elements, text := readSVG(t, svg)
	if elements["svg"] != 1 || elements["desc"] != 1 || elements["title"] < 2 {
		t.Errorf("elements %v", elements)
	}
	for _, want := range []string{
		"Capacity in us-east-2", "Drawn 2026-11-20 12:00 UTC, 2026-11-20 13:00 CET", "gpu", "batch", "empty", "no partition",
		"opened 2026-11-18 11:30 · fence 2026-11-26 10:50 · reclaim 11:00 · ends 11:30 UTC",
		"opened 2026-11-18 12:30 · fence 2026-11-26 11:50 · reclaim 12:00 · ends 12:30 CET",
		"extended from 2026-11-23 11:30 to 2026-11-26 11:30 UTC",
		"extension payment-pending: from 2026-12-05 12:30 to 2026-12-06 12:30 CET",
		"gap of 2d40m: from 2026-11-26 10:50 to 2026-11-28 11:30 UTC",
		"opened 2026-11-16 08:00 UTC · no end", "no reservation in this time", "UltraServer, payment-pending",
		"prefers-color-scheme:dark", "gpu: cr-0e2000000000000a1, 4 x p5.48xlarge, active",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, lane := range c.Lanes {
		for _, b := range lane.Blocks {
			if !strings.Contains(text, "\n"+b.Reservation.ID+"\n") {
				t.Errorf("block %s has no label", b.Reservation.ID)
			}
		}
	}
	for _, phase := range c.used() {
		if !strings.Contains(text, "\n"+meanings[phase]+"\n") {
			t.Errorf("the legend does not have %q", meanings[phase])
		}
	}
	for _, outside := range []string{"<script", "<image", "href", "@import", "@font-face"} {
		if bytes.Contains(svg, []byte(outside)) {
			t.Errorf("the SVG has %s", outside)
		}
	}
	if n := strings.Count(string(svg), "http"); n != 1 { // the name space
		t.Errorf("%d addresses", n)
	}
}

func TestSVGInUTCSaysTimesOnce(t *testing.T) {
	svg, err := sample(time.UTC).SVG()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(svg), "· ends 11:30 UTC"); n != 3 {
		t.Errorf("times are written %d times, want once for each of three blocks", n)
	}
}

func TestSVGEscapesHostileNames(t *testing.T) {
	evil := block(`cr-"'<script>alert(1)</script>`, "active", 1, 30)
	evil.InstanceType = "]]>&\x00\x1b"
	c := Chart{Region: "<&>", Now: noon, From: at(0), To: at(48), Zone: time.UTC, Lanes: []capacity.Lane{lane("</style><b onload='x'>", evil)}}
	svg, err := c.SVG()
	if err != nil {
		t.Fatal(err)
	}
	elements, text := readSVG(t, svg)
	if elements["script"]+elements["b"] != 0 || !strings.Contains(text, "</style><b onload='x'>") {
		t.Errorf("elements %v in\n%s", elements, svg)
	}
}

func TestSVGOfNothing(t *testing.T) {
	c := Chart{Region: "us-east-2", Now: noon, Zone: time.UTC}
	c.Fit()
	svg, err := c.SVG()
	if err != nil {
		t.Fatal(err)
	}
	if _, text := readSVG(t, svg); !strings.Contains(text, "No reservation is known.") {
		t.Error(text)
	}
}

// TestStyle: every colour that a rule names is known, with a value for a program that
// has no CSS variables.
func TestStyle(t *testing.T) {
	css := string(style(colours, rules))
	if strings.Contains(css, "{{") || strings.Contains(css, "}}}") || strings.Count(css, "{") != strings.Count(css, "}") {
		t.Error(css)
	}
	if want := ".pcs-timeline .open{fill:#1a7f37;fill:var(--pcs-open)}"; !strings.Contains(css, want) {
		t.Errorf("no %s in\n%s", want, css)
	}
	for _, shape := range shapes {
		if !strings.Contains(css, ".pcs-timeline ."+shape+"{") {
			t.Errorf("no rule for %s", shape)
		}
	}
}

// No text leaves the picture: every day of three weeks as the last tick of the axis, which
// ends anywhere, and the longest notes that there are.
func TestSVGClipsNoText(t *testing.T) {
	for hours := 14 * 24; hours < 17*24; hours++ {
		c := sample(berlin(t))
		c.To = at(float64(hours))
		svg, err := c.SVG()
		if err != nil {
			t.Fatal(err)
		}
		for _, label := range labelsOf(t, svg) {
			// What a date such as "Wed 25 Nov" takes for a character in DejaVu Sans of 12 pixels,
			// whose digits are 0.636 em wide and whose blanks 0.318.
			if right := label.x + 7.4*float64(len([]rune(label.text))); label.x < 0 || right > svgWidth {
				t.Errorf("to %s: %q begins at %g and ends at %g of %d", c.To.Format(time.RFC3339), label.text, label.x, right, svgWidth)
			}
		}
		if t.Failed() {
			return
		}
	}
}

type textLabel struct {
	text string
	x    float64
}

// labelsOf are the texts of a picture that begin at their x.
func labelsOf(t *testing.T, svg []byte) []textLabel {
	t.Helper()
	var all []textLabel
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "text" {
			continue
		}
		label, anchored := textLabel{}, false
		for _, a := range start.Attr {
			switch a.Name.Local {
			case "x":
				if label.x, err = strconv.ParseFloat(a.Value, 64); err != nil {
					t.Fatal(err)
				}
			case "text-anchor":
				anchored = true
			}
		}
		if err := decoder.DecodeElement(&label.text, &start); err != nil {
			t.Fatal(err)
		}
		if !anchored {
			all = append(all, label)
		}
	}
}
