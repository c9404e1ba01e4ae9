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
	return s.clean(ctx, mark, dryRun)
}

func (s Sources) clean(ctx context.Context, mark string, dryRun bool) ([]Needless, error) {
	// Before EC2: what is ordered from now on is nobody's yet.
	ledger, ledgerErr := s.State.Held(time.Time{})
	unheard := map[string]bool{}
	for _, h := range ledger {
		unheard[h.Token] = h.ReservationID == ""
	}
	held, err := s.EC2.Holds(ctx, mark)
	if err != nil {
		return nil, err
	}
	now := s.MachineTime().Add(s.EC2.Offset()) // which EC2's answer tells
	// After EC2: a job has had its nodes since before anything was held for it, so that one
	// which is not booting now waits for nothing of this any more.
	var booting map[capacity.JobRun]bool
	if slices.ContainsFunc(held, func(r capacity.Reservation) bool { _, forJobs := r.HeldFor(); return forJobs }) {
		if booting, err = s.booting(ctx); err != nil {
			booting = nil
		}
	}
	var found []Needless
	var gone []string
	for _, r := range held {
		why := r.Needless(mark, booting, unheard, now)
		if why == "" {
			continue
		}
		n := Needless{Reservation: r, Why: why}
		cost, known := s.Settings.Reserve.Cost(r.InstanceType, r.Available, time.Hour)
		n.PerHour, n.PriceUnknown = cost, !known
		if !dryRun {
			if n.Err = s.EC2.Release(ctx, r.ID); n.Err == nil {
				gone = append(gone, r.ID, r.Tags[capacity.TagToken])
			}
		}
		found = append(found, n)
	}
	if dryRun {
		return found, ledgerErr
	}
	gone = append(gone, s.goneOf(ctx, ledger, held, now)...)
	if len(gone) > 0 && ledgerErr == nil {
		ledgerErr = s.State.Released(now, gone...)
	}
	return found, ledgerErr
}

// goneOf are the tokens or ids of entries of the ledger for which nothing is held any more, or
// never was.
func (s Sources) goneOf(ctx context.Context, ledger []capacity.Held, held []capacity.Reservation, now time.Time) (names []string) {
	var ids []string
	for _, h := range ledger {
		there := slices.ContainsFunc(held, func(r capacity.Reservation) bool {
			return r.ID == h.ReservationID || r.Tags[capacity.TagToken] == h.Token
		})
		switch {
		case there || !h.Since.Before(now.Add(-capacity.LaunchTime)): // EC2 may not show it yet
		case h.ReservationID == "":
			names = append(names, h.Token)
		default:
			ids = append(ids, h.ReservationID)
		}
	}
	if len(ids) == 0 {
		return names
	}
	known, _, err := s.EC2.Reservations(ctx, ids)
	if err != nil {
		return names // the entries count until their ends
	}
	for _, r := range known {
		if !r.State.Live() {
			names = append(names, r.ID)
		}
	}
	return names
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

// cleanHeld is Clean in a pass.
func (p *pass) cleanHeld(ctx context.Context) {
	if !p.Settings.Reserve.Enabled || p.awsErr != nil || p.cluster == nil || p.cluster.MarkErr != nil {
		return // the latter have been said
	}
	found, err := p.clean(ctx, p.cluster.Mark, false)
	if err != nil {
		words, _ := p.EC2.Explain(err)
		p.say(capacity.HeldNotKnown, capacity.Subject{}, "", "looking for what is held for nothing: %s", words)
	}
	for _, n := range found {
		p.did(Done{Do: "release", Message: "gave back " + n.String()}, n.Err)
	}
}
