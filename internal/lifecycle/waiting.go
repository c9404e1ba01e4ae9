package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file tells the owners of waiting jobs, in AdminComments, what squeue does not say: that
// a job can never start as it is, or that hosts of its block have failed.

// The words that begin these AdminComments, by which they are known and taken back.
const (
	neverStarts = "pcs-capacity: this job can never start as it is: "
	fewHosts    = "pcs-capacity: this job waits for failed hosts: "
	again       = "pcs-capacity: what kept this job from starting is over"
)

// tellsAPass is how many owners one pass tells: each takes one scontrol, of about 7 ms.
const tellsAPass = 200

// waitingNote is what the AdminComment of a waiting job has to say; "" if it may stay as it is.
func waitingNote(j Job, snap *capacity.Snapshot, now time.Time) string {
	says := j.AdminComment
	told := strings.HasPrefix(says, neverStarts) || strings.HasPrefix(says, fewHosts)
	if j.State != "PENDING" || j.AdminHeld || says != "" && !told && !strings.HasPrefix(says, again) && !strings.Contains(says, notLaunched) {
		return "" // it has another reason to wait, and its owner knows
	}
	req := j.Request(snap)
	if !slices.ContainsFunc(req.Partitions, func(name string) bool { _, ours := snap.Partition(name); return ours }) {
		return ""
	}
	want := ""
	if few, short := capacity.ShortOfHosts(req, snap, now); short {
		want = fmt.Sprintf("%s%s; ask for fewer to start now: scontrol update jobid=%s numnodes=%d", fewHosts, few.FewHosts(), j.Shown, few.Usable)
	}
	elsewhere := slices.ContainsFunc(req.Partitions, func(name string) bool { _, ours := snap.Partition(name); return !ours })
	if v := capacity.Admit(req, snap, now); v.Refused && !elsewhere {
		want = neverStarts + v.Message
	}
	switch {
	case len(want) > capacity.MaxComment:
		want = want[:capacity.MaxComment]
	case want == "" && told:
		want = again
	}
	if want == says || strings.HasPrefix(want, neverStarts) && strings.HasPrefix(says, neverStarts) {
		return "" // it is told once, though the numbers change
	}
	return want
}

// notLaunched is in the AdminComment that the launch of a job's nodes leaves when it fails.
const notLaunched = " were not launched: "

// tellWaiting tells the owners of waiting jobs, each once, but for those that fitPending has
// just seen to.
func (p *pass) tellWaiting(ctx context.Context, jobs []Job, seenTo map[string]bool) {
	told := 0
	for _, j := range jobs {
		if seenTo[j.Shown] {
			continue
		}
		text := waitingNote(j, p.snap, p.now)
		if text == "" {
			continue
		}
		if told++; told > tellsAPass {
			return // the next pass goes on
		}
		p.did(Done{Do: "tell-owner", Job: j.Shown, Message: fmt.Sprintf("job %s: told its owner: %s", j.Shown, strings.TrimPrefix(text, "pcs-capacity: "))},
			p.Slurm.SetAdminComment(ctx, j.Shown, text))
	}
}
