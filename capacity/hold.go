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
	goesMark  = adminMark + "it goes on in "
	ifHeld    = "; if it is held, "
	ownerMark = "its owner can release it from "
	heldTime  = "2006-01-02 15:04:05 UTC"
)

// HoldNote is the AdminComment of a job that its owner cannot release before until, in whole seconds. text gives the
// reason.
func HoldNote(until time.Time, text string) string { return adminMark + heldFrom(until, text) }

func heldFrom(until time.Time, text string) string {
	return ownerMark + until.UTC().Format(heldTime) + " on: " + text
}

// GoOnNote is the AdminComment of a job that one partition refuses and that is released to start in its others. It is
// written before the release, and nothing has to replace it: a launch in the other partitions may write its own. Until
// the release, and after a hold by a `sync` that does not know of the release, it is a HoldNote as well.
func GoOnNote(partitions string, until time.Time, text string) string {
	return goesMark + partitions + ifHeld + heldFrom(until, text)
}

// GoesOn reports whether an AdminComment is a GoOnNote.
func GoesOn(comment string) bool {
	_, _, ours := ReadHoldNote(comment)
	return ours && strings.HasPrefix(comment, goesMark)
}

// ReadHoldNote reads an AdminComment; ours is false if it is not a HoldNote. rest is the AdminComment to restore when
// the hold is over.
func ReadHoldNote(comment string) (until time.Time, rest string, ours bool) {
	mark := adminMark
	if going, after, whole := strings.Cut(comment, ifHeld); whole && strings.HasPrefix(going, goesMark) {
		mark, comment = going+": ", adminMark+after
	}
	after, marked := strings.CutPrefix(comment, adminMark+ownerMark)
	at, text, complete := strings.Cut(after, " on: ")
	until, err := time.Parse(heldTime, at)
	if !marked || !complete || err != nil {
		return time.Time{}, "", false
	}
	return until, mark + text, true
}
