package capacity

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limit is a Slurm time limit: unset (the zero value), unlimited, or a number of whole minutes.
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

// MaxMinutes is the longest limit that Slurm can keep, as seconds in a signed int.
const MaxMinutes = math.MaxInt32 / 60

// Slurm's 32-bit markers in a field of minutes (slurm/slurm.h). Older versions print them as if they were limits.
const (
	noVal16    = 0xfffe
	noVal      = 0xfffffffe
	infinite32 = 0xffffffff
)

// ErrLimitRange is for a limit in a known form that Slurm cannot keep.
var ErrLimitRange = errors.New("out of range")

// ParseLimit reads a time limit as sbatch --time and scontrol read and print it. The forms are those of time_str2secs
// in src/common/parse_time.c: "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours", "days-hours:minutes"
// and "days-hours:minutes:seconds". A part may exceed its unit ("90:30" is 91 minutes), and seconds round up to the
// next minute.
//
// "UNLIMITED", "INFINITE", "-1" and any form of zero mean no limit, as with sbatch. "", "Partition_Limit", "NONE",
// "N/A" and what 22.05 prints for an unset value ("2982616-04:14:00", "4294967294", "65534") mean not set.
func ParseLimit(text string) (Limit, error) {
	switch strings.ToUpper(text) {
	case "", "PARTITION_LIMIT", "NONE", "N/A", "INVALID":
		return Limit{}, nil
	case "UNLIMITED", "INFINITE", "-1":
		return NoLimit, nil
	}
	seconds, err := parseTimeSpec(text)
	minutes := (seconds + 59) / 60
	switch {
	case err != nil:
	case minutes == noVal || minutes == noVal16:
		return Limit{}, nil
	case minutes == infinite32 || minutes == 0:
		return NoLimit, nil
	case minutes < 0 || minutes > MaxMinutes:
		err = fmt.Errorf("%d minutes are %w (1 to %d)", minutes, ErrLimitRange, MaxMinutes)
	default:
		return Minutes(int(minutes)), nil
	}
	return Limit{}, fmt.Errorf("time limit %q: %w", text, err)
}

// parseTimeSpec returns seconds.
func parseTimeSpec(text string) (int64, error) {
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		clock = text
	}
	units := []int64{3600, 60, 1}
	if !hasDays && strings.Count(clock, ":") != 2 {
		units = units[1:] // minutes[:seconds]
	}

	var total int64
	if hasDays {
		n, err := timePart(days)
		if err != nil {
			return 0, err
		}
		total = n * 24 * 3600
		if clock == "" { // Slurm reads "2-" as two days
			return total, nil
		}
	}
	if strings.Count(clock, ":") >= len(units) {
		return 0, fmt.Errorf("too many colons")
	}
	for part := range strings.SplitSeq(clock, ":") {
		n, err := timePart(part)
		if err != nil {
			return 0, err
		}
		total += n * units[0]
		units = units[1:]
	}
	return total, nil
}

// timePart reads one number of a time. Ten digits are enough for Slurm's
// largest 32-bit value and keep every sum here inside an int64.
func timePart(digits string) (int64, error) {
	n, err := strconv.ParseUint(digits, 10, 63) // refuses a sign
	if err != nil || len(digits) > 10 {
		return 0, fmt.Errorf("%q is not a number of 1 to 10 digits", digits)
	}
	return int64(n), nil
}
