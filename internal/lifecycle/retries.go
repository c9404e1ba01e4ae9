package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// slurmsDelay is more than the two minutes by which Slurm itself may put off a job that it requeues after the note.
const slurmsDelay = 4 * time.Minute

// decideRetries follows up the notes of ResumeProgram on jobs whose launch failed. A job that was put off only because
// AWS did not answer need not wait any longer once it does; a time that somebody else has set since stays. A job that
// runs is not tried again.
func decideRetries(s View) (actions []Action) {
	for _, j := range s.remainingJobs() {
		note, _ := capacity.ParseAdminNote(j.AdminComment)
		soon := capacity.RetryAt(capacity.Job{Shown: j.Shown, NumNodes: j.NumNodes}, 0, s.SlurmNow())
		isTheirTime := j.Eligible.Sub(note.RetryAt) > slurmsDelay

		switch {
		case note.RetryAt.IsZero():
		case j.Running():
			note.RetryAt = time.Time{}
			actions = append(actions, noteAction(j, note, ""))
		case s.OrphansSeen && note.Undecided && j.Pending() && !isTheirTime && soon.Before(j.Eligible):
			actions = append(actions, bringForward(j, soon))
		}
	}

	return actions
}

func bringForward(j capacity.Job, at time.Time) Action {
	text := fmt.Sprintf("let job %s start now: AWS answers again", j.Shown)

	return jobAction("retry-job", "", j, text, isUnchanged, func(ctx context.Context, w World) error {
		return w.Slurm.SetBeginTime(ctx, j.Shown, at)
	})
}
