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

// dueNotices returns the notices after a pass that were not sent before, and what to record before they are delivered.
// before are the keys that earlier passes recorded, with the times since when.
func dueNotices(
	snap *capacity.Snapshot, report Report, before map[string]time.Time,
) (all []Notice, told map[string]time.Time) {
	now := report.At

	told = maps.Clone(before)
	if told == nil {
		told = map[string]time.Time{}
	}

	maps.DeleteFunc(told, func(_ string, at time.Time) bool { return now.Sub(at) > keepNotices })

	d := notices{now: now, told: told, seen: map[string]bool{}}
	if lost := now.Sub(snap.TakenAt); lost > capacity.StaleAfter {
		d.add(capacity.HeartbeatLost, capacity.Subject{}, "", snap.TakenAt.UTC().Format(time.RFC3339),
			"AWS last answered %s ago, at %s; fences hold, but changes of reservations are not seen",
			capacity.FormatDuration(lost), capacity.FormatUTC(snap.TakenAt))
	}

	slots := snap.SlotStates(now)
	for _, v := range slots {
		idle := d.countIdle(v, report.Cluster)
		d.addClosed(v, snap)
		d.addSlot(v, slots, idle)
	}

	for _, r := range report.Rolling {
		if r.Ready && r.Block.Start.After(now) {
			d.add(capacity.BlockSetUp, r.about(), "", r.Block.ID,
				"%s is set up: it gets slot %s at %s", r.Block.ID, r.Slot, capacity.FormatUTC(r.Block.Start))
		}
	}

	for _, p := range report.All() {
		if p.Code.AppearsAt(capacity.AtNotice) {
			d.add(p.Code, p.About, "", p.Sentence, "%s", p.Text())
		}
	}

	d.addRefused(report.Jobs)

	maps.DeleteFunc(told, func(key string, _ time.Time) bool { // what is over may come again
		name, _, _ := strings.Cut(key, " ")
		code := capacity.Code(name)
		return code.AppearsAt(capacity.AtPass) && code.AppearsAt(capacity.AtNotice) && !d.seen[key] &&
			(code != capacity.NeverStarts || report.Jobs != nil)
	})

	return d.all, told
}

// notices collects what people are told after one pass.
type notices struct {
	now  time.Time
	all  []Notice
	told map[string]time.Time // by key: what earlier passes have told, and since when nodes are idle
	seen map[string]bool      // the keys of this pass, told now or before
}

func (d *notices) add(code capacity.Code, about capacity.Subject, user, key, format string, args ...any) {
	problem := capacity.Problemf(code, about, "", format, args...)

	n := Notice{problem, user, d.now.UTC().Truncate(time.Second), string(code) + " " + key}
	if _, known := d.told[n.key]; !known && !d.seen[n.key] {
		d.all = append(d.all, n)
	}

	d.seen[n.key] = true
}

func idling(v capacity.SlotState) string { return "idling " + v.Slot.Name }

// countIdle returns the number of a slot's idle nodes, and records since when it has any. Without an answer of Slurm's
// the record stays.
func (d *notices) countIdle(v capacity.SlotState, cluster *Cluster) int {
	if cluster == nil {
		return 0
	}

	isIdle := func(n capacity.Node) bool { return nodeClass(n) == "idle" }
	idle := len(cluster.filterNodes(cluster.SlotNodes(v.Slot.Name), isIdle))

	switch {
	case idle == 0 || v.Reservation.State != capacity.StateActive:
		delete(d.told, idling(v))
	case d.told[idling(v)].IsZero():
		d.told[idling(v)] = d.now.UTC().Truncate(time.Second)
	}

	return idle
}

// addClosed tells of the reservations of a slot that are over, if people were told that they opened.
func (d *notices) addClosed(v capacity.SlotState, snap *capacity.Snapshot) {
	for _, id := range v.Slot.ReservationIDs {
		r, known := snap.Reservation(id)
		if !known || r.IsLiveAt(d.now) || d.told["opened "+id].IsZero() {
			continue
		}

		about := capacity.Subject{Partition: v.Partition.Name, Slot: v.Slot.Name, Reservation: id}
		d.add(capacity.BlockClosed, about, "", id, "%s of slot %s is over (%s)", id, about.Slot, r.State)
	}
}

