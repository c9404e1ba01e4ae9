package awsconfig

import (
	"net/http"
	"testing"
	"time"
)

func TestOffsetOfARightClockIsZero(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 900e6, time.UTC)
	date := http.Header{"Date": {"Fri, 20 Nov 2026 12:00:00 GMT"}}
	for name, test := range map[string]struct {
		sent, received time.Time
		least, most    time.Duration
	}{
		"right":        {at, at.Add(10 * time.Millisecond), 0, 0},
		"slow answer":  {at.Add(-5 * time.Second), at, 0, 0},
		"machine late": {at.Add(-time.Hour), at.Add(-time.Hour), 59 * time.Minute, time.Hour},
		"machine fast": {at.Add(time.Hour), at.Add(time.Hour), -time.Hour, -59 * time.Minute},
	} {
		var c clock
		c.learn(date, test.sent, test.received)
		if off := c.offset(); off < test.least || off > test.most {
			t.Errorf("%s: offset %s, want %s to %s", name, off, test.least, test.most)
		}
	}
	var c clock
	c.learn(http.Header{"Date": {"yesterday"}}, at, at)
	if c.offset() != 0 {
		t.Error("a bad Date was taken")
	}
}
