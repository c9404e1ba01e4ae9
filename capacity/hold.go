package capacity

import (
	"strings"
	"time"
)

// A job that is refused at launch is held. Slurm may turn our hold into an administrator's some time later, and a
// long hold of ours is one from the start; `sync` gives such a job back to its owner when the time has come. The
// start of the job's AdminComment, which no user can change, says which hold is ours and until when.
const (
	adminMark = "pcs-capacity: "
	heldMark  = adminMark + "its owner can release it from "
	heldTime  = "2006-01-02 15:04:05 UTC"
)

// HoldNote is the AdminComment of a job that its owner cannot release before until, in whole seconds. text gives the
// reason.
func HoldNote(until time.Time, text string) string {
	return heldMark + until.UTC().Format(heldTime) + " on: " + text
}

// ReadHoldNote reads an AdminComment; ours is false if it is not a HoldNote. rest is the AdminComment to restore when
// the hold is over.
func ReadHoldNote(comment string) (until time.Time, rest string, ours bool) {
	after, marked := strings.CutPrefix(comment, heldMark)
	at, text, complete := strings.Cut(after, " on: ")
	until, err := time.Parse(heldTime, at)
	if !marked || !complete || err != nil {
		return time.Time{}, "", false
	}
	return until, adminMark + text, true
}
