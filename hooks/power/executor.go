package power

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// EC2 takes 5 RunInstances calls at once and then 2 a second (EC2 API Reference, "Request throttling"). It rejects
// calls beyond that, which costs more time than waiting; one is left for other launches in the account. It takes 50
// CreateCapacityReservation calls at once and then 5 a second, its default for mutating calls.
const (
	launchBurst     = 4
	launchesASecond = 2
	holdBurst       = 40
	holdsASecond    = 5
)

const (
	// releaseTime bounds the release of an ODCR; one that is not released by then ends at its EndDate.
	releaseTime = 15 * time.Second
	// notifyTime bounds the messages to the jobs of a group. They are sent before the nodes are taken away, which must
	// not wait for long.
	notifyTime = 3 * time.Second
	// addressOfBudget is the share of the budget for attempts to set addresses, a quarter: a launched node without its
	// address is lost.
	addressOfBudget = 4
	// longestPause bounds the pauses between two attempts.
	longestPause = 15 * time.Second
	// fullTime is how long a reservation that EC2 found full is tried last: about the time until the places of ended
	// instances are free again.
	fullTime = 30 * time.Second
)

// executor carries out effects. It owns deadlines, limiters, retries, the ledger and the one listing of instances: no
// decision sees them.
type executor struct {
	*Site
	// work ends when no further launch may begin, finish when no launch may continue. last never ends: effects that
	// must happen even then have their own time limits.
	work, finish, last context.Context
	budget             time.Duration
	calls, holds       *rate.Limiter // of RunInstances, of CreateCapacityReservation
	// insists: retry, while there is time, every call that a power-down needs.
	insists bool
	// everything lists all our instances, once.
	everything func() ([]capacity.Instance, error)
}

// executor makes the executor of a run.
func (s *Site) executor(work, finish context.Context, budget time.Duration) *executor {
	x := &executor{Site: s, work: work, finish: finish, last: context.WithoutCancel(finish), budget: budget,
		calls: rate.NewLimiter(launchesASecond, launchBurst), holds: rate.NewLimiter(holdsASecond, holdBurst)}
	x.everything = sync.OnceValues(func() ([]capacity.Instance, error) { return s.liveOf(finish, time.Time{}, nil, true) })
	return x
}

// Do carries out an effect, logs it and returns its result.
func (x *executor) Do(ctx context.Context, e capacity.Effect) Answer {
	var a Answer
	err := x.try(ctx, e, &a)
	for pause := time.Second; err != nil && x.insists && insistent(e) && ctx.Err() == nil; pause = min(2*pause, longestPause) {
		x.log(slog.LevelWarn, e, err)
		sleep(ctx, pause)
		if ctx.Err() == nil {
			err = x.try(ctx, e, &a)
		}
	}
	a.At, a.Offset = x.MachineTime(), x.EC2.Offset()
	if err != nil {
		a.Failure = failureOf(err)
		x.log(slog.LevelWarn, e, err)
		return a
	}
	x.log(level(e), e, nil)
	return a
}

func insistent(e capacity.Effect) bool {
	switch e.(type) {
	case AskGivenUp, SendDown, AskInstances, Terminate:
		return true
	}
	return false
}

// level is Debug for effects that change nothing or only our files, and for those that a record reports.
func level(e capacity.Effect) slog.Level {
	switch e := e.(type) {
	case AskImage, AskLeft, AskStates, AskJobs, AskRecords, AskGivenUp, AskInstances, Wait, Tell, Enlist, Unlist, Launch, Release, Configure:
		return slog.LevelDebug
	case Note:
		if e.Alarm {
			return slog.LevelWarn
		}
	}
	return slog.LevelInfo
}

