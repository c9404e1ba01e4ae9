package lifecycle

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

// Watch makes one pass after the other.
type Watch struct {
	// Sources gives what the next pass works with, from the settings as they are now. With
	// renew it makes new clients of AWS: the old ones may hold credentials that others have
	// taken the place of.
	Sources func(ctx context.Context, renew bool) (Sources, error)
	// Say shows a line to people.
	Say func(line string)
	// Alive is called when a pass begins and when it has ended, and every minute between two of
	// them; passed is how the last one went, "" before it.
	Alive func(passed string)
}

// Run makes passes until ctx ends, which is no error. A pass that failed is made again;
// what is in the way is said once, until it changes. The error is for a start without
// settings that can be used; settings that are broken later leave the last good ones in
// use. Two programs that watch do no harm, but say so.
func (w Watch) Run(ctx context.Context) error {
	sources, err := w.Sources(ctx, false)
	if err != nil {
		return err
	}
	var said []capacity.Problem
	var unlock func()
	var last Report
	for pass := 0; ; pass++ {
		var problems []capacity.Problem
		if err != nil {
			problems = append(problems, capacity.Problemf(capacity.SettingsBroken, capacity.Subject{}, "", "%s; the settings of before stay in use", strings.ReplaceAll(err.Error(), "\n", "; ")))
		}
		if unlock == nil {
			if unlock, err = sources.State.Lock(ctx, state.WatchLock, 0); err == nil {
				defer unlock()
			} else if locked := (*state.LockedError)(nil); errors.As(err, &locked) {
				problems = append(problems, capacity.Problemf(capacity.AnotherWatches, capacity.Subject{}, "stop one of them", "another `sync --watch` works with %s as well, %s", sources.State, locked.Holder))
			} // what else is in the way of the lock is in the way of the pass too
		}
		w.alive("")
		sources.OursOnly, sources.AlsoOurs = pass%everywhere != 0 && last.Jobs != nil, last.AlsoOurs
		sources.OldLeftovers = pass%listMade != 0
		snap, report, _ := Pass(ctx, sources)
		last = report
		if ctx.Err() != nil {
			return nil
		}
		report.Add(After(ctx, sources, snap, report)...)
		problems = append(problems, w.done(report)...)
		for _, p := range problems {
			if !slices.Contains(said, p) {
				w.Say(p.String())
			}
		}
		if slices.ContainsFunc(said, wrong) && !slices.ContainsFunc(problems, wrong) {
			w.Say("no problem is left")
		}
		said = problems
		w.alive(status(report, problems))

		wait := sources.Poll
		now := sources.MachineTime().Add(sources.EC2.Offset())
		if at, ok := NextBoundary(snap, now); ok {
			// A second later, so that EC2 has moved on as well.
			wait = min(wait, at.Sub(now)+time.Second)
		}
		if report.Checking {
			wait = min(wait, checkEvery)
		}
		for end := time.Now().Add(wait); ; w.alive(status(report, problems)) {
			left := time.Until(end)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(min(left, aliveEvery)):
			}
			if left <= aliveEvery {
				break
			}
		}
		var next Sources
		if next, err = w.Sources(ctx, report.NoAWS); err == nil {
			sources = next
		}
	}
}

// done says what a pass did, and returns what it could not do.
func (w Watch) done(report Report) (problems []capacity.Problem) {
	for _, d := range report.Done {
		if d.Error != "" {
			problems = append(problems, capacity.Problemf(capacity.ChangeFailed, capacity.Subject{Slot: d.Slot, Job: d.Job}, "", "%s", d))
			continue
		}
		w.Say(d.String())
	}
	return append(problems, report.All()...)
}

// wrong reports whether somebody has to act on a problem.
func wrong(p capacity.Problem) bool { return p.Severity != capacity.Note }

// checkEvery is how often Watch looks while nodes are closed until a health command has run
// there: they are paid for.
const checkEvery = 10 * time.Second

// listMade is every how many passes Watch lists what carries our tag: up to 30 questions.
const listMade = 15

// aliveEvery is how often Watch says that it lives while it waits.
const aliveEvery = time.Minute

func (w Watch) alive(passed string) {
	if w.Alive != nil {
		w.Alive(passed)
	}
}

// status is how a pass went, in a line.
func status(report Report, problems []capacity.Problem) string {
	text := "last pass at " + capacity.FormatUTC(report.At)
	admin := 0
	for _, p := range problems {
		if p.Severity == capacity.Admin {
			admin++
		}
	}
	if admin > 0 {
		text += fmt.Sprintf(", problems: %d", admin)
	}
	return text
}

// After does what a site wants to be done after a pass, and returns what went wrong.
func After(ctx context.Context, s Sources, snap *capacity.Snapshot, report Report) (problems []capacity.Problem) {
	if s.After == nil {
		return nil
	}
	for _, err := range s.After(ctx, snap, report) {
		problems = append(problems, capacity.Problemf(capacity.DeliveryFailed, capacity.Subject{}, "", "%v", err))
	}
	return problems
}
