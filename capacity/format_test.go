package capacity

import (
	"testing"
	"time"
)

func TestFormatDuration(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		7 * day: "7d", 36 * time.Hour: "1d12h", 90 * time.Minute: "1h30m", 50*time.Hour + time.Minute: "2d2h1m", 40 * time.Minute: "40m",
		0: "0s", 20*time.Second + 300*time.Millisecond: "20s", 59*time.Second + 600*time.Millisecond: "1m", 89 * time.Second: "1m", 90 * time.Second: "2m",
		day - time.Second: "1d", -time.Hour: "-1h0m0s", // a mistake of the caller, still legible
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%s is written %q, want %q", d, got, want)
		}
	}
}

func TestExactDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "90s": 90 * time.Second, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "36h": 36 * time.Hour, "7d": 7 * day,
		"2w": 14 * day, "1d12h": 36 * time.Hour, "1w1d": 8 * day, "1-12:00:00": 36 * time.Hour, "0:10:30": 10*time.Minute + 30*time.Second,
		"10m0s": 10 * time.Minute, "-1.5s": -1500 * time.Millisecond,
	} {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
		if back, err := ParseDuration(FormatExact(got)); err != nil || back != got {
			t.Errorf("%s is written as %s, which is %s, %v", got, FormatExact(got), back, err)
		}
	}
	for _, bad := range []string{"", "-", "7", "d", "7 d", "1.5d", "1h-30m", "--1h", "1d1w", "7days", "99999w", "40000d", "1-2", "1:30", "2562047h", "+1h", "1d+1h"} {
		if got, err := ParseDuration(bad); err == nil {
			t.Errorf("%q was read as %s", bad, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", 7 * day: "7d", 36 * time.Hour: "1d12h", 90 * time.Second: "1m30s", -1500 * time.Millisecond: "-1.5s"} {
		if got := FormatExact(d); got != want {
			t.Errorf("%s is written as %s, want %s", d, got, want)
		}
	}
}