func (x *executor) log(level slog.Level, e capacity.Effect, err error) {
	if !x.Log.Enabled(context.Background(), level) {
		return
	}
	about := e.About()
	attrs := []any{"effect", e.Code()}
	for _, field := range []struct{ name, of string }{
		{"nodes", about.Node}, {"jobs", about.Job}, {"slot", about.Slot}, {"reservation", about.Reservation},
	} {
		if field.of != "" {
			attrs = append(attrs, field.name, field.of)
		}
	}
	sentence := e.Sentence(capacity.Did)
	if err != nil {
		sentence = "failed to " + e.Sentence(capacity.Will)
		attrs = append(attrs, "err", err)
	}
	x.Log.Log(context.Background(), level, sentence, attrs...)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// errNoTime answers an effect that is not begun for lack of time.
var errNoTime = refusal(capacity.NoTime, "there was no time left to launch")

// try carries out an effect once.
func (x *executor) try(ctx context.Context, e capacity.Effect, a *Answer) (err error) {
	switch e := e.(type) {
	case Adopt, Note:
	case Terminate:
		for id, at := range e.Recorded {
			x.EC2.Remember(id, at)
		}
		return x.EC2.Terminate(x.finish, e.Instances)
	case AskImage:
		a.Platform, err = x.platform(e.Template)
	case Enlist:
		a.Held, err = x.enlist(e.Held)
	case Unlist:
		return x.State.Released(x.now(), e.Token)
	case Hold:
		if x.holds.Wait(x.work) != nil {
			return errNoTime
		}
		a.Reservation, err = x.EC2.Hold(x.finish, e.HoldOrder)
	case Release:
		return x.release(e.Reservations, a)
	case Launch:
		if x.calls.Wait(x.work) != nil {
			return errNoTime
		}
		a.Instances, err = x.EC2.Launch(x.finish, e.Launch)
	case MarkFull:
		return x.State.MarkFull(e.Reservation, e.Nodes, x.now(), x.now().Add(fullTime))
	case AskLeft:
		a.Instances, err = x.everything()
	case AskInstances:
		a.Instances, err = x.liveOf(ctx, time.Time{}, nil, true)
	case AskStates:
		if a.States, err = x.EC2.InstanceStates(x.work, e.Instances); x.work.Err() != nil {
			return errNoTime
		}
	case Wait:
		sleep(x.work, time.Second)
	case SetAddresses:
		return x.setAddresses(e)
	case Tell:
		return x.tell(ctx, e)
	case SendDown:
		return x.Slurm.PowerDownForce(ctx, e.Nodes, e.Reason)
	case AskJobs:
		if a.Jobs, err = x.Slurm.BriefJobs(ctx); a.Jobs == nil {
			a.Jobs = []capacity.Job{}
		}
	case AskRecords:
		a.Records, err = x.State.Records()
	case AskGivenUp:
		a.Nodes, err = x.givenUp(ctx, e.Nodes)
	case Begin:
		return x.Slurm.Begin(ctx, e.Job, e.At)
	case Comment:
		if e.Unread {
			return x.Slurm.SetAdminComments(ctx, e.Text, e.Jobs...)
		}
		for _, job := range e.Jobs {
			err = errors.Join(err, x.Slurm.SetAdminComment(ctx, job, e.Text))
		}
	case AllowRequeue:
		return x.Slurm.AllowRequeue(ctx, e.Allow, e.Jobs...)
	case Requeue:
		return x.Slurm.RequeueHold(ctx, e.Jobs...)
	case Cancel:
		return x.Slurm.Cancel(ctx, e.Jobs...)
	case HoldJobs:
		if e.ByAdmin {
			return x.Slurm.Hold(ctx, e.Jobs...)
		}
		return x.Slurm.UserHold(ctx, e.Jobs...)
	case GoOn:
		if err = x.Slurm.SetPartition(ctx, e.Job, e.Partitions, e.Text); err == nil {
			err = x.Slurm.Release(ctx, e.Job)
		}
	case Configure:
		a.Changed, err = x.PCS.configure(ctx, e)
	default:
		return errors.New("nobody carries out " + e.Code())
	}
	return err
}

// platform is the platform of an image; Linux if nobody knows.
func (x *executor) platform(template string) (string, error) {
	image, err := x.EC2.ImagePlatform(x.finish, template)
	if err == nil && image.Platform == "" {
		image.Platform = capacity.LinuxUNIX
		x.Log.Warn("capacity is held for "+image.Platform+", since nobody knows what the image runs", "template", template)
	}
	return image.Platform, err
}

// enlist enters an order into the ledger if the settings allow its size; an ODCR that already exists is always
// entered. It returns the entry that an earlier run made for the same token.
func (x *executor) enlist(more capacity.Held) (before capacity.Held, err error) {
	now := x.now()
	all, err := x.State.Held(now)
	if err != nil {
		return before, err
	}
	if i := slices.IndexFunc(all, func(h capacity.Held) bool { return h.Token == more.Token }); i >= 0 {
		before = all[i]
		more.Until = before.Until
	}
	more.Since = now
	allowed := x.Settings.Reserve.Allows
	if more.ReservationID != "" {
		allowed = func(capacity.Held, []capacity.Held) error { return nil }
	}
	err = x.State.Hold(more, now, allowed)
	if errors.Is(err, capacity.ErrReserveLimit) {
		full := refusal(capacity.ReserveLimit, "%v", err)
		full.Outcome = capacity.NoRoom // another place may cost less
		err = full
	}
	return before, err
}

// release cancels ODCRs side by side, so one slow call does not delay the others.
func (x *executor) release(ids []string, a *Answer) error {
	ctx, cancel := context.WithTimeout(x.last, releaseTime)
	defer cancel()
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() { errs[i] = x.EC2.Release(ctx, id) })
	}
	all.Wait()
	a.Failures = map[string]*Failure{}
	for i, id := range ids {
		if errs[i] != nil {
			a.Failures[id] = failureOf(errs[i])
		}
	}
	return errors.Join(errs...)
}

