package timeline

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the machine may have no time zones
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// noon is the time of every drawing in these tests: a Friday.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// at is a time before or after noon.
func at(hours float64) time.Time { return noon.Add(time.Duration(hours * float64(time.Hour))) }

var timing = capacity.Timing{
	DrainMargin: capacity.Duration{Duration: 10 * time.Minute},
	ReclaimLead: capacity.Duration{Duration: 30 * time.Minute},
}

// block is a Capacity Block that starts and ends so many hours after noon.
func block(id string, state capacity.State, start, end float64) capacity.Reservation {
	return capacity.Reservation{
		ID:           id,
		Kind:         capacity.CapacityBlock,
		State:        state,
		InstanceType: "p5.48xlarge",
		Region:       "us-east-2",
		AZ:           "us-east-2a",
		AZID:         "use2-az1",
		Total:        4,
		Start:        at(start),
		End:          at(end),
	}
}

// lane is a partition with blocks; the gaps are those that package capacity finds.
func lane(partition string, rs ...capacity.Reservation) capacity.Lane {
	snap := &capacity.Snapshot{Timing: timing, Reservations: rs}
	if partition != "" {
		var ids []string
		for _, r := range rs {
			ids = append(ids, r.ID)
		}

		snap.Partitions = []capacity.Partition{
			{Name: partition, Groups: []capacity.NodeGroup{{Slots: []capacity.Slot{{ReservationIDs: ids}}}}},
		}
	}

	return capacity.Timeline(snap, at(-7*24), noon)[0]
}

func berlin(t *testing.T) *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}

	return zone
}

// sample has one of everything.
func sample(zone *time.Location) Chart {
	gpu := lane("gpu", block("cr-0e2000000000000a1", capacity.StateActive, -48.5, 143.5),
		block("cr-0e2000000000000a2", capacity.StateScheduled, 191.5, 359.5))
	odcr := block("cr-0e2000000000000c5", capacity.StateActive, -100, 0)
	odcr.Kind, odcr.End = capacity.ODCR, time.Time{}
	ultra := block("cr-0e2000000000000d6", capacity.StatePaymentPending, 47.5, 215.5)
	ultra.UltraServer, ultra.InstanceType = true, "p6e-gb200.36xlarge"
	loose := lane("", ultra, block("cr-0e2000000000000e7", capacity.StateScheduled, 95.5, 96.2))
	c := Chart{
		Region: "us-east-2",
		Now:    noon,
		Zone:   zone,
		Lanes:  []capacity.Lane{gpu, lane("batch", odcr), {Partition: "empty"}, loose},
	}
	c.Fit()

	return c
}

// ascii shows the cells of a row.
func ascii(cells []Phase) string {
	var out []rune
	for _, p := range cells {
		out = append(out, []rune(" .#?~x-|")[p])
	}

	return string(out)
}

