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

func TestFormatZone(t *testing.T) {
	for _, c := range []struct{ id, name, want string }{
		{"use2-az1", "us-east-2a", "us-east-2a (use2-az1)"}, {"use2-az1", "", "use2-az1"}, {"", "us-east-2a", "us-east-2a"}, {"", "", ""},
	} {
		if got := FormatZone(c.id, c.name); got != c.want {
			t.Errorf("zone %q named %q: %q, want %q", c.id, c.name, got, c.want)
		}
	}
}
