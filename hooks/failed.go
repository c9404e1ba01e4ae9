package hooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// maxReason keeps a node's Reason readable in sinfo -R.
const maxReason = 250

// notifyTime is for telling the jobs of a group. They are told before their nodes are
// taken away, which must not wait for long.
const notifyTime = 3 * time.Second

// failed records why a group was not launched, tells the jobs' owners, and sends its
// nodes down, which requeues the jobs and terminates what was launched of the group.
// Jobs that are refused for good are held, and returned for leaveToOwners; the others wait
// longer after each failure.
func (r *Resume) failed(ctx context.Context, o outcome) (held []Job, err error) {
	f := explain(o.err)
	record := state.Record{At: r.now(), Hook: "resume", Nodes: r.Slurm.Hostlist(o.nodes), Jobs: o.shown(),
		Code: f.code, EC2Code: f.ec2Code, Message: oneLine(f.message)}
	if at, ok := r.placeOf(o.nodes[0]); ok {
		record.Partition = at.partition.Name
	}
	for _, n := range o.nodes {
		if l, ok := o.launched[n]; ok {
			record.Reservation = l.reservation
			record.Instances = append(record.Instances, l.instance.ID)
		}
	}
	r.record(record)
	pacer := pacer{r.Slurm, r.Records, r.Log}
	failures := pacer.failures(o.jobs, record.At)

	notify, cancel := context.WithTimeout(ctx, notifyTime)
	defer cancel()
	for _, j := range o.jobs {
		if j.Batch {
			continue // it has no terminal
		}
		if err := r.Slurm.Notify(notify, j.Shown, f.word(j, record.Nodes)); err != nil {
			r.Log.Debug("telling the job", "job", j.Shown, "err", err)
		}
	}
	err = r.Slurm.PowerDownForce(ctx, o.nodes, f.reason())
	if err != nil {
		err = fmt.Errorf("nodes %s are left to ResumeTimeout: %w", record.Nodes, err)
		r.Log.Error("sending nodes down", "err", err)
	}
	begin, again := map[string]time.Time{}, map[string]string{}
	for _, j := range o.jobs {
		_, refused := f.held[j.ID]
		switch {
		case !j.Batch || err != nil:
		case refused:
			held = append(held, j)
		case len(f.held) == 0: // else it goes on without the other job
			now := r.MachineTime()
			at := until(failures[j.Shown], now, f.notBefore.Add(-r.EC2.Offset()))
			begin[j.Shown], again[j.Shown] = at, tried(failures[j.Shown], at, now)
		}
	}
	r.hold(ctx, held) // before Slurm starts the requeued jobs again, together
	pacer.delay(ctx, begin)
	for _, j := range o.jobs {
		if err := r.Slurm.SetAdminComment(ctx, j.Shown, clip(f.word(j, record.Nodes)+again[j.Shown], capacity.MaxComment)); err != nil {
			r.Log.Warn("writing the job's AdminComment", "job", j.Shown, "err", err)
		}
	}
	return held, err
}

func (r *Resume) hold(ctx context.Context, jobs []Job) {
	for _, j := range jobs {
		if err := r.Slurm.UserHold(ctx, j.Shown); err != nil {
			r.Log.Warn("holding a job that is refused", "job", j.Shown, "err", err)
		}
	}
}

// watchTime is how long held jobs are watched. Slurm forgets whose hold it is on a
// requeued job while that cleans up, some seconds after the hold was made, and takes it
// for an administrator's, which its owner cannot release (seen on 22.05 and 24.11).
const watchTime = 15 * time.Second

// leaveToOwners holds the jobs again whenever their owners could not release them.
func (r *Resume) leaveToOwners(ctx context.Context, held []Job) {
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, watchTime)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
		jobs, err := r.Slurm.Jobs(ctx)
		if err != nil {
			continue
		}
		r.hold(ctx, slices.DeleteFunc(jobs, func(j Job) bool {
			ours := slices.ContainsFunc(held, func(h Job) bool { return h.ID == j.ID && h.Restarts < j.Restarts })
			return !ours || !j.AdminHeld || j.Completing
		}))
	}
}

// failure is a reason in the words of a Reason: a code, then a sentence.
type failure struct {
	code    string // EC2's code, verbatim, or else ours
	ec2Code string
	message string
	advice  string // the end of the message that says what to do, if that is known
	private bool
	// notBefore is AWS's time before which it will be the same; zero if nobody knows.
	notBefore time.Time
	held      map[int]refusal
}

// word is what the owner of a job is told. What another job is refused for is not the
// owner's business.
func (f failure) word(j Job, nodes string) string {
	code, message := f.code, f.message
	switch own, ok := f.held[j.ID]; {
	case ok && j.Batch:
		code, message = own.code, fmt.Sprintf("%s; the job is held: change it, then scontrol release %s", own.message, j.Shown)
	case ok:
		code, message = own.code, own.message
	case len(f.held) > 0:
		message = "another job on these nodes is refused and is held now; Slurm tries again without it"
	}
	return oneLine(fmt.Sprintf("pcs-capacity: nodes %s were not launched: %s: %s", nodes, code, message))
}

func explain(err error) failure {
	var answer Refused
	if errors.As(err, &answer) {
		f := failure{code: answer.ErrorCode(), ec2Code: answer.ErrorCode(), message: answer.ErrorMessage()}
		var advised Advised
		if errors.As(err, &advised) {
			f.advice = "; " + advised.Advice()
			f.message = strings.TrimSuffix(f.message, ".") + f.advice
		}
		return f
	}
	var refused *refusal
	if errors.As(err, &refused) {
		return failure{code: refused.code, message: refused.message, private: refused.private, notBefore: refused.notBefore, held: refused.held}
	}
	return failure{code: "failed", message: err.Error()}
}

// reason is shown to every user of the cluster, so what one of them wrote stays out.
func (f failure) reason() string {
	if f.private {
		return f.code + ": see the AdminComment of the job"
	}
	// What to do is kept, whatever is cut off.
	said := strings.TrimSuffix(f.code+": "+f.message, f.advice)
	return oneLine(clip(said, maxReason-len(f.advice)) + f.advice)
}
