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
	// Sources returns the sources of the next pass, from the current settings. With renew it makes new AWS clients: the
	// credentials of the old ones may have been replaced.
	Sources func(ctx context.Context, renew bool) (Sources, error)
	// Say shows a line to people.
	Say func(line string)
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
	var said []capacity.Problem
	var last Report
	var dir state.Dir
	unlock := func() {}
	defer func() { unlock() }()
	for pass := 0; ; pass++ {
		if sources.State != dir {
			unlock()
			var waited bool
			if unlock, waited = w.lock(ctx, sources.State); ctx.Err() != nil {
				return nil
			}
			dir, last = sources.State, Report{}
			if waited { // the settings and the credentials may have changed meanwhile
				var next Sources
				if next, err = w.Sources(ctx, true); err == nil {
					sources = next
				}
				pass = -1
				continue
			}
		}
		var problems []capacity.Problem
		if err != nil {
			problems = append(problems, capacity.Problemf(capacity.SettingsBroken, capacity.Subject{}, "",
				"%s; the settings of before stay in use", strings.ReplaceAll(err.Error(), "\n", "; ")))
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
		if snap == nil {
			dir = "" // the pass had no lock: both are tried again
		} else if at, ok := NextBoundary(snap, now); ok {
			// One second later, so EC2 has moved on as well.
			wait = min(wait, at.Sub(now)+time.Second)
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
		if line := "waits: " + err.Error(); line != said {
			said = line
			w.Say(said)
		}
		w.alive(said)
	}
}

// done reports what a pass did, and returns what it could not do.
func (w Watch) done(report Report) (problems []capacity.Problem) {
	for _, d := range report.Done {
		if d.Error != "" {
			problems = append(problems,
				capacity.Problemf(capacity.ChangeFailed, capacity.Subject{Slot: d.Slot, Job: d.Job}, "", "%s", d))
			continue
		}
		w.Say(d.String())
	}
	return append(problems, report.All()...)
}

// wrong reports whether somebody has to act on a problem.
func wrong(p capacity.Problem) bool { return p.Severity != capacity.Note }

// listMade: Watch lists the things with our tag in every 15th pass, because it takes up to 30 calls.
const listMade = 15

// aliveEvery is how often Watch calls Alive while it waits.
const aliveEvery = time.Minute

func (w Watch) alive(passed string) {
	if w.Alive != nil {
		w.Alive(passed)
	}
}

// status describes a pass in one line.
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

// After runs what the site wants after a pass, and returns the problems. A pass that had no lock has no snapshot.
func After(ctx context.Context, s Sources, snap *capacity.Snapshot, report Report) (problems []capacity.Problem) {
	if s.After == nil || snap == nil {
		return nil
	}
	for _, err := range s.After(ctx, snap, report) {
		problems = append(problems, capacity.Problemf(capacity.DeliveryFailed, capacity.Subject{}, "", "%v", err))
	}
	return problems
}
