package power

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// maxReason keeps a node's Reason readable in sinfo -R.
const maxReason = 250

// notifyTime is for telling the jobs of a group. They are told before their nodes are
// taken away, which must not wait for long.
const notifyTime = 3 * time.Second

// failed records why a group was not launched, tells the jobs' owners, and sends its
// nodes down, which requeues the jobs and terminates what was launched of the group. The
// jobs wait longer after each failure.
func (r *Resume) failed(ctx context.Context, o outcome) error {
	f := explain(o.err)
	record := state.Record{At: r.now(), Hook: "resume", Nodes: r.Slurm.Hostlist(o.nodes), Jobs: o.shown(),
		Code: f.code, EC2Code: f.ec2Code, Message: hook.OneLine(f.message)}
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
		if err := r.Slurm.Notify(notify, j.Shown, f.word(record.Nodes)); err != nil {
			r.Log.Debug("telling the job", "job", j.Shown, "err", err)
		}
	}
	err := r.Slurm.PowerDownForce(ctx, o.nodes, f.reason())
	if err != nil {
		err = fmt.Errorf("nodes %s are left to ResumeTimeout: %w", record.Nodes, err)
		r.Log.Error("sending nodes down", "err", err)
	} else {
		r.letGo(ctx, besideOf(o.err), o.jobs)
	}
	begin, again := map[string]time.Time{}, map[string]string{}
	for _, j := range o.jobs {
		if !j.Batch || err != nil {
			continue
		}
		now := r.MachineTime()
		at := until(failures[j.Shown], now, f.notBefore.Add(-r.EC2.Offset()))
		begin[j.Shown], again[j.Shown] = at, tried(failures[j.Shown], at, now)
	}
	pacer.delay(ctx, begin, o.behind)
	for _, j := range o.jobs {
		if err := r.Slurm.SetAdminComment(ctx, j.Shown, hook.Clip(f.word(record.Nodes)+again[j.Shown], capacity.MaxComment)); err != nil {
			r.Log.Warn("writing the job's AdminComment", "job", j.Shown, "err", err)
		}
	}
	return err
}

// failure is a reason in the words of a Reason: a code, then a sentence.
type failure struct {
	code    string // EC2's code, verbatim, or else ours
	ec2Code string
	message string
	advice  string // the end of the message that says what to do, if that is known
	// notBefore is AWS's time before which it will be the same; zero if nobody knows.
	notBefore time.Time
}

// word is what the owner of a job is told.
func (f failure) word(nodes string) string {
	return hook.OneLine(fmt.Sprintf("pcs-capacity: nodes %s were not launched: %s: %s", nodes, f.code, f.message))
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
		return failure{code: refused.code, ec2Code: refused.ec2Code, message: refused.message, notBefore: refused.notBefore}
	}
	return failure{code: "failed", message: err.Error()}
}

// reason is shown to every user of the cluster.
func (f failure) reason() string {
	// What to do is kept, whatever is cut off.
	said := strings.TrimSuffix(f.code+": "+f.message, f.advice)
	return hook.OneLine(hook.Clip(said, maxReason-len(f.advice)) + f.advice)
}
