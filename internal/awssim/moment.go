package awssim

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Moment is a time in a scenario, absolute or relative to the start of the simulation:
//
//	2026-12-01T11:30:00Z   that time
//	+90m, -48h             so much after or before the start
//	+3d 11:30              at this UTC clock time, three days after the start's UTC day
type Moment struct {
	absolute time.Time
	offset   time.Duration
	days     int
	hour     time.Duration
	daily    bool
	set      bool
}

var dayMoment = regexp.MustCompile(`^([+-]\d+)d (\d\d):(\d\d)$`)

// UnmarshalText reads one of the three forms.
func (m *Moment) UnmarshalText(text []byte) error {
	s := string(text)
	if s == "" {
		*m = Moment{}
		return nil
	}
	if p := dayMoment.FindStringSubmatch(s); p != nil {
		days, _ := strconv.Atoi(p[1])
		h, _ := strconv.Atoi(p[2])
		min, _ := strconv.Atoi(p[3])
		*m = Moment{set: true, daily: true, days: days, hour: time.Duration(h)*time.Hour + time.Duration(min)*time.Minute}
		return nil
	}
	if strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-") {
		d, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("time %q: want RFC 3339, +90m or +3d 11:30: %w", s, err)
		}
		*m = Moment{set: true, offset: d}
		return nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return fmt.Errorf("time %q: want RFC 3339, +90m or +3d 11:30", s)
	}
	*m = Moment{set: true, absolute: t}
	return nil
}

// IsZero tells whether the scenario left it out.
func (m Moment) IsZero() bool { return !m.set }

// At is the moment in a simulation that started at start, in whole seconds, as EC2 shows times.
func (m Moment) At(start time.Time) time.Time {
	start = start.UTC()
	switch {
	case !m.set:
		return time.Time{}
	case m.daily:
		return start.Truncate(24*time.Hour).AddDate(0, 0, m.days).Add(m.hour)
	case !m.absolute.IsZero():
		return m.absolute.UTC()
	}
	return start.Add(m.offset).Truncate(time.Second)
}

// Duration is a Go duration in a scenario, such as "30m".
type Duration time.Duration

// UnmarshalText reads a Go duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes a Go duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }
