package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file gives back what hooks and commands have held and could not give back themselves:
// they were killed, or EC2 did not answer. Whatever else somebody may have reserved is none of
// its business: only ODCRs with the mark of this cluster are looked at (R4).

// Needless is an ODCR that we hold and that serves nothing any more.
type Needless struct {
	capacity.Reservation
	// Why it serves nothing.
	Why string
	// PerHour is what its free places cost; not known without a price in the settings.
	PerHour      capacity.Money
	PriceUnknown bool
	// Err is why it could not be cancelled.
	Err error
}

// String says what became of it, for people.
func (n Needless) String() string {
	text := fmt.Sprintf("%s, %d × %s in %s: %s", n.ID, n.Total, n.InstanceType, n.AZID, n.Why)
	if n.Err == nil {
		return text
	}
	cost := "at a price that is not in the settings"
	if !n.PriceUnknown {
		cost = "for up to " + n.PerHour.String() + " an hour"
	}
	return fmt.Sprintf("%s; it could not be cancelled, so its %d free places are paid %s until EC2 ends it, within an hour of %s",
		text, n.Available, cost, capacity.FormatUTC(n.End))
}

// Clean cancels what is held for this cluster and serves nothing any more; with dryRun it only
// finds it. It can be run at any time, beside hooks and other passes. The error is for what
// could not be asked; what could not be cancelled is in the answer.
func Clean(ctx context.Context, s Sources, dryRun bool) ([]Needless, error) {
	mark := s.Settings.Cluster
	cluster, err := s.Slurm.Look(ctx)
	switch {
	case err == nil && cluster.MarkErr != nil:
		return nil, cluster.MarkErr
	case err == nil:
		mark = cluster.Mark
	case mark == "": // what has passed its end can go without Slurm's word
		var markErr error
		if mark, markErr = s.State.Mark(); markErr != nil {
			return nil, fmt.Errorf("asking Slurm: %w", err)
		}
	}
	held, err := s.seeHeld(ctx, mark)
	if err != nil {
		return nil, err
	}
	found := []Needless{}
	x := executor{Sources: s}
	var results []Result
	for _, e := range heldForNothing(held, s.Settings) {
		r := Result{Effect: e}
		if !dryRun {
			r.Answer = x.Do(ctx, e)
		}
		n := e.(Release).Needless
		n.Err = r.Err
		found, results = append(found, n), append(results, r)
	}
	if names := held.released(results); !dryRun && len(names) > 0 && held.Err == nil {
		held.Err = x.Do(ctx, KeepReleased{held.Now, names}).Err
	}
	return found, held.Err
}

// Held is what was seen of what we hold for a cluster.
type Held struct {
	Mark string
	// Ledger is what hooks and commands have written down, as far as it could be read.
	Ledger []capacity.Held
	Err    error
	// ODCRs are those that EC2 shows. Gone are ids of the ledger that it shows as ended.
	ODCRs []capacity.Reservation
	Gone  []string
	// Booting are the runs of jobs that have their nodes and wait for them to boot; nil if that
	// is not known.
	Booting map[capacity.JobRun]bool
	Now     time.Time
}

// seeHeld reads what is held, in the order that proves that nobody needs it. The error is for
// what could not be asked.
func (s Sources) seeHeld(ctx context.Context, mark string) (h Held, err error) {
	h.Mark = mark
	// Before EC2: what is ordered from now on is nobody's yet.
	h.Ledger, h.Err = s.State.Held(time.Time{})
	if h.ODCRs, err = s.EC2.Holds(ctx, mark); err != nil {
		return h, err
	}
	h.Now = s.MachineTime().Add(s.EC2.Offset()) // which EC2's answer tells
	// After EC2: a job has had its nodes since before anything was held for it. One that
	// is not booting now waits for nothing of this any more.
	if slices.ContainsFunc(h.ODCRs, func(r capacity.Reservation) bool { _, forJobs := r.HeldFor(); return forJobs }) {
		if h.Booting, err = s.booting(ctx); err != nil {
			h.Booting = nil
		}
	}
	var ids []string
	for _, e := range h.unheld() {
		if e.ReservationID != "" {
			ids = append(ids, e.ReservationID)
		}
	}
	if len(ids) == 0 {
		return h, nil
	}
	known, _, err := s.EC2.Reservations(ctx, ids)
	if err != nil {
		return h, nil // the entries count until their ends
	}
	for _, r := range known {
		if !r.State.Live() {
			h.Gone = append(h.Gone, r.ID)
		}
	}
	return h, nil
}

// heldForNothing cancels the ODCRs that serve nothing any more.
func heldForNothing(h Held, settings capacity.Settings) (effects []capacity.Effect) {
	unheard := map[string]bool{}
	for _, e := range h.Ledger {
		unheard[e.Token] = e.ReservationID == ""
	}
	for _, r := range h.ODCRs {
		if why := r.Needless(h.Mark, h.Booting, unheard, h.Now); why != "" {
			cost, known := settings.Reserve.Cost(r.InstanceType, r.Available, time.Hour)
			effects = append(effects, Release{Needless{Reservation: r, Why: why, PerHour: cost, PriceUnknown: !known}})
		}
	}
	return effects
}

// unheld are the entries of the ledger for which EC2 shows nothing, though it should by now.
func (h Held) unheld() []capacity.Held {
	return slices.DeleteFunc(slices.Clone(h.Ledger), func(e capacity.Held) bool {
		return !e.Since.Before(h.Now.Add(-capacity.LaunchTime)) || slices.ContainsFunc(h.ODCRs, func(r capacity.Reservation) bool {
			return r.ID == e.ReservationID || r.Tags[capacity.TagToken] == e.Token
		})
	})
}

// released are the tokens and ids in the ledger for which nothing is held any more, or never was.
func (h Held) released(results []Result) (names []string) {
	for _, r := range results {
		if e, ok := r.Effect.(Release); ok && r.Err == nil {
			names = append(names, e.ID, e.Tags[capacity.TagToken])
		}
	}
	for _, e := range h.unheld() {
		if e.ReservationID == "" {
			names = append(names, e.Token)
		}
	}
	return append(names, h.Gone...)
}

// booting are the runs of jobs that have their nodes and wait for them to boot.
func (s Sources) booting(ctx context.Context) (map[capacity.JobRun]bool, error) {
	jobs, _, err := s.Slurm.Jobs(ctx, nil, func(j capacity.Job) bool { return j.Configuring() })
	if err != nil {
		return nil, err
	}
	found := map[capacity.JobRun]bool{}
	for _, j := range jobs {
		found[capacity.JobRun{ID: j.ID, Restarts: j.Restarts}] = true
	}
	return found, nil
}

// releaseHeld is Clean in a pass.
func (p *pass) releaseHeld(ctx context.Context) {
	if !p.Settings.Reserve.Enabled || p.seen.NoAWS || p.seen.Cluster == nil || p.seen.Cluster.MarkErr != nil {
		return // the latter have been said
	}
	held, err := p.seeHeld(ctx, p.seen.Cluster.Mark)
	if err == nil {
		names := held.released(p.carryOut(ctx, heldForNothing(held, p.Settings)))
		if err = held.Err; err == nil && len(names) > 0 {
			p.carryOut(ctx, []capacity.Effect{KeepReleased{held.Now, names}})
		}
	}
	if err != nil {
		words, _ := p.EC2.Explain(err)
		p.say(capacity.HeldNotKnown, capacity.Subject{}, "", "looking for what is held for nothing: %s", words)
	}
}
