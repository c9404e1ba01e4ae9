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
