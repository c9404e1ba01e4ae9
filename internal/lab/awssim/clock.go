package awssim

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
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

// MachineClock returns a clock that shows the machine's time and runs at its speed.
func MachineClock() *Clock { return NewClock(time.Time{}, 1) }

// Now returns the simulated time, in UTC.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time {
	return c.base.Add(time.Duration(float64(time.Since(c.real)) * c.speed))
}

// Speed returns simulated seconds per real second.
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

// Changed returns a channel that is closed at the next Set, Advance or SetSpeed.
func (c *Clock) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Until returns the machine's wait until the clock shows t; ok is false when the clock stands still before t.
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
		*m = Moment{
			set:   true,
			daily: true,
			days:  days,
			hour:  time.Duration(h)*time.Hour + time.Duration(min)*time.Minute,
		}

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

// IsZero reports whether the scenario left it out.
func (m Moment) IsZero() bool { return !m.set }

// At returns the moment in a simulation that started at start, in whole seconds, as EC2 shows times.
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

// Lag is EC2's eventual consistency: for how long calls that follow a change do not see it yet, in simulated time.
// What is not visible is in no list, and a call that names it is told that it does not exist (EC2 Developer
// Guide, "Eventual consistency"). POST /_sim/lag takes it; fields left out stay.
type Lag struct {
	Instances    *Duration `json:"instances,omitempty"    toml:"instances"`    // new instances
	Templates    *Duration `json:"templates,omitempty"    toml:"templates"`    // new launch templates and versions
	Tags         *Duration `json:"tags,omitempty"         toml:"tags"`         // of CreateTags and DeleteTags; new things have theirs at once
	Reservations *Duration `json:"reservations,omitempty" toml:"reservations"` // new ODCRs
	Purchases    *Duration `json:"purchases,omitempty"    toml:"purchases"`    // purchased blocks
	Activation   *Duration `json:"activation,omitempty"   toml:"activation"`   // new ODCRs are pending
	Groups       *Duration `json:"groups,omitempty"       toml:"groups"`       // additions to groups are pending
}

func (s *Sim) currentLag() Lag {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.lag
}

// SetLag changes how long later changes stay invisible.
func (s *Sim) SetLag(change Lag) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.lag = Lag{
		cmp.Or(change.Instances, s.lag.Instances),
		cmp.Or(change.Templates, s.lag.Templates),
		cmp.Or(change.Tags, s.lag.Tags),
		cmp.Or(change.Reservations, s.lag.Reservations),
		cmp.Or(change.Purchases, s.lag.Purchases),
		cmp.Or(change.Activation, s.lag.Activation),
		cmp.Or(change.Groups, s.lag.Groups),
	}
}

// oldTags are the tags that a resource shows until a change of its tags is visible.
type oldTags struct {
	tags  map[string]string
	until time.Time
}

// hide keeps a new thing invisible for a while. Called with mu held.
func (r *region) hide(id string, lag *Duration) {
	if lag != nil {
		r.hidden[id] = r.sim.now.Add(time.Duration(*lag))
	}
}

// isVisible reports whether a thing is visible yet.
func (r *region) isVisible(id string) bool { return !r.sim.now.Before(r.hidden[id]) }

// keepTags has a resource show its present tags for a while. Called before they change.
func (r *region) keepTags(id string, tags map[string]string) {
	if lag := r.sim.lag.Tags; lag != nil {
		r.oldTags[id] = oldTags{maps.Clone(r.visibleTags(id, tags)), r.sim.now.Add(time.Duration(*lag))}
	}
}

// visibleTags returns the tags that a resource with these tags shows.
func (r *region) visibleTags(id string, tags map[string]string) map[string]string {
	if old, ok := r.oldTags[id]; ok && r.sim.now.Before(old.until) {
		return old.tags
	}
	return tags
}

// visible keeps the items that are visible.
func visible[T any](r *region, items []T, id func(T) string) []T {
	var out []T
	for _, item := range items {
		if r.isVisible(id(item)) {
			out = append(out, item)
		}
	}

	return out
}
