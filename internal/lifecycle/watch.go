package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/notify"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Watch makes one pass after the other.
type Watch struct {
	// Sources returns the sources of the next pass, from the current settings. With renew it makes new AWS clients: the
	// credentials of the old ones may have been replaced.
	Sources func(ctx context.Context, renew bool) (Sources, error)
	Say     func(line string) // Say shows a line to people
	// Alive is called when a pass begins and ends, and every minute in between; passed describes the last one, ""
	// before the first.
	Alive func(passed string)
}

// Run makes passes until ctx ends, which is no error. A failed pass is repeated; its problem is reported once, until
// it changes. The error is for a start without usable settings; if settings break later, the last good ones stay in
// use. Of several programs that watch one state_dir, one makes the passes and the others wait for it to end.
func (w Watch) Run(ctx context.Context) error {
	sources, err := w.Sources(ctx, false)
	if err != nil {
		return err
	}

	var (
		last     Report
		reported []capacity.Problem
		locked   bool
	)

	unlock := func() {}
	defer func() { unlock() }()

	// The last good settings stay in use; the next pass reports why newer ones cannot be used.
	refresh := func(renew bool) {
		var next Sources

		next, err = w.Sources(ctx, renew)
		if err == nil {
			sources = next
		}
	}

	for pass := 0; ; pass++ {
		if !locked {
			unlock()

			var waited bool

			unlock, waited = w.lock(ctx, sources.State)
			locked = true
			last = Report{}

			if waited { // the settings and the credentials may have changed meanwhile
				pass = 0

				refresh(true)
			}
		}

		if ctx.Err() != nil {
			return nil
		}

		w.alive("")

		sources.Broken = err

		// Jobs elsewhere matter little and may be many, so most passes leave them out.
		sources.OursOnly = pass%allJobsEvery != 0 && last.Jobs != nil
		sources.SharedPartitions = last.SharedPartitions

		snap, report, _ := Pass(ctx, sources)
		if ctx.Err() != nil {
			return nil
		}

		report.Add(Publish(ctx, sources, snap, report)...)
		problems := w.print(report, reported)
		passed := status(report, problems)
		w.alive(passed)

		// At a boundary of a window something has to be done, so the pass comes right after it.
		wait := sources.Poll
		if snap == nil {
			locked = false // the pass had no lock: both are tried again
		} else if at, ok := NextBoundary(snap, sources.now()); ok {
			// One second later, so EC2 has moved on as well.
			wait = min(wait, at.Sub(sources.now())+time.Second)
		}

		if w.wait(ctx, wait, passed) != nil {
			return nil
		}

		last = report
		reported = problems

		// If AWS did not answer, the credentials may have expired: new clients read them again.
		refresh(report.NoAWS)
	}
}

// wait returns after a time, or with an error when ctx ends. Meanwhile it calls Alive with what the last pass did.
func (w Watch) wait(ctx context.Context, wait time.Duration, passed string) error {
	end := time.Now().Add(wait)
	for {
		left := time.Until(end)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(left, aliveEvery)):
		}

		if left <= aliveEvery {
			return nil
		}

		w.alive(passed)
	}
}

// lock waits until no other program watches the state_dir, or ctx ends. A folder that cannot be locked is no reason to
// wait: the pass says why.
func (w Watch) lock(ctx context.Context, dir state.Dir) (unlock func(), waited bool) {
	said := ""
	for wait := time.Duration(0); ; wait = aliveEvery {
		unlock, err := dir.Lock(ctx, state.WatchLock, wait)
		if err == nil {
			return unlock, said != ""
		}

		if ctx.Err() != nil || !errors.Is(err, state.ErrLocked) {
			return func() {}, false
		}

		// Once, not every minute.
		if line := "waits: " + err.Error(); line != said {
			said = line
			w.Say(said)
		}

		w.alive(said)
	}
}

