package capacity

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// FormatZone writes an Availability Zone: this account's name for it, and the id that is the same in every account.
func FormatZone(id, name string) string {
	switch {
	case name == "":
		return id
	case id == "":
		return name
	}

	return fmt.Sprintf("%s (%s)", name, id)
}

// FormatUTC writes a time to the minute.
func FormatUTC(t time.Time) string { return t.UTC().Format(utcTime) }

const utcTime = "2006-01-02 15:04 UTC"

var timeInText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d UTC\b`)
})

// ReplaceTimes replaces the times that FormatUTC has written into a text.
func ReplaceTimes(text string, with func(written string, t time.Time) string) string {
	return timeInText().ReplaceAllStringFunc(text, func(written string) string {
		t, err := time.Parse(utcTime, written)
		if err != nil {
			return written
		}

		return with(written, t)
	})
}

const day = 24 * time.Hour

// FormatExact writes a length of time exactly, as ParseDuration reads it: 7d, 1d12h, 10m, 1m30s.
func FormatExact(d time.Duration) string {
	if d < 0 {
		return "-" + FormatExact(-d)
	}

	var b strings.Builder
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if n := d / unit.size; n > 0 {
			b.WriteString(strconv.Itoa(int(n)) + unit.name)
			d -= n * unit.size
		}
	}

	if d != 0 || b.Len() == 0 {
		b.WriteString(d.String())
	}

	return b.String()
}

// FormatDuration writes a length of time to the minute, for people; below a minute in seconds.
func FormatDuration(d time.Duration) string {
	if s := d.Round(time.Second); s < time.Minute {
		return s.String()
	}
	return FormatExact(d.Round(time.Minute))
}

// FormatUntil writes the time left until something: in the two largest units, when it is near in seconds.
func FormatUntil(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < day:
		return FormatExact(d.Truncate(time.Minute))
	}

	return FormatExact(d.Truncate(time.Hour))
}

// ParseDuration reads a length of time: a Go duration that may begin with weeks or days, such as 90s, 10m, 36h, 7d,
// 2w or 1d12h, or Slurm's 1-12:00:00.
func ParseDuration(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration; write it like 90s, 10m, 36h, 7d or 1-12:00:00", text)

	rest, negative := strings.CutPrefix(text, "-")
	if seconds, err := parseTimeSpec(rest); err == nil && strings.Count(rest, ":") == 2 { // Slurm's form
		rest = fmt.Sprintf("%ds", seconds)
	}

	if rest == "" {
		return 0, bad
	}

	var total time.Duration
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{7 * day, "w"}, {day, "d"}} {
		number, after, ok := strings.Cut(rest, unit.name)
		if !ok {
			continue
		}

		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil || time.Duration(n) > maxDuration/unit.size {
			return 0, bad
		}

		total += time.Duration(n) * unit.size
		rest = after
	}

	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || strings.ContainsAny(rest, "+-") {
			return 0, bad
		}

		total += d
	}

	if total < 0 || total > maxDuration {
		return 0, bad
	}

	if negative {
		total = -total
	}

	return total, nil
}

// maxDuration is the longest time that ParseDuration reads: the sum of three such times does not overflow.
const maxDuration = 90 * 365 * day

// timeLayouts lists the forms of ParseTime.
var timeLayouts = []string{
	time.RFC3339,
	"2006-01-02T15:04Z07:00",
	"2006-01-02",
	"2006-01-02 15:04",
	"2006-01-02T15:04",
	"2006-01-02 15:04:05",
	"2006-01-02T15:04:05",
}

// ParseTime reads a moment as people write it: a date, a date and a time of day, today, tomorrow, or RFC 3339. A time
// without a zone is in now's zone, which also decides which day is today.
func ParseTime(text string, now time.Time) (time.Time, error) {
	year, month, day := now.Date()
	switch strings.ToLower(text) {
	case "now":
		return now, nil
	case "today":
		return time.Date(year, month, day, 0, 0, 0, 0, now.Location()), nil
	case "tomorrow":
		return time.Date(year, month, day+1, 0, 0, 0, 0, now.Location()), nil
	}

	for _, layout := range timeLayouts {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}

	return time.Time{}, fmt.Errorf(
		"%q is not a time; write it like 2026-12-01, \"2026-12-01 08:00\", tomorrow or 2026-12-01T08:00:00Z", text)
}
