package awsconfig

import (
	"net/http"
	"testing"
	"time"
)

// A clock that is off is set to the Date header's second, never a second past it, whichever way it is off.
func TestOffset(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 900e6, time.UTC)
	date := http.Header{"Date": {"Fri, 20 Nov 2026 12:00:00 GMT"}}
	for name, test := range map[string]struct {
		sent, received time.Time
		want           time.Duration
	}{
		"right":       {at, at.Add(10 * time.Millisecond), 0},
		"slow answer": {at.Add(-5 * time.Second), at, 0},
		"behind AWS":  {at.Add(-time.Hour), at.Add(-time.Hour), time.Hour - 900*time.Millisecond},
		"ahead":       {at.Add(time.Hour), at.Add(time.Hour), -time.Hour - 900*time.Millisecond},
	} {
		var c clock
		c.read = func() reading { return reading{test.received, test.received.Sub(test.sent)} }
		c.learn(date, reading{test.sent, 0}, c.now())
		if off := c.offset(); off != test.want {
			t.Errorf("%s: offset %s, want %s", name, off, test.want)
		}
	}
	var c clock
	c.learn(http.Header{"Date": {"yesterday"}}, reading{at, 0}, reading{at, 0})
	if c.offset() != 0 {
		t.Error("a bad Date was taken")
	}
}

// One answer with a Date of another year changes nothing, and as the first one only until the next; a second one that agrees does.
func TestOneDateIsNoWitness(t *testing.T) {
	m := reading{wall: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	c := clock{read: func() reading { return m }}
	for i, step := range []struct{ date, want time.Duration }{
		{365 * 24 * time.Hour, 365 * 24 * time.Hour}, {0, 0}, {10 * time.Minute, 10 * time.Minute}, {365 * 24 * time.Hour, 10 * time.Minute}, {9 * time.Minute, 9 * time.Minute},
		{-time.Hour, 9 * time.Minute}, {time.Hour, 9 * time.Minute}, {time.Hour, time.Hour}, {0, time.Hour}, {0, 0},
	} {
		c.learn(http.Header{"Date": {m.wall.Add(step.date).Format(http.TimeFormat)}}, m, m)
		if c.offset() != step.want {
			t.Errorf("answer %d, of %s: offset %s, want %s", i+1, step.date, c.offset(), step.want)
		}
	}
}

// The machine's clock is set between the answer and the use of the offset, while an answer is
// under way, and more than once: AWS's time is known all the same, without another call.
func TestOffsetWhenTheMachinesClockLeaps(t *testing.T) {
	truth := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, leap := range []time.Duration{10 * time.Minute, -10 * time.Minute, 2 * time.Second, -time.Hour} {
		m := reading{wall: truth.Add(90 * time.Second)} // 90 s ahead of AWS
		c := clock{read: func() reading { return m }}
		pass := func(d time.Duration) {
			m.wall, m.runs = m.wall.Add(d), m.runs+d
		}
		off := func() time.Duration { return m.wall.Add(c.offset()).Sub(truth.Add(m.runs)) } // of what is taken for AWS's time
		answer := func(leap time.Duration) {
			sent := m
			pass(10 * time.Millisecond)
			m.wall = m.wall.Add(leap)
			c.learn(http.Header{"Date": {truth.Add(m.runs).Format(http.TimeFormat)}}, sent, m)
		}
		answer(0)
		if off().Abs() > time.Second {
			t.Errorf("at first AWS's time is off by %s", off())
		}
		for range 2 {
			pass(time.Minute)
			m.wall = m.wall.Add(leap)
			if off().Abs() > time.Second {
				t.Errorf("leap of %s after the answer: AWS's time is off by %s", leap, off())
			}
		}
		answer(leap)
		answer(0)
		pass(time.Minute)
		if off().Abs() > time.Second {
			t.Errorf("leap of %s during the answer: AWS's time is off by %s", leap, off())
		}
	}
	// A clock that is kept right by small steps stays right.
	m := reading{wall: truth}
	c := clock{read: func() reading { return m }}
	c.learn(http.Header{"Date": {truth.Format(http.TimeFormat)}}, m, m)
	m.wall, m.runs = m.wall.Add(time.Minute+300*time.Millisecond), m.runs+time.Minute
	if c.offset() != 0 {
		t.Errorf("a step of 300 ms makes an offset of %s", c.offset())
	}
}
