package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file holds capacity for a launch: an ODCR of our own proves that the whole launch has
// room in one zone, and keeps that room; the launch goes into it, in its subnet alone; then it
// is given back. What a hook that was killed leaves behind is found by its tags: sync and
// `pcs-capacity clean` cancel it, and its end ends it anyway.

// EC2 takes 50 CreateCapacityReservation calls at once and then 5 a second, as of all calls
// that change something and have no limit of their own: EC2 API Reference, "Request throttling".
const (
	holdBurst     = 40
	holdsASecond  = 5
	releaseTime   = 15 * time.Second
	runningPause  = time.Second
	stateRunning  = "running"
	holdFailedFor = "nothing could be held for all %d nodes at once in %s: %s"
)

// heldFor is an ODCR that is held for a launch.
type heldFor struct {
	capacity.Reservation
	token, partition string
	jobs             []string
	since            time.Time // the machine's, when EC2 had made it
	launched         time.Time // when its instances were there; zero if they never were
	instances        []string
}

// launchIn launches nodes of a part in a target, into capacity that is held for them first if
// the target is for that.
func (u *powerUp) launchIn(p part, what unit, t target, nodes []string) (map[string]capacity.Instance, error) {
	if !t.hold {
		return u.runInstances(p, what, t, nodes)
	}
	h, err := u.hold(p, what, t, nodes)
	if err != nil {
		return nil, err
	}
	t.reservationID, t.kind = h.ID, capacity.ODCR
	var instances map[string]capacity.Instance
	if err = u.calls.Wait(u.work); err != nil {
		err = &refusal{code: "interrupted", message: "there was no time left to launch"}
	} else {
		instances, err = u.runInstances(p, what, t, nodes)
	}
	for _, i := range instances {
		h.instances = append(h.instances, i.ID)
	}
	if len(instances) == 0 {
		u.giveBack(h)
		return nil, err
	}
	h.launched = u.MachineTime()
	u.mu.Lock()
	u.held = append(u.held, h)
	u.mu.Unlock()
	return instances, err
}

