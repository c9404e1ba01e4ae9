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

// Notice is an event that people want to hear of, once.
type Notice struct {
	Kind        capacity.Code `json:"kind"` // one of the codes with capacity.AsNotice: opened, fence-near, host-failed, …
	Partition   string        `json:"partition,omitempty"`
	Slot        string        `json:"slot,omitempty"`
	Reservation string        `json:"reservation,omitempty"`
	// Job and User are the job and its owner, if the notice is about a job.
	Job     string    `json:"job,omitempty"`
	User    string    `json:"user,omitempty"`
	At      time.Time `json:"at"`      // AWS's time of the pass that found it
	Message string    `json:"message"` // a sentence for a person

	key string // key identifies the event: each key is delivered once
}

// The times of notices: how long before a fence people are told of it, how long nodes of an open block may have no job,
// and how long before its fence the last block of a slot must have one that follows.
const (
	fenceNear = time.Hour
	idleAfter = 30 * time.Minute
	successor = 14 * 24 * time.Hour
)

// notices returns the notices for a snapshot. told are the keys that earlier passes recorded, with the times since
// when. cluster and jobs are nil if Slurm did not answer.
func notices(snap *capacity.Snapshot, cluster *Cluster, now time.Time, told map[string]time.Time) []Notice {
	var all []Notice
	add := func(kind capacity.Code, v capacity.Standing, id, key, format string, args ...any) {
		n := Notice{Kind: kind, Reservation: id, At: now.UTC().Truncate(time.Second), Message: fmt.Sprintf(format, args...), key: string(kind) + " " + key}
		if v.Slot != nil {
			n.Partition, n.Slot = v.Partition.Name, v.Slot.Name
		}
		all = append(all, n)
	}
	if lost := now.Sub(snap.TakenAt); lost > capacity.StaleAfter {
		add(capacity.HeartbeatLost, capacity.Standing{}, "", snap.TakenAt.UTC().Format(time.RFC3339),
			"AWS was last asked with success %s ago, at %s; fences stand, but no change of a reservation is seen",
			capacity.FormatDuration(lost), capacity.FormatUTC(snap.TakenAt))
	}
	slots := snap.Standings(now)
	for _, v := range slots {
		for _, id := range v.Slot.ReservationIDs {
			r, known := snap.Reservation(id)
			switch {
			case !known:
			case r.State == capacity.StatePaymentFailed:
				add(capacity.PaymentFailed, v, id, id, "the payment of %s for slot %s has failed: it will not open", id,
					v.Slot.Name)
			case !r.LiveAt(now) && !told["opened "+id].IsZero():
				add(capacity.HasClosed, v, id, id, "%s of slot %s is over (%s)", id, v.Slot.Name, r.State)
			}
		}
		r, w := v.Reservation, v.Window
		if r.ID == "" || w.Start.After(now) {
			continue
		}
		if r.State == capacity.StateActive {
			add(capacity.HasOpened, v, r.ID, r.ID, "%s is open: %d x %s for slot %s%s", r.ID, r.Size(), r.InstanceType,
				v.Slot.Name, until(w))
		}
		if r.Unhealthy > 0 {
			add(capacity.HostFailed, v, r.ID, fmt.Sprintf("%s %d", r.ID, r.Unhealthy),
				"%d of the %d hosts of %s have failed, %d are usable; open a case with AWS Support", r.Unhealthy,
				r.Size(), r.ID, r.UsableSize())
		}
		if w.Unbounded() {
			continue
		}
		left := w.Fence.Sub(now)
		ends := w.Fence.UTC().Format(time.RFC3339) // an extension makes a new key
		if left > 0 && left <= fenceNear {
			add(capacity.FenceNear, v, r.ID, r.ID+" "+ends, "jobs on %s must end by %s, in %s", r.ID,
				capacity.FormatUTC(w.Fence), capacity.FormatUntil(left))
		}
		if left > 0 && left <= successor && v.Next.Reservation.ID == "" && !succeeded(v, slots) {
			add(capacity.NoSuccessor, v, r.ID, r.ID+" "+ends, "slot %s has no block after %s, whose last job must be gone by %s",
				v.Slot.Name, r.ID, capacity.FormatUTC(w.Fence))
		}
		if idle := idleNodes(v, cluster); cluster != nil && left > 0 {
			since := told["idling "+v.Slot.Name]
			if idle > 0 && !since.IsZero() && now.Sub(since) >= idleAfter {
				add(capacity.NodesIdle, v, r.ID, v.Slot.Name+" "+since.UTC().Format(time.RFC3339),
					"%d nodes of slot %s, which are paid for in %s, have had no job since %s", idle, v.Slot.Name, r.ID,
					capacity.FormatUTC(since))
			}
		}
	}
	return all
}

