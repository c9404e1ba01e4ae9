package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file creates a temporary ODCR for a launch. The ODCR proves that the whole launch has room in one zone and keeps
// that room; the nodes are launched into it, in its subnet alone; then it is cancelled. If the hook is killed, sync and
// `pcs-capacity release --unused` find the ODCR by its tags and cancel it, and its EndDate ends it in any case.

// cancelTime bounds the cancellation of ODCRs; one that is not cancelled by then ends at its EndDate.
const cancelTime = 15 * time.Second

// odcr holds the ODCR of a launch.
type odcr struct {
	capacity.Reservation
	token     string // its ClientToken, by which the ledger knows it
	partition string
	jobs      []string  // as squeue shows their ids
	since     time.Time // when EC2 had created it
	launched  time.Time // when its instances existed; zero if they never did
	instances []string  // the ids of instances that were launched into it
}

// createODCR creates an ODCR for nodes, in the target's zone.
func (l *launcher) createODCR(
	s *sharedLaunch, p part, t target, jobs []capacity.Job, nodes []string,
) (odcr, error) {
	platform, err := l.imagePlatform(p.template)
	if err != nil {
		return odcr{}, err
	}

	order := l.facts.holdOrder(p, t, jobs, nodes, platform)

	// The token follows from the jobs and their restarts, so a second run of this hook gets the ODCR of the first.
	for attempt := range maxAttempts {
		order.ClientToken = l.facts.launchToken(jobs, nodes, attempt, "hold", t.azID, t.instanceType, platform)

		r, err := l.sendOrder(s, &order)
		if err == nil && r.State.IsLive() {
			return odcr{
				Reservation: r,
				token:       order.ClientToken,
				partition:   p.slot.partition.Name,
				jobs:        jobNames(jobs),
				since:       l.Now(),
			}, nil
		}

		// EC2 may answer a used token with an ODCR that has been cancelled since: the next token is a new one.
		if err != nil && !errors.Is(err, capacity.ErrTokenUsed) {
			return odcr{}, err
		}
	}

	return odcr{}, capacity.ErrTokenUsed
}

// holdOrder returns the order of an ODCR, without its token.
func (f launchFacts) holdOrder(
	p part, t target, jobs []capacity.Job, nodes []string, platform string,
) capacity.HoldOrder {
	var runs []capacity.JobRun
	for _, j := range jobs {
		runs = append(runs, capacity.JobRun{ID: j.ID, Restarts: j.Restarts})
	}

	// The tag names the runs of jobs: by it sync knows when nobody needs the ODCR any more.
	tags := f.tags(jobs, p.slot.partition.Name, nodes, "")
	tags[capacity.TagHold] = capacity.HoldJobs(runs)
	tags[capacity.TagName] = "held for " + hook.Clip(tags[capacity.TagName], capacity.MaxTagValue-10)

	return capacity.HoldOrder{
		InstanceType: t.instanceType,
		AZID:         t.azID,
		Platform:     platform,
		Count:        len(nodes),
		Tags:         tags,
		End:          f.now.Add(capacity.HoldTime).Truncate(time.Second), // EC2 takes whole seconds
	}
}

// sendOrder creates the ODCR of an order. It is in the ledger before it is ordered, and until it is certain that it
// does not exist. Without an error the ODCR may be one that has ended.
func (l *launcher) sendOrder(s *sharedLaunch, order *capacity.HoldOrder) (r capacity.Reservation, err error) {
	err = l.waitForTurn(s, l.holds)
	if err != nil {
		return r, err
	}

	// Written before the call, because EC2 may create the ODCR and its answer may be lost.
	entry, err := l.enlist(*order)
	if err != nil {
		return r, err
	}

	order.End = entry.Until // that of an earlier run: EC2 binds a token to it

	err = l.retryUndecided(l.work, "create an ODCR", func() (err error) {
		r, err = l.CreateODCR(l.finish, *order)
		return err
	})

	switch {
	case err == nil && r.State.IsLive():
		// From now on the entry names what EC2 made, and the ODCR can be cancelled by id.
		entry.ReservationID = r.ID
		_, err := l.AddHold(entry, l.Now(), l.Settings.Reserve.Allows)
		_ = l.logResult(err, "create an ODCR", "reservation", r.ID, "zone", order.AZID,
			"type", order.InstanceType, "count", order.Count, "end", order.End)
		r.Total = order.Count // EC2 may report it later
	case err == nil, !errors.Is(err, capacity.ErrTokenUsed) && capacity.CreatedNothing(err):
		l.unlist(order.ClientToken)
	}

	return r, err
}