// hold makes EC2 hold capacity for nodes in the zone of the target.
func (u *powerUp) hold(p part, what unit, t target, nodes []string) (*heldFor, error) {
	template, err := u.EC2.PinTemplate(u.finish, p.place.group.LaunchTemplate)
	if err != nil {
		return nil, err
	}
	_, group, _ := u.facts.settings(p.place)
	platform := group.Platform
	if platform == "" { // held for another one it would be paid for nothing
		image, err := u.EC2.ImagePlatform(u.finish, template)
		if err != nil {
			return nil, err
		}
		if platform = image.Platform; platform == "" {
			platform = capacity.LinuxUNIX
			u.Log.Warn("capacity is held for "+platform+", since nobody knows what the image runs", "template", template)
		}
	}
	jobs, shown := what.jobsOf(nodes)
	var runs []capacity.JobRun
	for _, j := range jobs {
		runs = append(runs, capacity.JobRun{ID: j.ID, Restarts: j.Restarts})
	}
	tags := u.tags(shown, p.place.partition.Name, nodes, target{})
	tags[capacity.TagHold] = capacity.HoldJobs(runs)
	tags[capacity.TagName] = "held for " + hook.Clip(tags[capacity.TagName], capacity.MaxTagValue-10)
	// EC2 takes whole seconds.
	end := u.now().Add(u.Settings.Reserve.For.Duration).Truncate(time.Second)
	order := capacity.HoldOrder{InstanceType: t.instanceType, AZID: t.azID, Platform: platform, Count: len(nodes), End: end, Tags: tags}
	if err := u.holdCalls.Wait(u.work); err != nil {
		return nil, &refusal{code: "interrupted", message: "there was no time left to launch"}
	}
	var r capacity.Reservation
	for attempt := range mostAttempts {
		order.ClientToken = launchToken(u.Cluster, jobs, u.Slurm.Hostlist(nodes), []string{"hold", t.azID, t.instanceType, platform}, u.facts.now, attempt)
		if r, err = u.holdOnce(order); !errors.Is(err, capacity.ErrTokenUsed) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	u.Log.Info("capacity is held", "reservation", r.ID, "count", order.Count, "type", t.instanceType, "zone", t.azID, "jobs", shown, "until", order.End)
	r.Total = len(nodes) // EC2 may say so later
	return &heldFor{Reservation: r, token: order.ClientToken, partition: p.place.partition.Name, jobs: shown, since: u.MachineTime()}, nil
}

// holdOnce orders an ODCR, if no more is held with it than may be.
func (u *powerUp) holdOnce(o capacity.HoldOrder) (capacity.Reservation, error) {
	entry := capacity.Held{Token: o.ClientToken, InstanceType: o.InstanceType, Count: o.Count, Since: u.now(), Until: o.End}
	err := u.Held.Hold(entry, u.now(), u.Settings.Reserve.Allows)
	if errors.Is(err, capacity.ErrReserveLimit) {
		return capacity.Reservation{}, fmt.Errorf("%w: %w", capacity.ErrNoRoom, &refusal{code: "reserve-limit", message: err.Error()})
	}
	if err != nil { // without the ledger nobody knows how much is held
		return capacity.Reservation{}, err
	}
	r, err := u.EC2.Hold(u.finish, o)
	if err == nil && !r.State.Live() {
		err = capacity.ErrTokenUsed // the answer of a hold that was given back since
	}
	switch outcome := capacity.OutcomeOf(err); {
	case outcome.Nothing(): // else it may be there, and be paid
		u.unlist(o.ClientToken)
	case outcome == capacity.Done:
		entry.ReservationID = r.ID
		always := func(capacity.Held, []capacity.Held) error { return nil }
		if err := u.Held.Hold(entry, u.now(), always); err != nil {
			u.Log.Warn("the ledger does not have the id of what is held", "reservation", r.ID, "err", err)
		}
	}
	return r, err
}

func (u *powerUp) unlist(token string) {
	if err := u.Held.Released(u.now(), token); err != nil {
		u.Log.Warn("the ledger still has what is not held any more", "err", err)
	}
}

// release gives back what is held: each when its instances run, or when one of them is gone;
// at the latest when there is no time left. The instances go on.
func (u *powerUp) release() {
	seen := map[string]bool{}
	waiting := u.held
	for len(waiting) > 0 {
		var ids []string
		for _, h := range waiting {
			ids = append(ids, h.instances...)
		}
		states, err := u.EC2.InstanceStates(u.work, ids)
		if err != nil && u.work.Err() == nil {
			u.Log.Warn("whether instances run is not known", "err", err)
		}
		var left []*heldFor
		for _, h := range waiting {
			keep := u.work.Err() == nil && slices.ContainsFunc(h.instances, func(id string) bool { return states[id] != stateRunning })
			for _, id := range h.instances {
				now, there := states[id]
				gone := err == nil && seen[id] && !there || capacity.Instance{State: now}.Ended()
				seen[id] = seen[id] || there
				keep = keep && !gone
			}
			if keep {
				left = append(left, h)
			} else {
				u.running.Go(func() { u.giveBack(h) })
			}
		}
		if waiting = left; len(waiting) > 0 {
			select {
			case <-time.After(runningPause):
			case <-u.work.Done():
			}
		}
	}
	u.running.Wait()
}

// giveBack cancels what is held, and counts what it has cost beside its instances.
func (u *powerUp) giveBack(h *heldFor) {
	ctx, cancel := context.WithTimeout(u.last, releaseTime)
	defer cancel()
	err := u.EC2.Release(ctx, h.ID)
	now := u.MachineTime()
	idle := now.Sub(h.since)
	if !h.launched.IsZero() {
		idle = h.launched.Sub(h.since)
	}
	message := fmt.Sprintf("held %d × %s in %s for %s, idle for %s", h.Total, h.InstanceType, h.AZID, round(now.Sub(h.since)), round(idle))
	if cost, known := u.Settings.Reserve.Cost(h.InstanceType, h.Total, idle); known {
		message += ": " + cost.String()
	}
	record := state.Record{At: u.now(), Hook: "hold", Partition: h.partition, Jobs: h.jobs, Reservation: h.ID, Code: string(capacity.OK), Message: message}
	if err != nil {
		f := explain(err)
		record.Code, record.EC2Code = f.code, f.ec2Code
		record.Message = fmt.Sprintf("%s; it could not be cancelled: %s; %s", message, hook.OneLine(f.message), u.leftOver(h))
	} else {
		u.unlist(h.token)
	}
	u.record(record)
}

// leftOver says what it costs that something is still held, and for how long.
func (u *powerUp) leftOver(h *heldFor) string {
	text := fmt.Sprintf("EC2 ends it at %s, or up to an hour later", capacity.FormatUTC(h.End))
	if cost, known := u.Settings.Reserve.Cost(h.InstanceType, h.Total, time.Hour); known {
		return fmt.Sprintf("%s; until then places that are free cost up to %s an hour", text, cost)
	}
	return text
}

func round(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

// notHeld is EC2's first answer where nothing could be held in any of several places.
type notHeld struct {
	error
	answer Refused
	nodes  int
	tried  []string
	// letGo are nodes that are up, beside which it should have been; beside says so.
	letGo  []string
	beside string
}

func (n *notHeld) Unwrap() error     { return n.error }
func (n *notHeld) ErrorCode() string { return n.answer.ErrorCode() }
func (n *notHeld) ErrorMessage() string {
	return fmt.Sprintf(holdFailedFor, n.nodes, strings.Join(n.tried, ", ")+n.beside, n.answer.ErrorMessage())
}

// nowhere says where a launch was tried, beside EC2's first answer.
func (u *powerUp) nowhere(first error, p part, nodes int) error {
	n := &notHeld{error: first, nodes: nodes, letGo: nodesOf(p.near)}
	if !p.holds() || !errors.As(first, &n.answer) {
		return first
	}
	if len(n.letGo) > 0 {
		n.beside = fmt.Sprintf(", beside %s, which is up there", u.Slurm.Hostlist(n.letGo))
	}
	for _, t := range p.targets {
		at := t.instanceType + " in " + t.azID
		if t.hold && !slices.Contains(n.tried, at) {
			n.tried = append(n.tried, at)
		}
	}
	return n
}

// markFull notes that EC2 found a reservation full, which a query that failed never is.
func (u *powerUp) markFull(t target, nodes int, why error) {
	var answer Refused
	if t.reservationID == "" || !errors.As(why, &answer) {
		return
	}
	if err := u.Held.MarkFull(t.reservationID, nodes, u.now(), u.now().Add(fullTime)); err != nil {
		u.Log.Warn("a reservation that is full is tried again", "reservation", t.reservationID, "err", err)
	}
}

// launchedUnheld says that a launch went on, on demand, for which nothing could be held.
func (u *powerUp) launchedUnheld(what unit, nodes []string, why error) {
	_, shown := what.jobsOf(nodes)
	f := explain(why)
	text := fmt.Sprintf("pcs-capacity: nodes %s are launched on demand, without capacity that was held for them: %s: %s", u.Slurm.Hostlist(nodes), f.code, hook.OneLine(f.message))
	u.Log.Warn("launched though nothing could be held", "nodes", u.Slurm.Hostlist(nodes), "jobs", shown, "code", f.code, "err", why)
	for _, job := range shown {
		if err := u.Slurm.SetAdminComment(u.finish, job, hook.Clip(text, capacity.MaxComment)); err != nil {
			u.Log.Warn("writing the job's AdminComment", "job", job, "err", err)
		}
	}
}
