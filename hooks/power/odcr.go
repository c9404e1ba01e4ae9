package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file creates a temporary ODCR for a launch. The ODCR proves that the whole launch has room in one zone and
// keeps that room; the nodes are launched into it, in its subnet alone; then it is cancelled. If the hook is killed,
// sync and `pcs-capacity release --unused` find the ODCR by its tags and cancel it, and its EndDate ends it in any
// case.

// cancelTime bounds the cancellation of ODCRs; one that is not cancelled by then ends at its EndDate.
const cancelTime = 15 * time.Second

// stateRunning is EC2's word.
const stateRunning = "running"

// odcr is the ODCR of a launch.
type odcr struct {
	capacity.Reservation
	token, partition string
	jobs             []string
	since            time.Time // when EC2 had created it
	launched         time.Time // when its instances existed; zero if they never did
	instances        []string
}

// createODCR creates an ODCR for nodes, in the target's zone. It is in the ledger before it is ordered, and until it
// is certain that it does not exist.
func (l *launching) createODCR(p part, t target, nodes []string) (odcr, *Failure) {
	platform, failure := l.platform(p)
	if failure != nil {
		return odcr{}, failure
	}
	jobs := l.jobsOf(nodes)
	var runs []capacity.JobRun
	for _, j := range jobs {
		runs = append(runs, capacity.JobRun{ID: j.ID, Restarts: j.Restarts})
	}
	tags := l.tags(jobs, p.place.partition.Name, nodes, "")
	tags[capacity.TagHold] = capacity.HoldJobs(runs)
	tags[capacity.TagName] = "held for " + hook.Clip(tags[capacity.TagName], capacity.MaxTagValue-10)
	order := capacity.HoldOrder{InstanceType: t.instanceType, AZID: t.azID, Platform: platform, Count: len(nodes),
		Tags: tags, End: l.now.Add(capacity.HoldTime).Truncate(time.Second)} // EC2 takes whole seconds
	for attempt := range mostAttempts {
		order.ClientToken = l.launchToken(jobs, nodes, attempt, "hold", t.azID, t.instanceType, platform)
		entry := capacity.Held{Token: order.ClientToken, InstanceType: t.instanceType, Count: len(nodes), Since: l.Now(),
			Until: order.End}
		entry, err := l.Enlist(entry, l.Now(), l.settings.Reserve.Allows)
		if err != nil { // without the ledger nobody knows how much is held
			return odcr{}, ofLedger(err)
		}
		order.End = entry.Until // that of an earlier run: EC2 binds a token to it
		r, err := capacity.Reservation{}, error(errNoTime)
		if l.holds.Wait(l.work) == nil {
			r, err = l.CreateODCR(l.finish, order)
		}
		if err == nil && r.State.Live() {
			entry.ReservationID = r.ID
			_, err := l.Enlist(entry, l.Now(), l.settings.Reserve.Allows)
			_ = l.did(err, "create an ODCR", "reservation", r.ID, "zone", t.azID, "type", t.instanceType, "count",
				len(nodes), "end", order.End)
			r.Total = len(nodes) // EC2 may report it later
			return odcr{Reservation: r, token: order.ClientToken, partition: p.place.partition.Name, jobs: shown(jobs),
				since: l.Now()}, nil
		}
		used := failureOf(err)
		gone := err == nil // the answer of an ODCR that has been cancelled since
		if gone {
			used = failed("%v", capacity.ErrTokenUsed)
			used.Outcome = capacity.TokenUsed
		}
		if gone || used.Outcome.Nothing() && !used.is(capacity.TokenUsed) { // otherwise it may exist and cost money
			l.unlist(l.World, order.ClientToken)
		}
		if failure = used; !used.is(capacity.TokenUsed) {
			break
		}
	}
	return odcr{}, failure
}

// ofLedger is why nothing may be held: another place may cost less.
func ofLedger(err error) *Failure {
	if !errors.Is(err, capacity.ErrReserveLimit) {
		return failureOf(err)
	}
	full := refusal(capacity.ReserveLimit, "%v", err)
	full.Outcome = capacity.NoRoom
	return full
}

// platform is that of the image: an ODCR for another would be paid for in vain. It is Linux if nobody knows.
func (l *launching) platform(p part) (string, *Failure) {
	if _, group := l.seen(p.place); group.Platform != "" {
		return group.Platform, nil
	}
	image, err := l.ImagePlatform(l.finish, p.template)
	if err == nil && image.Platform == "" {
		image.Platform = capacity.LinuxUNIX
		l.Warn("capacity is held for "+image.Platform+", since nobody knows what the image runs", "template", p.template)
	}
	return image.Platform, failureOf(err)
}

// letGo cancels the ODCRs of launches: each when its instances run or one of them is gone, and at the latest when time
// runs out.
func (c *call) letGo(w World, waiting []odcr) {
	seen := map[string]bool{} // instances
	for len(waiting) > 0 {
		var ids []string
		for _, h := range waiting {
			ids = append(ids, h.instances...)
		}
		states, err := w.InstanceStates(c.work, ids)
		over := c.work.Err() != nil
		ready := func(h odcr) bool {
			gone := func(id string) bool {
				now, shown := states[id]
				return err == nil && seen[id] && !shown || capacity.Instance{State: now}.Ended()
			}
			runs := !slices.ContainsFunc(h.instances, func(id string) bool { return states[id] != stateRunning })
			return over || runs || slices.ContainsFunc(h.instances, gone)
		}
		var left, done []odcr
		for _, h := range waiting {
			if ready(h) {
				done = append(done, h)
			} else {
				left = append(left, h)
			}
		}
		for id := range states {
			seen[id] = true
		}
		c.cancelODCRs(w, done)
		if waiting = left; len(waiting) > 0 {
			sleep(c.work, time.Second)
		}
	}
}

// cancelODCRs cancels ODCRs side by side, so that a slow call does not delay the others, and records what each has cost
// while it was idle. Their instances continue.
func (c *call) cancelODCRs(w World, list []odcr) {
	ctx, cancel := context.WithTimeout(c.last, cancelTime)
	defer cancel()
	failures := make([]*Failure, len(list))
	var all sync.WaitGroup
	for i, h := range list {
		all.Go(func() { failures[i] = failureOf(w.CancelODCR(ctx, h.ID)) })
	}
	all.Wait()
	for i, h := range list {
		if failures[i] == nil {
			c.unlist(w, h.token)
		}
		c.record(w, h.record(w.Now(), failures[i]))
	}
}

func (c *call) unlist(w World, token string) {
	if err := w.Released(w.Now(), token); err != nil {
		c.Warn("the ledger keeps what is not held any more", "err", err)
	}
}

// record is how long the ODCR was held, and why it could not be cancelled.
func (h odcr) record(now time.Time, failure *Failure) state.Record {
	round := func(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
	idle := now.Sub(h.since)
	if !h.launched.IsZero() {
		idle = h.launched.Sub(h.since)
	}
	message := fmt.Sprintf("held %d × %s in %s for %s, idle for %s", h.Total, h.InstanceType, h.AZID,
		round(now.Sub(h.since)), round(idle))
	r := state.Record{At: now, Hook: "hold", Partition: h.partition, Jobs: h.jobs, Reservation: h.ID,
		Code: string(capacity.OK), Message: message}
	if failure == nil {
		return r
	}
	r.Code, r.EC2Code = failure.Code, failure.EC2Code
	r.Message = fmt.Sprintf("%s; it could not be cancelled: %s; EC2 ends it at %s, or up to an hour later; until then places that are free are paid",
		message, hook.OneLine(failure.message()), capacity.FormatUTC(h.End))
	return r
}
