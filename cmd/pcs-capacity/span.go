package main

import (
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// span is a length of time on the command line, as capacity.ParseDuration reads it: 7d,
// 36h, 1-12:00:00. It is longer than nothing.
type span time.Duration

func (s span) String() string { return capacity.FormatDuration(time.Duration(s)) }

// UnmarshalText reads a span.
func (s *span) UnmarshalText(text []byte) error {
	d, err := capacity.ParseDuration(string(text))
	if err == nil && d <= 0 {
		err = fmt.Errorf("%q is not positive; write it like 90s, 10m, 36h, 7d or 1-12:00:00", text)
	}
	if err != nil {
		return err
	}
	*s = span(d)
	return nil
}

// moment is a time on the command line, as capacity.ParseTime reads it, in the machine's
// zone: 2026-12-01, "2026-12-01 08:00", tomorrow, or RFC 3339.
type moment struct{ time.Time }

// UnmarshalText reads a moment.
func (m *moment) UnmarshalText(text []byte) (err error) {
	m.Time, err = capacity.ParseTime(string(text), time.Now())
	return err
}
