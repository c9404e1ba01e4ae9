package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file gives a limit to pending jobs that the submit filter never saw, or let through
// because it had no snapshot, or that came to a partition of ours later: a job without a
// limit never starts before a fence.

// fitsAPass is how many jobs one pass gives a limit to. Each takes one scontrol, of about
// 7 ms, and the pass has more to do.
const fitsAPass = 1000

// unfit is a pending job that can never start as it is.
type unfit struct {
	job capacity.Job
	// edits are those of the submit filter for a job without --time; without a limit, why says
	// why there is none.
	edits capacity.Edits
	why   string
}

// unfits finds the pending jobs that are too long because nobody gave them a limit:
// defaults are those of partitions. A job is left alone if it has a limit of its own, or
// if it can start.
func unfits(jobs []capacity.Job, snap *capacity.Snapshot, defaults map[string]capacity.Limit, now time.Time) []unfit {
	var all []unfit
	for _, j := range jobs {
		if j.State != "PENDING" {
			continue
		}
		req := snap.Request(j)
		isDefault := func(partition string) bool { return j.TimeLimit == defaults[partition] }
		if j.TimeLimit.Bounded() && !slices.ContainsFunc(req.Partitions, isDefault) {
			continue
		}
		if !req.TimeLimit.Set {
			req.TimeLimit = capacity.NoLimit
		}
		v := capacity.Admit(req, snap, now)
		if v.Code == capacity.OK || v.Code == capacity.NotManaged {
			continue
		}
		req.TimeLimit = capacity.Limit{}
		switch fit := capacity.Admit(req, snap, now); {
		case fit.Edits.TimeLimit.Bounded():
			if !writable(fit.Edits.Comment) {
				fit.Edits.Comment = ""
			}
			all = append(all, unfit{job: j, edits: fit.Edits})
		case fit.Refused || fit.Code == capacity.TooLong: // the latter where the settings are not strict
			all = append(all, unfit{job: j, why: cmp.Or(fit.Message, strings.Join(fit.Warnings, "; "))})
		}
	}
	return all
}

// writable reports whether a comment can be written as it was read: bytes that are no text
// are lost in reading.
func writable(comment string) bool {
	return !strings.ContainsFunc(comment, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) })
}

// asks is what the Request of a job depends on, but for a Begin that is past.
type asks struct {
	partition, account, user, qos, comment, constraint, nodeList, exclude string
	limit, timeMin                                                        capacity.Limit
	begin, deadline                                                       time.Time
	nodes                                                                 int
}

func asksOf(j *capacity.Job, now time.Time) asks {
	a := asks{j.Partition, j.Account, j.User, j.QOS, j.Comment, j.Constraint, j.NodeList, j.Exclude, j.TimeLimit, j.TimeMin, j.Eligible, j.Deadline, j.NumNodes}
	if a.begin.Before(now.Add(-time.Hour)) { // more than a clock is off: no job is admitted differently
		a.begin = time.Time{}
	}
	return a
}

// neverWords begin the AdminComment of a job that no limit helps.
const neverWords = "pcs-capacity: without a time limit this job can never start, and none could be set"

// fitNote is the AdminComment of a job whose limit was set or, for why, was not; "" where
// what it says already may stay.
func fitNote(says, why string) string {
	switch {
	case why != "" && !strings.HasPrefix(says, "pcs-capacity: "): // else it has been told why it waits
		return neverWords + ": " + why
	case why == "" && strings.HasPrefix(says, neverWords):
		return "pcs-capacity: this job had no time limit; one is set now"
	}
	return ""
}

// fitPending sets the limits that are missing, and tells the owners where none can be set. It
// returns the jobs that lack one.
func (p *pass) fitPending(ctx context.Context, jobs []capacity.Job) (lacking map[string]bool) {
	lacking = map[string]bool{}
	defaults := map[string]capacity.Limit{}
	for _, part := range p.cluster.Partitions {
		defaults[part.Name] = part.DefaultTime
	}
	all := unfits(jobs, p.snap, defaults, p.now)
	edits := map[string]capacity.Edits{}
	for _, u := range all {
		lacking[u.job.Shown] = true
		if u.why == "" && len(edits) < fitsAPass {
			edits[u.job.Shown] = u.edits
		}
	}
	var failed map[string]error
	if len(edits) > 0 {
		failed = p.Slurm.Edit(ctx, edits)
	}
	told := 0
	for _, u := range all {
		why := u.why
		e, edited := edits[u.job.Shown]
		if edited {
			err := failed[u.job.Shown]
			p.did(Done{Do: "set-limit", Job: u.job.Shown, Message: fmt.Sprintf("job %s had no time limit of its own: set %s, --time-min=%s",
				u.job.Shown, e.TimeLimit, e.TimeMin)}, err)
			if err != nil {
				why = err.Error()
			}
		}
		if !edited && why == "" { // a later pass does
			continue
		}
		text := fitNote(u.job.AdminComment, why)
		if text == "" || told == fitsAPass {
			continue
		}
		told++
		if err := p.Slurm.SetAdminComment(ctx, u.job.Shown, text); err != nil {
			p.problem(capacity.ChangeFailed, err)
		}
	}
	return lacking
}
