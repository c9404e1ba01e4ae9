package timeline

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// ascii shows the cells of a row.
func ascii(cells []Phase) string {
	var out []rune
	for _, p := range cells {
		out = append(out, []rune(" .#+?~x-|")[p])
	}
	return string(out)
}

// TestCells draws one row of a day, 12 hours on each side of now: 24 cells of an hour.
func TestCells(t *testing.T) {
	day := Chart{Now: noon, From: at(-12), To: at(12), Zone: time.UTC}
	active, scheduled := capacity.StateActive, capacity.StateScheduled
	with := func(r capacity.Reservation, extensions ...capacity.Extension) capacity.Block {
		return capacity.Block{Reservation: r, Window: timing.Window(r), Extensions: extensions}
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
		"extended":                   {with(block("", active, -10, 8), capacity.Extension{From: at(4), To: at(8), State: capacity.ExtensionPaid}), "  ##########|###++~x    "},
		"extended twice":             {with(block("", active, -10, 10), capacity.Extension{From: at(3), To: at(6), State: capacity.ExtensionPaid}, capacity.Extension{From: at(6), To: at(10), State: capacity.ExtensionPaid}), "  ##########|##+++++~x  "},
		"an extension is not paid":   {with(block("", active, -10, 6), capacity.Extension{From: at(6), To: at(9), State: capacity.ExtensionPending}), "  ##########|###~x???   "},
		"an extension failed":        {with(block("", active, -10, 6), capacity.Extension{From: at(6), To: at(9), State: "payment-failed"}), "  ##########|###~x      "},
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
		"days":     {at(0), at(24 * 3), 6, []string{"Nov 21", "Nov 22", "Nov 23"}},
		"weeks":    {at(0), at(24 * 30), 5, []string{"Nov 23", "Nov 30", "Dec 07", "Dec 14"}},
		"none":     {at(0), at(24 * 30), 1, nil},
		"DST ends": {time.Date(2026, 10, 24, 0, 0, 0, 0, zone), time.Date(2026, 10, 27, 0, 0, 0, 0, zone), 4, []string{"Oct 24", "Oct 25", "Oct 26"}},
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
