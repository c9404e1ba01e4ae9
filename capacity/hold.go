package capacity

import (
	"strings"
	"time"
)

// A job that is refused at launch is held. Slurm can make our hold an administrator's, some
// time later, and where we hold a job for longer it is one: then `sync` leaves it to the
// job's owner when its time has come. Which hold is ours, and until when, is at the start of
// the job's AdminComment, which no user can change.
const (
	adminMark = "pcs-capacity: "
	heldMark  = adminMark + "its owner can release it from "
	heldTime  = "2006-01-02 15:04:05 UTC"
)

// HoldNote is the AdminComment of a job that its owner cannot release before a time, in whole
// seconds. text says why.
func HoldNote(until time.Time, text string) string {
	return heldMark + until.UTC().Format(heldTime) + " on: " + text
}

// ReadHoldNote reads an AdminComment; ours is false if it is no HoldNote. rest is the
// AdminComment for when the time is over.
func ReadHoldNote(comment string) (until time.Time, rest string, ours bool) {
	after, marked := strings.CutPrefix(comment, heldMark)
	at, text, complete := strings.Cut(after, " on: ")
	until, err := time.Parse(heldTime, at)
	if !marked || !complete || err != nil {
		return time.Time{}, "", false
	}
	return until, adminMark + text, true
}
