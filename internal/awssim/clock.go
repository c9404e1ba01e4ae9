package awssim

import (
	"sync"
	"time"
)

// Clock is the time of a simulation. It runs at a multiple of the machine's clock and can be set.
// Safe for concurrent use.
type Clock struct {
	mu      sync.Mutex
	base    time.Time // simulated time at the moment real
	real    time.Time // machine time (with its monotonic reading) at which base was set
	speed   float64
	step    time.Duration // how far each request moves it
	changed chan struct{}
}

// NewClock starts a clock at the given time. Speed is simulated seconds per real second; 0 stands
// still, so that only Set and Advance move it. A zero time means the machine's.
func NewClock(at time.Time, speed float64) *Clock {
	now := time.Now()
	if at.IsZero() {
		at = now
	}
	return &Clock{base: at.UTC().Round(0), real: now, speed: max(speed, 0), changed: make(chan struct{})}
}

// MachineClock is a clock that shows the machine's time and runs at its speed.
func MachineClock() *Clock { return NewClock(time.Time{}, 1) }

// Now is the simulated time, in UTC.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time {
	return c.base.Add(time.Duration(float64(time.Since(c.real)) * c.speed))
}

// Speed is simulated seconds per real second.
func (c *Clock) Speed() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.speed
}

// Set moves the clock to t. Moving it back undoes nothing: what has happened stays so.
func (c *Clock) Set(t time.Time) {
	c.rebase(func(time.Time) time.Time { return t.UTC().Round(0) }, -1)
}

// Advance moves the clock by d.
func (c *Clock) Advance(d time.Duration) {
	c.rebase(func(now time.Time) time.Time { return now.Add(d) }, -1)
}

// SetSpeed changes the speed from now on; 0 stops the clock.
func (c *Clock) SetSpeed(speed float64) {
	c.rebase(func(now time.Time) time.Time { return now }, max(speed, 0))
}

// SetStep has each request move the clock by d from now on, so that what waits for AWS's time
// comes to its end though the clock stands still.
func (c *Clock) SetStep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step = d
}

// called moves the clock by a step.
func (c *Clock) called() {
	c.mu.Lock()
	d := c.step
	c.mu.Unlock()
	if d != 0 {
		c.Advance(d)
	}
}

// rebase starts a new stretch of time; a negative speed keeps the present one.
func (c *Clock) rebase(to func(now time.Time) time.Time, speed float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.real = to(c.now()), time.Now()
	if speed >= 0 {
		c.speed = speed
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// Changed is closed at the next Set, Advance or SetSpeed.
func (c *Clock) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Until is how long the machine has to wait until the clock shows t; ok is false when the clock
// stands still before t.
func (c *Clock) Until(t time.Time) (wait time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := t.Sub(c.now())
	if left <= 0 {
		return 0, true
	}
	if c.speed == 0 {
		return 0, false
	}
	return time.Duration(float64(left)/c.speed) + time.Nanosecond, true
}
