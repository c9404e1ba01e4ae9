package lifecycle

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file gives a limit to pending jobs that the submit filter never saw, or accepted without a snapshot, or that
// moved to our partition later: a job without a limit never starts before a fence.

// fitsAPass is how many jobs one pass gives a limit. Each takes one scontrol, about 7 ms, and the pass has more to do.
const fitsAPass = 1000

// unfit is a pending job that can never start as it is.
type unfit struct {
	job capacity.Job
	// edits are the submit filter's for a job without --time. If they have no limit, why says why not.
	edits capacity.Edits
	why   string
}

// unfits finds the pending jobs that are too long only because the partition has no default limit. It leaves alone a
// job that has its own limit or can start.
func unfits(seen Seen) []unfit {
	snap, now := seen.Snap, seen.Now
	defaults := map[string]capacity.Limit{}
	for _, part := range seen.Cluster.Partitions {
		defaults[part.Name] = part.DefaultTime
	}
	var all []unfit
	for _, j := range seen.left() {
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
			all = append(all, unfit{job: j, edits: fit.Edits})
		case fit.Refused || fit.Code == capacity.TooLong: // TooLong where the settings are not strict
			all = append(all, unfit{job: j, why: cmp.Or(fit.Message, strings.Join(fit.Warnings, "; "))})
		}
	}
	return all
}

// asks is what a job's verdict depends on, except for a Begin that is past.
type asks struct {
	partition, account, user, qos, comment, constraint, nodeList, exclude string
	limit, timeMin                                                        capacity.Limit
	begin, deadline                                                       time.Time
	nodes                                                                 int
}

func asksOf(j *capacity.Job, now time.Time) asks {
	a := asks{
		j.Partition,
		j.Account,
		j.User,
		j.QOS,
		j.Comment,
		j.Constraint,
		j.NodeList,
		j.Exclude,
		j.TimeLimit,
		j.TimeMin,
		j.Eligible,
		j.Deadline,
		j.NumNodes,
	}
	if a.begin.Before(now.Add(-time.Hour)) { // more than any clock error: no verdict depends on it
		a.begin = time.Time{}
	}
	return a
}

// neverWords begin the AdminComment of a job for which no limit helps.
const neverWords = "pcs-capacity: without a time limit this job can never start, and none could be set"

// fitNote is the AdminComment of a job whose limit was set or, with why, was not; "" if the present one may stay.
func fitNote(says, why string) string {
	switch {
	case why != "" && !strings.HasPrefix(says, "pcs-capacity: "): // otherwise it has been told why it waits
		return neverWords + ": " + why
	case why == "" && strings.HasPrefix(says, neverWords):
		return "pcs-capacity: this job had no time limit; one is set now"
	}
	return ""
}

// missingLimits gives jobs the limit that they lack, and tells the owners of jobs for which no limit helps. A later
// pass handles the rest.
func missingLimits(lacking []unfit) []capacity.Effect {
	var fits, tells []capacity.Effect
	for _, u := range lacking {
		if u.why == "" {
			fits = append(fits, FitJob{Job: u.job, Edits: u.edits})
		} else if text := fitNote(u.job.AdminComment, u.why); text != "" {
			tells = append(tells, TellOwner{Job: u.job, Text: text, Quiet: true})
		}
	}
	return slices.Concat(fits[:min(len(fits), fitsAPass)], tells[:min(len(tells), fitsAPass)])
}
