package submit

import (
	"testing"
	"time"
)

// A time is told as squeue shows it, and as EC2 does.
func TestLocalTimes(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"free by 2026-03-03 10:50 UTC; use less":            "free by 2026-03-03T05:50 (10:50 UTC); use less",
		"2026-07-03 10:50 UTC":                              "2026-07-03T06:50 (10:50 UTC)", // summer
		"from 2026-03-04 01:50 UTC to 2026-03-05 12:00 UTC": "from 2026-03-03T20:50 (2026-03-04 01:50 UTC) to 2026-03-05T07:00 (12:00 UTC)",
		"2026-13-03 10:50 UTC":                              "2026-13-03 10:50 UTC",
		// the night in which summer ends has this hour twice
		"2026-11-01 05:10 UTC": "2026-11-01T01:10 (05:10 UTC)",
		"2026-11-01 06:10 UTC": "2026-11-01T01:10 (06:10 UTC)",
		// and the one in which it begins has no 02:00
		"2026-03-08 06:59 UTC": "2026-03-08T01:59 (06:59 UTC)",
		"2026-03-08 07:00 UTC": "2026-03-08T03:00 (07:00 UTC)",
		"in 2026":              "in 2026",
	} {
		if got := localTimes(text, newYork); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got := localTimes(text, time.UTC); got != text {
			t.Errorf("in UTC %q became %q", text, got)
		}
	}
}
