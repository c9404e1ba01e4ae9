package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file tells the owners of waiting jobs, in AdminComments, what squeue does not show: that a job can never start
// as it is, or that hosts of its block have failed.

// The beginnings of these AdminComments, by which they are recognized and removed.
const (
	neverStarts = "pcs-capacity: this job can never start as it is: "
	fewHosts    = "pcs-capacity: this job waits for failed hosts: "
	again       = "pcs-capacity: what kept this job from starting is over"
)

// notLaunched is part of the AdminComment of a job whose launch failed.
const notLaunched = " were not launched: "

// tellsAPass is how many owners one pass tells: each takes one scontrol, about 7 ms.
const tellsAPass = 200

// waiter judges waiting jobs, equal ones once.
type waiter struct {
	snap *capacity.Snapshot
	now  time.Time
	said map[alike]string
}

// alike is what a judgement of a waiting job depends on.
type alike struct {
	partition, account, user, qos, comment, constraint string
	limit, timeMin                                     capacity.Limit
	begin, deadline                                    time.Time
	nodes                                              int
}

// judge says why a job of ours waits for ever; "" if it does not.
func (w *waiter) judge(j capacity.Job) string {
	key := alike{
		j.Partition,
		j.Account,
		j.User,
		j.QOS,
		j.Comment,
		j.Constraint,
		j.TimeLimit,
		j.TimeMin,
		j.Eligible,
		j.Deadline,
		j.NumNodes,
	}
	if j.Eligible.Before(w.now.Add(-w.snap.ClockOffset.Duration)) {
		key.begin = time.Time{} // when it was submitted
	}
	text, known := w.said[key]
	if !known {
		text = w.why(j)
		w.said[key] = text
	}
	return text
}

func (w *waiter) why(j capacity.Job) string {
	req := w.snap.Request(j)
	ours := 0
	for _, name := range req.Partitions {
		if _, managed := w.snap.Partition(name); managed {
			ours++
		}
	}
	if ours == 0 {
		return ""
	}
	if v := capacity.Admit(req, w.snap, w.now); v.Refused && ours == len(req.Partitions) {
		return neverStarts + v.Message
	}
	if few, short := capacity.ShortOfHosts(req, w.snap, w.now); short {
		return fmt.Sprintf("%s%s; to start now ask for fewer: scontrol update numnodes=%d jobid=", fewHosts,
			few.FewHosts(), few.Usable)
	}
	return ""
}

// note is the AdminComment that a waiting job needs; "" if the present one may stay.
func (w *waiter) note(j capacity.Job) string {
	says := j.AdminComment
	told := strings.HasPrefix(says, neverStarts) || strings.HasPrefix(says, fewHosts)
	if j.State != "PENDING" || j.AdminHeld() ||
		says != "" && !told && !strings.HasPrefix(says, again) && !strings.Contains(says, notLaunched) {
		return "" // it waits for another reason, which its owner knows
	}
	want := w.judge(j)
	switch {
	case strings.HasPrefix(want, fewHosts):
		want += j.Shown
	case want == "" && told:
		want = again
	case strings.HasPrefix(want, neverStarts) && strings.HasPrefix(says, neverStarts):
		return "" // told once, even if the numbers change
	}
	if len(want) > capacity.MaxComment {
		want = want[:capacity.MaxComment]
	}
	if want == says {
		return ""
	}
	return want
}

// waiting handles jobs that wait and cannot start as they are: it gives them the limit that they lack, and tells the
// owners of the others. Without AWS nobody knows which jobs could start.
func waiting(seen Seen) []capacity.Effect {
	if seen.NoAWS {
		return nil
	}
	lacking := unfits(seen)
	return slices.Concat(missingLimits(lacking), tellWaiting(seen, lacking))
}

// tellWaiting tells the owners of waiting jobs, each once, except those of jobs that lack a limit.
func tellWaiting(seen Seen, lacking []unfit) []capacity.Effect {
	lacks := map[string]bool{}
	for _, u := range lacking {
		lacks[u.job.Shown] = true
	}
	w := waiter{seen.Snap, seen.Now, map[alike]string{}}
	var effects []capacity.Effect
	for _, j := range seen.left() {
		text := ""
		if !lacks[j.Shown] {
			text = w.note(j)
		}
		if text == "" {
			continue
		}
		if effects = append(effects, TellOwner{Job: j, Text: text}); len(effects) == tellsAPass {
			break // the next pass goes on
		}
	}
	return effects
}

// plainNote is the text of our AdminComment.
func plainNote(text string) string { return strings.TrimPrefix(text, "pcs-capacity: ") }