// TestCells draws one row of a day, 12 hours on each side of now: 24 cells of an hour.
func TestCells(t *testing.T) {
	day := Chart{Now: noon, From: at(-12), To: at(12), Zone: time.UTC}

	active, scheduled := capacity.StateActive, capacity.StateScheduled
	with := func(r capacity.Reservation) capacity.Block {
		return capacity.Block{Reservation: r, Window: timing.Window(r)}
	}
	odcr := func(start float64, end time.Time) capacity.Block {
		r := block("", active, start, 0)
		r.Kind, r.End = capacity.ODCR, end
		return with(r)
	}
	for name, c := range map[string]struct {
		block capacity.Block
		want  string
	}{
		"over":                       {with(block("", active, -10, -3)), "  #####~x   |           "},
		"open now":                   {with(block("", active, -10, 6)), "  ##########|###~x      "},
		"to come":                    {with(block("", scheduled, 3, 9)), "            |..####~x   "},
		"the shortest are seen":      {with(block("", scheduled, 5, 5.75)), "            |....#~x    "},
		"minutes":                    {with(block("", scheduled, 5, 5.05)), "            |....x      "},
		"not hidden by now":          {with(block("", active, -1.7, 0.7)), "          #~x           "},
		"short and open":             {with(block("", active, -0.2, 0.5)), "            #~x         "},
		"short and over":             {with(block("", active, -1.5, -0.6)), "        #~x |           "},
		"short at the right edge":    {with(block("", scheduled, 11.2, 11.9)), "            |........#~x"},
		"cut on the left":            {with(block("", active, -100, -8)), "##~x        |           "},
		"its end only":               {with(block("", active, -100, -11.9)), "x           |           "},
		"cut on the right":           {with(block("", scheduled, 9, 100)), "            |........###"},
		"after the picture":          {with(block("", scheduled, 20, 100)), "            |..........."},
		"before the picture":         {with(block("", active, -100, -20)), "            |           "},
		"not paid":                   {with(block("", capacity.StatePaymentPending, 3, 9)), "            |..????~x   "},
		"ODCR without an end":        {odcr(-5, time.Time{}), "       #####|###########"},
		"ODCR with an end":           {odcr(-5, at(5)), "       #####|###~       "},
		"the margin is all there is": {with(block("", scheduled, 3, 3.6)), "            |..~x       "},
	} {
		if got := ascii(day.cells(Spans(c.block, noon), 24)); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

func TestFit(t *testing.T) {
	for name, c := range map[string]struct {
		block    capacity.Reservation
		from, to time.Time
	}{
		"two weeks":      {block("cr-0aaaaaaaaaaaaaaa1", capacity.StateScheduled, 1, 2), at(-12), at(14 * 24)},
		"from the start": {block("cr-0aaaaaaaaaaaaaaa1", capacity.StateActive, -30, 2), at(-36), at(14 * 24)},
		"a week back":    {block("cr-0aaaaaaaaaaaaaaa1", capacity.StateActive, -24*60, 2), at(-7*24 - 12), at(14 * 24)},
		"to the end":     {block("cr-0aaaaaaaaaaaaaaa1", capacity.StateScheduled, 1, 24*40), at(-12), at(24 * 40)},
	} {
		chart := Chart{Now: noon, Zone: time.UTC, Lanes: []capacity.Lane{lane("gpu", c.block)}}
		chart.Fit()

		if !chart.From.Equal(c.from) || !chart.To.Equal(c.to) {
			t.Errorf("%s: %s to %s, want %s to %s", name, chart.From, chart.To, c.from, c.to)
		}
	}

	given := Chart{Now: noon, Zone: time.UTC, From: at(3), To: at(5)}
	given.Fit()

	if !given.From.Equal(at(3)) || !given.To.Equal(at(5)) {
		t.Errorf("a given range moved: %s to %s", given.From, given.To)
	}
}

func TestTicks(t *testing.T) {
	zone := berlin(t)
	for name, c := range map[string]struct {
		from, to time.Time
		most     int
		want     []string
	}{
		"days":  {at(0), at(24 * 3), 6, []string{"Nov 21", "Nov 22", "Nov 23"}},
		"weeks": {at(0), at(24 * 30), 5, []string{"Nov 23", "Nov 30", "Dec 07", "Dec 14"}},
		"none":  {at(0), at(24 * 30), 1, nil},
		"DST ends": {
			time.Date(2026, 10, 24, 0, 0, 0, 0, zone),
			time.Date(2026, 10, 27, 0, 0, 0, 0, zone),
			4,
			[]string{"Oct 24", "Oct 25", "Oct 26"},
		},
	} {
		chart := Chart{Now: noon, From: c.from, To: c.to, Zone: zone}

		var got []string
		for _, t := range chart.ticks(c.most) {
			got = append(got, t.Format(tickForm))
		}

		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestText(t *testing.T) {
	want := `
Capacity in us-east-2, 2026-11-16 to 2026-12-05, now 2026-11-20 13:00 CET

                        Nov 16     Nov 20      Nov 24     Nov 28      Dec 02
                        ┬──────────┬─▼─────────┬──────────┬───────────┬─────────
gpu                                  │                ╌╌╌╌╌╌
  gap of 2d40m: from Nov 26 11:50 to Nov 28 12:30
  cr-0e2000000000000a1         ██████│██████████████▄╳
  4 x p5.48xlarge, active, us-east-2a (use2-az1)
  start Nov 18 12:30, fence Nov 26 11:50, reclaim Nov 26 12:00, end Nov 26 12:30
  cr-0e2000000000000a2               │······················██████████████████▄╳
  4 x p5.48xlarge, scheduled, us-east-2a (use2-az1)
  start Nov 28 12:30, fence Dec 05 11:50, reclaim Dec 05 12:00, end Dec 05 12:30
batch                                │
  cr-0e2000000000000c5   ████████████│██████████████████████████████████████████
  4 x p5.48xlarge, odcr, active, us-east-2a (use2-az1)
  start Nov 16 09:00, no end
empty                                │
  no reservation in this time
no partition                         │
  cr-0e2000000000000d6               │·····░░░░░░░░░░░░░░░░░░▄╳
  4 x p6e-gb200.36xlarge, UltraServer, payment-pending, us-east-2a (use2-az1)
  start Nov 22 12:30, fence Nov 29 11:20, reclaim Nov 29 11:30, end Nov 29 12:30
  cr-0e2000000000000e7               │··········█▄╳
  4 x p5.48xlarge, scheduled, us-east-2a (use2-az1)
  start Nov 24 12:30, fence Nov 24 12:32, reclaim Nov 24 12:42, end Nov 24 13:12

· not open yet
█ open for jobs
░ payment pending
▄ drain margin: no jobs
╳ EC2 takes instances back
╌ gap: no capacity
│ now
`
	if diff := cmp.Diff(want[1:], sample(berlin(t)).Text(80)); diff != "" {
		t.Error(diff)
	}
}

// TestTextFits: no row is wider than the terminal; notes are wrapped where they are printed.
func TestTextFits(t *testing.T) {
	for width := LeastWidth; width < 200; width++ {
		for line := range strings.Lines(sample(time.UTC).Text(width)) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width &&
				strings.ContainsAny(line, "█─") {
				t.Fatalf("width %d: %d columns: %s", width, n, line)
			}
		}
	}
}

// TestNamesDoNotSteerTheTerminal: names from settings and from EC2 are text only.
func TestNamesDoNotSteerTheTerminal(t *testing.T) {
	evil := block("cr-1\033[2J", capacity.StateActive, 1, 30)
	evil.InstanceType = "p5\r"

	text := Chart{
		Region: "x\a",
		Now:    noon,
		From:   at(0),
		To:     at(48),
		Zone:   time.UTC,
		Lanes:  []capacity.Lane{lane("gpu\n\033c", evil)},
	}.Text(
		80,
	)
	if strings.ContainsAny(text, "\033\r\a") || !strings.Contains(text, "cr-1?[2J") ||
		!strings.Contains(text, "gpu??c") {
		t.Errorf("%q", text)
	}
}

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
	evil := block(`cr-"'<script>alert(1)</script>`, "active", 1, 30)
	evil.InstanceType = "]]>&\x00\x1b"
	for _, c := range []struct {
		Chart
		shows []string
	}{
		{sample(berlin(t)), []string{
			"Capacity in us-east-2, 2026-11-16 to 2026-12-05, now 2026-11-20 13:00 CET",
			"gpu",
			"batch",
			"empty",
			"no partition",
			"cr-0e2000000000000a1",
			"start Nov 18 12:30, fence Nov 26 11:50, reclaim Nov 26 12:00, end Nov 26 12:30",
			"cr-0e2000000000000e7",
			"gap of 2d40m: from Nov 26 11:50 to Nov 28 12:30",
			"start Nov 16 09:00, no end",
			"no reservation in this time",
			"UltraServer, payment-pending",
			"prefers-color-scheme:dark",
		}},
		{
			Chart{
				Region: "<&>",
				Now:    noon,
				From:   at(0),
				To:     at(48),
				Zone:   time.UTC,
				Lanes:  []capacity.Lane{lane("</style><b onload='x'>", evil)},
			},
			[]string{"</style><b onload='x'>"},
		},
	} {
		svg := c.SVG()
		elements, text := readSVG(t, svg)
		if elements["svg"] != 1 || elements["title"] < 2 || elements["script"]+elements["b"]+elements["image"] != 0 {
			t.Errorf("elements %v in\n%s", elements, svg)
		}

		for _, want := range c.shows {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing", want)
			}
		}

		for _, outside := range []string{"href", "@import", "@font-face"} {
			if bytes.Contains(svg, []byte(outside)) {
				t.Errorf("the SVG has %s", outside)
			}
		}

		if n := strings.Count(string(svg), "http"); n != 1 { // the name space
			t.Errorf("%d addresses", n)
		}
	}
}
