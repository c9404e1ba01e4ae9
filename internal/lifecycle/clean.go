package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file cancels the ODCRs that hooks and commands created and could not cancel, because they were killed or EC2
// did not answer. It looks only at ODCRs with this cluster's mark (R4).

// Clean cancels this cluster's ODCRs that no longer serve a purpose. It may run at any time, next to hooks and other
// passes. The error is for failed reads; failed cancellations are in the answer.
func Clean(ctx context.Context, s Sources) ([]Needless, error) {
	mark := s.Settings.Cluster
	cluster, err := s.World.Look(ctx)
	switch {
	case err == nil && cluster.MarkErr != nil:
		return nil, cluster.MarkErr
	case err == nil:
		mark = cluster.Mark
	case mark == "": // an ODCR past its end can go without asking Slurm
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
	p := newPass(s)
	var results []Result
	for _, e := range heldForNothing(held, s.Settings) {
		r := Result{Effect: e, Answer: p.do(ctx, e)}
		n := e.(Release).Needless
		n.Err = r.Err
		found, results = append(found, n), append(results, r)
	}
	if names := held.released(results); len(names) > 0 && held.Err == nil {
		held.Err = p.do(ctx, KeepReleased{held.Now, names}).Err
	}
	return found, held.Err
}

// seeHeld reads our ODCRs, in the order that proves nobody needs them. The error is for failed reads.
func (s Sources) seeHeld(ctx context.Context, mark string) (h Held, err error) {
	h.Mark = mark
	// Before EC2: an order placed from now on is in no ledger that we have read.
	h.Ledger, h.Err = s.State.Held(time.Time{})
	if h.ODCRs, err = s.EC2.Holds(ctx, mark); err != nil {
		return h, err
	}
	h.Now = s.MachineTime().Add(s.EC2.Offset()) // known only after EC2's answer
	// After EC2: a job gets its nodes before an ODCR is created for it, so a job that is not booting now waits for none
	// of these ODCRs.
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
		return h, nil // the entries count until they expire
	}
	for _, r := range known {
		if !r.State.Live() {
			h.Gone = append(h.Gone, r.ID)
		}
	}
	return h, nil
}

// booting returns the runs of jobs whose allocated nodes still boot.
func (s Sources) booting(ctx context.Context) (map[capacity.JobRun]bool, error) {
	jobs, _, err := s.World.Jobs(ctx, nil, func(j capacity.Job) bool { return j.Configuring() })
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
		return // these failures have been reported
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