// enlist puts an order into the ledger, without which nobody knows how much is held. If an earlier run has enlisted the
// same order, it returns that run's entry.
func (l *launcher) enlist(order capacity.HoldOrder) (capacity.Hold, error) {
	held := capacity.Hold{
		Token:        order.ClientToken,
		InstanceType: order.InstanceType,
		Count:        order.Count,
		Since:        l.Now(),
		Until:        order.End,
	}

	entry, err := l.AddHold(held, l.Now(), l.Settings.Reserve.Allows)
	if errors.Is(err, capacity.ErrReserveLimit) { // another place may take less
		return entry, &refusal{refuse(capacity.ReserveLimit, "%v", err).Verdict, capacity.ErrNoRoom}
	}

	return entry, err
}

// imagePlatform returns the platform for which capacity is held: an ODCR for another than the image's would be paid for
// in vain.
func (l *launcher) imagePlatform(template string) (string, error) {
	var image capacity.ImagePlatform

	err := l.retryUndecided(l.work, "describe the image", func() (err error) {
		image, err = l.ImagePlatform(l.finish, template)
		return err
	})
	if err != nil {
		return "", err
	}

	// Nearly every image runs plain Linux; EC2 refuses the launch if this one does not.
	if image.Platform == "" {
		image.Platform = capacity.LinuxUNIX
		l.Warn("the platform of the image is unknown; holding capacity for "+image.Platform, "template", template)
	}

	return image.Platform, nil
}

// releaseHolds cancels the ODCRs of launches when all their instances run, or have ended, or time runs out.
func (l *launcher) releaseHolds(held []odcr) {
	var boots []string
	for _, o := range held {
		boots = append(boots, o.instances...)
	}

	// Cancelled any earlier, a pending instance would lose its place.
	for len(boots) > 0 && l.work.Err() == nil {
		shown, _ := l.FindInstances(l.work, capacity.InstanceQuery{IDs: boots})
		boots = removeFunc(boots, func(id string) bool {
			return slices.ContainsFunc(shown, func(i capacity.Instance) bool {
				return i.ID == id && (i.State == "running" || i.Ended())
			})
		})
		if len(boots) > 0 {
			_ = sleep(l.work, time.Second)
		}
	}

	l.cancelODCRs(held...)
}

// cancelODCRs cancels ODCRs side by side, so that a slow call does not delay the others, and records what each has cost
// while it was idle. Their instances continue.
func (u undoing) cancelODCRs(list ...odcr) {
	// Even when the time of the call is over: what is not cancelled is paid until its end.
	ctx, cancel := context.WithTimeout(u.last, cancelTime)
	defer cancel()

	errs := make([]error, len(list))

	var all sync.WaitGroup
	for i, o := range list {
		all.Go(func() {
			errs[i] = u.retryUndecided(ctx, "cancel an ODCR", func() error { return u.CancelODCR(ctx, o.ID) })
		})
	}

	all.Wait()

	for i, o := range list {
		if errs[i] == nil {
			u.unlist(o.token)
		}

		u.record(o.record(u.Now(), errs[i]))
	}
}

// unlist takes an ODCR that no longer exists out of the ledger.
func (u undoing) unlist(token string) {
	if err := u.RemoveHolds(u.Now(), token); err != nil {
		u.Warn("the ledger still lists an ODCR that no longer exists", "err", err)
	}
}

// record says how long the ODCR was held, and why it could not be cancelled.
func (o odcr) record(now time.Time, err error) state.Record {
	round := func(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

	// The time before the instances existed is what the ODCR cost; after that the instances cost the same without it.
	idle := now.Sub(o.since)
	if !o.launched.IsZero() {
		idle = o.launched.Sub(o.since)
	}

	message := fmt.Sprintf("held %d × %s in %s for %s, idle for %s",
		o.Total, o.InstanceType, o.AZID, round(now.Sub(o.since)), round(idle))
	r := state.Record{
		At:          now,
		Hook:        "hold",
		Partition:   o.partition,
		Jobs:        o.jobs,
		Reservation: o.ID,
		Code:        string(capacity.OK),
		Message:     message,
		Held: &state.Held{
			InstanceType: o.InstanceType,
			Instances:    o.Total,
			Seconds:      int64(idle.Round(time.Second)/time.Second) * int64(o.Total),
		},
	}
	if err != nil {
		p, code := problemOf(err)
		r.Code = string(p.Code)
		r.EC2Code = code
		r.Message = hook.OneLine(fmt.Sprintf("%s; it could not be cancelled: %s; "+
			"EC2 ends it at %s, or up to an hour later; until then its unused instances are paid for",
			message, p.Text(), capacity.FormatUTC(o.End)))
	}

	return r
}