// print shows the changes of a pass, and those of its problems that were not there before. It returns all problems.
func (w Watch) print(report Report, before []capacity.Problem) (problems []capacity.Problem) {
	for _, d := range report.Done {
		// A failed change is a problem: it is shown once, like others, and not every pass.
		if d.Error != "" {
			problems = append(problems,
				capacity.Problemf(capacity.ChangeFailed, capacity.Subject{Slot: d.Slot, Job: d.Job}, "", "%s", d))
			continue
		}

		w.Say(d.String())
	}

	problems = append(problems, report.All()...)
	for _, p := range problems {
		if !slices.Contains(before, p) {
			w.Say(p.String())
		}
	}

	if slices.ContainsFunc(before, needsAction) && !slices.ContainsFunc(problems, needsAction) {
		w.Say("all problems are resolved")
	}

	return problems
}

func needsAction(p capacity.Problem) bool { return p.Severity != capacity.Note }

// aliveEvery is the time between two calls of Alive while Watch waits.
const aliveEvery = time.Minute

func (w Watch) alive(passed string) {
	if w.Alive != nil {
		w.Alive(passed)
	}
}

func status(report Report, problems []capacity.Problem) string {
	text := "last pass at " + capacity.FormatUTC(report.At)
	if admin := len(capacity.Problems(problems).Texts(capacity.Admin)); admin > 0 {
		text += fmt.Sprintf(", problems: %d", admin)
	}

	return text
}

// metricsFile is for node_exporter's textfile collector, which reads *.prom.
const metricsFile = "pcs_capacity.prom"

// Publish delivers the notices of a pass where the settings want them, and writes its metrics. A pass that had no lock
// has no snapshot.
func Publish(ctx context.Context, s Sources, snap *capacity.Snapshot, report Report) (problems []capacity.Problem) {
	if snap == nil {
		return nil
	}

	var errs []error
	if s.Notify.Command != "" || s.Notify.Webhook != "" {
		errs = DeliverNotices(s.State, snap, report, func(n Notice) error { return s.Notify.Deliver(ctx, n) })
	}

	if err := s.State.WritePublic(metricsFile, Metrics(snap, report).Text()); err != nil {
		errs = append(errs, fmt.Errorf("writing metrics: %w", err))
	}

	for _, err := range errs {
		problems = append(problems, capacity.Problemf(capacity.DeliveryFailed, capacity.Subject{}, "", "%v", err))
	}

	return problems
}

// Sources has all that a pass reads and changes.
type Sources struct {
	World
	Settings capacity.Settings
	Poll     time.Duration // the longest time between two passes of Watch
	Local    state.Dir     // the folder that slurmctld reads; "" if slurmctld is not on this host
	// Held returns, of the named compute node groups of PCS, those that exist, each with the reservation that it was
	// set up for; "" if for none. Those that PCS could not create, update or delete are in failed, with PCS's words.
	Held func(ctx context.Context, groups []string) (held, failed map[string]string, err error)
	// OursOnly: this pass ignores jobs of partitions that are not ours, except those of SharedPartitions.
	OursOnly bool
	// SharedPartitions are partitions that had jobs on our nodes in the last pass: a partition that loses its nodes
	// keeps its running jobs.
	SharedPartitions []string
	// RollOver sets up and removes slots on PCS; nil if no partition rolls over by itself, and for a Look.
	RollOver RollOver
	Owner    string        // in the names of the Slurm reservations that these settings make
	OwnerIs  string        // describes Owner for people
	Offline  error         // why AWS cannot be asked at all; nil if it can
	Broken   error         // why the settings are not those of the files; nil if they are
	DryRun   bool          // the pass reports what it would do, and writes nothing
	Notify   notify.Target // where notices go
}

// now is AWS's time, as far as it is known.
func (s Sources) now() time.Time { return s.MachineTime().Add(s.EC2.Offset()) }

// RollOver goes on to give a block its compute node group on PCS, or to remove one: see RollOver of package setup. Both
// say which steps they began.
type RollOver interface {
	SetUp(
		ctx context.Context, partition string, group capacity.NodeGroup, block capacity.Reservation, anew bool,
	) (did []string, err error)
	Remove(ctx context.Context, partition, slot string) (did []string, err error)
}
