package capacity

import (
	"fmt"
	"time"
)

// Limit is a Slurm time limit: unset (the zero value), unlimited, or a number of
// whole minutes.
type Limit struct {
	Set       bool `json:"set,omitempty"`
	Unlimited bool `json:"unlimited,omitempty"`
	Minutes   int  `json:"minutes,omitempty"`
}

// Minutes is a limit of n minutes.
func Minutes(n int) Limit { return Limit{Set: true, Minutes: n} }

// NoLimit is Slurm's UNLIMITED.
var NoLimit = Limit{Set: true, Unlimited: true}

// LimitOf rounds a duration up to whole minutes, as Slurm does with seconds. Zero or less gives one minute, because
// Slurm takes 0 as no limit.
func LimitOf(d time.Duration) Limit {
	return Minutes(max(1, int((d+time.Minute-1)/time.Minute)))
}

// Bounded reports whether the limit is a number of minutes.
func (l Limit) Bounded() bool { return l.Set && !l.Unlimited }

// Duration is the length of a Bounded limit.
func (l Limit) Duration() time.Duration { return time.Duration(l.Minutes) * time.Minute }

// String writes the limit as Slurm does: days-hours:minutes:seconds.
func (l Limit) String() string {
	switch {
	case !l.Set:
		return "none"
	case l.Unlimited:
		return "UNLIMITED"
	}
	return FormatMinutes(l.Minutes)
}

// FormatMinutes writes whole minutes as Slurm's --time takes them: [days-]hh:mm:ss.
func FormatMinutes(minutes int) string {
	days, hours, mins := minutes/(24*60), minutes/60%24, minutes%60
	if days > 0 {
		return fmt.Sprintf("%d-%02d:%02d:00", days, hours, mins)
	}
	return fmt.Sprintf("%02d:%02d:00", hours, mins)
}