// addSlot tells of the reservation that has a slot: that it is open, ends soon, has no successor, or has idle nodes.
func (d *notices) addSlot(v capacity.SlotState, slots []capacity.SlotState, idle int) {
	r := v.Reservation
	w := v.Window
	if r.ID == "" || w.Start.After(d.now) {
		return
	}

	about := capacity.Subject{Partition: v.Partition.Name, Slot: v.Slot.Name, Reservation: r.ID}
	if r.State == capacity.StateActive {
		until := ""
		if !w.Unbounded() {
			until = ", free of jobs by " + capacity.FormatUTC(w.Fence)
		}

		d.add(capacity.BlockOpened, about, "", r.ID,
			"%s is open: %d x %s for slot %s%s", r.ID, r.Size(), r.InstanceType, about.Slot, until)
	}

	left := w.Fence.Sub(d.now)
	if w.Unbounded() || left <= 0 {
		return
	}

	ends := r.ID + " " + w.Fence.UTC().Format(time.RFC3339) // an extension makes a new key
	if left <= fenceNear {
		d.add(capacity.FenceNear, about, "", ends,
			"jobs on %s must end by %s, in %s", r.ID, capacity.FormatUTC(w.Fence), capacity.FormatUntil(left))
	}

	if left <= successor && v.Next.Reservation.ID == "" && !succeeded(v, slots) {
		d.add(capacity.NoSuccessor, about, "", ends,
			"slot %s has no block after %s, whose last job must be gone by %s", about.Slot, r.ID,
			capacity.FormatUTC(w.Fence))
	}

	since := d.told[idling(v)]
	if idle > 0 && !since.IsZero() && d.now.Sub(since) >= idleAfter {
		d.add(capacity.NodesIdle, about, "", about.Slot+" "+since.UTC().Format(time.RFC3339),
			"%d nodes of slot %s, which are paid for in %s, have had no job since %s", idle, about.Slot, r.ID,
			capacity.FormatUTC(since))
	}
}

// addRefused tells of jobs whose owners were told, in the AdminComment, that they can never start: the site can tell
// them in another way.
func (d *notices) addRefused(jobs []capacity.Job) {
	most := len(d.all) + maxJobNotices
	for _, j := range jobs {
		note, _ := capacity.ParseAdminNote(j.AdminComment)
		if j.State != "PENDING" || !note.Refuses() {
			continue
		}

		if len(d.all) == most { // a later pass tells of it
			d.seen["never-starts "+j.Shown] = true
			continue
		}

		d.add(capacity.NeverStarts, capacity.Subject{Partition: j.Partition, Job: j.Shown}, j.User, j.Shown,
			"job %s of %s: %s", j.Shown, j.User, note.Sentence())
	}
}

// maxJobNotices bounds the jobs that one pass reports: each delivery may take some seconds.
const maxJobNotices = 20

// succeeded reports whether another slot of a node group has a block that ends later.
func succeeded(v capacity.SlotState, all []capacity.SlotState) bool {
	return slices.ContainsFunc(all, func(o capacity.SlotState) bool {
		return o.Group.Name == v.Group.Name &&
			(o.Window.End.After(v.Window.End) || o.Next.Window.End.After(v.Window.End))
	})
}

// keepNotices bounds the age of the records of deliveries.
const keepNotices = 400 * 24 * time.Hour

// DeliverNotices delivers the notices after a pass, each once. A failed delivery is the last of a pass: the next one
// goes on with it. So it does with one whose program was killed before it recorded the delivery. The errors are those
// of the delivery and of the file in state_dir.
func DeliverNotices(dir state.Dir, snap *capacity.Snapshot, report Report, deliver func(Notice) error) []error {
	before, err := dir.Notices().Read()
	if err != nil {
		return []error{err}
	}

	all, told := dueNotices(snap, report, before)

	var errs []error

	// Recorded after each delivery: a kill repeats one message at most, and loses none.
	for _, n := range all {
		if err := deliver(n); err != nil {
			errs = append(errs, fmt.Errorf("telling %q: %w", n.Code, err))
			break
		}

		told[n.key] = n.At
		if err := dir.Notices().Save(told); err != nil { // one by one, so a kill repeats at most one
			return append(errs, err)
		}
	}

	if err := dir.Notices().Save(told); err != nil {
		errs = append(errs, err)
	}

	return slices.Clip(errs)
}