// succeeded reports whether another slot of a node group has a block that ends later.
func succeeded(v capacity.Standing, all []capacity.Standing) bool {
	return slices.ContainsFunc(all, func(o capacity.Standing) bool {
		return o.Group.Name == v.Group.Name && (o.Window.End.After(v.Window.End) || o.Next.Window.End.After(v.Window.End))
	})
}

func until(w capacity.Window) string {
	if w.Unbounded() {
		return ""
	}
	return ", free of jobs by " + capacity.FormatUTC(w.Fence)
}

func idleNodes(v capacity.Standing, cluster *Cluster) (n int) {
	if cluster == nil {
		return 0
	}
	for _, node := range cluster.shown(cluster.SlotNodes(v.Slot.Name)) {
		if node.Up() && node.Base() == "IDLE" {
			n++
		}
	}
	return n
}

// aboutRollOver reports the blocks that sync has set up, and its setbacks.
func aboutRollOver(report Report) (all []Notice) {
	for _, r := range report.Rolling {
		var n Notice
		switch {
		case r.Setback.Problem != "":
			n = Notice{Kind: capacity.RollOverFailed, Message: r.Setback.Problem, key: fmt.Sprintf("roll-over-failed %s %s",
				r.key(), r.Setback.Since.Format(time.RFC3339))}
		case r.Ready && r.Block.Start.After(report.At):
			n = Notice{Kind: capacity.IsSetUp, Message: fmt.Sprintf("%s is set up: slot %s has it from %s", r.Block.ID, r.Slot,
				capacity.FormatUTC(r.Block.Start)), key: "set-up " + r.Block.ID}
		default:
			continue
		}
		n.Partition, n.Slot, n.Reservation, n.At = r.Partition, r.Slot, r.Block.ID, report.At.UTC().Truncate(time.Second)
		all = append(all, n)
	}
	return all
}

// aboutJobs reports jobs whose owners were told, in the AdminComment, that they can never start, so the site can tell
// them in another way. Jobs that no longer wait are forgotten.
func aboutJobs(report Report, told map[string]time.Time) []Notice {
	if report.Jobs == nil {
		return nil
	}
	var all []Notice
	still := map[string]bool{}
	for _, j := range report.Jobs {
		never := strings.HasPrefix(j.AdminComment, neverStarts) || strings.HasPrefix(j.AdminComment, neverWords)
		if j.State != "PENDING" || !never {
			continue
		}
		n := Notice{Kind: capacity.NeverStarts, Partition: j.Partition, Job: j.Shown, User: j.User,
			At: report.At.UTC().Truncate(time.Second), Message: fmt.Sprintf("job %s of %s: %s", j.Shown, j.User,
				strings.TrimPrefix(j.AdminComment, "pcs-capacity: ")), key: "never-starts " + j.Shown}
		still[n.key] = true
		if _, known := told[n.key]; !known && len(all) < jobsAPass {
			all = append(all, n)
		}
	}
	maps.DeleteFunc(told,
		func(key string, _ time.Time) bool { return strings.HasPrefix(key, "never-starts ") && !still[key] })
	return all
}

// jobsAPass is how many jobs one pass reports: each delivery may take some seconds.
const jobsAPass = 20

// due returns the notices after a pass, those that were told left out, and what is to be recorded before their delivery.
// dir is for the names of files.
func due(snap *capacity.Snapshot, report Report, before map[string]time.Time) (all []Notice, told map[string]time.Time) {
	cluster, now := report.Cluster, report.At
	if told = maps.Clone(before); told == nil {
		told = map[string]time.Time{}
	}
	for _, v := range snap.Standings(now) {
		key := "idling " + v.Slot.Name
		switch idle := idleNodes(v, cluster); {
		case cluster == nil:
		case idle == 0 || v.Reservation.State != capacity.StateActive:
			delete(told, key)
		case told[key].IsZero():
			told[key] = now.UTC().Truncate(time.Second)
		}
	}
	maps.DeleteFunc(told, func(_ string, at time.Time) bool { return now.Sub(at) > keepNotices })
	all = slices.Concat(notices(snap, cluster, now, told), aboutRollOver(report), aboutJobs(report, told))
	seen := map[string]bool{}
	all = slices.DeleteFunc(all, func(n Notice) bool {
		_, known := told[n.key]
		known, seen[n.key] = known || seen[n.key], true
		return known
	})
	return all, told
}

// keepNotices is how long the record of a delivery is kept.
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
			errs = append(errs, fmt.Errorf("telling %q: %w", n.Kind, err))
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
