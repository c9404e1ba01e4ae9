package power

import (
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file creates a temporary ODCR for a launch. The ODCR proves that the whole launch has room in one zone and
// keeps that room; the nodes are launched into it, in its subnet alone; then it is cancelled. If the hook is killed,
// sync and `pcs-capacity clean` find the ODCR by its tags and cancel it, and its EndDate ends it in any case.

// held is the ODCR of a launch.
type held struct {
	capacity.Reservation
	token, partition string
	jobs             []string
	since            time.Time // the machine's time when EC2 had created it
	launched         time.Time // when its instances existed; zero if they never did
	instances        []string
}

// enlist begins an attempt to create an ODCR for the missing nodes, in the target's zone.
func (s launching) enlist() (launching, []capacity.Effect) {
	t, partition := s.targets[s.target], s.here().place.partition.Name
	jobs, shown := s.what.jobsOf(s.missing)
	var runs []capacity.JobRun
	for _, j := range jobs {
		runs = append(runs, capacity.JobRun{ID: j.ID, Restarts: j.Restarts})
	}
	tags := s.tags(shown, partition, s.missing, target{})
	tags[capacity.TagHold] = capacity.HoldJobs(runs)
	tags[capacity.TagName] = "held for " + hook.Clip(tags[capacity.TagName], capacity.MaxTagValue-10)
	what := []string{"hold", t.azID, t.instanceType, s.platform}
	s.order = capacity.HoldOrder{
		InstanceType: t.instanceType,
		AZID:         t.azID,
		Platform:     s.platform,
		Count:        len(s.missing),
		Tags:         tags,
		End:          s.now.Add(capacity.HoldTime).Truncate(time.Second), // EC2 takes whole seconds
		ClientToken:  launchToken(s.cluster, jobs, hostlist.Compress(s.missing), what, s.now, s.attempt),
	}
	s.at = stepEnlist
	return s, []capacity.Effect{Enlist{s.entry("")}}
}

func (s launching) entry(id string) capacity.Held {
	o := s.order
	return capacity.Held{
		Token:         o.ClientToken,
		ReservationID: id,
		InstanceType:  o.InstanceType,
		Count:         o.Count,
		Until:         o.End,
	}
}

func (s launching) enlisted(a Answer) (launching, []capacity.Effect) {
	if a.Failure != nil { // without the ledger nobody knows how much is held
		return s.failTarget(a.Failure)
	}
	if !a.Held.Until.IsZero() { // an earlier run ordered it, and EC2 binds a token to its end
		s.order.End = a.Held.Until
	}
	_, shown := s.what.jobsOf(s.missing)
	s.at = stepHold
	return s, []capacity.Effect{Hold{s.order, shown}}
}

func (s launching) holdAnswered(a Answer) (launching, []capacity.Effect) {
	failure := a.Failure
	gone := failure == nil && !a.Reservation.State.Live()
	if gone { // the answer of an ODCR that has been cancelled since
		failure = failed("%v", capacity.ErrTokenUsed)
		failure.Outcome = capacity.TokenUsed
	}
	if failure == nil {
		_, shown := s.what.jobsOf(s.missing)
		s.held = held{
			Reservation: a.Reservation,
			token:       s.order.ClientToken,
			partition:   s.here().place.partition.Name,
			jobs:        shown,
			since:       a.At,
		}
		s.held.Total = s.order.Count // EC2 may report it later
		s.attempt, s.used = 0, nil
		confirm := Enlist{s.entry(a.Reservation.ID)}
		s, more := s.launch()
		return s, append([]capacity.Effect{confirm}, more...)
	}
	var effects []capacity.Effect
	if gone || failure.Outcome.Nothing() && !failure.is(capacity.TokenUsed) { // otherwise it may exist and cost money
		effects = append(effects, Unlist{s.order.ClientToken})
	}
	var more []capacity.Effect
	if s.attempt++; failure.is(capacity.TokenUsed) && s.attempt < mostAttempts {
		s, more = s.enlist()
	} else {
		s, more = s.failTarget(failure)
	}
	return s, append(effects, more...)
}

// giveBack cancels the ODCR, because nothing was launched into it.
func (s launching) giveBack(why *Failure) (launching, []capacity.Effect) {
	s.at, s.why = stepGiveBack, why
	return s, []capacity.Effect{Release{[]string{s.held.ID}}}
}

// given follows the release of an ODCR: it removes the ledger entry and records the cost of the ODCR's idle time.
func (h held) given(a Answer, s capacity.Settings) []capacity.Effect {
	idle := a.At.Sub(h.since)
	if !h.launched.IsZero() {
		idle = h.launched.Sub(h.since)
	}
	message := fmt.Sprintf("held %d × %s in %s for %s, idle for %s", h.Total, h.InstanceType, h.AZID,
		round(a.At.Sub(h.since)), round(idle))
	if cost, known := s.Reserve.Cost(h.InstanceType, h.Total, idle); known {
		message += ": " + cost.String()
	}
	record := state.Record{At: a.now(), Hook: "hold", Partition: h.partition, Jobs: h.jobs, Reservation: h.ID,
		Code: string(capacity.OK), Message: message}
	failure := a.Failures[h.ID]
	if failure == nil {
		return []capacity.Effect{Unlist{h.token}, Tell{Records: []state.Record{record}}}
	}
	left := fmt.Sprintf("EC2 ends it at %s, or up to an hour later", capacity.FormatUTC(h.End))
	if cost, known := s.Reserve.Cost(h.InstanceType, h.Total, time.Hour); known { // while it is left over
		left = fmt.Sprintf("%s; until then places that are free cost up to %s an hour", left, cost)
	}
	record.Code, record.EC2Code = failure.Code, failure.EC2Code
	record.Message = fmt.Sprintf("%s; it could not be cancelled: %s; %s", message, hook.OneLine(failure.message()), left)
	return []capacity.Effect{Tell{Records: []state.Record{record}}}
}

func round(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

// releasing is the machine that cancels the ODCRs of launches: each when its instances run or one of them is gone,
// and at the latest when time runs out.
type releasing struct {
	settings capacity.Settings
	waiting  []held
	at       step
	ready    []held
	seen     map[string]bool // instances
}

const (
	stepStates  step = "ask for states"
	stepRelease step = "release"
	stepWait    step = "wait"

	stateRunning = "running"
)

func (s releasing) next(a Answer) (releasing, []capacity.Effect) {
	switch s.at {
	case stepStates:
		return s.answered(a)
	case stepRelease:
		var effects []capacity.Effect
		for _, h := range s.ready {
			effects = append(effects, h.given(a, s.settings)...)
		}
		s, more := s.wait()
		return s, append(effects, more...)
	}
	if len(s.waiting) == 0 {
		return s, nil
	}
	s.at = stepStates
	var ids []string
	for _, h := range s.waiting {
		ids = append(ids, h.instances...)
	}
	return s, []capacity.Effect{AskStates{ids}}
}

func (s releasing) wait() (releasing, []capacity.Effect) {
	if s.at = stepWait; len(s.waiting) == 0 {
		return s, nil
	}
	return s, []capacity.Effect{Wait{}}
}

func (s releasing) answered(a Answer) (releasing, []capacity.Effect) {
	over := a.Failure.is(capacity.NotTried)
	seen := map[string]bool{}
	var left, ready []held
	for _, h := range s.waiting {
		keep := !over && slices.ContainsFunc(h.instances, func(id string) bool { return a.States[id] != stateRunning })
		for _, id := range h.instances {
			now, there := a.States[id]
			gone := a.Failure == nil && s.seen[id] && !there || capacity.Instance{State: now}.Ended()
			seen[id] = s.seen[id] || there
			keep = keep && !gone
		}
		if keep {
			left = append(left, h)
		} else {
			ready = append(ready, h)
		}
	}
	s.waiting, s.ready, s.seen = left, ready, seen
	if len(ready) == 0 {
		return s.wait()
	}
	s.at = stepRelease
	var ids []string
	for _, h := range ready {
		ids = append(ids, h.ID)
	}
	return s, []capacity.Effect{Release{ids}}
}
