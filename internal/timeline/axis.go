package timeline

import (
	"slices"
	"time"
)

// The default range of a chart. EC2 sells blocks of up to 182 days that start up to 8
// weeks ahead (EC2 User Guide, "Capacity Blocks"), so nothing that was bought ends later.
const (
	leastAhead = 14 * 24 * time.Hour
	mostAhead  = (182 + 56) * 24 * time.Hour
)

// MostBehind is how far before now a chart begins that is told nothing else.
const MostBehind = 7 * 24 * time.Hour

// Fit sets From and To so that all blocks are in the chart: from the day of the first
// start, at most a week ago, until the last end, at least two weeks ahead. A time that
// is set already stays.
func (c *Chart) Fit() {
	from, to := c.Now, c.Now.Add(leastAhead)
	for _, lane := range c.Lanes {
		for _, b := range lane.Blocks {
			if !b.Window.Start.IsZero() {
				from = earliest(from, b.Window.Start)
			}
			for _, s := range Spans(b, c.Now) {
				to = latest(to, s.To)
			}
		}
	}
	if c.From.IsZero() {
		local := latest(from, c.Now.Add(-MostBehind)).In(c.Zone)
		c.From = time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, c.Zone)
	}
	if c.To.IsZero() {
		c.To = latest(earliest(to, c.Now.Add(mostAhead)), c.From.Add(time.Hour))
	}
}

// tick is a mark on the axis.
type tick struct {
	at    time.Time
	label string
}

// Steps between two ticks, in minutes below a day and in days.
var (
	minuteSteps = []int{1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720}
	daySteps    = []int{1, 2, 3, 4, 7, 14, 28, 42, 91}
)

// ticks marks the axis at round local times, at most most of them and at least 1. Days
// are written in dayFormat, times within a day as 15:04.
func (c Chart) ticks(zone *time.Location, most int, dayFormat string) []tick {
	minutes, days := c.step(most)
	first := c.From.In(c.Zone) // the same days in every zone
	day := first.Day()
	if days >= 7 { // weeks begin on Monday
		day -= (int(first.Weekday()) + 6) % 7
	}
	var all []tick
	for i := 0; ; i++ {
		// Wall time, so that a day of 23 or 25 hours shifts nothing.
		at := time.Date(first.Year(), first.Month(), day+i*days, 0, i*minutes, 0, 0, zone)
		if !at.Before(c.To) {
			return all
		}
		if at.Before(c.From) || len(all) > 0 && !at.After(all[len(all)-1].at) {
			continue
		}
		label := at.Format(dayFormat)
		if h, m, _ := at.Clock(); h != 0 || m != 0 {
			label = at.Format("15:04")
		}
		all = append(all, tick{at, label})
	}
}

// step is the smallest one with which at most most ticks are drawn: in minutes or in
// days, the other is 0.
func (c Chart) step(most int) (minutes, days int) {
	total := c.To.Sub(c.From)
	fits := func(unit time.Duration) func(int) bool {
		return func(n int) bool { return total/(time.Duration(n)*unit) < time.Duration(max(most, 1)) }
	}
	if i := slices.IndexFunc(minuteSteps, fits(time.Minute)); i >= 0 {
		return minuteSteps[i], 0
	}
	if i := slices.IndexFunc(daySteps, fits(24*time.Hour)); i >= 0 {
		return 0, daySteps[i]
	}
	return 0, 364
}
