package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// span is a length of time on the command line: a Go duration that may begin with
// days or weeks, such as 7d, 2w or 1d12h.
type span time.Duration

func (s span) String() string { return capacity.FormatDuration(time.Duration(s)) }

// UnmarshalText reads a span; it must be positive.
func (s *span) UnmarshalText(text []byte) error {
	rest := string(text)
	var total time.Duration
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, after, ok := strings.Cut(rest, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return errSpan(string(text))
		}
		total += time.Duration(n) * unit.size
		rest = after
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return errSpan(string(text))
		}
		total += d
	}
	if total <= 0 {
		return errSpan(string(text))
	}
	*s = span(total)
	return nil
}

func errSpan(text string) error {
	return errors.New(strconv.Quote(text) + " is not a length of time; write it like 7d, 36h or 1d12h")
}
