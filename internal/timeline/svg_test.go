package timeline

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
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
	svg := c.SVG()
	elements, text := readSVG(t, svg)
	if elements["svg"] != 1 || elements["title"] < 2 {
		t.Errorf("elements %v", elements)
	}
	for _, want := range []string{
		"Capacity in us-east-2, 2026-11-16 to 2026-12-06, now 2026-11-20 13:00 CET", "gpu", "batch", "empty", "no partition",
		"start Nov 18 12:30, fence Nov 26 11:50, reclaim Nov 26 12:00, end Nov 26 12:30",
		"extension payment-pending: from Dec 05 12:30 to Dec 06 12:30",
		"gap of 2d40m: from Nov 26 11:50 to Nov 28 12:30", "start Nov 16 09:00, no end",
		"no reservation in this time", "UltraServer, payment-pending", "prefers-color-scheme:dark",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, lane := range c.Lanes {
		for _, b := range lane.Blocks {
			if !strings.Contains(text, b.Reservation.ID) {
				t.Errorf("block %s has no label", b.Reservation.ID)
			}
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

func TestSVGEscapesHostileNames(t *testing.T) {
	evil := block(`cr-"'<script>alert(1)</script>`, "active", 1, 30)
	evil.InstanceType = "]]>&\x00\x1b"
	c := Chart{Region: "<&>", Now: noon, From: at(0), To: at(48), Zone: time.UTC, Lanes: []capacity.Lane{lane("</style><b onload='x'>", evil)}}
	svg := c.SVG()
	elements, text := readSVG(t, svg)
	if elements["script"]+elements["b"] != 0 || !strings.Contains(text, "</style><b onload='x'>") {
		t.Errorf("elements %v in\n%s", elements, svg)
	}
}
