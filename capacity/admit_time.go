package capacity

import (
	"fmt"
	"slices"
	"time"
)

// admitTime judges the time limit against the windows of what the job may use.
func admitTime(req Request, usable []candidate, p Partition, snap *Snapshot, now time.Time) Verdict {
	if slices.ContainsFunc(usable, func(c candidate) bool { return c.window.Unbounded() }) {
		return Verdict{Code: OK}
	}
	boot := snap.Timing.BootAllowance.Duration
	best := slices.MaxFunc(usable, func(a, b candidate) int { return compare(a.room(now, boot), b.room(now, boot)) })
	if !req.TimeLimit.Set {
		return fitTime(req, usable, p, boot, now)
	}
	need := req.TimeLimit
	if req.TimeMin.Bounded() && (need.Unlimited || req.TimeMin.Minutes < need.Minutes) {
		need = req.TimeMin // Slurm may lower the limit down to --time-min
	}
	if need.Bounded() && need.Duration() <= best.room(now, boot) {
		return waitsFor(req, usable, best, boot, now)
	}
	return refuseLong("the job", need, best, p, boot, now)
}

// room is the longest time limit that fits into the candidate, boot included.
func (c candidate) room(now time.Time, boot time.Duration) time.Duration {
	room := c.window.Room(now)
	if c.group.Dynamic {
		room -= boot
	}
	return room
}

// fitTime sets the limit of a job that stated none: the whole of its longest
// window, with the partition's floor as --time-min, so that Slurm itself fits the
// limit to the fence at the moment when the job starts. The floor is a time that
// the job must really get, so that one has to fit with boot time counted.
func fitTime(req Request, usable []candidate, p Partition, boot time.Duration, now time.Time) Verdict {
	longest := slices.MaxFunc(usable, func(a, b candidate) int { return compare(a.window.Room(now), b.window.Room(now)) })
	minutes := int(longest.window.Room(now) / time.Minute)
	if p.MaxTime.Bounded() {
		minutes = min(minutes, p.MaxTime.Minutes)
	}
	floor := LimitOf(p.MinTime.Duration)
	subject := "a job without --time"
	if req.TimeMin.Bounded() {
		floor, subject = req.TimeMin, "the job"
	}
	if floor.Duration() > longest.room(now, boot) || floor.Minutes > minutes {
		return refuseLong(subject, floor, longest, p, boot, now)
	}
	v := Verdict{Code: OK, Edits: Edits{TimeLimit: Minutes(minutes), TimeMin: floor}}
	wish, _ := ParseWish(req.Comment)
	comment := req.Comment
	if comment != "" {
		comment += " "
	}
	comment += FitWord
	switch {
	case wish.Fit:
	case len(comment) > MaxComment:
		v.Warnings = append(v.Warnings, fmt.Sprintf("the comment is too long to add %s, so the limit is not fitted again after the job starts", FitWord))
	default:
		v.Edits.Comment = comment
	}
	return v
}

// waitsFor accepts, and says so when the job fits only into a block that opens later.
func waitsFor(req Request, usable []candidate, best candidate, boot time.Duration, now time.Time) Verdict {
	v := Verdict{Code: OK}
	need := req.TimeLimit
	open := func(c candidate) bool { return !c.window.Start.After(now) }
	fitsNow := slices.ContainsFunc(usable, func(c candidate) bool {
		return open(c) && need.Bounded() && need.Duration() <= c.room(now, boot)
	})
	if !fitsNow && !open(best) && slices.ContainsFunc(usable, open) {
		v.Warnings = append(v.Warnings, fmt.Sprintf("the job no longer fits into what is open now; it waits for %s, which opens at %s", best.reservation.ID, FormatUTC(best.window.Start)))
	}
	return v
}

// refuseLong says what the subject needs, and what there is.
func refuseLong(subject string, need Limit, best candidate, p Partition, boot time.Duration, now time.Time) Verdict {
	where := fmt.Sprintf("reservation %s of partition %s must be free of jobs by %s", best.reservation.ID, p.Name, FormatUTC(best.window.Fence))
	minutes := int(best.room(now, boot) / time.Minute)
	if minutes < 1 {
		return refuse(TooLong, fmt.Sprintf("%s needs %s, but %s and no time is left before that; wait for the next block", subject, need, where))
	}
	return refuse(TooLong, fmt.Sprintf("%s needs %s, but %s; the longest time that fits is %s: use --time=%s or less",
		subject, need, where, FormatMinutes(minutes), FormatMinutes(minutes)))
}

func compare(a, b time.Duration) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
