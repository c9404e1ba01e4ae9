package timeline

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// moment is a point in the life of a block, with the word for it.
type moment struct {
	word string
	at   time.Time
}

// moments are the points in the life of a block: start, fence, reclaim, end.
func moments(b capacity.Block, now time.Time) []moment {
	w := b.Window
	var all []moment
	add := func(before, after string, at time.Time) {
		switch {
		case at.IsZero():
		case at.After(now):
			all = append(all, moment{before, at})
		default:
			all = append(all, moment{after, at})
		}
	}
	add("opens", "opened", w.Start)
	if w.Unbounded() {
		return all
	}
	add("fence", "fence", w.Fence)
	if !w.Reclaim.Equal(w.End) { // EC2 takes nothing back from an ODCR
		add("reclaim", "reclaim", w.Reclaim)
	}
	add("ends", "ended", w.End)
	return all
}

// times writes moments one after the other in a zone. A date is not repeated, and the
// zone is written at the end and wherever the clocks change.
func times(all []moment, zone *time.Location) []string {
	var parts []string
	date := ""
	for i, m := range all {
		at := m.at.In(zone)
		layout := "2006-01-02 15:04"
		if at.Format(time.DateOnly) == date {
			layout = "15:04"
		}
		date = at.Format(time.DateOnly)
		if i == len(all)-1 || all[i+1].at.In(zone).Format("MST") != at.Format("MST") {
			layout += " MST"
		}
		parts = append(parts, m.word+" "+at.Format(layout))
	}
	return parts
}

// blockTimes are the exact times of a block, in a zone.
func blockTimes(b capacity.Block, now time.Time, zone *time.Location) []string {
	parts := times(moments(b, now), zone)
	if b.Window.Unbounded() {
		parts = append(parts, "no end")
	}
	return parts
}

// extensionTimes are words about each extension of a block, in a zone.
func extensionTimes(b capacity.Block, zone *time.Location) [][]string {
	var all [][]string
	for _, e := range b.Extensions {
		says := "extended"
		if e.State != capacity.ExtensionPaid {
			says = "extension " + clean(e.State) + ":"
		}
		all = append(all, append([]string{says}, times([]moment{{"from", e.From}, {"to", e.To}}, zone)...))
	}
	return all
}

// gapTimes are words about a gap, in a zone.
func gapTimes(g capacity.Period, zone *time.Location) []string {
	return append([]string{"gap of " + capacity.FormatDuration(g.To.Sub(g.From)) + ":"}, times([]moment{{"from", g.From}, {"to", g.To}}, zone)...)
}

// about says what a block is, in parts: size and type, state, zone, slot.
func about(b capacity.Block) []string {
	r := b.Reservation
	state := string(r.State)
	switch {
	case r.UltraServer:
		state = "UltraServer, " + state
	case !r.Kind.Bought():
		state = string(r.Kind) + ", " + state
	}
	parts := []string{clean(fmt.Sprintf("%d x %s", r.Size(), r.InstanceType)), clean(state)}
	if zone := capacity.FormatZone(r.AZID, r.AZ); zone != "" {
		parts = append(parts, clean(zone))
	}
	if b.Slot != "" {
		slot := "node group " + clean(b.Slot)
		if b.NodesIdle != nil {
			slot += fmt.Sprintf(": %d idle", *b.NodesIdle)
		}
		parts = append(parts, slot)
	}
	return parts
}

// title is the name of a lane.
func title(lane capacity.Lane) string {
	if lane.Partition == "" {
		return "no partition"
	}
	return clean(lane.Partition)
}

// clean replaces what could steer a terminal: names come from settings and from EC2.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
