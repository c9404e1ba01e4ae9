package capacity

import (
	"fmt"
	"strings"
	"time"
)

// TooLongRule says what a partition does with a job whose --time fits no window.
type TooLongRule string

// The values.
const (
	RefuseTooLong  TooLongRule = "refuse"
	ShortenTooLong TooLongRule = "shorten" // to the longest limit that fits
)

// Known reports whether the value is one of the two.
func (r TooLongRule) Known() bool { return r == RefuseTooLong || r == ShortenTooLong }

// shortenedTo is the sentence for a job whose limit was shortened; [Sentences] has it too.
const shortenedTo = "--time=%s does not fit partition %s; the job gets %s"

// AdmitNew is [Admit] for a job that is being submitted. Where all its partitions shorten, a job that is too long is
// judged as one without --time: it gets the longest limit that fits, at least min_time, and sync may raise that. Its
// own --time-min stays the least.
func AdmitNew(req Request, snap *Snapshot, now time.Time) Verdict {
	v := Admit(req, snap, now)
	if !v.Refused && v.Code != TooLong {
		return v
	}
	fitted := req
	fitted.TimeLimit = Limit{}
	short := Admit(fitted, snap, now)
	names := req.in(snap)
	for _, name := range names {
		p, ours := snap.Partition(name)
		if !ours || p.TooLong != ShortenTooLong || short.Edits.TimeLimit.Duration() < p.MinTime.Duration {
			return v
		}
	}
	says := fmt.Sprintf(shortenedTo, req.TimeLimit, strings.Join(names, ","), short.Edits.TimeLimit)
	short.Warnings = append([]string{says}, short.Warnings...)
	return short
}
