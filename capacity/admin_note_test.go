package capacity

import (
	"strings"
	"testing"
	"time"
)

// Programs read what other programs wrote, and people read the same sentence. What others wrote is theirs.
func TestAdminNotes(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 5, 0, 0, time.UTC)
	held := at.Add(7 * time.Second)

	for comment, want := range map[string]AdminNote{
		"pcs-capacity: this job can never start as it is: on_end=never": {Kind: NoteNeverStarts, Text: "on_end=never"},
		"pcs-capacity: this job cannot start as things are: no block":   {Kind: NoteCannotStart, Text: "no block"},
		"pcs-capacity: this job waits for failed hosts: 3 of 4":         {Kind: NoteFailedHosts, Text: "3 of 4"},
		"pcs-capacity: what kept this job from starting is over":        {Kind: NoteStartsAgain},
		"pcs-capacity: the time limit is 1:00:00, not 2:00:00":          {Kind: NoteLimit, Text: "1:00:00, not 2:00:00"},
		"pcs-capacity: this job's own limit is 2-00:00:00; Slurm starts it with less, and sync raises that to what fits " +
			"before the fence": {Kind: NoteStated, Stated: Minutes(2 * 24 * 60)},
		"pcs-capacity: this job's own limit is up":                  {Text: "this job's own limit is up"},
		"pcs-capacity: partition gpu refuses this job: too-long: x": {Text: "partition gpu refuses this job: too-long: x"},
		"pcs-capacity: requeued at noon":                            {Text: "requeued at noon"},
		"pcs-capacity: nodes gpu-1 did not boot: why":               {Text: "nodes gpu-1 did not boot: why"},
		"pcs-capacity: requeued at 2026-11-20 12:05 UTC: over; it goes on": {
			Kind: NoteRequeued,
			At:   at,
			Text: "over; it goes on",
		},
		"pcs-capacity: its owner can release it from 2026-11-20 12:05:07 UTC on: " +
			"requeued at 2026-11-20 12:05 UTC: over": {Kind: NoteRequeued, Held: held, At: at, Text: "over"},
		"pcs-capacity: its owner can release it from 2026-11-20 12:05:07 UTC on: refused on: Monday": {
			Held: held,
			Text: "refused on: Monday",
		},
		"pcs-capacity: its owner can release it from Monday on: x": {
			Text: "its owner can release it from Monday on: x",
		},
		"pcs-capacity: nodes gpu-[1-2] were not launched: Throttled: a: b": {
			Kind:  NoteNotLaunched,
			Nodes: "gpu-[1-2]",
			Code:  "Throttled",
			Text:  "a: b",
		},
		"pcs-capacity: nodes gpu-1 were not launched: X: y; tried 3 times; Slurm tries again at 2026-11-20 12:05 UTC": {
			Kind:    NoteNotLaunched,
			Nodes:   "gpu-1",
			Code:    "X",
			Text:    "y; tried 3 times",
			RetryAt: at,
		},
		"pcs-capacity: nodes gpu-1 were not launched: X: y; its own limit is 2-00:00:00; Slurm tries again at " +
			"2026-11-20 12:05 UTC": {
			Kind:    NoteNotLaunched,
			Nodes:   "gpu-1",
			Code:    "X",
			Stated:  Minutes(2 * 24 * 60),
			Text:    "y",
			RetryAt: at,
		},
		"pcs-capacity: no; its own limit is too short": {Text: "no; its own limit is too short"},
		"pcs-capacity: no; Slurm tries again at 2026-11-20 12:05 UTC, or once AWS answers": {
			Text:      "no",
			RetryAt:   at,
			Undecided: true,
		},
	} {
		if got, ours := ParseAdminNote(comment); !ours || got != want || got.String() != comment {
			t.Errorf("%q is read as %+v, and written as %q", comment, got, got)
		}
	}

	local := AdminNote{Held: held.In(time.FixedZone("", 3600)), Text: strings.Repeat("é", MaxComment)}
	if text := local.String(); !strings.Contains(text, " 12:05:07 UTC on: é") || len(text) > MaxComment {
		t.Errorf("%d bytes: %q", len(text), text)
	}

	for _, comment := range []string{"", "mine", " pcs-capacity: x", "theirs; Slurm tries again at 2026-11-20 12:05 UTC"} {
		if n, ours := ParseAdminNote(comment); ours || n != (AdminNote{Text: comment}) {
			t.Errorf("%q is read as ours: %+v", comment, n)
		}
	}
}

// What has been read is written so that it reads the same.
func FuzzAdminNote(f *testing.F) {
	f.Add("pcs-capacity: its owner can release it from 2026-11-20 12:05:07 UTC on: requeued at 2026-11-20 12:05 UTC: x")
	f.Add("pcs-capacity: nodes a were not launched: X: y; Slurm tries again at 2026-11-20 12:05 UTC, or once AWS answers")

	f.Fuzz(func(t *testing.T, comment string) {
		n, ours := ParseAdminNote(comment)
		if ours != strings.HasPrefix(comment, "pcs-capacity: ") || !ours && n.Text != comment {
			t.Fatalf("ours: %t, %+v", ours, n)
		}

		if again, _ := ParseAdminNote(n.String()); ours && len(n.String()) < MaxComment && again.Sentence() != n.Sentence() {
			t.Errorf("%+v, then %+v", n, again)
		}
	})
}
