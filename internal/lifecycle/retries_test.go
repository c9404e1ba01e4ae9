package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Only jobs that nobody has refused come forward, when AWS answers, and no later than they would; a time that somebody
// else has set stays. The note of a job that runs loses when it is tried again.
func TestRetries(t *testing.T) {
	later := at("1h").Add(10 * time.Minute)
	undecided := capacity.AdminNote{Text: "no answer", RetryAt: later, Undecided: true}.String()
	refused := capacity.AdminNote{Text: "no capacity; tried 3 times", RetryAt: later}.String()
	forward := []string{"retry-job: let job 7 start now: AWS answers again"}

	for name, c := range map[string]struct {
		state, flag, note string
		begins            time.Time
		silent            bool
		want              []string
	}{
		"AWS answers":             {state: "PENDING", note: undecided, begins: later, want: forward},
		"AWS does not answer":     {state: "PENDING", note: undecided, begins: later, silent: true},
		"EC2 refused it":          {state: "PENDING", note: refused, begins: later},
		"somebody has put it off": {state: "PENDING", note: undecided, begins: later.Add(time.Hour)},
		"Slurm has put it off": {
			state:  "PENDING",
			note:   undecided,
			begins: later.Add(2 * time.Minute),
			want:   forward,
		},
		"it has been brought forward": {state: "PENDING", note: undecided, begins: at("1h").Add(5 * time.Second)},
		"another note":                {state: "PENDING", note: "theirs: " + undecided, begins: later},
		"it boots":                    {state: "RUNNING", flag: "CONFIGURING", note: undecided},
		"it runs":                     {state: "RUNNING", note: refused, want: []string{"tell-owner: "}},
		"it runs, and nothing failed": {state: "RUNNING", note: "pcs-capacity: something else"},
	} {
		s := View{
			Snap:        &capacity.Snapshot{},
			Now:         at("1h"),
			OrphansSeen: !c.silent,
			Jobs: []capacity.Job{{
				Shown:        "7",
				State:        c.state,
				StateFlag:    c.flag,
				NumNodes:     1,
				Eligible:     c.begins,
				AdminComment: c.note,
			}},
		}

		if got := sentences(decideRetries(s)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// A job whose launch AWS did not decide starts with the next pass to which AWS answers, and then its note is about what
// was.
func TestJobComesForwardWhenAWSAnswers(t *testing.T) {
	st := newStage(t)
	st.block("cr-open", "solo", -time.Hour, 24*time.Hour, 4)
	st.pass(time.Minute)

	j := st.job(60, "")
	j.Never, j.Eligible = false, st.slurm.Now.Add(2*time.Minute)
	j.AdminComment = capacity.AdminNote{
		Kind:      capacity.NoteNotLaunched,
		Nodes:     "solo-1",
		Code:      "RequestLimitExceeded",
		Text:      "no",
		RetryAt:   j.Eligible,
		Undecided: true,
	}.String()

	st.down = errMute
	st.pass(time.Minute + 10*time.Second)
	st.down = nil
	st.pass(time.Minute + 20*time.Second)
	st.pass(2 * time.Minute)

	tape := st.tape.String()
	if !j.Running() || j.Start.Sub(opens) > 2*time.Minute || strings.Count(tape, "begin of job 1") != 1 {
		t.Errorf("started at %s\n%s", j.Start, tape)
	}

	if want := "pcs-capacity: nodes solo-1 were not launched: RequestLimitExceeded: no"; j.AdminComment != want {
		t.Errorf("%q, not %q", j.AdminComment, want)
	}
}
