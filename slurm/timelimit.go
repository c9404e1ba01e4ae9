package slurm

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Slurm's 32-bit markers in a field of minutes (slurm/slurm.h), and the
// largest number of minutes that it can keep as seconds in a signed int.
// Older versions print the markers as if they were limits.
const (
	noVal16    = 0xfffe
	noVal      = 0xfffffffe
	infinite32 = 0xffffffff
	maxMinutes = math.MaxInt32 / 60
)

// Limit is a Slurm time limit. Slurm counts in whole minutes.
// The zero value is "not set": the partition's limit applies.
type Limit struct {
	Set      bool // false: not stated; Infinite and Minutes mean nothing
	Infinite bool // no limit; Minutes means nothing
	Minutes  int  // at least 1
}

// LimitOf rounds a duration up to whole minutes, as Slurm does with seconds.
// Zero and less give one minute: in Slurm a limit of 0 means "no limit".
func LimitOf(d time.Duration) Limit {
	minutes := int((d + time.Minute - 1) / time.Minute)
	return Limit{Set: true, Minutes: min(max(minutes, 1), maxMinutes)}
}

// Duration is the limit as a duration; ok is false when there is no finite one.
func (l Limit) Duration() (d time.Duration, ok bool) {
	if !l.Set || l.Infinite {
		return 0, false
	}
	return time.Duration(l.Minutes) * time.Minute, true
}

// String prints the limit as Slurm does: "01:30:00", "2-00:00:00",
// "UNLIMITED"; an unset one is "Partition_Limit".
func (l Limit) String() string {
	switch {
	case !l.Set:
		return "Partition_Limit"
	case l.Infinite:
		return "UNLIMITED"
	}
	days, hours, minutes := l.Minutes/(24*60), l.Minutes/60%24, l.Minutes%60
	if days > 0 {
		return fmt.Sprintf("%d-%02d:%02d:00", days, hours, minutes)
	}
	return fmt.Sprintf("%02d:%02d:00", hours, minutes)
}

// ParseLimit reads a time limit as sbatch --time and scontrol read and print
// it. The forms are those of time_str2secs in src/common/parse_time.c:
// "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours",
// "days-hours:minutes" and "days-hours:minutes:seconds". A part may exceed its
// unit ("90:30" is 91 minutes), and seconds round up to the next minute.
//
// "UNLIMITED", "INFINITE", "-1" and any form of zero mean no limit, as with
// sbatch. "", "Partition_Limit", "NONE", "N/A" and what 22.05 prints for an
// unset value ("2982616-04:14:00", "4294967294", "65534") mean not set.
func ParseLimit(text string) (Limit, error) {
	switch strings.ToUpper(text) {
	case "", "PARTITION_LIMIT", "NONE", "N/A", "INVALID":
		return Limit{}, nil
	case "UNLIMITED", "INFINITE", "-1":
		return Limit{Set: true, Infinite: true}, nil
	}
	seconds, err := parseTimeSpec(text)
	if err != nil {
		return Limit{}, fmt.Errorf("time limit %q: %w", text, err)
	}
	limit, err := limitOfMinutes((seconds + 59) / 60)
	if err != nil {
		return Limit{}, fmt.Errorf("time limit %q: %w", text, err)
	}
	return limit, nil
}

// limitOfMinutes reads a number of minutes as Slurm stores it, markers included.
func limitOfMinutes(minutes int64) (Limit, error) {
	switch {
	case minutes == noVal || minutes == noVal16:
		return Limit{}, nil
	case minutes == infinite32 || minutes == 0:
		return Limit{Set: true, Infinite: true}, nil
	case minutes < 0 || minutes > maxMinutes:
		return Limit{}, fmt.Errorf("%d minutes are out of range (1 to %d)", minutes, maxMinutes)
	}
	return Limit{Set: true, Minutes: int(minutes)}, nil
}

// parseTimeSpec returns seconds.
func parseTimeSpec(text string) (int64, error) {
	days, clock, hasDays := strings.Cut(text, "-")
	units := []int64{60, 1} // minutes[:seconds]
	if !hasDays {
		clock = text
		if strings.Count(clock, ":") == 2 {
			units = []int64{3600, 60, 1}
		}
	} else {
		units = []int64{3600, 60, 1}
	}

	var total int64
	if hasDays {
		n, err := timePart(days)
		if err != nil {
			return 0, err
		}
		total = n * 24 * 3600
		if clock == "" { // Slurm takes "2-" as two days
			return total, nil
		}
	}
	parts := strings.Split(clock, ":")
	if len(parts) > len(units) {
		return 0, fmt.Errorf("too many colons")
	}
	for i, part := range parts {
		n, err := timePart(part)
		if err != nil {
			return 0, err
		}
		total += n * units[i]
	}
	return total, nil
}

// timePart reads one number of a time. Ten digits are enough for Slurm's
// largest 32-bit value and keep every sum here inside an int64.
func timePart(digits string) (int64, error) {
	if digits == "" || len(digits) > 10 || strings.Trim(digits, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not a number of 1 to 10 digits", digits)
	}
	return strconv.ParseInt(digits, 10, 64)
}
