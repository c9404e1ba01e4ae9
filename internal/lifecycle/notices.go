package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Notice is a problem or an event that people want to hear of, once.
type Notice struct {
	capacity.Problem
	User string    `json:"user,omitempty"` // the owner of the job that it is about
	At   time.Time `json:"at"`             // AWS's time of the pass that found it
	key  string    // what it is about: each key is delivered once
}

// The times of notices: how long before a fence people are told of it, how long nodes of an open block may have no job,
// and how long before its fence the last block of a slot must have one that follows.
const (
	fenceNear = time.Hour
	idleAfter = 30 * time.Minute
	successor = 14 * 24 * time.Hour
)

// due returns the notices after a pass that were not sent before, and what to record before they are delivered.
// before are the keys that earlier passes recorded, with the times since when.
func due(
	snap *capacity.Snapshot, report Report, before map[string]time.Time,
) (all []Notice, told map[string]time.Time) {
	cluster := report.Cluster
	now := report.At
	at := now.UTC().Truncate(time.Second)

	told = maps.Clone(before)
	if told == nil {
		told = map[string]time.Time{}
	}

	maps.DeleteFunc(told, func(_ string, at time.Time) bool { return now.Sub(at) > keepNotices })

	seen := map[string]bool{}

	add := func(code capacity.Code, about capacity.Subject, user, key, format string, args ...any) {
		n := Notice{capacity.Problemf(code, about, "", format, args...), user, at, string(code) + " " + key}
		if _, known := told[n.key]; !known && !seen[n.key] {
			all = append(all, n)
		}

		seen[n.key] = true
	}
	if lost := now.Sub(snap.TakenAt); lost > capacity.StaleAfter {
		add(capacity.HeartbeatLost, capacity.Subject{}, "", snap.TakenAt.UTC().Format(time.RFC3339),
			"AWS last answered %s ago, at %s; fences hold, but changes of reservations are not seen",
			capacity.FormatDuration(lost), capacity.FormatUTC(snap.TakenAt))
	}

	slots := snap.Standings(now)
	for _, v := range slots {
		idling := "idling " + v.Slot.Name
		idle := 0
		if cluster != nil {
			isIdle := func(n capacity.Node) bool { return nodeClass(n) == "idle" }
			idle = len(cluster.those(cluster.SlotNodes(v.Slot.Name), isIdle))
		}

		switch {
		case cluster == nil:
		case idle == 0 || v.Reservation.State != capacity.StateActive:
			delete(told, idling)
		case told[idling].IsZero():
			told[idling] = at
		}

		about := capacity.Subject{Partition: v.Partition.Name, Slot: v.Slot.Name}
		for _, id := range v.Slot.ReservationIDs {
			about.Reservation = id
			if r, known := snap.Reservation(id); known && !r.LiveAt(now) && !told["opened "+id].IsZero() {
				add("closed", about, "", id, "%s of slot %s is over (%s)", id, about.Slot, r.State)
			}
		}

		r := v.Reservation
		w := v.Window
		about.Reservation = r.ID
		if r.ID == "" || w.Start.After(now) {
			continue
		}

		if r.State == capacity.StateActive {
			until := ""
			if !w.Unbounded() {
				until = ", free of jobs by " + capacity.FormatUTC(w.Fence)
			}

			add("opened", about, "", r.ID,
				"%s is open: %d x %s for slot %s%s", r.ID, r.Size(), r.InstanceType, about.Slot, until)
		}

		left := w.Fence.Sub(now)
		if w.Unbounded() || left <= 0 {
			continue
		}

		ends := r.ID + " " + w.Fence.UTC().Format(time.RFC3339) // an extension makes a new key
		if left <= fenceNear {
			add("fence-near", about, "", ends, "jobs on %s must end by %s, in %s", r.ID, capacity.FormatUTC(w.Fence),
				capacity.FormatUntil(left))
		}

		if left <= successor && v.Next.Reservation.ID == "" && !succeeded(v, slots) {
			add("no-successor", about, "", ends,
				"slot %s has no block after %s, whose last job must be gone by %s", about.Slot, r.ID,
				capacity.FormatUTC(w.Fence))
		}

		if since := told[idling]; idle > 0 && !since.IsZero() && now.Sub(since) >= idleAfter {
			add("idle", about, "", about.Slot+" "+since.UTC().Format(time.RFC3339),
				"%d nodes of slot %s, which are paid for in %s, have had no job since %s", idle, about.Slot, r.ID,
				capacity.FormatUTC(since))
		}
	}

	for _, r := range report.Rolling {
		if r.Ready && r.Block.Start.After(now) {
			add("set-up", r.about(), "", r.Block.ID,
				"%s is set up: slot %s has it from %s", r.Block.ID, r.Slot, capacity.FormatUTC(r.Block.Start))
		}
	}

	for _, p := range report.All() {
		if p.Code.At("notice") {
			add(p.Code, p.About, "", p.Sentence, "%s", p.Text())
		}
	}
	// Jobs whose owners were told, in the AdminComment, that they can never start: the site can tell them in another way.
	most := len(all) + jobsAPass
	for _, j := range report.Jobs {
		if j.State != "PENDING" || !saysRefused(j.AdminComment) {
			continue
		}

		if len(all) == most {
			seen["never-starts "+j.Shown] = true
		} else {
			add(capacity.NeverStarts, capacity.Subject{Partition: j.Partition, Job: j.Shown}, j.User, j.Shown,
				"job %s of %s: %s",
				j.Shown, j.User, strings.TrimPrefix(j.AdminComment, "pcs-capacity: "))
		}
	}

	maps.DeleteFunc(told, func(key string, _ time.Time) bool { // what is over may come again
		name, _, _ := strings.Cut(key, " ")
		code := capacity.Code(name)
		return code.At("pass") && code.At("notice") && !seen[key] &&
			(code != capacity.NeverStarts || report.Jobs != nil)
	})

	return all, told
}

// jobsAPass bounds the jobs that one pass reports: each delivery may take some seconds.
const jobsAPass = 20

// succeeded reports whether another slot of a node group has a block that ends later.
func succeeded(v capacity.Standing, all []capacity.Standing) bool {
	return slices.ContainsFunc(all, func(o capacity.Standing) bool {
		return o.Group.Name == v.Group.Name &&
			(o.Window.End.After(v.Window.End) || o.Next.Window.End.After(v.Window.End))
	})
}

// keepNotices bounds the age of the records of deliveries.
const keepNotices = 400 * 24 * time.Hour

// Tell delivers the notices after a pass, each once. A failed delivery is the last of a pass: the next one goes on
// with it. So it does with one whose program was killed before it recorded the delivery. The errors are those of the
// delivery and of the file in state_dir.
func Tell(dir state.Dir, snap *capacity.Snapshot, report Report, deliver func(Notice) error) []error {
	before, err := dir.Notices().Read()
	if err != nil {
		return []error{err}
	}

	all, told := due(snap, report, before)

	var errs []error
	for _, n := range all {
		if err := deliver(n); err != nil {
			errs = append(errs, fmt.Errorf("telling %q: %w", n.Code, err))
			break
		}

		told[n.key] = n.At
		if err := dir.Notices().Keep(told); err != nil { // one by one, so a kill repeats at most one
			return append(errs, err)
		}
	}

	if err := dir.Notices().Keep(told); err != nil {
		errs = append(errs, err)
	}

	return slices.Clip(errs)
}
