package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
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

// Minutes returns a limit of n minutes.
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

// Duration returns the length of a Bounded limit.
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
	days := minutes / (24 * 60)
	hours := minutes / 60 % 24
	mins := minutes % 60
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

// timePart reads one number of a time. Ten digits are enough for Slurm's largest 32-bit value and keep every sum here
// inside an int64.
func timePart(digits string) (int64, error) {
	n, err := strconv.ParseUint(digits, 10, 63) // refuses a sign
	if err != nil || len(digits) > 10 {
		return 0, fmt.Errorf("%q is not a number of 1 to 10 digits", digits)
	}

	return int64(n), nil
}

// Walls holds the time limits that QOS and associations of Slurm's accounting set for jobs. A missing entry means no
// limit.
type Walls struct {
	Unknown bool            `json:"unknown,omitempty"` // accounting limits jobs, but the limits were never read
	QOS     map[string]Wall `json:"qos,omitempty"`
	// Associations, limits of their parents included, are named ACCOUNT, ACCOUNT|USER or ACCOUNT|USER|PARTITION. |USER
	// is for jobs that name no account.
	Associations map[string]Wall `json:"associations,omitempty"`
}

// Wall limits the jobs of one QOS or association. A job with a longer limit than MaxWall is refused, or waits
// indefinitely.
type Wall struct {
	MaxWall       Limit  `json:"max_wall,omitzero"`        // unset for no limit
	Metered       bool   `json:"metered,omitempty"`        // use over time is limited, in TRES-minutes or by GrpWall
	OverPartition bool   `json:"over_partition,omitempty"` // a QOS that counts before the partition's QOS (OverPartQOS)
	DefaultQOS    string `json:"default_qos,omitempty"`    // of an association's jobs that name none; "" for NormalQOS
}

// NormalQOS is the QOS of jobs without any other.
const NormalQOS = "normal"

// Trim leaves out what binds no job: a QOS without limits, and an association that repeats a more general one.
func (w Walls) Trim() {
	maps.DeleteFunc(w.QOS, func(_ string, q Wall) bool { return !q.MaxWall.Set && !q.Metered })

	for _, name := range slices.Backward(slices.Sorted(maps.Keys(w.Associations))) {
		parts := strings.Split(name, "|")
		if w.Associations[name] == w.association(parts[:len(parts)-1]...) {
			delete(w.Associations, name)
		}
	}
}

// association returns the most specific one of an account, a user and a partition.
func (w Walls) association(parts ...string) Wall {
	for n := len(parts); n > 0; n-- {
		if a, there := w.Associations[strings.Join(parts[:n], "|")]; there {
			return a
		}
	}

	return Wall{}
}

// MaxWall returns the longest limit that accounting allows a job in a partition, unset if there is none; metered:
// accounting limits the job's use over time, or nobody knows. account and qos are "" if the job names none.
//
// Slurm asks the partition's QOS first, then the job's, then the association. The first of them that has a limit
// counts (Slurm, "Resource Limits").
func (w Walls) MaxWall(user, account, qos string, p Partition) (most Limit, metered bool) {
	a := w.association(account, user, p.Name)

	first := w.QOS[p.QOS]
	second := w.QOS[cmp.Or(qos, a.DefaultQOS, NormalQOS)]
	if second.OverPartition {
		first, second = second, first
	}

	most = cmp.Or(first.MaxWall, second.MaxWall, a.MaxWall)
	metered = w.Unknown || first.Metered || second.Metered || a.Metered

	return most, metered
}

// SlurmPartition describes a partition as Slurm shows it; PCS calls it a queue. A [Partition] is one of our settings.
type SlurmPartition struct {
	Name          string
	Default       bool   // jobs without -p go there
	State         string // UP, DOWN, DRAIN, INACTIVE
	Nodes         []string
	MaxTime       Limit         // unset only if Slurm does not print it
	DefaultTime   Limit         // the limit of a job that states none; Slurm shows it as the job's own limit
	OverTime      Limit         // how much longer than its limit a job may run; unset: that of slurm.conf
	AllowAccounts []string      // empty: every account
	QOS           string        // its limits apply to all jobs; empty: none
	ResumeTimeout time.Duration // 0: that of slurm.conf
	SuspendTime   time.Duration // 0: that of slurm.conf; slurm.Never: idle nodes stay up
	PriorityTier  int           // jobs of a partition with a higher one preempt others
	PreemptMode   string        // its own, or that of slurm.conf
	GraceTime     time.Duration // how long after its TERM a job that is preempted goes on
	Unread        string        // what Slurm shows and nobody can read
}

// MaxOverTime returns the most by which jobs of the named partitions may run longer than their limits: NoLimit where no
// limit ends a job. of is that of slurm.conf.
func MaxOverTime(partitions []SlurmPartition, named []string, of Limit) (most Limit) {
	for _, p := range partitions {
		over := p.OverTime
		if !over.Set {
			over = of
		}

		more := !most.Unlimited && (over.Unlimited || over.Minutes > most.Minutes)
		if more && slices.Contains(named, p.Name) {
			most = over
		}
	}

	return most
}