// setAddresses retries while there is time.
func (x *executor) setAddresses(e SetAddresses) error {
	ctx, cancel := context.WithTimeout(x.last, x.budget/addressOfBudget)
	defer cancel()
	for {
		err := x.Slurm.SetAddresses(ctx, e.Addresses)
		if err == nil {
			return nil
		}
		x.log(slog.LevelError, e, err)
		if sleep(ctx, time.Second); ctx.Err() != nil {
			return err
		}
	}
}

// tell fails only for records: a message whose reader has gone is lost.
func (x *executor) tell(ctx context.Context, e Tell) error {
	var err error
	if len(e.Records) > 0 {
		err = x.record(e.Records...)
	}
	ctx, cancel := context.WithTimeout(ctx, notifyTime)
	defer cancel()
	for _, job := range e.Notify {
		if err := x.Slurm.Notify(ctx, job, e.Text); err != nil {
			x.Log.Debug("telling the job", "job", job, "err", err)
		}
	}
	return err
}

// record writes records. Records that differ only in nodes, jobs and instances share a line of the log: one call
// launches a thousand jobs of one node each.
func (s *Site) record(records ...state.Record) error {
	type said struct{ message, reservation, code, ec2Code string }
	type of struct{ nodes, jobs, instances []string }
	lines := map[said]*of{}
	var order []said
	for _, record := range records {
		key := said{record.Message, record.Reservation, record.Code, record.EC2Code}
		if lines[key] == nil {
			lines[key], order = &of{}, append(order, key)
		}
		line := lines[key]
		line.nodes, line.jobs = append(line.nodes, record.Nodes), append(line.jobs, record.Jobs...)
		line.instances = append(line.instances, record.Instances...)
	}
	for _, what := range order {
		line := lines[what]
		nodes := strings.Join(line.nodes, ",")
		if names, err := hostlist.Expand(nodes); err == nil {
			nodes = hostlist.Compress(names)
		}
		s.Log.Info(what.message, "nodes", nodes, "jobs", line.jobs, "reservation", what.reservation,
			"code", what.code, "aws_code", what.ec2Code, "instances", line.instances)
	}
	if s.Kept != nil {
		s.Kept(records)
	}
	return s.State.AppendRecords(records...)
}

// givenUp returns the nodes that did not boot within ResumeTimeout.
func (s *Site) givenUp(ctx context.Context, nodes []string) (names []string, err error) {
	all, err := s.Slurm.Nodes(ctx, nodes...)
	for _, n := range all {
		if n.GivenUp() {
			names = append(names, n.Name)
		}
	}
	return names, err
}

// answered is an error with which AWS answered.
type answered interface {
	error
	// ErrorCode is AWS's code, verbatim; ErrorMessage is AWS's message.
	ErrorCode() string
	ErrorMessage() string
}

// failureOf turns an error of an adapter into a Failure.
func failureOf(err error) *Failure {
	var ours *Failure
	if errors.As(err, &ours) {
		return ours
	}
	f := &Failure{Outcome: capacity.OutcomeOf(err), Code: string(capacity.FailedOtherwise), Message: err.Error()}
	var answer answered
	if errors.As(err, &answer) {
		f.Code, f.EC2Code, f.Message, f.Advice = answer.ErrorCode(), answer.ErrorCode(), answer.ErrorMessage(), ec2.Advice(
			err,
		)
	}
	return f
}

// Site is the cluster and the account that a hook works in.
type Site struct {
	Settings capacity.Settings
	// Cluster is the value of our mark on everything that is launched.
	Cluster string
	Slurm   *slurm.Client
	EC2     *ec2.Client
	// PCS is nil when no partition has provider pcs.
	PCS   *PCS
	State state.Dir
	Log   *slog.Logger
	// MachineTime is time.Now.
	MachineTime func() time.Time
	// Kept, if set, receives each record.
	Kept func([]state.Record)
}

// now is AWS's time.
func (s *Site) now() time.Time { return s.MachineTime().Add(s.EC2.Offset()) }
