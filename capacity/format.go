package capacity

import (
	"fmt"
	"strings"
	"time"
)

// FormatDuration writes a length of time as people do, in days, hours and minutes, such
// as 6d23h30m; in seconds where it is less than a minute. It rounds to the last of these.
func FormatDuration(d time.Duration) string {
	if d.Round(time.Second) < time.Minute {
		return d.Round(time.Second).String()
	}
	d = d.Round(time.Minute)
	var text strings.Builder
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if n := d / unit.size; n > 0 {
			fmt.Fprintf(&text, "%d%s", n, unit.name)
			d -= n * unit.size
		}
	}
	return text.String()
}

// FormatZone writes an Availability Zone: this account's name for it, and the id, which
// is the same for everybody; one of them where the other is not known.
func FormatZone(id, name string) string {
	switch {
	case name == "":
		return id
	case id == "":
		return name
	}
	return fmt.Sprintf("%s (%s)", name, id)
}
