package capacity

import (
	"cmp"
	"strings"
	"time"
)

// NoteKind says what an AdminNote is about, by the words that it begins with. Other notes have none.
type NoteKind string

// The kinds that programs of ours look for.
const (
	NoteNeverStarts NoteKind = "this job " + CanNeverStart + ": "
	NoteCannotStart NoteKind = "this job " + CannotStart + ": "
	NoteFailedHosts NoteKind = "this job waits for failed hosts: "
	NoteNoRoom      NoteKind = "no capacity could be held for this job: " // on PCS
	NoteStartsAgain NoteKind = "what kept this job from starting is over"
	NoteLimit       NoteKind = "the time limit is "
	NoteStated      NoteKind = "this job's own limit is " // from its submission: Slurm forgets it at the start
	NoteRequeued    NoteKind = "requeued at "             // off its nodes, at the fence
	NoteNotLaunched NoteKind = "nodes "
)

// The other words of a note that separate what programs read.
const (
	noteMark   = "pcs-capacity: "
	noteHeld   = "its owner can release it from "
	noteSince  = " on: "
	noteLaunch = " were not launched: "
	noteRetry  = "; Slurm tries again at "
	noteSooner = ", or once AWS answers"
	noteStated = "; Slurm starts it with less, and sync raises that to what fits before the fence"
	noteOwn    = "; its own limit is "
	heldTime   = "2006-01-02 15:04:05 UTC"
)

// AdminNote is the AdminComment of a job, by which our programs tell the job's owner, and each other, what they did to
// it. Its owner cannot change it.
type AdminNote struct {
	Kind NoteKind
	// Held is when our hold of the job began, to the second; zero without one. Slurm may turn our hold into an
	// administrator's some time later; `sync` gives such a job back to its owner.
	Held      time.Time
	At        time.Time // of a requeue, to the minute
	Nodes     string    // that were not launched
	Code      string    // why they were not
	Stated    Limit     // of a job that may start with less: until sync has recorded it, only a note has it
	Text      string
	RetryAt   time.Time // when Slurm starts the job again after a failed launch, to the minute; zero if it is not said
	Undecided bool      // it may start sooner, because AWS did not answer
}

// ParseAdminNote reads a job's AdminComment. One that no program of ours wrote is not ours, and all of it is Text.
func ParseAdminNote(comment string) (n AdminNote, ours bool) {
	text, ours := strings.CutPrefix(comment, noteMark)
	if !ours {
		return AdminNote{Text: comment}, false
	}

	var held time.Time
	if after, holds := strings.CutPrefix(text, noteHeld); holds {
		at, rest, _ := strings.Cut(after, noteSince)

		held, _ = time.Parse(heldTime, at)
		if !held.IsZero() {
			text = rest
		}
	}

	text, retry, _ := strings.Cut(text, noteRetry)
	retry, undecided := strings.CutSuffix(retry, noteSooner)

	sentence, own, _ := strings.Cut(text, noteOwn)

	stated, _ := ParseLimit(own)
	if !stated.Bounded() || stated.String() != own {
		sentence = text
		stated = Limit{}
	}

	n = parseSentence(sentence)
	n.Stated = cmp.Or(n.Stated, stated)
	n.Held = held
	n.RetryAt, _ = time.Parse(utcTime, retry)
	n.Undecided = undecided

	return n, true
}

// parseSentence finds the kind of a sentence, and its parts. One that it would write in another way has no kind.
func parseSentence(sentence string) AdminNote {
	for _, kind := range []NoteKind{
		NoteNeverStarts, NoteCannotStart, NoteFailedHosts, NoteNoRoom, NoteStartsAgain, NoteLimit, NoteStated, NoteRequeued,
		NoteNotLaunched,
	} {
		n := AdminNote{Kind: kind, Text: strings.TrimPrefix(sentence, string(kind))}
		switch kind {
		case NoteStated:
			stated, _, _ := strings.Cut(n.Text, noteStated)
			n.Stated, _ = ParseLimit(stated)
			n.Text = ""
		case NoteRequeued:
			at, why, _ := strings.Cut(n.Text, ": ")
			n.At, _ = time.Parse(utcTime, at)
			n.Text = why
		case NoteNotLaunched:
			n.Nodes, n.Text, _ = strings.Cut(n.Text, noteLaunch)
			n.Code, n.Text, _ = strings.Cut(n.Text, ": ")
		}

		if n.Sentence() == sentence {
			return n
		}
	}

	return AdminNote{Text: sentence}
}

// Refuses reports whether the note says that the job cannot start as it is.
func (n AdminNote) Refuses() bool { return n.Kind == NoteNeverStarts || n.Kind == NoteCannotStart }

// Sentence returns what people read: the note without its mark, and without our hold.
func (n AdminNote) Sentence() string {
	text := string(n.Kind)
	switch n.Kind {
	case NoteStated:
		text += n.Stated.String() + noteStated
	case NoteRequeued:
		text += FormatUTC(n.At) + ": "
	case NoteNotLaunched:
		text += n.Nodes + noteLaunch + n.Code + ": "
	}

	text += n.Text
	if n.Kind != NoteStated && n.Stated.Set {
		text += noteOwn + n.Stated.String()
	}

	if !n.RetryAt.IsZero() {
		text += noteRetry + FormatUTC(n.RetryAt)
		if n.Undecided {
			text += noteSooner
		}
	}

	return text
}

// String writes the AdminComment, as long as slurmctld takes it.
func (n AdminNote) String() string {
	text := noteMark
	if !n.Held.IsZero() {
		text += noteHeld + n.Held.UTC().Format(heldTime) + noteSince
	}

	text += n.Sentence()
	if len(text) > MaxComment {
		text = strings.ToValidUTF8(text[:MaxComment], "")
	}

	return text
}
